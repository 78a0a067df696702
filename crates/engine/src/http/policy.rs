//! What the operator lets requests reach besides the public internet.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use super::address::{Net, is_public};

/// Which addresses requests may go to. The default is the public internet and nothing else.
#[derive(Clone, Debug, Default)]
pub struct NetPolicy {
    /// Exceptions made by the operator.
    pub allow: Vec<Allowed>,
}

/// One exception: a range of addresses, or one service by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Allowed {
    /// Every address of a range, at any port.
    Net(Net),
    /// A host as it stands in the URL, at one port, whatever address it has.
    Service {
        /// The name or the address, in lower case.
        host: String,
        /// The port.
        port: u16,
    },
}

impl NetPolicy {
    /// A policy from its exceptions as text: `10.0.0.0/8`, `fd00::1`, `localhost:8080`, `[::1]:8080`.
    pub fn parse<T: AsRef<str>>(allow: &[T]) -> Result<Self, String> {
        let allow = allow.iter().map(|text| text.as_ref().parse()).collect::<Result<_, _>>()?;
        Ok(Self { allow })
    }

    /// Whether a request to `host` and `port` may connect to `address`.
    pub(super) fn permits(&self, host: &str, port: u16, address: IpAddr) -> bool {
        // An IPv4 address in IPv6's clothing is the same machine.
        let address = address.to_canonical();
        is_public(address) || self.allow.iter().any(|allowed| allowed.covers(host, port, address))
    }

    /// Whether the operator named this address, so that even what is not encrypted may go there.
    pub(super) fn names(&self, host: &str, port: u16, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.allow.iter().any(|allowed| allowed.covers(host, port, address))
    }

    /// The addresses of `found` that a request to `host` and `port` may connect to.
    pub(super) fn permitted(
        &self,
        host: &str,
        port: u16,
        found: impl Iterator<Item = SocketAddr>,
    ) -> Vec<SocketAddr> {
        found.filter(|address| self.permits(host, port, address.ip())).collect()
    }
}

impl Allowed {
    fn covers(&self, asked_host: &str, asked_port: u16, address: IpAddr) -> bool {
        match self {
            Self::Net(net) => net.contains(address),
            Self::Service { host, port } => host == asked_host && *port == asked_port,
        }
    }
}

impl FromStr for Allowed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(address) = text.parse() {
            return Ok(Self::Net(Net::of(address)));
        }
        net(text).or_else(|| service(text)).ok_or_else(|| {
            format!(
                "'{text}' allows nothing: write a range (10.0.0.0/8), an address (10.0.0.7) or host:port (localhost:8080)"
            )
        })
    }
}

fn net(text: &str) -> Option<Allowed> {
    let (first, prefix) = text.split_once('/')?;
    Net::new(first.parse().ok()?, prefix.parse().ok()?).map(Allowed::Net)
}

fn service(text: &str) -> Option<Allowed> {
    let (host, port) = text.rsplit_once(':')?;
    let bracketed = host.starts_with('[') && host.ends_with(']');
    let plain = !host.is_empty() && !host.contains(['[', ']', ':', '/', '@']);
    let host = host.to_ascii_lowercase();
    (bracketed || plain).then_some(Allowed::Service { host, port: port.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_open_what_they_name_and_nothing_else() {
        let policy =
            NetPolicy::parse(&["10.0.0.0/8", "192.168.0.7", "Intra.example:8080", "[::1]:80"]).unwrap();
        let permits = |host: &str, port, address: &str| policy.permits(host, port, address.parse().unwrap());
        assert!(permits("a", 1, "10.1.2.3"));
        assert!(permits("a", 1, "::ffff:10.1.2.3"), "the same address, written as IPv6");
        assert!(permits("a", 1, "192.168.0.7"));
        assert!(!permits("a", 1, "192.168.0.8"));
        assert!(permits("intra.example", 8080, "172.16.0.1"));
        assert!(!permits("intra.example", 8081, "172.16.0.1"));
        assert!(!permits("other.example", 8080, "172.16.0.1"));
        assert!(permits("[::1]", 80, "::1"));
        assert!(!permits("[::1]", 81, "::1"));
        assert!(permits("a", 1, "1.1.1.1"), "the public internet needs no exception");
    }

    #[test]
    fn of_several_addresses_only_the_permitted_are_used() {
        let found = ["127.0.0.1:0", "1.1.1.1:0", "[fe80::1]:0", "[2606:4700::1]:0"];
        let found = found.iter().map(|address| address.parse().unwrap());
        let left: Vec<String> = NetPolicy::default()
            .permitted("mixed.example", 80, found)
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(left, ["1.1.1.1:0", "[2606:4700::1]:0"]);
    }

    #[test]
    fn an_exception_that_means_nothing_is_refused() {
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "localhost",
            ":80",
            "a:b",
            "a:70000",
            "http://a:80",
            "::1:x",
            "[]:x",
        ] {
            assert!(text.parse::<Allowed>().is_err(), "{text}");
        }
    }
}
