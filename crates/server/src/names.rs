//! What principals, roles, groups, labels and channels may be called.

use crate::limits::{LABEL_CHARS_MAX, PRINCIPAL_CHARS_MAX, ROLE_CHARS_MAX, ROLES_MAX};

/// A value that is not what its field takes, and what to change about it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct NameProblem {
    /// The field.
    pub field: &'static str,
    /// What it takes.
    pub message: String,
}

/// Refuses a value for a field.
pub(crate) fn problem(field: &'static str, message: impl Into<String>) -> NameProblem {
    NameProblem { field, message: message.into() }
}

/// Who somebody is, in records and in paths: letters, digits and a few signs that addresses and identity providers use.
pub(crate) fn check_principal(name: &str) -> Result<(), NameProblem> {
    if is_identifier(name, PRINCIPAL_CHARS_MAX) {
        return Ok(());
    }
    let message = format!(
        "a principal has 1 to {PRINCIPAL_CHARS_MAX} letters from A to Z, digits or any of . _ @ : | + - and begins with \
         none of the signs but _"
    );
    Err(problem("principal", message))
}

/// The roles of a principal or the groups of a person.
pub(crate) fn check_roles(field: &'static str, roles: &[String]) -> Result<(), NameProblem> {
    if roles.len() > ROLES_MAX {
        return Err(problem(field, format!("'{field}' has more than {ROLES_MAX} entries; leave some out")));
    }
    if roles.iter().all(|role| is_identifier(role, ROLE_CHARS_MAX)) {
        return Ok(());
    }
    let message = format!(
        "each of '{field}' has 1 to {ROLE_CHARS_MAX} letters from A to Z, digits or any of . _ @ : | + - and begins with \
         none of the signs but _"
    );
    Err(problem(field, message))
}

/// Words for people to read.
pub(crate) fn check_label(field: &'static str, label: &str) -> Result<(), NameProblem> {
    let chars = label.chars().count();
    if (1..=LABEL_CHARS_MAX).contains(&chars) && !label.chars().any(char::is_control) {
        return Ok(());
    }
    Err(problem(field, format!("'{field}' has 1 to {LABEL_CHARS_MAX} characters on one line")))
}

/// Letters, digits and signs that stand in a path as they are or in one escape.
pub(crate) fn is_identifier(text: &str, chars_max: usize) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@:|+-".contains(&byte);
    // What begins with a dot may be a step in a path, and what begins with a dash a flag.
    let begins = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    begins && text.len() <= chars_max && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_principal_is_what_identity_providers_call_people() {
        for name in
            ["a", "ada@example.com", "auth0|5f7c", "svc:nightly", "ada+test@example.com", "_x", "A-1.b"]
        {
            assert_eq!(check_principal(name), Ok(()), "{name}");
        }
        let long = "a".repeat(129);
        for name in ["", ".", "..", "-x", "@x", "a b", "a/b", "a%2fb", "é", "a\n", "~a", long.as_str()] {
            assert_eq!(check_principal(name).unwrap_err().field, "principal", "{name:?}");
        }
    }
}
