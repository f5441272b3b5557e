//! The listeners, opened and closed as the configuration says.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Shared, dns, proxy, tcp};
use crate::config;
use crate::counters::Counter;
use crate::network::{Listener, Socket};
use crate::traffic::limits::{self, Permit, client_of};
use crate::traffic::relay::Connection;
use crate::wire::Destination;

/// The pause after an error of accept().
const PAUSE: Duration = Duration::from_millis(100);

/// What is listened for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    /// Key in the configuration.
    key: String,
    kind: Kind,
    listen: SocketAddr,
    clients: Vec<IpNet>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Socks,
    Forward(Destination),
    Redirect,
    Dns,
}

/// The open listeners.
#[derive(Debug, Default)]
pub struct Listeners(Vec<Open>);

#[derive(Debug)]
struct Open {
    service: Service,
    /// With the port that the system has chosen for port 0.
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listeners {
    /// Closes the listeners that the configuration no longer has, and opens the new ones. Returns
    /// the keys of those that could not be opened, with the fault.
    pub async fn apply(&mut self, shared: &Arc<Shared>) -> Vec<(String, String)> {
        let (services, mut faults) = services(&shared.config());
        let kept = |open: &Open| services.contains(&open.service);
        let (keep, close) = std::mem::take(&mut self.0).into_iter().partition(kept);
        Listeners(close).close().await;
        self.0 = keep;
        for service in services {
            if self.0.iter().any(|open| open.service == service) {
                continue;
            }
            let (key, listen) = (service.key.clone(), service.listen);
            match open(shared, service).await {
                Ok(open) => self.0.push(open),
                Err(error) => {
                    let fault = format!("{key}.listen: {listen}: {error}");
                    faults.push((key, fault));
                }
            }
        }
        faults
    }

    /// Closes all.
    pub async fn close(&mut self) {
        for open in &self.0 {
            open.stop.cancel();
        }
        for open in self.0.drain(..) {
            let _ = open.task.await;
        }
    }

    /// The keys of the open listeners with their addresses.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let addresses = self.0.iter();
        addresses
            .map(|open| (open.service.key.clone(), open.address))
            .collect()
    }
}

/// The services of a configuration, and its faults.
fn services(config: &config::Near) -> (Vec<Service>, Vec<(String, String)>) {
    let mut faults = Vec::new();
    let mut services = Vec::new();
    let mut add = |key: String, kind, listen: SocketAddr, clients: &[IpNet]| {
        if clients.is_empty() && !listen.ip().is_loopback() {
            let fault = format!(
                "{key}.listen: {listen} is reachable from other hosts: \
                 {key}.clients = [\"NETWORK\"] says which may use it"
            );
            return faults.push((key, fault));
        }
        let clients = clients.to_vec();
        services.push(Service {
            key,
            kind,
            listen,
            clients,
        });
    };
    if let Some(it) = &config.socks {
        add("socks".into(), Kind::Socks, it.listen, &it.clients);
    }
    if let Some(it) = &config.redirect {
        add("redirect".into(), Kind::Redirect, it.listen, &it.clients);
    }
    if let Some(it) = &config.dns {
        add("dns".into(), Kind::Dns, it.listen, &it.clients);
    }
    let mut bad = Vec::new();
    for (i, it) in config.forwards.iter().enumerate() {
        let key = format!("forwards[{i}]");
        match it.to.parse() {
            Ok(to) => add(key, Kind::Forward(to), it.listen, &it.clients),
            Err(error) => {
                let fault = format!("{key}.to: {:?}: {error}", it.to);
                bad.push((key, fault));
            }
        }
    }
    faults.extend(bad);
    (services, faults)
}

async fn open(shared: &Arc<Shared>, service: Service) -> io::Result<Open> {
    let listener = shared.network.listen(service.listen).await?;
    let address = listener.local_addr()?;
    let datagrams = match service.kind {
        Kind::Dns => Some(UdpSocket::bind(address).await?),
        _ => None,
    };
    info!("{} listens at {address}", service.key);
    let stop = shared.closed.child_token();
    let task = tokio::spawn({
        let (shared, stop) = (shared.clone(), stop.clone());
        let service = Arc::new(service.clone());
        async move {
            let connections = accept(&shared, &service, listener);
            let queries = async {
                if let Some(socket) = datagrams {
                    dns::serve_udp(&shared, socket, |peer| service.serves(peer)).await;
                }
            };
            let serve = async { tokio::join!(connections, queries) };
            stop.run_until_cancelled(serve).await;
        }
    });
    Ok(Open {
        service,
        address,
        stop,
        task,
    })
}

async fn accept(shared: &Arc<Shared>, service: &Arc<Service>, listener: Box<dyn Listener>) {
    loop {
        match listener.accept().await {
            Ok((socket, peer)) => admit(shared, service, socket, peer.ip()),
            Err(error) => {
                shared.counters.accept_errors.increment();
                warn!("{}: accept: {error}", service.key);
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection in a task of its own, or resets it.
fn admit(shared: &Arc<Shared>, service: &Arc<Service>, socket: Box<dyn Socket>, peer: IpAddr) {
    let connection = Connection::new(socket);
    let counters = &shared.counters;
    service.counter(counters).increment();
    if !service.serves(peer) {
        counters.refused_client.increment();
        return;
    }
    let kind = match service.kind {
        Kind::Dns => limits::Kind::Query,
        Kind::Socks | Kind::Forward(_) | Kind::Redirect => limits::Kind::Connection,
    };
    let Some(permit) = shared.limiter.admit(kind, &client_of(peer)) else {
        counters.refused_limit.increment();
        return;
    };
    let (this, service) = (shared.clone(), service.clone());
    shared.tasks.spawn(async move {
        let _active = this.counters.active_connections.hold();
        let serve = serve(&this, &service, connection, &permit);
        this.closed.run_until_cancelled(serve).await;
    });
}

async fn serve(
    shared: &Arc<Shared>,
    service: &Service,
    connection: Connection,
    permit: &Permit<IpAddr>,
) {
    match &service.kind {
        Kind::Socks => proxy::serve(shared, connection, permit).await,
        Kind::Forward(to) => tcp::forward(shared, connection, to, permit).await,
        Kind::Redirect => tcp::redirect(shared, connection, permit).await,
        Kind::Dns => dns::serve_tcp(shared, connection).await,
    }
}

impl Service {
    /// Whether this client may use it.
    fn serves(&self, client: IpAddr) -> bool {
        let client = client.to_canonical();
        let mut clients = self.clients.iter();
        // Without `clients` it listens on loopback, which other hosts don't reach. Connections that
        // are redirected there have another address of this host.
        self.clients.is_empty()
            || client.is_loopback()
            || clients.any(|network| network.contains(&client))
    }

    fn counter<'a>(&self, counters: &'a crate::counters::Counters) -> &'a Counter {
        match self.kind {
            Kind::Socks => &counters.accepted_socks,
            Kind::Forward(_) => &counters.accepted_forward,
            Kind::Redirect => &counters.accepted_redirect,
            Kind::Dns => &counters.accepted_dns,
        }
    }
}
