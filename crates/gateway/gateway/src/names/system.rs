//! System's configuration of names: hosts(5) and resolv.conf(5).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;
use std::time::SystemTime;

use crate::wire::Name;

const HOSTS: &str = "/etc/hosts";
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The port of DNS.
const PORT: u16 = 53;

/// Most servers that are used, as in glibc.
const MAX_SERVERS: usize = 3;

/// Most search domains that are used, as in glibc.
const MAX_SEARCH: usize = 6;

/// Times at which the files were changed last.
#[derive(Debug, PartialEq, Eq)]
pub struct Changed([Option<SystemTime>; 2]);

impl Changed {
    /// Present state of the files.
    pub fn now() -> Changed {
        let changed = |path| {
            std::fs::metadata(path)
                .and_then(|file| file.modified())
                .ok()
        };
        Changed([HOSTS, RESOLV_CONF].map(changed))
    }
}

/// Configuration by which names are resolved.
#[derive(Debug)]
pub struct System {
    hosts: HashMap<Name, Vec<IpAddr>>,
    /// Servers in the order in which they are asked.
    pub servers: Vec<SocketAddr>,
    search: Vec<Name>,
    ndots: usize,
}

impl System {
    /// Reads the files; one that is missing is empty.
    pub fn read() -> System {
        let text = |path| {
            let bytes = std::fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        System::parse(&text(HOSTS), &text(RESOLV_CONF))
    }

    /// This configuration with `server` alone and no search domains.
    pub fn with_server(self, server: SocketAddr) -> System {
        System {
            servers: vec![server],
            search: Vec::new(),
            ..self
        }
    }

    /// Parses the files. Lines that are not understood are ignored.
    fn parse(hosts: &str, resolv_conf: &str) -> System {
        let mut system = System {
            hosts: HashMap::new(),
            servers: Vec::new(),
            search: Vec::new(),
            ndots: 1,
        };
        for line in hosts.lines() {
            let mut words = line
                .split('#')
                .next()
                .unwrap_or_default()
                .split_whitespace();
            if let Some(Ok(address)) = words.next().map(IpAddr::from_str) {
                for name in words.filter_map(|name| name.parse().ok()) {
                    system.hosts.entry(name).or_default().push(address);
                }
            }
        }
        for line in resolv_conf.lines() {
            let mut words = line.split_whitespace();
            match words.next() {
                Some("nameserver") => {
                    let server = words.next().and_then(|word| word.parse().ok());
                    let server = server.map(|ip| SocketAddr::new(ip, PORT));
                    system.servers.extend(server);
                }
                Some("domain" | "search") => {
                    let names = words.filter_map(|word| word.parse().ok());
                    system.search = names.take(MAX_SEARCH).collect();
                }
                Some("options") => {
                    let mut ndots =
                        words.filter_map(|word| word.strip_prefix("ndots:")?.parse().ok());
                    system.ndots = ndots.next_back().unwrap_or(system.ndots);
                }
                _ => {}
            }
        }
        system.servers.truncate(MAX_SERVERS);
        if system.servers.is_empty() {
            system.servers.push((Ipv4Addr::LOCALHOST, PORT).into());
        }
        system
    }

    /// Addresses of a name that no server is asked for: from the file of hosts, or special (RFC
    /// 6761, sections 6.3 and 6.4).
    pub fn local(&self, name: &Name) -> Option<Vec<IpAddr>> {
        let is = |special: &str| {
            let head = name.as_str().strip_suffix(special);
            head.is_some_and(|head| head.is_empty() || head.ends_with('.'))
        };
        let found = self.hosts.get(name).cloned();
        if is("localhost") {
            found.or(Some(vec![
                Ipv6Addr::LOCALHOST.into(),
                Ipv4Addr::LOCALHOST.into(),
            ]))
        } else if is("invalid") {
            found.or(Some(Vec::new()))
        } else {
            found
        }
    }

    /// Names that servers are asked for, in this order: a name with fewer than `ndots` dots first
    /// in the search domains.
    pub fn candidates(&self, name: &Name) -> Vec<Name> {
        let joined = |domain: &Name| format!("{}.{}", name.as_str(), domain.as_str()).parse();
        let mut candidates: Vec<Name> = self.search.iter().flat_map(joined).collect();
        let dots = name.as_str().matches('.').count();
        let position = if dots >= self.ndots {
            0
        } else {
            candidates.len()
        };
        candidates.insert(position, name.clone());
        candidates
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().expect("a name")
    }

    #[test]
    fn the_files_are_read_as_the_c_library_reads_them() {
        let hosts = "127.0.0.1 localhost\n# 1.1.1.1 comment\n192.0.2.1 A.example b # c\n\
            2001:db8::1 b\nnonsense d\n";
        let system = System::parse(
            hosts,
            "nameserver 192.0.2.53\nnameserver fe80::1%eth0\nnameserver 2001:db8::53\n\
             nameserver 192.0.2.54\nnameserver 192.0.2.55\nsearch old.example\n\
             search corp.example . example\noptions rotate ndots:2\n",
        );
        let addresses = |text| system.local(&name(text));
        let ip = |text: &str| text.parse::<IpAddr>().expect("an address");
        assert_eq!(addresses("a.example"), Some(vec![ip("192.0.2.1")]));
        let both = vec![ip("192.0.2.1"), ip("2001:db8::1")];
        assert_eq!(addresses("b"), Some(both));
        assert_eq!(addresses("c"), None);
        assert_eq!(addresses("d"), None);
        assert_eq!(addresses("localhost"), Some(vec![ip("127.0.0.1")]));
        let loopback = vec![ip("::1"), ip("127.0.0.1")];
        assert_eq!(addresses("a.localhost"), Some(loopback));
        assert_eq!(addresses("a.invalid"), Some(Vec::new()));
        assert_eq!(addresses("notlocalhost"), None);
        let servers = ["192.0.2.53:53", "[2001:db8::53]:53", "192.0.2.54:53"];
        assert_eq!(
            system
                .servers
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>(),
            servers
        );
        let candidates = |text| {
            let candidates = system.candidates(&name(text));
            candidates
                .iter()
                .map(|name| name.as_str().to_owned())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            candidates("a.b"),
            ["a.b.corp.example", "a.b.example", "a.b"]
        );
        assert_eq!(
            candidates("a.b.c"),
            ["a.b.c", "a.b.c.corp.example", "a.b.c.example"]
        );
        let server = "192.0.2.9:54".parse().expect("an address");
        let system = system.with_server(server);
        assert_eq!(system.candidates(&name("a")), [name("a")]);
        assert_eq!(system.servers, [server]);
        let none = System::parse("", "");
        assert_eq!(none.servers, ["127.0.0.1:53".parse().expect("an address")]);
    }
}
