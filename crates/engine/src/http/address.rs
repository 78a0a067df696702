//! Which addresses of the internet protocol lead to the public internet, and which do not.
//!
//! A workflow's author must not reach, through the server, what only the server can reach: its own
//! machine, its neighbours, the metadata service of its cloud.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A range of addresses: those that share their first `prefix` bits with `first`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Net {
    first: IpAddr,
    prefix: u8,
}

impl Net {
    /// The range, or `None` if an address of this kind has fewer bits than `prefix`.
    pub fn new(first: IpAddr, prefix: u8) -> Option<Self> {
        (prefix <= bits_of(first)).then_some(Self { first, prefix })
    }

    /// The range of one address.
    pub fn of(address: IpAddr) -> Self {
        Self { first: address, prefix: bits_of(address) }
    }

    /// Whether `address` is in the range.
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => v4_within(address, first, self.prefix),
            (IpAddr::V6(first), IpAddr::V6(address)) => v6_within(address, first, self.prefix),
            _ => false,
        }
    }
}

fn bits_of(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Ranges that are not public, from the registry of special-purpose addresses and what clouds use.
const CLOSED_V4: &[([u8; 4], u8, &str)] = &[
    ([0, 0, 0, 0], 8, "this network"),
    ([10, 0, 0, 0], 8, "private"),
    ([100, 64, 0, 0], 10, "shared by a carrier, and the metadata service of one cloud"),
    ([127, 0, 0, 0], 8, "loopback"),
    ([168, 63, 129, 16], 32, "the metadata service of one cloud, on a public address"),
    ([169, 254, 0, 0], 16, "link-local, and the metadata service of most clouds"),
    ([172, 16, 0, 0], 12, "private"),
    ([192, 0, 0, 0], 24, "protocol assignments, and the metadata service of one cloud"),
    ([192, 0, 2, 0], 24, "documentation"),
    ([192, 88, 99, 0], 24, "relays between protocols"),
    ([192, 168, 0, 0], 16, "private"),
    ([198, 18, 0, 0], 15, "benchmarks"),
    ([198, 51, 100, 0], 24, "documentation"),
    ([203, 0, 113, 0], 24, "documentation"),
    ([224, 0, 0, 0], 4, "multicast"),
    ([240, 0, 0, 0], 4, "reserved, and broadcast"),
];

/// Ranges inside 2000::/3 that are not public. Everything outside 2000::/3 is closed without a list:
/// loopback, link-local, unique-local, multicast, and what nobody has assigned yet.
const CLOSED_V6: &[(Ipv6Addr, u8, &str)] = &[
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23, "protocol assignments, tunnels, benchmarks"),
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32, "documentation"),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20, "documentation"),
];

/// Whether the address leads to the public internet.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    !CLOSED_V4.iter().any(|(first, prefix, _)| v4_within(address, Ipv4Addr::from(*first), *prefix))
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let unicast = v6_within(address, Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);
    unicast && !CLOSED_V6.iter().any(|(first, prefix, _)| v6_within(address, *first, *prefix))
}

/// The IPv4 address that a gateway would make of this one: mapped, NAT64 or 6to4.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let [a, b, c, d, e, f, g, h] = address.segments();
    let join = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match [a, b, c, d, e, f] {
        [0, 0, 0, 0, 0, 0xffff] | [0x64, 0xff9b, 0, 0, 0, 0] => Some(join(g, h)),
        [0x2002, ..] => Some(join(b, c)),
        _ => None,
    }
}

fn v4_within(address: Ipv4Addr, first: Ipv4Addr, prefix: u8) -> bool {
    let differing = address.to_bits() ^ first.to_bits();
    differing.leading_zeros() >= u32::from(prefix)
}

fn v6_within(address: Ipv6Addr, first: Ipv6Addr, prefix: u8) -> bool {
    let differing = address.to_bits() ^ first.to_bits();
    differing.leading_zeros() >= u32::from(prefix)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(address: &str, public: bool) {
        assert_eq!(is_public(address.parse().unwrap()), public, "{address}");
    }

    #[test]
    fn addresses_of_the_public_internet_are_open() {
        let open = "1.1.1.1 8.8.8.8 9.255.255.255 11.0.0.0 100.63.255.255 100.128.0.0 126.255.255.255 128.0.0.0
            168.63.129.15 169.253.255.255 169.255.0.0 172.15.255.255 172.32.0.0 192.0.1.0 192.167.255.255 192.169.0.0
            198.17.255.255 198.20.0.0 223.255.255.255 2606:4700:4700::1111 2a00:1450:4001:800::200e 2001:200::1
            ::ffff:1.1.1.1 64:ff9b::808:808 2002:808:808::1";
        open.split_whitespace().for_each(|address| check(address, true));
    }

    #[test]
    fn every_other_address_is_closed() {
        let closed = "0.0.0.0 0.1.2.3 10.0.0.1 10.255.255.255 100.64.0.1 100.100.100.200 100.127.255.255 127.0.0.1
            127.255.255.254 168.63.129.16 169.254.169.254 169.254.0.0 172.16.0.1 172.31.255.255 192.0.0.192 192.0.2.7
            192.88.99.1 192.168.0.1 192.168.255.255 198.18.0.1 198.19.255.255 198.51.100.1 203.0.113.9 224.0.0.1
            239.255.255.255 240.0.0.1 255.255.255.255
            :: ::1 ::127.0.0.1 fe80::1 fec0::1 fc00::1 fd00:ec2::254 fd20:ce::254 ff02::1 2001::1 2001:2::1 2001:db8::1
            3fff::1 5f00::1 100::1 4000::1 64:ff9b:1::1
            ::ffff:127.0.0.1 ::ffff:169.254.169.254 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 64:ff9b::10.1.2.3
            2002:7f00:1::1 2002:a9fe:a9fe:: 2002:c0a8:101::";
        closed.split_whitespace().for_each(|address| check(address, false));
    }

    #[test]
    fn a_net_holds_the_addresses_that_share_its_prefix() {
        let net = Net::new("10.1.0.0".parse().unwrap(), 16).unwrap();
        assert!(net.contains("10.1.255.255".parse().unwrap()));
        assert!(!net.contains("10.2.0.0".parse().unwrap()));
        assert!(!net.contains("::1".parse().unwrap()), "the other kind of address is never inside");
        assert!(Net::new("0.0.0.0".parse().unwrap(), 0).unwrap().contains("255.1.2.3".parse().unwrap()));
        assert_eq!(Net::new("10.0.0.0".parse().unwrap(), 33), None);
        assert!(Net::of("fd00::1".parse().unwrap()).contains("fd00::1".parse().unwrap()));
    }
}
