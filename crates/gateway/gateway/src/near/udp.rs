//! UDP associations of SOCKS5 clients. The rules count for each datagram.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::client::{Client, decode_datagram};
use super::fastest::{self, FastestPath};
use super::request::{request_in, tunnel};
use super::{Shared, direct};
use crate::carrier::Tunnel;
use crate::config::destination::{Action, action, refused_networks};
use crate::socket::receive_from;
use crate::traffic::association::{Packet, Sender, queue};
use crate::traffic::limits::Permit;
use crate::traffic::relay::Connection;
use crate::traffic::udp::IDLE;
use crate::wire::{Destination, Head, Host};

/// Most outlets of an association. An outlet is for an action of a rule and a port of the client.
const MAX_OUTLETS: usize = 8;

/// Serves an association until the client closes its TCP connection.
pub async fn serve(
    shared: &Arc<Shared>,
    mut control: Connection,
    socket: UdpSocket,
    from: &Destination,
    permit: &Permit<IpAddr>,
) {
    let Ok(client) = control.peer_addr() else {
        return;
    };
    let _active = shared.counters.active_associations.hold();
    let mut association = Association {
        shared,
        client: Client {
            socket: Arc::new(socket),
            address: SocketAddr::new(client.ip().to_canonical(), from.port),
            rate: permit.rate.clone(),
        },
        outlets: HashMap::new(),
    };
    let mut ignored = [0; 64];
    loop {
        tokio::select! {
            received = receive_from(&association.client.socket) => match received {
                Ok((datagram, from)) => association.send(datagram, from).await,
                // An ICMP error about a datagram to the client; the control connection decides.
                Err(error) => debug!("datagram of a client: {error}"),
            },
            read = control.read(&mut ignored) => match read {
                Ok(0) => return control.complete(),
                Ok(_) => {}
                Err(_) => return,
            },
        }
    }
}

/// Binds a socket at the address that the client has reached. Returns its address, too.
pub async fn bind(control: &Connection) -> io::Result<(UdpSocket, SocketAddr)> {
    let socket = UdpSocket::bind((control.local_addr()?.ip().to_canonical(), 0)).await?;
    let bound = socket.local_addr()?;
    Ok((socket, bound))
}

struct Association<'a> {
    shared: &'a Arc<Shared>,
    /// The client, with the port that it has named, or 0.
    client: Client,
    /// Outlets by action and sender; one that has ended is opened again for the next datagram.
    ///
    /// The port of a client is not known before its first datagram, and other processes of its host
    /// may send, too. Each sender therefore has outlets of its own, and receives its own answers.
    outlets: HashMap<(Action, SocketAddr), Outlet>,
}

struct Outlet {
    sender: Sender,
    used_at: Instant,
    _task: AbortOnDropHandle<Option<()>>,
}

impl Association<'_> {
    /// Sends a client's datagram by the rules.
    async fn send(&mut self, datagram: Bytes, from: SocketAddr) {
        let counters = &self.shared.counters;
        let own = self.client.address;
        if from.ip() != own.ip() || (own.port() != 0 && from.port() != own.port()) {
            counters.dropped_client.increment();
            return;
        }
        let Ok((to, payload)) = decode_datagram(datagram) else {
            counters.dropped_malformed.increment();
            return;
        };
        let rules = &self.shared.config().rules;
        let action = action(rules, &to);
        // A name that far resolves for each datagram may lead into a network that is refused.
        let is_unknown = action != Action::Direct && !refused_networks(rules, &to).is_empty();
        if action == Action::Refused || is_unknown || to.port == 0 || is_unspecified(&to) {
            counters.dropped_destination.increment();
            return;
        }
        self.client.rate.take(payload.len()).await;
        if !self.outlet(action, from).offer(to, payload) {
            self.shared.counters.dropped_full.increment();
        }
    }

    /// The outlet of a sender. If there is none it is opened, in place of the one that was unused
    /// longest if there are too many.
    fn outlet(&mut self, action: Action, from: SocketAddr) -> &Sender {
        self.outlets.retain(|_, outlet| !outlet.sender.is_closed());
        let key = (action, from);
        if self.outlets.len() == MAX_OUTLETS && !self.outlets.contains_key(&key) {
            let unused = self.outlets.iter().min_by_key(|(_, outlet)| outlet.used_at);
            if let Some(unused) = unused.map(|(key, _)| key.clone()) {
                self.outlets.remove(&unused);
            }
        }
        let (shared, client) = (self.shared, &self.client);
        let outlet = self
            .outlets
            .entry(key)
            .or_insert_with_key(|(action, from)| {
                let (sender, packets) = queue(shared.limiter.limits().buffer_bytes);
                let client = Client {
                    address: *from,
                    ..client.clone()
                };
                let run = outlet(shared.clone(), action.clone(), client, packets);
                Outlet {
                    sender,
                    used_at: Instant::now(),
                    _task: AbortOnDropHandle::new(shared.tasks.spawn(run)),
                }
            });
        outlet.used_at = Instant::now();
        &outlet.sender
    }
}

fn is_unspecified(to: &Destination) -> bool {
    matches!(to.host, Host::Ip(address) if address.is_unspecified())
}

async fn outlet(
    shared: Arc<Shared>,
    action: Action,
    client: Client,
    packets: UnboundedReceiver<Packet>,
) {
    let ended = match &action {
        Action::Direct => direct::relay_datagrams(&shared, &client, packets).await,
        Action::Path(name) => through_tunnel(&shared, Some(name), &client, packets).await,
        _ => through_tunnel(&shared, None, &client, packets).await,
    };
    if let Err(error) = ended {
        debug!(via = %action, "UDP association: {error}");
    }
}

/// Carries datagrams in a tunnel until the association ends, or none were carried for a while.
///
/// It has a stream over all its paths and one over the fastest. A request in the first may wait
/// behind other data; the second ends with its path.
async fn through_tunnel(
    shared: &Arc<Shared>,
    path: Option<&str>,
    client: &Client,
    mut packets: UnboundedReceiver<Packet>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let refused = |reply| io::Error::other(format!("refused: {reply:?}"));
    let main = tunnel(shared, path, None).await.map_err(refused)?;
    let mut fastest_path = FastestPath::new(main.clone());
    let fastest = fastest_path.tunnel(shared);
    let number = shared.next_association.fetch_add(1, Ordering::Relaxed);
    let queue_bytes = shared.limiter.limits().buffer_bytes;
    let association = shared.associations.join(number, &fastest, queue_bytes);
    let mut association = association.ok_or(io::ErrorKind::AlreadyExists)?;
    let mut requests = FuturesUnordered::new();
    if !fastest.is(&main) {
        requests.push(open(shared, number, fastest));
    }
    requests.push(open(shared, number, main));
    while !requests
        .next()
        .await
        .ok_or(io::ErrorKind::NetworkUnreachable)?
    {}
    let mut last = Instant::now();
    let mut look = last;
    loop {
        tokio::select! {
            Some(_) = requests.next() => continue,
            () = sleep_until(look), if look < last + fastest::ACTIVE => {
                association.take_route(&fastest_path.tunnel(shared));
                look = Instant::now() + fastest::LOOK;
                continue;
            }
            packet = packets.recv() => {
                let Some(packet) = packet else { return Ok(()) };
                association.send(&packet.peer, &packet.payload).await;
                counters.datagrams_up.increment();
                counters.datagram_bytes_up.add(packet.payload.len() as u64);
            }
            packet = association.receive() => {
                let Some(packet) = packet else { return Ok(()) };
                client.send(shared, &packet.peer, &packet.payload).await;
            }
            () = sleep_until(last + IDLE) => return Ok(()),
        }
        last = Instant::now();
    }
}

/// Opens a stream of an association in this tunnel, and reads it in the background. Returns whether
/// it was opened.
async fn open(shared: &Shared, number: u32, tunnel: Tunnel) -> bool {
    match request_in(shared, &tunnel, &Head::Udp(number)).await {
        Ok(stream) => {
            shared
                .tasks
                .spawn(shared.associations.attach(number, &tunnel, stream));
            true
        }
        Err(_) => false,
    }
}
