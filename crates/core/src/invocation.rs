//! The name under which other systems know one call of a node.
//!
//! Every attempt at the call bears the same name, so a system that has seen it need not act twice.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use crate::{RunId, TenantId, sha256};

/// Keeps these names apart from every other hash. It changes when what is hashed changes.
const DOMAIN: &str = "openwop:activity:v2";

/// The id of the `ordinal`-th call that `node` of `run` makes to `provider`.
///
/// The parts are hashed with a zero byte between them. The names of nodes and providers hold none, so
/// no two calls share an id.
pub fn invocation_id(tenant: TenantId, run: RunId, node: &str, ordinal: u32, provider: &str) -> String {
    let parts =
        [DOMAIN, &tenant.0.to_string(), &run.to_string(), node, &ordinal.to_string(), provider].join("\0");
    URL_SAFE_NO_PAD.encode(sha256(parts.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TENANT: TenantId = TenantId(7);

    fn run() -> RunId {
        RunId::from_bytes([0x11; 16])
    }

    #[test]
    fn an_invocation_id_never_changes() {
        let id = invocation_id(TENANT, run(), "charge", 3, "https://pay.example");
        assert_eq!(id, "fWr31FVtIaKiDTcIkwv2XPyy2YDoGc-GnOOUbE8FWKs");
    }

    #[test]
    fn every_part_tells_calls_apart() {
        let ids = [
            invocation_id(TENANT, run(), "charge", 3, "a"),
            invocation_id(TenantId(8), run(), "charge", 3, "a"),
            invocation_id(TENANT, RunId::from_bytes([0x12; 16]), "charge", 3, "a"),
            invocation_id(TENANT, run(), "charge2", 3, "a"),
            invocation_id(TENANT, run(), "charge", 23, "a"),
            invocation_id(TENANT, run(), "charge", 3, "b"),
        ];
        let different: std::collections::BTreeSet<&String> = ids.iter().collect();
        assert_eq!(different.len(), ids.len());
    }
}
