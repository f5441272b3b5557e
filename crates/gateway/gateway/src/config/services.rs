//! Services of `near`: listeners, their clients, and the treatment of their connections.

use std::net::{IpAddr, SocketAddr};

use anabranch_scenario::{Fault, Key};
use ipnet::IpNet;

use super::{Listen, Near};
use crate::wire::Destination;

/// A service: an address on which near listens, for some clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Service {
    /// Key in the configuration.
    pub key: Key,
    /// Treatment of its connections.
    pub kind: ServiceKind,
    /// Address on which near listens.
    pub listen: SocketAddr,
    /// Networks of its clients; none means this host.
    pub clients: Vec<IpNet>,
}

/// Treatment of a service's connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceKind {
    /// Serves SOCKS5.
    Socks,
    /// Carries it to the destination that it had before the packet filter redirected it.
    Redirect,
    /// Answers queries.
    Dns,
    /// Carries it to this destination.
    Forward(Destination),
    /// Carries datagrams to this destination.
    ForwardUdp(Destination),
}

impl Near {
    /// All services.
    pub fn services(&self) -> Vec<Service> {
        let single = [
            ("socks", ServiceKind::Socks, &self.socks),
            ("redirect", ServiceKind::Redirect, &self.redirect),
            ("dns", ServiceKind::Dns, &self.dns),
        ];
        let single = single.into_iter().filter_map(|(name, kind, listen)| {
            let Listen { listen, clients } = listen.clone()?;
            let key = Key::root(name);
            Some(Service {
                key,
                kind,
                listen,
                clients,
            })
        });
        let forwards = self.forwards.iter().enumerate().map(|(i, it)| Service {
            key: Key::root("forwards").index(i),
            kind: match it.udp {
                true => ServiceKind::ForwardUdp(it.to.clone()),
                false => ServiceKind::Forward(it.to.clone()),
            },
            listen: it.listen,
            clients: it.clients.clone(),
        });
        single.chain(forwards).collect()
    }

    /// Whether clients may send datagrams through the tunnels.
    pub fn carries_udp(&self) -> bool {
        self.socks.is_some() || self.forwards.iter().any(|it| it.udp)
    }

    /// Removes the services with these keys.
    pub fn remove_services(&mut self, removed: &[Key]) {
        self.socks
            .take_if(|_| removed.contains(&Key::root("socks")));
        self.redirect
            .take_if(|_| removed.contains(&Key::root("redirect")));
        self.dns.take_if(|_| removed.contains(&Key::root("dns")));
        let mut forwards = (0..).map(|i| Key::root("forwards").index(i));
        self.forwards
            .retain(|_| !forwards.next().is_some_and(|key| removed.contains(&key)));
    }
}

impl ServiceKind {
    /// Whether it has a listener for connections.
    pub fn has_tcp(&self) -> bool {
        !matches!(self, ServiceKind::ForwardUdp(_))
    }

    /// Whether it has a socket for datagrams at its address.
    pub fn has_udp(&self) -> bool {
        matches!(self, ServiceKind::ForwardUdp(_) | ServiceKind::Dns)
    }
}

impl Service {
    /// Fault of a service that other hosts can reach although no clients are named.
    pub fn fault(&self) -> Option<Fault> {
        let is_open = !self.listen.ip().is_loopback() && self.clients.is_empty();
        is_open.then(|| {
            self.key.key("clients").fault(format!(
                "missing key: {} can be reached by others, expected the networks of its clients, \
                 such as [\"192.168.1.0/24\"]",
                self.listen
            ))
        })
    }

    /// Whether this client may use the service.
    pub fn serves(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        let mut clients = self.clients.iter();
        // Without `clients` it listens on loopback, which other hosts don't reach. Connections that
        // are redirected there have another address of this host.
        self.clients.is_empty()
            || client.is_loopback()
            || clients.any(|network| network.contains(&client))
    }
}
