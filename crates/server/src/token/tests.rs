//! Tokens: what they say, and what is refused.

use abide_core::sha256;
use serde_json::{Value, json};

use super::*;

const NOW: Millis = 1_763_222_400_123;
const MINUTE: Millis = 60_000;

fn keyring(secrets: &[(u32, u8)]) -> Arc<Keyring> {
    Arc::new(Keyring::of(&secrets.iter().map(|(kid, byte)| (*kid, [*byte; 32])).collect::<Vec<_>>()))
}

fn ours() -> Arc<Keyring> {
    keyring(&[(1, 7)])
}

fn token() -> Token {
    Token {
        tenant: TenantId(3),
        run: RunId::from_bytes([9; 16]),
        node: "approve".to_owned(),
        interrupt: InterruptId::from_bytes([5; InterruptId::BYTES]),
        expires_at: NOW + READ_TOKEN_MS,
        intent: Intent::Resolve,
        sub: "ada@example.com".to_owned(),
    }
}

fn minted() -> String {
    Minter::new(ours()).mint(&token())
}

fn read(text: &str) -> Option<Token> {
    Verifier::new(ours()).read(text)
}

/// The two parts of a token, decoded.
fn parts(text: &str) -> (Vec<u8>, Vec<u8>) {
    let (payload, mac) = text.split_once('.').unwrap();
    (URL_SAFE_NO_PAD.decode(payload).unwrap(), URL_SAFE_NO_PAD.decode(mac).unwrap())
}

fn join(payload: &[u8], mac: &[u8]) -> String {
    format!("{}.{}", URL_SAFE_NO_PAD.encode(payload), URL_SAFE_NO_PAD.encode(mac))
}

/// HMAC-SHA256 by its definition (RFC 2104), from nothing but SHA-256.
fn hmac_by_hand(key: &[u8], message: &[u8]) -> [u8; 32] {
    assert!(key.len() <= 64);
    let pad =
        |with: u8| -> Vec<u8> { (0..64).map(|ix| key.get(ix).copied().unwrap_or_default() ^ with).collect() };
    let inner = sha256(&[&pad(0x36)[..], message].concat());
    sha256(&[&pad(0x5c)[..], &inner].concat())
}

/// The secret of a tenant, derived by hand from the keyring's.
fn secret_of(tenant: u32, secret: [u8; 32]) -> [u8; 32] {
    let length = (PURPOSE.len() as u64).to_be_bytes();
    hmac_by_hand(&secret, &[&length[..], PURPOSE.as_bytes(), &tenant.to_be_bytes()].concat())
}

/// A token over any payload, signed with the right key for tenant 3.
fn forged(payload: &str) -> String {
    join(payload.as_bytes(), &hmac_by_hand(&secret_of(3, [7; 32]), payload.as_bytes()))
}

fn payload() -> Value {
    serde_json::from_slice(&parts(&minted()).0).unwrap()
}

/// The payload of an ordinary token with some members changed, or removed by `null`.
fn payload_with(changes: &Value) -> String {
    let mut payload = payload();
    for (name, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => payload.as_object_mut().unwrap().remove(name),
            value => payload.as_object_mut().unwrap().insert(name.clone(), value.clone()),
        };
    }
    payload.to_string()
}

#[test]
fn the_mac_is_what_independent_code_computes() {
    let text = minted();
    let (payload, mac) = parts(&text);
    assert_eq!(mac, hmac_by_hand(&secret_of(3, [7; 32]), &payload));
    assert_eq!(text, join(&payload, &mac));
    // RFC 4231, test case 2, so that the code above is right in itself.
    let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(abide_core::hex(&hmac_by_hand(b"Jefe", b"what do ya want for nothing?")), expected);
}

#[test]
fn a_payload_names_run_node_interrupt_end_and_intent() {
    let expected = json!({
        "runId": "run-09090909-0909-0909-0909-090909090909",
        "nodeId": "approve",
        "interruptId": token().interrupt.to_string(),
        "expiresAt": "2025-11-15T16:30:00.123Z",
        "intent": "resolve",
        "kid": "3.1",
        "sub": "ada@example.com",
    });
    assert_eq!(payload(), expected);
    assert_eq!(read(&minted()), Some(token()));
}

#[test]
fn a_payload_that_is_written_otherwise_is_not_what_was_signed() {
    let (bytes, mac) = parts(&minted());
    let pretty = serde_json::to_vec_pretty(&payload()).unwrap();
    assert_eq!(serde_json::from_slice::<Value>(&pretty).unwrap(), payload(), "it says the same");
    assert_eq!(read(&join(&pretty, &mac)), None);
    let spaced = [&bytes[..], b" "].concat();
    assert_eq!(read(&join(&spaced, &mac)), None);
    let other = String::from_utf8(bytes).unwrap().replace("ada@", "eve@");
    assert_eq!(read(&join(other.as_bytes(), &mac)), None, "nor is another sub");
}

#[test]
fn an_intent_is_to_resolve_or_to_inspect_and_nothing_else() {
    let inspect = Token { intent: Intent::Inspect, ..token() };
    assert_eq!(read(&Minter::new(ours()).mint(&inspect)), Some(inspect));
    assert_eq!(read(&forged(&payload().to_string())), Some(token()), "the key is right");
    for intent in [json!("admin"), json!("Resolve"), json!(""), json!(1), json!(["resolve"]), json!(null)] {
        assert_eq!(read(&forged(&payload_with(&json!({ "intent": intent })))), None, "{intent}");
    }
}

#[test]
fn a_token_without_an_end_is_refused() {
    assert_eq!(read(&forged(&payload_with(&json!({ "expiresAt": null })))), None);
    for end in [
        json!(0),
        json!(""),
        json!("never"),
        json!("2025-11-15"),
        json!("2025-11-15T16:30:00Z"),
        json!("2025-11-15T17:30:00.123+01:00"),
        json!("99999-11-15T16:30:00.123Z"),
    ] {
        assert_eq!(read(&forged(&payload_with(&json!({ "expiresAt": end })))), None, "{end}");
    }
}

#[test]
fn a_signed_payload_has_all_its_members_and_no_other() {
    for name in ["runId", "nodeId", "interruptId", "expiresAt", "intent", "kid", "sub"] {
        assert_eq!(read(&forged(&payload_with(&json!({ name: null })))), None, "without {name}");
        assert_eq!(read(&forged(&payload_with(&json!({ name: 7 })))), None, "{name} of another type");
    }
    assert_eq!(read(&forged(&payload_with(&json!({ "admin": true })))), None);
    let twice = payload().to_string().replace("{\"", "{\"sub\":\"eve\",\"");
    for payload in [twice.as_str(), "", "{}", "[]", "null", "7", "{\"kid\":\"3.1\"}", "{\"kid\":\"3.1\"}x"] {
        assert_eq!(read(&forged(payload)), None, "{payload}");
    }
    for changes in [
        json!({ "runId": "09090909-0909-0909-0909-090909090909" }),
        json!({ "interruptId": "int-1" }),
        json!({ "kid": "03.1" }),
        json!({ "kid": "3.+1" }),
        json!({ "kid": "3" }),
    ] {
        assert_eq!(read(&forged(&payload_with(&changes))), None, "{changes}");
    }
}

#[test]
fn ten_thousand_tokens_stand_in_a_path_as_they_are() {
    let is_plain = |part: &str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    let minter = Minter::new(ours());
    for ix in 0_u32..10_000 {
        let seed = sha256(&ix.to_be_bytes());
        let text = minter.mint(&Token {
            tenant: TenantId(ix),
            run: RunId::from_bytes(seed[..16].try_into().unwrap()),
            node: format!("schritt/{ix}?ü=\u{1F600}&#"),
            interrupt: InterruptId::from_bytes(seed[..InterruptId::BYTES].try_into().unwrap()),
            expires_at: NOW + i64::from(ix),
            intent: if ix % 2 == 0 { Intent::Resolve } else { Intent::Inspect },
            sub: format!("svc:{}", abide_core::hex(&seed)),
        });
        let (payload, mac) = text.split_once('.').unwrap();
        assert!(is_plain(payload) && is_plain(mac) && mac.len() == 43, "{text}");
    }
}

#[test]
fn the_longest_names_fit_into_a_token() {
    let node = "\u{1}".repeat(abide_core::limits::NODE_ID_CHARS_MAX);
    let sub = "\"".repeat(crate::limits::PRINCIPAL_CHARS_MAX);
    let token = Token { tenant: TenantId(u32::MAX), node, sub, ..token() };
    let text = Minter::new(ours()).mint(&token);
    assert!(text.len() <= INTERRUPT_TOKEN_CHARS_MAX, "{}", text.len());
    assert_eq!(read(&text), Some(token));
}

#[test]
fn a_token_works_until_its_end_and_not_at_it() {
    let verifier = Verifier::new(ours());
    let expires_at = Lifetime::default().of_read(NOW);
    let text = Minter::new(ours()).mint(&Token { expires_at, ..token() });
    let at = |ms| verifier.verify(&text, NOW + ms);
    assert!(at(29 * MINUTE + 59_000).is_ok());
    assert!(at(30 * MINUTE - 1).is_ok());
    for ms in [30 * MINUTE, 30 * MINUTE + 1000, i64::MAX - NOW] {
        assert_eq!(at(ms), Err(Refused::Expired(Box::new(token()))), "{ms}");
    }
    let (code, message) = ApiError::from(at(30 * MINUTE).unwrap_err()).into_words();
    assert_eq!(code, "interrupt_expired");
    assert!(message.contains("2025-11-15T16:30:00.123Z"), "{message}");
    let tampered = text.replacen('e', "f", 1);
    assert_eq!(
        verifier.verify(&tampered, i64::MAX),
        Err(Refused::Unknown),
        "a forged one is none, expired or not"
    );
}

#[test]
fn a_token_in_a_notification_lives_as_long_as_somebody_is_reminded() {
    const DAY: Millis = 24 * 60 * MINUTE;
    let reminded = Lifetime { last_deadline: Some(NOW + 20 * DAY), ..Lifetime::default() };
    // Each reminder carries a token of its own; the third works at the end of the last.
    for sent in [0, 5 * DAY, 19 * DAY] {
        assert_eq!(reminded.of_notice(NOW + sent), NOW + 20 * DAY);
    }
    assert_eq!(Lifetime::default().of_notice(NOW), NOW + 7 * DAY);
    let cut = Lifetime { deadline: Some(NOW + 3 * DAY), ..reminded };
    assert_eq!(cut.of_notice(NOW), NOW + 3 * DAY, "what outlives the interrupt is cut");
    assert_eq!(Lifetime { last_deadline: None, ..cut }.of_notice(NOW), NOW + 3 * DAY);
}

#[test]
fn an_interrupt_may_say_for_how_long_its_tokens_live() {
    let short = Lifetime { configured: Some(5 * MINUTE), ..Lifetime::default() };
    assert_eq!(short.of_read(NOW), NOW + 5 * MINUTE);
    assert_eq!(short.of_notice(NOW), NOW + 5 * MINUTE);
    let huge = Lifetime { configured: Some(i64::MAX), ..Lifetime::default() };
    assert_eq!(huge.of_read(NOW), i64::MAX, "a number too many is no panic");
}

#[test]
fn no_token_outlives_the_interrupt() {
    for configured in [None, Some(5 * MINUTE), Some(i64::MAX)] {
        for last_deadline in [None, Some(NOW + 90 * MINUTE)] {
            let lifetime = Lifetime { deadline: Some(NOW + MINUTE), last_deadline, configured };
            for sent in [NOW, NOW + MINUTE - 1] {
                assert_eq!(lifetime.of_read(sent), NOW + MINUTE, "{lifetime:?}");
                assert_eq!(lifetime.of_notice(sent), NOW + MINUTE, "{lifetime:?}");
            }
        }
    }
}

#[test]
fn tokens_of_before_and_after_a_rotation_work_side_by_side() {
    let rotated = keyring(&[(1, 7), (2, 8)]);
    let (old, new) = (minted(), Minter::new(rotated.clone()).mint(&token()));
    assert_ne!(old, new);
    let verifier = Verifier::new(rotated);
    assert_eq!(verifier.read(&old), Some(token()));
    assert_eq!(verifier.read(&new), Some(token()));
    let said: Value = serde_json::from_slice(&parts(&new).0).unwrap();
    assert_eq!(said["kid"], "3.2", "the newest signs");
}

#[test]
fn a_token_of_a_retired_or_unknown_secret_is_none() {
    let retired = Verifier::new(keyring(&[(2, 8)]));
    assert_eq!(retired.verify(&minted(), NOW), Err(Refused::Unknown));
    let (code, _) = ApiError::from(Refused::Unknown).into_words();
    assert_eq!(code, "interrupt_not_found");
    for kid in ["3.2", "3.0", "3.4294967295", "3.4294967296", "x.1", ""] {
        assert_eq!(read(&forged(&payload_with(&json!({ "kid": kid })))), None, "{kid}");
    }
}

#[test]
fn a_tenants_secret_is_worth_nothing_to_another() {
    // Whoever got hold of what signs for tenant 3 claims that a token is one of tenant 4's.
    assert_eq!(read(&forged(&payload_with(&json!({ "kid": "4.1" })))), None);
    let other = Minter::new(ours()).mint(&Token { tenant: TenantId(4), ..token() });
    assert_eq!(read(&other).map(|token| token.tenant), Some(TenantId(4)));
    let (payload, _) = parts(&other);
    assert_eq!(read(&join(&payload, &parts(&minted()).1)), None);
    assert_eq!(Verifier::new(keyring(&[(1, 9)])).read(&minted()), None, "nor is one of another server");
}

#[test]
fn another_scheme_is_no_token() {
    let claims = URL_SAFE_NO_PAD.encode(payload().to_string());
    let secret = secret_of(3, [7; 32]);
    for header in [
        json!({ "alg": "none" }),
        json!({ "alg": "none", "typ": "JWT", "kid": "3.1" }),
        json!({ "alg": "HS256", "typ": "JWT", "kid": "3.1" }),
        payload(),
    ] {
        let signed = format!("{}.{claims}", URL_SAFE_NO_PAD.encode(header.to_string()));
        let mac = URL_SAFE_NO_PAD.encode(hmac_by_hand(&secret, signed.as_bytes()));
        let bare = URL_SAFE_NO_PAD.encode(hmac_by_hand(&secret, payload().to_string().as_bytes()));
        for text in [format!("{signed}."), format!("{signed}.{mac}"), format!("{signed}.{bare}"), signed] {
            assert_eq!(read(&text), None, "{text}");
        }
    }
    let (payload, mac) = parts(&minted());
    let hex = format!("{}.{}", URL_SAFE_NO_PAD.encode(&payload), abide_core::hex(&mac));
    assert_eq!(read(&hex), None);
}

#[test]
fn a_token_with_any_byte_changed_is_none() {
    let text = minted();
    let verifier = Verifier::new(ours());
    for at in 0..text.len() {
        for changed in 0..=u8::MAX {
            let mut bytes = text.clone().into_bytes();
            if std::mem::replace(&mut bytes[at], changed) == changed {
                continue;
            }
            let Ok(changed) = String::from_utf8(bytes) else { continue };
            assert_eq!(verifier.verify(&changed, NOW), Err(Refused::Unknown), "byte {at}: {changed}");
        }
    }
}

#[test]
fn a_token_that_is_cut_or_longer_is_none() {
    let text = minted();
    for end in 0..text.len() {
        assert_eq!(read(&text[..end]), None, "up to {end}");
        assert_eq!(read(&text[end + 1..]), None, "from {}", end + 1);
    }
    let (payload, mac) = text.split_once('.').unwrap();
    for longer in [
        format!("{text}="),
        format!("{text}A"),
        format!("{text}."),
        format!(".{text}"),
        format!(" {text}"),
        format!("{text}\n"),
        format!("{payload}=.{mac}"),
        format!("{payload}..{mac}"),
        format!("{payload}%2E{mac}"),
        "A".repeat(INTERRUPT_TOKEN_CHARS_MAX + 1),
        format!("{}{text}", "A".repeat(INTERRUPT_TOKEN_CHARS_MAX)),
    ] {
        assert_eq!(read(&longer), None, "{longer}");
    }
}
