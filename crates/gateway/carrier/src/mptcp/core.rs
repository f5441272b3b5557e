//! Shared state of a tunnel's tasks: its end, its connections, its datagrams, its counters.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use anyhow::ensure;
use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::frame::{Frame, Hello, LARGEST_DATAGRAM, Token};
use super::kappa::Kappas;
use super::link::{self, Link};
use super::paths::{Paths, subflows};
use crate::shares::{DatagramRoom, Kind, Shares};
use crate::supervisor::Supervisor;
use crate::{Closed, Limits, NotSent, Stream};
use links::{Links, Watched};

mod links;

/// Most connections of `near` that wait for their use.
pub const MOST_IDLE: usize = 64;

/// Shared state of a tunnel. Locks are taken in this order: `paths`, `links`, others; a holder
/// takes only later ones, and drops no link.
#[derive(Debug)]
pub struct Core {
    pub is_near: bool,
    pub limits: Limits,
    /// Token with which connections join.
    pub token: Token,
    closed: watch::Sender<Option<Closed>>,
    /// Cancelled when the tunnel is closed.
    pub lost: CancellationToken,
    /// Reason that the peer is told.
    for_peer: Mutex<Option<String>>,
    /// Whether the first connection has ended.
    ended: watch::Sender<bool>,
    /// The peer's first frame.
    peer: Mutex<Option<Hello>>,
    /// The first connection, until it has ended.
    control: Mutex<Option<Arc<TcpStream>>>,
    links: Mutex<Links>,
    /// Connections of `near` that wait for their use.
    idle: Mutex<VecDeque<Arc<Link>>>,
    /// Streams of `near` that wait for a connection.
    waiting: AtomicUsize,
    /// Streams that the peer has opened and nobody has accepted.
    opened: Mutex<VecDeque<Stream>>,
    sending: Mutex<Datagrams>,
    shares: Shares,
    received: Mutex<Datagrams>,
    pub changes: Changes,
    /// Congestion control, by its name in the kernel.
    rule: String,
    /// Whether the peer has an IPv4 address.
    pub is_ipv4: bool,
    paths: Mutex<Paths>,
    /// Kappa of the rule; `None` if the rule has none, or if it cannot be set.
    kappas: Option<Kappas>,
    /// Bits of the kappa that was set last; 0 before.
    kappa: AtomicU64,
    accepted_bytes: AtomicU64,
}

/// Notifications of changes, each for one of the tasks that wait for it.
#[derive(Debug, Default)]
pub struct Changes {
    /// A connection waits for its use, or the first frame has arrived.
    pub can_open: Notify,
    /// A connection is needed, or has ended.
    pub needed: Notify,
    /// The peer has opened a stream.
    pub opened: Notify,
    /// A datagram was received.
    pub datagram: Notify,
    /// A datagram is to be sent.
    pub to_send: Notify,
    /// The endpoints of the paths have been added.
    pub prepared: Notify,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Link")
    }
}

impl Core {
    /// The state of a new tunnel whose first connection has this socket.
    pub fn new(
        socket: Arc<TcpStream>,
        rule: &str,
        limits: Limits,
        (paths, token): (Paths, Token),
        kappas: Option<Kappas>,
    ) -> Arc<Core> {
        let is_ipv4 = is_ipv4(&socket);
        Arc::new(Core {
            is_near: paths.is_near,
            limits,
            token,
            closed: watch::Sender::new(None),
            lost: CancellationToken::new(),
            for_peer: Mutex::default(),
            ended: watch::Sender::new(false),
            peer: Mutex::default(),
            control: Mutex::new(Some(socket)),
            links: Mutex::default(),
            idle: Mutex::default(),
            waiting: AtomicUsize::new(0),
            opened: Mutex::default(),
            sending: Mutex::default(),
            shares: Shares::default(),
            received: Mutex::default(),
            changes: Changes::default(),
            rule: rule.to_owned(),
            is_ipv4,
            paths: Mutex::new(paths),
            kappas,
            kappa: AtomicU64::new(0),
            accepted_bytes: AtomicU64::new(0),
        })
    }

    /// The supervisor of the tunnel's tasks.
    pub fn supervisor(self: &Arc<Core>) -> Supervisor {
        let closing = self.clone();
        Supervisor::new(move |reason| {
            closing.close(reason);
            closing.end();
        })
    }

    /// Waits until `take` returns something, which it may after `change`.
    pub async fn wait<T>(
        &self,
        change: &Notify,
        take: impl Fn(&Core) -> Option<T>,
    ) -> Result<T, Closed> {
        loop {
            if let Some(taken) = take(self) {
                // There may be more, and others who wait.
                change.notify_one();
                return Ok(taken);
            }
            self.check()?;
            tokio::select! {
                () = change.notified() => {}
                _ = self.until_closed() => {}
            }
        }
    }

    /// Closes the tunnel; the first reason counts. Streams end with an error.
    pub fn close(&self, reason: impl Into<String>) {
        if !self.leave(reason) {
            return;
        }
        self.lost.cancel();
        for (_, link) in self.present().iter().filter(|(_, link)| !link.is_over()) {
            link.reset();
        }
    }

    /// Closes the tunnel, which the peer has closed: it ends or resets the connections of streams,
    /// too, and all data before that can be read. Returns whether it was open.
    pub fn leave(&self, reason: impl Into<String>) -> bool {
        let closes = self.closed.send_if_modified(|closed| {
            let open = closed.is_none();
            if open {
                *closed = Some(Closed(reason.into()));
            }
            open
        });
        if closes {
            self.paths().end();
        }
        let idle = self.idle.lock().split_off(0);
        let opened = self.opened.lock().split_off(0);
        drop((idle, opened));
        closes
    }

    /// Closes the tunnel and sends the peer the reason.
    pub fn close_by_user(&self, reason: &str) {
        if self.check().is_ok() {
            *self.for_peer.lock() = Some(reason.chars().take(1000).collect());
        }
        self.close(reason);
    }

    /// Reason that the peer is to be told.
    pub fn reason_for_peer(&self) -> Option<String> {
        self.for_peer.lock().clone()
    }

    /// Checks that the tunnel is open.
    pub fn check(&self) -> Result<(), Closed> {
        self.closed.borrow().clone().map_or(Ok(()), Err)
    }

    /// Waits until the tunnel is closed.
    pub async fn until_closed(&self) -> Closed {
        let mut receiver = self.closed.subscribe();
        let closed = receiver.wait_for(Option::is_some).await;
        let closed = closed.expect("`self` holds the sender").clone();
        closed.expect("it was waited for")
    }

    /// Records that the first connection is closed.
    pub fn end(&self) {
        self.update_paths();
        drop(self.control.lock().take());
        self.ended.send_replace(true);
    }

    /// Waits until the tunnel is closed and its reason is sent.
    pub async fn until_ended(&self) -> Closed {
        let closed = self.until_closed().await;
        let mut receiver = self.ended.subscribe();
        let _ = receiver.wait_for(|ended| *ended).await;
        closed
    }

    /// The first frame to the peer.
    pub fn hello(&self) -> Frame {
        Frame::Hello(Hello {
            streams: u32::try_from(self.limits.streams).unwrap_or(u32::MAX),
            token: self.token,
        })
    }

    /// Takes a frame.
    ///
    /// # Errors
    /// The reason for which the tunnel ends.
    pub fn receive(&self, frame: Frame) -> Result<(), String> {
        let mut peer = self.peer.lock();
        match frame {
            Frame::Hello(_) if peer.is_some() => return Err("the peer has said HELLO twice".into()),
            Frame::Hello(hello) => {
                *peer = Some(hello);
                self.changes.can_open.notify_one();
            }
            _ if peer.is_none() => return Err("the peer's first frame is no HELLO".into()),
            Frame::Datagram(datagram) => {
                self.received.lock().push(datagram);
                self.changes.datagram.notify_one();
            }
            Frame::Alive => {}
            Frame::Close(_) | Frame::Join(_) => return Err("a frame out of place".into()),
        }
        Ok(())
    }

    /// Whether the peer's first frame was received.
    pub fn is_established(&self) -> bool {
        self.peer.lock().is_some()
    }

    /// The token of the peer, once it is known.
    pub fn invitation(&self) -> Option<Token> {
        Some((*self.peer.lock())?.token)
    }

    /// Sends a datagram; the oldest ones go if there are too many.
    pub fn send_datagram(&self, client: u64, datagram: Bytes) -> Result<(), NotSent> {
        self.check().map_err(NotSent::Closed)?;
        if datagram.len() > LARGEST_DATAGRAM {
            return Err(NotSent::TooLarge(LARGEST_DATAGRAM));
        }
        self.shares.add(client, Kind::Datagrams, datagram.len());
        self.sending.lock().push(datagram);
        self.changes.to_send.notify_one();
        Ok(())
    }

    /// Waits for the next datagram to send. Cancel-safe.
    pub async fn next_datagram(&self) -> Bytes {
        loop {
            if let Some(datagram) = self.sending.lock().pop() {
                return datagram;
            }
            self.changes.to_send.notified().await;
        }
    }

    /// Room for a datagram of this client and size; the streams wait apart, in the kernel.
    pub fn datagram_room(&self, client: u64, bytes: usize) -> DatagramRoom {
        if bytes > LARGEST_DATAGRAM {
            return DatagramRoom::TooLarge;
        }
        let waiting = self.sending.lock().bytes;
        match self.shares.room(client, waiting, false) {
            // Datagrams that fit no other tunnel must not compete with streams.
            DatagramRoom::Free if self.shares.has_bulk() => DatagramRoom::Share,
            room => room,
        }
    }

    /// The next datagram from the peer.
    pub fn receive_datagram(&self) -> Option<Bytes> {
        self.received.lock().pop()
    }

    /// Number of connections that may join beside those that have.
    pub fn room(&self) -> usize {
        let of_peer = match *self.peer.lock() {
            Some(peer) if self.is_near => peer.streams as usize,
            _ => usize::MAX,
        };
        let most = self.limits.streams.min(of_peer);
        most.saturating_sub(self.joined())
    }

    /// Number of connections other than the first.
    pub fn joined(&self) -> usize {
        self.links.lock().present.len()
    }

    /// Takes a place for a connection. Returns its number.
    ///
    /// # Errors
    /// If the tunnel is closed, or has as many as it may have.
    pub fn enter(&self) -> anyhow::Result<u64> {
        self.check()?;
        ensure!(
            self.room() > 0,
            "the tunnel has as many connections as it may have"
        );
        let mut links = self.links.lock();
        let number = links.next;
        links.next += 1;
        let watched = Watched {
            link: Weak::new(),
            lacks: None,
            subflows: Vec::new(),
            moved: None,
            held: None,
        };
        links.present.insert(number, watched);
        Ok(number)
    }

    /// Watches the connection that has this place.
    pub fn watch(&self, number: u64, link: &Arc<Link>) {
        if let Some(watched) = self.links.lock().present.get_mut(&number) {
            watched.link = Arc::downgrade(link);
        }
        if let Err(error) = self.choose(&link.socket) {
            tracing::debug!("congestion control of a connection: {error}");
        }
        if self.kappas.is_some() {
            // I-TCP measures what waits, so the kernel takes as much as it can.
            let _ = SockRef::from(&*link.socket).set_tcp_notsent_lowat(u32::MAX);
        }
        self.share_kappa();
    }

    /// Leaves the place of a connection that is about to be closed, if it has not left before.
    pub fn retire(&self, number: u64, socket: Option<&Arc<TcpStream>>) {
        let last = socket.and_then(|socket| subflows(socket).ok());
        let mut links = self.links.lock();
        let Some(watched) = links.present.remove(&number) else {
            return;
        };
        let last = last.map(|(_, last)| last).filter(|last| !last.is_empty());
        links.retired.extend(last.unwrap_or(watched.subflows));
        drop(links);
        self.changes.needed.notify_one();
    }

    /// A connection for a stream, if one waits for its use.
    pub fn take(&self) -> Option<Stream> {
        loop {
            let link = self.next_idle();
            self.changes.needed.notify_one();
            let link = link?;
            if link.is_fresh() {
                return Some(link::stream(&link, None));
            }
        }
    }

    /// Waits for a connection for a stream.
    pub async fn open(&self) -> Result<Stream, Closed> {
        struct Waits<'a>(&'a AtomicUsize);
        impl Drop for Waits<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        if !self.is_near {
            return Err(Closed("over mptcp near opens streams".to_owned()));
        }
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let _waits = Waits(&self.waiting);
        self.wait(&self.changes.can_open, Core::take).await
    }

    /// Numbers of connections that wait for their use, and of streams that wait for one.
    pub fn demand(&self) -> (usize, usize) {
        (self.idle.lock().len(), self.waiting.load(Ordering::Relaxed))
    }

    /// Adds a connection that waits for its use.
    pub fn keep(&self, link: Arc<Link>) {
        self.idle.lock().push_back(link);
        if self.check().is_err() {
            drop(self.idle.lock().split_off(0));
        }
        self.changes.can_open.notify_one();
    }

    /// Closes the connections that have waited longest for their use, beyond this number.
    pub fn keep_idle(&self, most: usize) {
        let mut idle = self.idle.lock();
        let most = most.min(idle.len());
        let closed = idle.split_off(most);
        drop(idle);
        drop(closed);
    }

    /// Lets a connection carry its next stream: on `near` the next that is opened, so that those
    /// are used whose windows are open.
    pub fn recycle(self: &Arc<Core>, link: Arc<Link>) {
        if self.is_near {
            self.idle.lock().push_front(link);
            let closed = self.check().is_err();
            self.keep_idle(if closed { 0 } else { MOST_IDLE });
            return self.changes.can_open.notify_one();
        }
        let core = self.clone();
        self.supervisor().spawn(async move {
            let lost = link.lost.clone();
            if let Some(Ok(begun)) = lost.run_until_cancelled(link.begun()).await {
                core.offer(link::stream(&link, Some(begun)));
            }
        });
    }

    /// Adds a stream that the peer has opened.
    pub fn offer(&self, stream: Stream) {
        self.opened.lock().push_back(stream);
        if self.check().is_err() {
            drop(self.opened.lock().split_off(0));
        }
        self.changes.opened.notify_one();
    }

    /// The next stream that the peer has opened.
    pub fn accept(&self) -> Option<Stream> {
        self.opened.lock().pop_front()
    }

    /// Counts data that a stream has accepted.
    pub fn accepted(&self, bytes: usize) {
        self.shares.add(0, Kind::Streams, bytes);
        self.accepted_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Data that streams have accepted, bytes.
    pub fn accepted_bytes(&self) -> u64 {
        self.accepted_bytes.load(Ordering::Relaxed)
    }

    /// Congestion control, by its name in the kernel.
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Sets the congestion control again: a route with `congctl` replaces that of a socket when it
    /// connects or is accepted, and when a subflow is added.
    fn choose(&self, socket: &TcpStream) -> io::Result<()> {
        SockRef::from(socket).set_tcp_congestion(self.rule.as_bytes())
    }

    /// Sets the congestion control of the first connection again.
    pub fn choose_rule(&self) -> io::Result<()> {
        match &*self.control.lock() {
            Some(socket) => self.choose(socket),
            None => Ok(()), // closed
        }
    }

    /// Paths as last read.
    pub fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock()
    }

    /// Kappa that was set last.
    pub fn kappa(&self) -> Option<f64> {
        let bits = self.kappa.load(Ordering::Relaxed);
        (bits != 0).then(|| f64::from_bits(bits))
    }

    /// Sets kappa of the rule, if it has one.
    pub fn set_kappa(&self, kappa: f64) {
        if self.kappas.is_some() {
            self.kappa.store(kappa.to_bits(), Ordering::Relaxed);
            self.share_kappa();
        }
    }
}

/// Whether the peer has an IPv4 address.
pub fn is_ipv4(socket: &TcpStream) -> bool {
    let peer = socket.peer_addr();
    peer.map_or(true, |peer| peer.ip().to_canonical().is_ipv4())
}

/// Most datagrams that wait; then the oldest is discarded.
const WAITING: usize = 256;

/// Most bytes that wait.
const WAITING_BYTES: usize = 1 << 20;

/// A queue that discards its oldest datagrams.
#[derive(Debug, Default)]
struct Datagrams {
    queue: VecDeque<Bytes>,
    bytes: usize,
}

impl Datagrams {
    fn push(&mut self, datagram: Bytes) {
        self.bytes += datagram.len();
        self.queue.push_back(datagram);
        while self.queue.len() > WAITING || self.bytes > WAITING_BYTES {
            self.pop();
        }
    }

    fn pop(&mut self) -> Option<Bytes> {
        let datagram = self.queue.pop_front()?;
        self.bytes -= datagram.len();
        Some(datagram)
    }
}
