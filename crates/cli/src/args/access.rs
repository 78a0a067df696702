//! The flags and commands that are about who may come in: keys, people, tokens and rates.

use std::path::PathBuf;

use abide_core::Rate;
use abide_server::Scope;
use abide_server::limits::{BODIES_BYTES_MAX, REQUESTS_MAX, WAITING_MAX};
use clap::{Args as ClapArgs, Subcommand};

use super::{ClientArgs, StoreArgs};

/// Which identity provider's tokens a server takes.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct OidcArgs {
    /// Take tokens of this OIDC issuer beside API keys; the other --oidc flags say how
    #[arg(long, env = "ABIDE_OIDC_ISSUER", value_name = "ISSUER")]
    pub(crate) oidc_issuer: Option<String>,
    /// The audience that its tokens must have
    #[arg(long, env = "ABIDE_OIDC_AUDIENCE", value_name = "AUDIENCE")]
    pub(crate) oidc_audience: Option<String>,
    /// Where its keys are: a URL, or a file that is read at the start
    #[arg(long, env = "ABIDE_OIDC_JWKS", value_name = "URL|FILE")]
    pub(crate) oidc_jwks: Option<String>,
    /// The claim that names the principal [default: sub]
    #[arg(long, value_name = "CLAIM")]
    pub(crate) oidc_principal: Option<String>,
    /// The claim that lists the roles, by its name or its path [default: roles]
    #[arg(long, value_name = "CLAIM")]
    pub(crate) oidc_roles: Option<String>,
    /// The claim that lists scopes [default: scope]
    #[arg(long, value_name = "CLAIM")]
    pub(crate) oidc_scope: Option<String>,
    /// The tenant of everybody who comes with a token [default: default]
    #[arg(long, value_name = "TENANT", conflicts_with = "oidc_tenant_claim")]
    pub(crate) oidc_tenant: Option<String>,
    /// The claim that names the tenant
    #[arg(long, value_name = "CLAIM")]
    pub(crate) oidc_tenant_claim: Option<String>,
    /// Scopes that come with a role: approver=runs:read,approvals:respond. May be repeated
    #[arg(long = "oidc-grant", value_name = "ROLE=SCOPES", value_parser = parse_grant)]
    pub(crate) oidc_grants: Vec<(String, Vec<Scope>)>,
}

/// How much a server takes on.
#[derive(ClapArgs, Clone, Default)]
pub(crate) struct LimitArgs {
    /// How often each key may ask: 50/s, 600/m, or 50/s:100 to let 100 come at once [default: no limit]
    #[arg(long, env = "ABIDE_RATE_KEY", value_name = "RATE")]
    pub(crate) rate_key: Option<Rate>,
    /// How often all keys of a tenant together may ask [default: no limit]
    #[arg(long, env = "ABIDE_RATE_TENANT", value_name = "RATE")]
    pub(crate) rate_tenant: Option<Rate>,
    #[arg(long, env = "ABIDE_MAX_REQUESTS", value_name = "COUNT")]
    #[arg(help = format!("Requests being answered at once [default: {REQUESTS_MAX}]"))]
    pub(crate) max_requests: Option<usize>,
    #[arg(long, env = "ABIDE_MAX_WAITING", value_name = "COUNT")]
    #[arg(help = format!("Polls and streams open at once [default: {WAITING_MAX}, fewer if open files are few]"))]
    pub(crate) max_waiting: Option<usize>,
    #[arg(long, env = "ABIDE_MAX_BODY_MIB", value_name = "MIB")]
    #[arg(help = format!("MiB of request bodies held at once, over all requests [default: {}]", BODIES_BYTES_MAX >> 20))]
    pub(crate) max_body_mib: Option<u32>,
}

/// Where the keys are: in a data directory that no server uses, in a database, or on a server.
#[derive(ClapArgs, Clone)]
pub(crate) struct KeysPlace {
    /// Data directory; no server may be running on it [env: ABIDE_DATA=] [default: abide-data]
    #[arg(long, value_name = "DIR", global = true, conflicts_with = "url")]
    pub(crate) data: Option<PathBuf>,
    /// A PostgreSQL database instead of a data directory; servers may be running on it [env: ABIDE_STORE]
    #[arg(long, value_name = "STORE", global = true, conflicts_with_all = ["url", "data"])]
    pub(crate) store: Option<String>,
    /// Keyring file; by default beside the data directory, as DIR.keyring. With PostgreSQL it has to be named
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE", global = true)]
    pub(crate) keyring: Option<PathBuf>,
    /// A running server instead of a data directory [env: ABIDE_URL=]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) url: Option<String>,
    /// The API key for that server; it needs the scope keys:manage
    #[arg(long, env = "ABIDE_API_KEY", hide_env_values = true, value_name = "KEY", global = true)]
    pub(crate) api_key: Option<String>,
    /// Trust a server whose certificate one of these (PEM) vouches for, beside those that the system trusts
    #[arg(long, env = "ABIDE_CA", value_name = "FILE", global = true)]
    pub(crate) ca: Option<PathBuf>,
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

#[derive(ClapArgs)]
pub(crate) struct KeysArgs {
    #[command(flatten)]
    pub(crate) place: KeysPlace,
    #[command(subcommand)]
    pub(crate) verb: KeysVerb,
}

#[derive(Subcommand)]
pub(crate) enum KeysVerb {
    /// Make a key and print it; it is shown this once
    #[command(
        after_help = "A key for a program that starts runs and follows them, for a month:\n  abide keys create --principal \
                      svc:orders --scopes runs:create,runs:read --expires-in 30d"
    )]
    Create(CreateKeyArgs),
    /// List keys, never their secrets
    List,
    /// Give a key a new secret; the old one works beside it for a while
    Rotate(RotateKeyArgs),
    /// Revoke a key
    Revoke {
        /// The key's id; of a key that Abide made, what stands between abk_ and the second underscore
        id: String,
    },
}

/// What a key is to be good for.
#[derive(ClapArgs, Default)]
pub(crate) struct CreateKeyArgs {
    /// Whose data it reaches. In a data directory, the tenant is made if there is none of that name [default: default]
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// Who acts through it, for the record [default: operator; on a server, you]
    #[arg(long)]
    pub(crate) principal: Option<String>,
    /// What it is for, in your words
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// What it may do, such as runs:create,runs:read [default: everything; on a server, what you may]
    #[arg(long, value_name = "SCOPES", value_delimiter = ',', value_parser = parse_scope)]
    pub(crate) scopes: Option<Vec<Scope>>,
    /// The roles of whoever acts through it
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    pub(crate) roles: Vec<String>,
    /// Let it speak for others
    #[arg(long)]
    pub(crate) act_as: bool,
    /// When it ends by itself: 90s, 15m, 12h, 30d or 4w from now
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) expires_in: Option<i64>,
    /// The text of the key, 16 to 256 visible ASCII characters; - reads it from standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) secret: Option<String>,
}

/// How to rotate a key.
#[derive(ClapArgs)]
pub(crate) struct RotateKeyArgs {
    /// The key's id
    pub(crate) id: String,
    /// How long the old secret still works: 0s, 15m, 12h, 2d
    #[arg(long, value_name = "TIME", value_parser = parse_span, default_value = "24h")]
    pub(crate) overlap: i64,
    /// When the new one ends by itself [default: when the old one would have]
    #[arg(long, value_name = "TIME", value_parser = parse_span)]
    pub(crate) expires_in: Option<i64>,
    /// The text of the new key; - reads it from standard input
    #[arg(long, value_name = "TEXT")]
    pub(crate) secret: Option<String>,
}

#[derive(ClapArgs)]
pub(crate) struct KeyringArgs {
    /// Data directory that the keyring belongs to [default: abide-data]
    #[arg(long, env = "ABIDE_DATA", value_name = "DIR", global = true)]
    pub(crate) data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Keyring file; by default beside the data directory, as DIR.keyring. With PostgreSQL it has to be named
    #[arg(long, env = "ABIDE_KEYRING", value_name = "FILE", global = true)]
    pub(crate) keyring: Option<PathBuf>,
    /// Print JSON instead of text for people
    #[arg(long, global = true)]
    pub(crate) json: bool,
    #[command(subcommand)]
    pub(crate) verb: KeyringVerb,
}

#[derive(Subcommand)]
pub(crate) enum KeyringVerb {
    /// Add a secret that signs and encrypts from now on; what was made with the old ones still works
    #[command(
        after_help = "A running server takes the new secret up by itself. Where several servers share a database, copy the \
                      file to all of them within a minute: until then the new secret opens, and after that it signs."
    )]
    Rotate,
    /// List the secrets by their ids, never what they are
    List,
    /// Drop an old secret; links that were signed with it stop working
    #[command(
        after_help = "No server may be running on the data directory or the database. Secrets of users and of webhooks are encrypted \
                      anew first. API keys can't be: as long as one in force was made under the old secret, it is kept, \
                      unless --force is given."
    )]
    Retire {
        /// The secret's id, as `abide keyring list` shows it
        kid: u32,
        /// Retire it even if API keys stop working
        #[arg(long)]
        force: bool,
    },
}

#[derive(ClapArgs)]
pub(crate) struct PeopleArgs {
    #[command(flatten)]
    pub(crate) client: ClientArgs,
    #[command(subcommand)]
    pub(crate) verb: PeopleVerb,
}

#[derive(Subcommand)]
pub(crate) enum PeopleVerb {
    /// List everybody in the directory
    List,
    /// Show a person
    Show {
        /// Who, as keys and tokens name them
        principal: String,
    },
    /// Enter a person, or replace what was known
    #[command(
        after_help = "Example:\n  abide people set ada@example.com --name 'Ada Lovelace' --roles finance --address \
                      email=ada@example.com"
    )]
    Set(SetPersonArgs),
    /// Forget a person
    Rm {
        /// Who
        principal: String,
    },
    /// Enter everybody in a file (JSON or YAML): a list of people, each with principal and what `set` takes
    Import {
        /// The file
        file: PathBuf,
    },
}

/// What is known about a person.
#[derive(ClapArgs)]
pub(crate) struct SetPersonArgs {
    /// Who, as keys and tokens name them: letters, digits or any of . _ @ : | + -
    pub(crate) principal: String,
    /// What they are called
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// The roles they have
    #[arg(long, value_name = "ROLES", value_delimiter = ',')]
    pub(crate) roles: Vec<String>,
    /// The groups they belong to
    #[arg(long, value_name = "GROUPS", value_delimiter = ',')]
    pub(crate) groups: Vec<String>,
    /// Where a channel reaches them. May be repeated
    #[arg(long = "address", value_name = "CHANNEL=ADDRESS", value_parser = parse_address)]
    pub(crate) addresses: Vec<(String, String)>,
}

/// A scope by its name.
fn parse_scope(name: &str) -> Result<Scope, String> {
    let known = || Scope::ALL.map(|(_, name)| name).join(", ");
    Scope::by_name(name).ok_or_else(|| format!("there is no such scope; there are {}", known()))
}

/// `role=scope,scope`.
fn parse_grant(text: &str) -> Result<(String, Vec<Scope>), String> {
    let (role, scopes) = text.split_once('=').ok_or("it is not of the form ROLE=SCOPE,SCOPE")?;
    let scopes = scopes.split(',').map(parse_scope).collect::<Result<_, _>>()?;
    Ok((role.to_owned(), scopes))
}

/// `channel=address`.
fn parse_address(text: &str) -> Result<(String, String), String> {
    let (channel, address) = text.split_once('=').ok_or("it is not of the form CHANNEL=ADDRESS")?;
    Ok((channel.to_owned(), address.to_owned()))
}

/// A span of time in milliseconds: a number and its unit.
pub(crate) fn parse_span(text: &str) -> Result<i64, String> {
    let told = || "it is not a time; write 90s, 15m, 12h, 30d or 4w".to_owned();
    let unit = text.chars().next_back().ok_or_else(told)?;
    let ms: i64 = match unit {
        's' => 1000,
        'm' => 60_000,
        'h' => 3_600_000,
        'd' => 86_400_000,
        'w' => 7 * 86_400_000,
        _ => return Err(told()),
    };
    let digits = &text[..text.len() - 1];
    let count: Option<i64> =
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok()).flatten();
    count.and_then(|count| count.checked_mul(ms)).ok_or_else(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_a_number_and_a_unit() {
        for (text, ms) in
            [("0s", 0), ("90s", 90_000), ("15m", 900_000), ("24h", 86_400_000), ("4w", 2_419_200_000)]
        {
            assert_eq!(parse_span(text), Ok(ms), "{text}");
        }
        for text in ["", "s", "1", "-1s", "1.5h", "1y", "1 d", "99999999999999999d", "1é"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_grant_names_a_role_and_its_scopes() {
        let parsed = parse_grant("boss=runs:read,runs:cancel").unwrap();
        assert_eq!(parsed, ("boss".to_owned(), vec![Scope::RunsRead, Scope::RunsCancel]));
        assert!(parse_grant("boss=runs:see").unwrap_err().contains("there are manifest:read"));
        assert!(parse_grant("boss").is_err());
    }
}
