//! Addresses that are not public: the special-purpose registries of IANA (RFC 6890), multicast,
//! IPv6 addresses with an IPv4 address inside, and the addresses of this host.

use std::cell::RefCell;
use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use if_addrs::{Interface, get_if_addrs};
use ipnet::IpNet;

/// Special ranges. IPv4-mapped addresses are missing, because they are converted before.
static RANGES: LazyLock<Vec<IpNet>> = LazyLock::new(|| {
    let ranges = "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 127.0.0.0/8 169.254.0.0/16 172.16.0.0/12 \
        192.0.0.0/24 192.0.2.0/24 192.88.99.0/24 192.168.0.0/16 198.18.0.0/15 198.51.100.0/24 \
        203.0.113.0/24 224.0.0.0/4 240.0.0.0/4 \
        ::/96 64:ff9b::/96 64:ff9b:1::/48 100::/64 2001::/23 2001:db8::/32 2002::/16 3fff::/20 \
        5f00::/16 fc00::/7 fe80::/10 fec0::/10 ff00::/8";
    let parse = |text: &str| text.parse().expect("a network");
    ranges.split_whitespace().map(parse).collect()
});

/// Time for which the addresses of the interfaces are remembered.
const REMEMBER: Duration = Duration::from_secs(1);

/// Addresses that are not public on this host: the special ranges and its own addresses.
#[derive(Debug)]
pub struct Special {
    /// Addresses of the interfaces; `None` if they are unknown, and then no address is public.
    own: Option<HashSet<IpAddr>>,
}

impl Special {
    /// Special addresses, with those that the interfaces had at most a second ago.
    pub fn of_this_host() -> Arc<Special> {
        // A network namespace belongs to a thread.
        thread_local! {
            static LAST: RefCell<Option<(Instant, Arc<Special>)>> = const { RefCell::new(None) };
        }
        let fresh = |last: &(Instant, Arc<Special>)| last.0.elapsed() < REMEMBER;
        LAST.with_borrow_mut(|last| {
            if let Some((_, special)) = last.as_ref().filter(|last| fresh(last)) {
                return special.clone();
            }
            let own = get_if_addrs().map(|all| Special::with_own(all.iter().map(Interface::ip)));
            let special = Arc::new(own.unwrap_or(Special::unknown()));
            *last = Some((Instant::now(), special.clone()));
            special
        })
    }

    /// Special addresses of a host with these own ones.
    pub fn with_own(own: impl IntoIterator<Item = IpAddr>) -> Special {
        Special {
            own: Some(own.into_iter().collect()),
        }
    }

    /// Special addresses of a host whose own ones are unknown.
    pub fn unknown() -> Special {
        Special { own: None }
    }

    /// Whether the address is in no special range and not an own one.
    pub fn is_public(&self, address: IpAddr) -> bool {
        self.range_of(address).is_none()
    }

    /// Whether a list with this network, which contains the address, allows the address: it is
    /// public, or the network is inside its special range, which for an own address is the address
    /// itself. The IPv4 address inside an IPv6 address must be public.
    pub fn network_allows(&self, network: &IpNet, address: IpAddr) -> bool {
        let embedded_is_public = embedded(address).is_none_or(|it| self.is_public(it.into()));
        match self.range_of(address) {
            None => true,
            Some(range) => range.contains(network) && embedded_is_public,
        }
    }

    /// Special range of an address. Loopback addresses are own ones by their range.
    fn range_of(&self, address: IpAddr) -> Option<IpNet> {
        let own = self.own.as_ref();
        if !address.is_loopback() && own.is_none_or(|own| own.contains(&address)) {
            return Some(address.into());
        }
        let mut ranges = RANGES.iter();
        ranges.find(|range| range.contains(&address)).copied()
    }
}

/// IPv4 address to which NAT64 (RFC 6052) or 6to4 (RFC 3056) would translate.
fn embedded(address: IpAddr) -> Option<Ipv4Addr> {
    let IpAddr::V6(address) = address else {
        return None;
    };
    let nat64 = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);
    let octets = address.octets();
    let four =
        |at: usize| Ipv4Addr::new(octets[at], octets[at + 1], octets[at + 2], octets[at + 3]);
    if octets[..12] == nat64.octets()[..12] {
        Some(four(12))
    } else if octets[..2] == [0x20, 0x02] {
        Some(four(2))
    } else {
        None
    }
}
