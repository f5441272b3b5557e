//! The listeners, opened and closed as the configuration says.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use ipnet::IpNet;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Shared, dns, proxy, tcp};
use crate::config;
use crate::counters::Counter;
use crate::traffic::limits::{Permit, client_of};
use crate::traffic::relay::Connection;
use crate::wire::Destination;

/// The pause after an error of accept().
const PAUSE: Duration = Duration::from_millis(100);

/// What is listened for.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Service {
    /// Its key in the configuration.
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
pub struct Listeners(Vec<(Service, CancellationToken, JoinHandle<()>)>);

impl Listeners {
    /// Closes the listeners that the configuration no longer has, and opens the new ones. Returns
    /// those that could not be opened, with the reason.
    pub async fn apply(&mut self, shared: &Arc<Shared>) -> Vec<String> {
        let (services, mut faults) = services(&shared.config());
        let kept = |it: &(Service, _, _)| services.contains(&it.0);
        let (keep, close) = std::mem::take(&mut self.0).into_iter().partition(kept);
        Listeners(close).close().await;
        self.0 = keep;
        for service in services {
            if self.0.iter().any(|(open, _, _)| *open == service) {
                continue;
            }
            let stop = shared.closed.child_token();
            match open(shared, &service, stop.clone()).await {
                Ok(task) => self.0.push((service, stop, task)),
                Err(error) => faults.push(format!(
                    "{}.listen: {}: {error:#}",
                    service.key, service.listen
                )),
            }
        }
        faults
    }

    /// Closes all.
    pub async fn close(&mut self) {
        for (_, stop, _) in &self.0 {
            stop.cancel();
        }
        for (_, _, task) in self.0.drain(..) {
            let _ = task.await;
        }
    }
}

/// The services of a configuration, and its faults.
fn services(config: &config::Near) -> (Vec<Service>, Vec<String>) {
    let mut faults = Vec::new();
    let mut services = Vec::new();
    let mut add = |key: String, kind, listen: SocketAddr, clients: &[IpNet]| {
        if clients.is_empty() && !listen.ip().is_loopback() {
            faults.push(format!(
                "{key}.listen: {listen} is reachable from other hosts: {key}.clients = [\"NETWORK\"] \
                 says which may use it"
            ));
            return;
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
            Err(error) => bad.push(format!("{key}.to: {:?}: {error}", it.to)),
        }
    }
    faults.extend(bad);
    (services, faults)
}

async fn open(
    shared: &Arc<Shared>,
    service: &Service,
    stop: CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let listener = TcpListener::bind(service.listen).await?;
    let datagrams = match service.kind {
        Kind::Dns => Some(UdpSocket::bind(listener.local_addr()?).await?),
        _ => None,
    };
    info!("{} listens at {}", service.key, listener.local_addr()?);
    let (shared, service) = (shared.clone(), Arc::new(service.clone()));
    Ok(tokio::spawn(async move {
        let connections = accept(&shared, &service, listener);
        let queries = async {
            if let Some(socket) = datagrams {
                dns::serve_udp(&shared, socket, |peer| service.serves(peer)).await;
            }
        };
        stop.run_until_cancelled(async { tokio::join!(connections, queries) })
            .await;
    }))
}

async fn accept(shared: &Arc<Shared>, service: &Arc<Service>, listener: TcpListener) {
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
fn admit(shared: &Arc<Shared>, service: &Arc<Service>, socket: TcpStream, peer: IpAddr) {
    let connection = Connection::new(socket);
    let counters = &shared.counters;
    service.counter(counters).increment();
    if !service.serves(peer) {
        counters.refused_client.increment();
        return;
    }
    let Some(permit) = shared.limiter.admit(&client_of(peer)) else {
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
