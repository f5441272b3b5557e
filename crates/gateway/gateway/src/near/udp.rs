//! UDP associations of SOCKS5 clients, and ports that lead to a fixed destination. The rules count
//! for each datagram.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use socket2::Protocol;
use tokio::io::AsyncReadExt;
use tokio::net::UdpSocket;
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::task::AbortOnDropHandle;
use tracing::debug;

use super::client::{Client, decode_datagram};
use super::clients::identify;
use super::fastest::{self, FastestPath};
use super::request::{request_in, tunnel};
use super::{Permit, Shared, direct};
use crate::carrier::Tunnel;
use crate::config::destination::{Action, action, refused_networks};
use crate::config::services::Service;
use crate::socket::receive_from;
use crate::traffic::association::{Packet, Sender, queue};
use crate::traffic::limits::{Party, Purpose};
use crate::traffic::relay::Connection;
use crate::traffic::udp::IDLE;
use crate::wire::{Destination, Head, Host};

/// Most outlets of an association. An outlet is for an action of a rule and a port of the client,
/// and takes a place like a connection, because it is one to far.
const MAX_OUTLETS: usize = 8;

/// Pause after an error of a socket.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves an association until the client closes its TCP connection.
pub async fn serve(
    shared: &Arc<Shared>,
    mut control: Connection,
    socket: UdpSocket,
    from: &Destination,
    permit: &Permit,
) {
    let Ok(client) = control.peer_addr() else {
        return;
    };
    let _active = shared.counters.active_associations.hold();
    let mut association = Association {
        shared,
        is_named: false,
        client: Client {
            socket: Arc::new(socket),
            address: SocketAddr::new(client.ip().to_canonical(), from.port),
            flow: permit.flow.clone(),
            is_socks: true,
        },
        permit,
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
    /// The client, with the port that it has named, or 0. Some name the port of the destination.
    client: Client,
    /// Whether it sends from that port; then no other is its own.
    is_named: bool,
    /// Outlets by action and sender; one that has ended is opened again for the next datagram.
    ///
    /// The port of a client is not known before its first datagram, and other processes of its host
    /// may send, too. Each sender therefore has outlets of its own, and receives its own answers.
    outlets: HashMap<(Action, SocketAddr), Outlet>,
    permit: &'a Permit,
}

struct Outlet {
    sender: Sender,
    used_at: Instant,
    place: Arc<Permit>,
    _task: AbortOnDropHandle<Option<()>>,
}

impl Association<'_> {
    /// Sends a client's datagram by the rules.
    async fn send(&mut self, datagram: Bytes, from: SocketAddr) {
        let counters = &self.shared.counters;
        let own = self.client.address;
        self.is_named |= from == own;
        if from.ip() != own.ip() || (self.is_named && from != own) {
            return counters.dropped_client.increment();
        }
        let Ok((to, payload)) = decode_datagram(datagram) else {
            counters.dropped_malformed.increment();
            return;
        };
        let Some(action) = way(self.shared, &to) else {
            return;
        };
        let outlet = self.outlet(action, from);
        if !outlet.is_some_and(|outlet| outlet.offer(to, payload)) {
            self.shared.counters.dropped_full.increment();
        }
    }

    /// The outlet of a sender. If there is none it is opened, in the place of the one that was
    /// unused longest if there are too many, or if the client may have no further place.
    fn outlet(&mut self, action: Action, from: SocketAddr) -> Option<&Sender> {
        self.outlets.retain(|_, outlet| !outlet.sender.is_closed());
        let key = (action, from);
        if !self.outlets.contains_key(&key) {
            let place = self.place()?;
            let client = Client {
                address: from,
                ..self.client.clone()
            };
            let opened = Outlet::open(self.shared, key.0.clone(), client, place);
            self.outlets.insert(key.clone(), opened);
        }
        let outlet = self.outlets.get_mut(&key)?;
        outlet.used_at = Instant::now();
        Some(&outlet.sender)
    }

    fn place(&mut self) -> Option<Arc<Permit>> {
        if self.outlets.len() < MAX_OUTLETS
            && let Some(place) = self.permit.another()
        {
            return Some(Arc::new(place));
        }
        let unused = self.outlets.iter().min_by_key(|(_, outlet)| outlet.used_at);
        let unused = unused.map(|(key, _)| key.clone())?;
        Some(self.outlets.remove(&unused)?.place)
    }
}

impl Outlet {
    fn open(shared: &Arc<Shared>, action: Action, client: Client, place: Arc<Permit>) -> Outlet {
        let limits = shared.limiter.limits();
        let (sender, packets) = queue(limits.buffer_bytes, shared.limiter.room(place.party()));
        let run = outlet(shared.clone(), action, client, place.clone(), packets);
        Outlet {
            sender,
            used_at: Instant::now(),
            place,
            _task: AbortOnDropHandle::new(shared.tasks.spawn(run)),
        }
    }
}

/// Carries the datagrams of each client of a port to a fixed destination, and the answers back.
pub async fn forward(shared: &Arc<Shared>, service: &Service, to: &Destination, socket: UdpSocket) {
    let socket = Arc::new(socket);
    let at = socket.local_addr().unwrap_or(service.listen);
    let counters = &shared.counters;
    let mut outlets: HashMap<(Action, SocketAddr), Outlet> = HashMap::new();
    loop {
        let (datagram, from) = match receive_from(&socket).await {
            Ok(received) => received,
            Err(error) => {
                debug!("{}: {error}", service.key);
                sleep(PAUSE).await;
                continue;
            }
        };
        if !service.serves(from.ip()) {
            counters.refused_client.increment();
            continue;
        }
        let Some(action) = way(shared, to) else {
            continue;
        };
        let key = (action, from);
        if outlets.get(&key).is_none_or(|it| it.sender.is_closed()) {
            outlets.retain(|_, outlet| !outlet.sender.is_closed());
            counters.accepted_forward.increment();
            let owner = identify(service, Protocol::UDP, from, at);
            let party = Party { owner, part: 0 };
            let Some(place) = shared.limiter.admit(Purpose::Connection, &party) else {
                counters.refused_limit.increment();
                continue;
            };
            let client = Client {
                socket: socket.clone(),
                address: as_reached(from, at),
                flow: place.flow.clone(),
                is_socks: false,
            };
            let opened = Outlet::open(shared, key.0.clone(), client, Arc::new(place));
            outlets.insert(key.clone(), opened);
        }
        let outlet = outlets.get(&key);
        if !outlet.is_some_and(|it| it.sender.offer(to.clone(), datagram)) {
            counters.dropped_full.increment();
        }
    }
}

/// The address of a client as a socket at `at` sends to it: a socket of IPv6 takes no IPv4 address.
fn as_reached(client: SocketAddr, at: SocketAddr) -> SocketAddr {
    match client.ip() {
        IpAddr::V4(ip) if at.is_ipv6() => (ip.to_ipv6_mapped(), client.port()).into(),
        _ => client,
    }
}

/// Action for a datagram by the rules; `None` if it is dropped.
fn way(shared: &Shared, to: &Destination) -> Option<Action> {
    let rules = &shared.config().rules;
    let action = action(rules, to);
    // A name that far resolves for each datagram may lead into a network that is refused.
    let is_unknown = action != Action::Direct && !refused_networks(rules, to).is_empty();
    if action == Action::Refused || is_unknown || to.port == 0 || is_unspecified(to) {
        shared.counters.dropped_destination.increment();
        return None;
    }
    Some(action)
}

fn is_unspecified(to: &Destination) -> bool {
    matches!(to.host, Host::Ip(address) if address.is_unspecified())
}

async fn outlet(
    shared: Arc<Shared>,
    action: Action,
    client: Client,
    place: Arc<Permit>,
    packets: UnboundedReceiver<Packet>,
) {
    let carry = async {
        match &action {
            Action::Direct => direct::relay_datagrams(&shared, &client, &place, packets).await,
            Action::Path(name) => {
                through_tunnel(&shared, Some(name), &client, &place, packets).await
            }
            _ => through_tunnel(&shared, None, &client, &place, packets).await,
        }
    };
    match place.lost.run_until_cancelled(carry).await {
        Some(Ok(())) => {}
        Some(Err(error)) => debug!(via = %action, "UDP association: {error}"),
        None => shared.counters.refused_limit.increment(),
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
    place: &Permit,
    mut packets: UnboundedReceiver<Packet>,
) -> io::Result<()> {
    let counters = &shared.counters;
    let refused = |reply| io::Error::other(format!("refused: {reply:?}"));
    let main = tunnel(shared, path, None).await.map_err(refused)?;
    let mut fastest_path = FastestPath::new(main.clone());
    let fastest = fastest_path.tunnel(shared);
    let number = shared.next_association.fetch_add(1, Ordering::Relaxed);
    let incoming = queue(
        shared.limiter.limits().buffer_bytes,
        shared.limiter.room(place.party()),
    );
    let whose = (number, place.client.into());
    let association = shared.associations.join(whose, &fastest, incoming);
    let mut association = association.ok_or(io::ErrorKind::AlreadyExists)?;
    let mut requests = FuturesUnordered::new();
    if !fastest.is(&main) {
        requests.push(open(shared, number, fastest, place.client));
    }
    requests.push(open(shared, number, main, place.client));
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
                client.flow.take(packet.payload.len()).await;
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
async fn open(shared: &Shared, number: u32, tunnel: Tunnel, client: u32) -> bool {
    match request_in(shared, &tunnel, &Head::Udp(number), client).await {
        Ok(stream) => {
            shared
                .tasks
                .spawn(shared.associations.attach(number, &tunnel, stream));
            true
        }
        Err(_) => false,
    }
}
