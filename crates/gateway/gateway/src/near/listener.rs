//! Listeners, opened and closed as the configuration says.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anabranch_scenario::Key;
use socket2::Protocol;
use tokio::net::UdpSocket;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::clients::identify;
use super::{Permit, Shared, dns, socks, tcp, udp};
use crate::config::services::{Service, ServiceKind};
use crate::network::{Listener, Network, Socket};
use crate::traffic::limits::{Party, Purpose};
use crate::traffic::relay::Connection;

/// Pause after an error of accept().
const PAUSE: Duration = Duration::from_millis(100);

/// Number of ports that are tried where the system chooses one for connections and datagrams.
const PORTS: u32 = 8;

/// The open listeners.
#[derive(Debug, Default)]
pub struct Listeners(Vec<Open>);

#[derive(Debug)]
struct Open {
    service: Arc<Service>,
    /// Address, with the port that the system has chosen for port 0.
    address: SocketAddr,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

impl Listeners {
    /// Closes the listeners that the configuration no longer has, and opens the new ones. Returns
    /// the keys of those that could not be opened, with the fault.
    pub async fn apply(&mut self, shared: &Arc<Shared>) -> Vec<(Key, String)> {
        let services = shared.config().services();
        let kept = |open: &Open| services.contains(&open.service);
        let (keep, close) = std::mem::take(&mut self.0).into_iter().partition(kept);
        Listeners(close).close().await;
        self.0 = keep;
        let mut faults = Vec::new();
        for service in services {
            if self.0.iter().any(|open| *open.service == service) {
                continue;
            }
            if let Some(fault) = service.fault() {
                faults.push((service.key, format!("{}: {}", fault.key, fault.message)));
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

    /// Keys of the open listeners with their addresses.
    pub fn addresses(&self) -> Vec<(String, SocketAddr)> {
        let addresses = self.0.iter();
        addresses
            .map(|open| (open.service.key.to_string(), open.address))
            .collect()
    }
}

/// Binds the sockets of a service: for connections, datagrams, or both at the same port. Where the
/// system chooses the port, another is tried if the first is taken for datagrams.
async fn bind(
    network: &dyn Network,
    kind: &ServiceKind,
    address: SocketAddr,
) -> io::Result<(Option<Box<dyn Listener>>, Option<UdpSocket>)> {
    if !kind.has_tcp() {
        return Ok((None, Some(UdpSocket::bind(address).await?)));
    }
    let mut attempts = if address.port() == 0 { PORTS } else { 1 };
    loop {
        let listener = network.listen(address).await?;
        if !kind.has_udp() {
            return Ok((Some(listener), None));
        }
        attempts -= 1;
        match UdpSocket::bind(listener.local_addr()?).await {
            Ok(socket) => return Ok((Some(listener), Some(socket))),
            Err(error) if error.kind() != io::ErrorKind::AddrInUse || attempts == 0 => {
                return Err(error);
            }
            Err(_) => {}
        }
    }
}

async fn open(shared: &Arc<Shared>, service: Service) -> io::Result<Open> {
    let (listener, datagrams) = bind(&*shared.network, &service.kind, service.listen).await?;
    let address = match (&listener, &datagrams) {
        (Some(listener), _) => listener.local_addr()?,
        (None, Some(socket)) => socket.local_addr()?,
        (None, None) => service.listen,
    };
    info!("{} listens at {address}", service.key);
    let service = Arc::new(service);
    let stop = CancellationToken::new();
    let task = {
        let (shared, service, stop) = (shared.clone(), service.clone(), stop.clone());
        async move {
            let connections = async {
                if let Some(listener) = listener {
                    accept(&shared, &service, listener).await;
                }
            };
            let datagrams = async {
                match (datagrams, &service.kind) {
                    (None, _) => {}
                    (Some(socket), ServiceKind::ForwardUdp(to)) => {
                        udp::forward(&shared, &service, to, socket).await;
                    }
                    (Some(socket), _) => dns::serve_udp(&shared, &service, socket).await,
                }
            };
            let serve = async { tokio::join!(connections, datagrams) };
            stop.run_until_cancelled(serve).await;
        }
    };
    let task = shared.tasks.supervise(service.key.to_string(), task);
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
            Ok((socket, peer)) => admit(shared, service, socket, peer),
            Err(error) => {
                shared.counters.accept_errors.increment();
                warn!("{}: accept: {error}", service.key);
                sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection in a task of its own, or resets it.
fn admit(shared: &Arc<Shared>, service: &Arc<Service>, socket: Box<dyn Socket>, peer: SocketAddr) {
    let connection = Connection::new(socket);
    let counters = &shared.counters;
    let (accepted, place) = match service.kind {
        ServiceKind::Socks => (&counters.accepted_socks, Purpose::Connection),
        ServiceKind::Redirect => (&counters.accepted_redirect, Purpose::Connection),
        ServiceKind::Dns => (&counters.accepted_dns, Purpose::Query),
        ServiceKind::Forward(_) | ServiceKind::ForwardUdp(_) => {
            (&counters.accepted_forward, Purpose::Connection)
        }
    };
    accepted.increment();
    if !service.serves(peer.ip()) {
        return counters.refused_client.increment();
    }
    let to = connection.original_destination();
    let to = to
        .or(connection.local_addr().ok())
        .unwrap_or(service.listen);
    let owner = identify(service, Protocol::TCP, peer, to);
    let Some(permit) = shared.limiter.admit(place, &Party { owner, part: 0 }) else {
        return counters.refused_limit.increment();
    };
    let (this, service) = (shared.clone(), service.clone());
    shared.tasks.spawn(async move {
        let _active = this.counters.active_connections.hold();
        let lost = permit.lost.clone();
        let served = serve(&this, &service, connection, &permit);
        if lost.run_until_cancelled(served).await.is_none() {
            this.counters.refused_limit.increment();
        }
    });
}

async fn serve(shared: &Arc<Shared>, service: &Service, connection: Connection, permit: &Permit) {
    match &service.kind {
        ServiceKind::Socks => socks::serve(shared, connection, permit).await,
        ServiceKind::Redirect => tcp::serve_redirected(shared, connection, permit).await,
        ServiceKind::Dns => dns::serve_tcp(shared, connection, permit).await,
        ServiceKind::ForwardUdp(_) => {}
        ServiceKind::Forward(to) => tcp::forward(shared, connection, to, permit).await,
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use parking_lot::Mutex;
    use tokio::net::TcpListener;

    use super::*;
    use crate::carrier::udp::Udp;
    use crate::network::Kernel;

    /// The kernel's network, but its first listener is this one.
    #[derive(Debug)]
    struct First(Mutex<Option<TcpListener>>);

    impl Network for First {
        fn listen(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
            match self.0.lock().take() {
                Some(first) => async { Ok(Box::new(first) as Box<dyn Listener>) }.boxed(),
                None => async move { Kernel.listen(address).await }.boxed(),
            }
        }

        fn connect(&self, to: SocketAddr) -> BoxFuture<'_, io::Result<Box<dyn Socket>>> {
            async move { Kernel.connect(to).await }.boxed()
        }

        fn udp(&self) -> Arc<dyn Udp> {
            Kernel.udp()
        }
    }

    /// Sockets at a port that is free for connections and taken for datagrams.
    async fn half_free() -> (UdpSocket, TcpListener) {
        loop {
            let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))
                .await
                .expect("a port");
            let address = taken.local_addr().expect("bound");
            if let Ok(listener) = TcpListener::bind(address).await {
                return (taken, listener);
            }
        }
    }

    #[tokio::test]
    async fn a_port_that_is_taken_for_datagrams_is_not_chosen() {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let (taken, listener) = half_free().await;
        let network = First(Mutex::new(Some(listener)));
        let (listener, datagrams) = bind(&network, &ServiceKind::Dns, any)
            .await
            .expect("another port");
        let address = listener.expect("one").local_addr().expect("bound");
        assert_ne!(address, taken.local_addr().expect("bound"));
        let datagrams = datagrams.expect("a socket").local_addr().expect("bound");
        assert_eq!(datagrams, address);
        // A port that the user has chosen is not replaced.
        let (taken, listener) = half_free().await;
        let network = First(Mutex::new(Some(listener)));
        let chosen = taken.local_addr().expect("bound");
        let refused = bind(&network, &ServiceKind::Dns, chosen)
            .await
            .expect_err("taken");
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
    }
}
