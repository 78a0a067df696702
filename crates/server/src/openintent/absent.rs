//! Families of OpenIntent that are not built: whoever tries one is told so, and nothing pretends.

use crate::error::ApiError;

/// Where such a family begins, what it is, and which document it is of. A `*` stands for one segment.
const NOT_BUILT: &[(&str, &str, &str)] = &[
    ("/api/v1/vaults", "vaults", "RFC-0014"),
    ("/api/v1/credentials", "credentials", "RFC-0014"),
    ("/api/v1/grants", "grants of tools", "RFC-0014"),
    ("/api/v1/invocations", "invocations of tools", "RFC-0014"),
    ("/api/v1/tools", "tools", "RFC-0014"),
    ("/api/v1/agents/*/grants", "grants of tools", "RFC-0014"),
    ("/api/v1/memory", "memory", "RFC-0015"),
    ("/api/v1/agents/*/memory", "memory", "RFC-0015"),
    ("/api/v1/triggers", "triggers", "RFC-0017"),
    ("/api/v1/agents/*/identity", "agents' identities", "RFC-0018"),
    ("/api/v1/identity", "agents' identities", "RFC-0018"),
    ("/api/v1/checkpoints", "checkpoints of logs", "RFC-0019"),
    ("/api/v1/verify", "verification of logs between checkpoints", "RFC-0019"),
    ("/api/v1/federation", "federation", "RFC-0022 and RFC-0023"),
    ("/.well-known/openintent-federation.json", "federation", "RFC-0022 and RFC-0023"),
    // Those of agents come last: what else lies below an agent is another family.
    ("/api/v1/agents", "the registry of agents", "RFC-0016"),
];

/// What is said of a path that belongs to a family which is not built.
pub(crate) fn refusal(path: &str) -> Option<ApiError> {
    let (_, family, document) = NOT_BUILT.iter().find(|(root, ..)| is_below(path, root))?;
    let message = format!(
        "this server does not offer {family} ({document}); /.well-known/openintent-compat.json tells what it offers"
    );
    Some(ApiError::new("capability_not_provided", message).with("capability", *document))
}

fn is_below(path: &str, root: &str) -> bool {
    let mut segments = path.split('/');
    root.split('/').all(|wanted| segments.next().is_some_and(|segment| wanted == "*" || wanted == segment))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_told_by_where_it_begins() {
        let family = |path: &str| {
            let said = refusal(path)?;
            said.detail("capability").and_then(|document| document.as_str()).map(str::to_owned)
        };
        assert_eq!(family("/api/v1/agents/a/memory").as_deref(), Some("RFC-0015"));
        assert_eq!(family("/api/v1/agents/a/record").as_deref(), Some("RFC-0016"));
        assert_eq!(family("/api/v1/tools/invoke").as_deref(), Some("RFC-0014"));
        assert_eq!(family("/api/v1/toolsmith"), None);
        assert_eq!(family("/api/v1/intents"), None);
    }
}
