//! What the client makes of a secret that is put into a URL, so that it is found in what comes back.

use abide_core::SecretForms;
use reqwest::Url;

/// Adds what a secret became: some characters are encoded in a URL, some are replaced, some are dropped, and a `%`
/// stays what it is.
pub(super) fn add_in_url(forms: &mut SecretForms, secret: &str) {
    for before in ["http://h/", "http://h/x", "http://h/?"] {
        let url = Url::parse(&format!("{before}{secret}"));
        let became = url.as_ref().ok().and_then(|url| url.as_str().strip_prefix(before));
        became.into_iter().for_each(|became| forms.add_url_part(became));
    }
}

#[cfg(test)]
mod tests {
    use abide_core::Scrub;

    use super::*;

    fn forms(secret: &str) -> SecretForms {
        let mut forms = SecretForms::default();
        forms.add(secret);
        add_in_url(&mut forms, secret);
        forms
    }

    #[test]
    fn what_a_url_made_of_a_secret_is_found() {
        let secret = "Hunter22/é+x\"y\\z%41\n";
        let scrub = Scrub::new(&forms(secret));
        let in_path = Url::parse(&format!("http://a.example/k/{secret}/x")).unwrap();
        let in_query = Url::parse(&format!("http://a.example/?k={secret}&x")).unwrap();
        assert_eq!(scrub.text(in_path.as_str()), "http://a.example/k/[secret]/x", "{in_path}");
        assert_eq!(scrub.text(in_query.as_str()), "http://a.example/?k=[secret]&x", "{in_query}");
        let echoes = [
            r#"Hunter22/é+x"y/zA"#,
            r#"Hunter22/é x\"y/zA"#,
            "Hunter22%2F%25C3%25A9%2Bx%2522y%2Fz%2541",
            secret,
        ];
        for echo in echoes {
            assert_eq!(scrub.text(&format!("<{}>", echo.trim())), "<[secret]>", "{echo}");
        }
    }

    #[test]
    fn a_secret_that_a_path_shortens_is_found_too() {
        assert_eq!(Scrub::new(&forms("dir/../hunter22")).text("/hunter22"), "/[secret]");
    }
}
