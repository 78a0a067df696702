//! Who signed in, kept by their browser: a signed cookie, and nothing on the server.
//!
//! The cookie only names the key that was shown. Whether that key still holds is looked up with each request, so a
//! session ends with its key.

use abide_core::{Millis, TenantId, hex};
use aws_lc_rs::constant_time;
use axum::http::{HeaderMap, HeaderValue, header};

use crate::auth::Principal;
use crate::error::Result;
use crate::keyring::{Keyring, random_hex};
use crate::keys::Keys;
use crate::limits::{SESSION_LEEWAY_MS, SESSION_MS_MAX};

const PURPOSE: &str = "session";
const PURPOSE_FORM: &str = "session-form";

/// Browsers take a cookie of this name only over TLS, for this host alone and for all of its paths.
const NAME_SECURE: &str = "__Host-abide-session";
const NAME: &str = "abide-session";

/// A session, as it stands in its cookie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Session {
    /// `key.tenant.begun.ends.seed.mac`
    text: String,
}

impl Session {
    /// A new session of whoever showed their key. It ends with the key at the latest.
    pub(super) fn begin(principal: &Principal, keyring: &Keyring, now: Millis) -> Self {
        let last = now.saturating_add(SESSION_MS_MAX);
        let ends = principal.expires_at.map_or(last, |end| end.min(last));
        let Principal { key, tenant, .. } = principal;
        let body = format!("{key}.{}.{now}.{ends}.{}", tenant.0, random_hex(16));
        let mac = hex(&keyring.mac(PURPOSE, body.as_bytes()));
        Self { text: format!("{body}.{mac}") }
    }

    /// The session that a request belongs to, and who is in it.
    pub(super) async fn of(
        headers: &HeaderMap,
        keys: &Keys,
        secure: bool,
        now: Millis,
    ) -> Result<Option<(Self, Principal)>> {
        let Some(text) = cookie(headers, name(secure)) else { return Ok(None) };
        let Some((tenant, key)) = opened(text, keys.keyring(), now) else { return Ok(None) };
        let principal = keys.holder(tenant, key, now).await?;
        Ok(principal.map(|principal| (Self { text: text.to_owned() }, principal)))
    }

    /// Whether it has not ended yet.
    pub(super) fn holds(&self, keyring: &Keyring, now: Millis) -> bool {
        opened(&self.text, keyring, now).is_some()
    }

    /// What every form of this session carries, and no form of another.
    pub(super) fn form_token(&self, keyring: &Keyring) -> String {
        hex(&keyring.mac(PURPOSE_FORM, self.text.as_bytes()))
    }

    /// Whether a form was made for this session. In constant time.
    pub(super) fn made_form(&self, token: &str, keyring: &Keyring) -> bool {
        is_one_of(token, &keyring.macs(PURPOSE_FORM, self.text.as_bytes()))
    }

    /// The header that makes a browser keep it. Links in mails and chats lead to the inbox, so it goes along with
    /// links from elsewhere, and never with forms from there.
    pub(super) fn set(&self, secure: bool) -> HeaderValue {
        set_cookie(&self.text, SESSION_MS_MAX / 1000, secure)
    }
}

/// The header that makes a browser forget its session.
pub(super) fn forget(secure: bool) -> HeaderValue {
    set_cookie("", 0, secure)
}

fn name(secure: bool) -> &'static str {
    if secure { NAME_SECURE } else { NAME }
}

fn set_cookie(value: &str, seconds: i64, secure: bool) -> HeaderValue {
    let tls = if secure { "; Secure" } else { "" };
    let text = format!("{}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{tls}", name(secure));
    HeaderValue::try_from(text).expect("a session is plain ASCII")
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let lines = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find_map(|(known, value)| (known == name).then_some(value))
}

/// The tenant and the key of a genuine session that has not ended.
fn opened<'a>(text: &'a str, keyring: &Keyring, now: Millis) -> Option<(TenantId, &'a str)> {
    let (body, mac) = text.rsplit_once('.')?;
    if !is_one_of(mac, &keyring.macs(PURPOSE, body.as_bytes())) {
        return None;
    }
    let mut parts = body.split('.');
    let (key, tenant) = (parts.next()?, parts.next()?.parse().ok()?);
    let (begun, ends): (Millis, Millis) = (parts.next()?.parse().ok()?, parts.next()?.parse().ok()?);
    // Another server may have begun it, and know the time a little better or worse.
    let begun = begun.saturating_sub(SESSION_LEEWAY_MS);
    (begun..ends).contains(&now).then_some((TenantId(tenant), key))
}

/// Whether a MAC in hex is one of these.
fn is_one_of(text: &str, macs: &[Vec<u8>]) -> bool {
    let is =
        |mac: &Vec<u8>| constant_time::verify_slices_are_equal(hex(mac).as_bytes(), text.as_bytes()).is_ok();
    // All of them are compared, so that the time tells nothing about which it was.
    macs.iter().filter(|mac| is(mac)).count() > 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::Scopes;

    fn keyring(dir: &tempfile::TempDir, name: &str) -> Keyring {
        Keyring::open_or_create(&dir.path().join(name)).unwrap()
    }

    fn principal(expires_at: Option<Millis>) -> Principal {
        Principal {
            tenant: TenantId(3),
            tenant_name: "t".into(),
            name: "ada".to_owned(),
            key: "0a1b2c".to_owned(),
            scopes: Scopes::ALL,
            roles: Vec::new(),
            act_as: false,
            expires_at,
        }
    }

    #[test]
    fn a_session_is_taken_whole_and_in_its_time_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let ring = keyring(&dir, "one");
        let Session { text } = Session::begin(&principal(None), &ring, 1000);
        let owner = Some((TenantId(3), "0a1b2c"));
        assert_eq!(opened(&text, &ring, 1000), owner);
        assert_eq!(opened(&text, &ring, 1000 + SESSION_MS_MAX - 1), owner);
        assert_eq!(opened(&text, &ring, 1000 + SESSION_MS_MAX), None, "its time is over");
        assert_eq!(opened(&text, &ring, 999), owner, "another server's clock may be a little behind");
        assert_eq!(opened(&text, &ring, 999 - SESSION_LEEWAY_MS), None, "it has not begun");
        assert_eq!(opened(&text, &keyring(&dir, "other"), 1000), None, "another server's");
        for at in 0..text.len() {
            let mut changed = text.clone().into_bytes();
            changed[at] ^= 1;
            let changed = String::from_utf8(changed).unwrap();
            assert_eq!(opened(&changed, &ring, 1000), None, "byte {at}");
            assert_eq!(opened(&text[..at], &ring, 1000), None, "cut at {at}");
        }
        let Session { text } = Session::begin(&principal(Some(2000)), &ring, 1000);
        assert_eq!(opened(&text, &ring, 1999), owner);
        assert_eq!(opened(&text, &ring, 2000), None, "it ends with its key");
    }

    #[test]
    fn a_form_belongs_to_one_session() {
        let dir = tempfile::tempdir().unwrap();
        let ring = keyring(&dir, "one");
        let session = Session::begin(&principal(None), &ring, 0);
        let other = Session::begin(&principal(None), &ring, 0);
        assert_ne!(session, other, "two sessions of one key at one time differ");
        let token = session.form_token(&ring);
        assert!(session.made_form(&token, &ring));
        assert!(!other.made_form(&token, &ring));
        let session_mac = session.text.rsplit_once('.').unwrap().1;
        assert!(!session.made_form(session_mac, &ring) && !session.made_form("", &ring));
    }

    #[test]
    fn the_cookie_is_found_among_others_and_is_never_for_scripts() {
        let mut headers = HeaderMap::new();
        headers.append(header::COOKIE, HeaderValue::from_static("a=1; abide-session=x.y; b=2"));
        assert_eq!(cookie(&headers, NAME), Some("x.y"));
        assert_eq!(cookie(&headers, NAME_SECURE), None, "over TLS only the strict name counts");
        let session = Session { text: "x.y".to_owned() };
        let told = |secure| session.set(secure).to_str().unwrap().to_owned();
        assert_eq!(told(false), "abide-session=x.y; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax");
        assert_eq!(
            told(true),
            "__Host-abide-session=x.y; Path=/; Max-Age=28800; HttpOnly; SameSite=Lax; Secure"
        );
        let gone = "abide-session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax";
        assert_eq!(forget(false).to_str().unwrap(), gone);
    }
}
