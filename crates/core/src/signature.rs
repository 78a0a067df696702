//! How what is sent to a receiver over HTTP is signed, whoever sends it: events to webhooks, and messages to channels.

use aws_lc_rs::hmac;

use crate::Millis;
use crate::journal::hex;

/// The version of the scheme, as a header names it.
const ALGORITHM: &str = "v1";

/// The headers that vouch for a body: HMAC-SHA256 over the time in seconds, a full stop, and the very bytes that are
/// sent. Whoever checks it refuses old times, so that nobody can send the same thing later.
pub fn signature_headers(secret: &[u8], at: Millis, body: &[u8]) -> [(&'static str, String); 5] {
    let timestamp = (at / 1000).to_string();
    let signature = format!("sha256={}", sign(secret, &timestamp, body));
    [
        ("x-openwop-timestamp", timestamp.clone()),
        ("x-openwop-signature", signature.clone()),
        ("x-openwop-signature-algorithm", ALGORITHM.to_owned()),
        // Under the names that later versions of OpenWOP will know, too.
        ("openwop-timestamp", timestamp),
        ("openwop-signature", signature),
    ]
}

fn sign(secret: &[u8], timestamp: &str, body: &[u8]) -> String {
    let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, secret));
    context.update(timestamp.as_bytes());
    context.update(b".");
    context.update(body);
    hex(context.sign().as_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_the_hmac_of_the_time_a_dot_and_the_body() {
        // Computed with Python's hmac.new(b"secret", b"1700000000.{}", "sha256").
        let expected = "b8569b78799ff9e3cbff0fc2d63a33a2b57f3282abd07c37ae5e8e7d79a5f163";
        assert_eq!(sign(b"secret", "1700000000", b"{}"), expected);
        let headers = signature_headers(b"secret", 1_700_000_000_999, b"{}");
        assert_eq!(headers[0], ("x-openwop-timestamp", "1700000000".to_owned()));
        assert_eq!(headers[1], ("x-openwop-signature", format!("sha256={expected}")));
    }
}
