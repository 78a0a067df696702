//! What the operator says about questions that nobody answers: `[suspension]` in our file, or an `openintent.yaml`.

use std::path::Path;

use abide_core::{HumanRetryPolicy, Json};
use anyhow::Context;
use serde::Deserialize;
use serde_json::{Number, Value};

/// Where the policy stands, in either file.
const KEY: &str = "suspension.default_retry_policy";

/// `[suspension]`: how a question goes on that nobody answers.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FileSuspension {
    default_retry_policy: Option<toml::Value>,
}

impl FileSuspension {
    /// The policy of our own file, which is called `path`.
    pub(super) fn policy(self, path: &Path) -> anyhow::Result<Option<HumanRetryPolicy>> {
        self.default_retry_policy.map(|given| read(path, &json(given))).transpose()
    }
}

/// The platform's policy. Our file and the other may both have it, if they say the same.
pub(super) fn platform(
    own: Option<(&Path, HumanRetryPolicy)>,
    openintent: Option<&Path>,
) -> anyhow::Result<Option<HumanRetryPolicy>> {
    let other = openintent.map(of_openintent).transpose()?.flatten();
    match (own, other, openintent) {
        (Some((own, policy)), Some(other), Some(path)) if policy != other => anyhow::bail!(
            "{} and {} give different values for {KEY}; remove one of them, or make them equal",
            own.display(),
            path.display()
        ),
        (own, other, _) => Ok(own.map(|(_, policy)| policy).or(other)),
    }
}

/// The policy of an `openintent.yaml`, if it has one. What else stands there is not ours.
fn of_openintent(path: &Path) -> anyhow::Result<Option<HumanRetryPolicy>> {
    let text = std::fs::read_to_string(path).with_context(|| format!("{} can't be read", path.display()))?;
    let says_nothing = |line: &str| line.trim_start().starts_with('#') || line.trim().is_empty();
    if text.lines().all(says_nothing) {
        return Ok(None);
    }
    let json = abide_core::json_from_yaml(&text)
        .map_err(|problem| anyhow::anyhow!("{} is not valid YAML: {problem}", path.display()))?;
    let whole: Value =
        serde_json::from_slice(&json).with_context(|| format!("{} can't be read", path.display()))?;
    let wrong = |what: &str| anyhow::anyhow!("{}: {what}", path.display());
    let Value::Object(mut whole) = whole else { return Err(wrong("a mapping is expected at its top")) };
    match whole.remove("suspension") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(mut suspension)) => {
            let given = suspension.remove("default_retry_policy").filter(|given| !given.is_null());
            given.map(|given| read(path, &given)).transpose()
        }
        Some(_) => Err(wrong("suspension: a mapping is expected here, with default_retry_policy in it")),
    }
}

/// Reads the policy of a file. What is wrong with it is told with the keys as they stand in the file.
fn read(path: &Path, given: &Value) -> anyhow::Result<HumanRetryPolicy> {
    HumanRetryPolicy::read(&Json::of(given)).map_err(|problems| {
        let told = problems.iter().map(|problem| match problem.place.as_str() {
            "retry_policy" => format!("{KEY}: {}", problem.message),
            place => format!("{KEY}.{place}: {}", problem.message),
        });
        anyhow::anyhow!("{}: {}", path.display(), told.collect::<Vec<_>>().join("; "))
    })
}

/// What a TOML file says, as JSON. What JSON has no word for becomes text, which is no number and so is refused.
fn json(given: toml::Value) -> Value {
    match given {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => {
            Number::from_f64(number).map_or_else(|| Value::String(number.to_string()), Value::Number)
        }
        toml::Value::Boolean(flag) => Value::Bool(flag),
        toml::Value::Datetime(moment) => Value::String(moment.to_string()),
        toml::Value::Array(list) => list.into_iter().map(json).collect(),
        toml::Value::Table(table) => table.into_iter().map(|(key, value)| (key, json(value))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    /// What these two files come to.
    fn resolved(toml: &str, yaml: &str) -> Result<Option<HumanRetryPolicy>, String> {
        let dir = tempfile::tempdir().unwrap();
        let path: PathBuf = dir.path().join("openintent.yaml");
        std::fs::write(&path, yaml).unwrap();
        let told = |error: anyhow::Error| error.to_string().replace(dir.path().to_str().unwrap(), "DIR");
        let own = Path::new("abide.toml");
        let suspension: FileSuspension = toml::from_str(toml).unwrap();
        let policy = suspension.policy(own).map_err(told)?;
        platform(policy.map(|policy| (own, policy)), Some(&path)).map_err(told)
    }

    fn attempts(most: u32) -> Option<HumanRetryPolicy> {
        Some(HumanRetryPolicy { max_attempts: Some(most), ..HumanRetryPolicy::default() })
    }

    #[test]
    fn the_policy_comes_from_either_file_or_from_both_if_they_agree() {
        let (ours, theirs) = (
            "default_retry_policy.max_attempts = 3",
            "suspension: {default_retry_policy: {max_attempts: 3}}",
        );
        assert_eq!(resolved(ours, "# nothing yet\n"), Ok(attempts(3)));
        assert_eq!(resolved("", theirs), Ok(attempts(3)));
        assert_eq!(resolved(ours, theirs), Ok(attempts(3)));
        assert_eq!(
            resolved(&ours.replace('3', "2"), theirs).unwrap_err(),
            "abide.toml and DIR/openintent.yaml give different values for suspension.default_retry_policy; remove one of \
             them, or make them equal"
        );
    }

    #[test]
    fn what_else_stands_in_an_openintent_file_is_not_ours() {
        for yaml in [
            "protocol: {version: 0.1}\n",
            "suspension:\n",
            "suspension: {other: 1}\n",
            "suspension: {default_retry_policy: null}\n",
        ] {
            assert_eq!(resolved("", yaml), Ok(None), "{yaml}");
        }
        assert_eq!(
            resolved("", "a: 1\nsuspension: {b: 2, default_retry_policy: {}}\n").unwrap(),
            Some(HumanRetryPolicy::default())
        );
    }

    #[test]
    fn what_is_wrong_with_a_policy_is_told_with_its_file_and_key() {
        for (toml, told) in [
            ("max_attempts = 0", "max_attempts: a whole number from 1 to 100 is expected"),
            ("max_attempts = nan", "max_attempts: a whole number from 1 to 100 is expected"),
            (
                "interval_seconds = 1979-05-27",
                "interval_seconds: a whole number from 1 to 31536000 is expected",
            ),
            ("strategy = 'exponential'", "strategy: use fixed"),
            (
                "intervall_seconds = 1",
                "intervall_seconds: there is no 'intervall_seconds' here; did you mean 'interval_seconds'?",
            ),
            (
                "max_attempts = 1\nescalation_ladder = [{ attempt = 2, channel_hint = 'email' }]",
                "escalation_ladder.0.attempt: there is no attempt 2: max_attempts is 1; raise it, or lower this",
            ),
        ] {
            let error = resolved(&format!("[default_retry_policy]\n{toml}"), "a: 1").unwrap_err();
            assert_eq!(error, format!("abide.toml: suspension.default_retry_policy.{told}"), "{toml}");
        }
        for (yaml, told) in [
            (
                "suspension: {default_retry_policy: 3}",
                "suspension.default_retry_policy: an object is expected here, not a number",
            ),
            ("suspension: [1]", "suspension: a mapping is expected here, with default_retry_policy in it"),
            ("- suspension", "a mapping is expected at its top"),
        ] {
            assert_eq!(resolved("", yaml).unwrap_err(), format!("DIR/openintent.yaml: {told}"));
        }
        assert!(
            resolved("", "a: [").unwrap_err().starts_with("DIR/openintent.yaml is not valid YAML: line ")
        );
    }
}
