//! What all parts of a tunnel share: its end, its counters, its socket.

use std::io;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use anabranch_sockets::{Subflow, mptcp_info, unsent_bytes};
use socket2::Socket;
use tokio::sync::{Semaphore, watch};

use super::paths::Paths;
use super::socket::raise_send_buffer;
use super::waiting::Control;
use super::weight::Weights;
use crate::carrier::Closed;
use crate::config::Limits;

/// Turns between the streams' queues and the socket: enough that the socket never waits for a
/// stream, and few enough that a datagram does not wait for them.
const TURNS: usize = 8;

/// The shared state of a tunnel.
#[derive(Debug)]
pub struct Core {
    closed: watch::Sender<Option<Closed>>,
    /// Why the connection has failed.
    lost: OnceLock<String>,
    /// The task of yamux has ended and the socket is closed.
    ended: watch::Sender<bool>,
    /// Counters of the streams.
    pub account: Account,
    /// Datagrams and messages.
    pub control: Control,
    /// A duplicate of the tunnel's socket, for its options, until the tunnel is closed.
    pub socket: Mutex<Option<Socket>>,
    /// The congestion control, by its name in the kernel.
    rule: String,
    /// Whether the peer has an IPv4 address.
    pub is_ipv4: bool,
    paths: Mutex<Paths>,
    /// If the rule has a weight, and it can be set.
    weights: Option<Weights>,
    /// The weight that was set last, as bits; 0 before.
    kappa: AtomicU64,
    /// Streams that the peer may open.
    pub streams: usize,
    /// Data buffered per stream, bytes.
    pub stream_bytes: usize,
    /// Limit of the growth of all streams' receive windows, bytes.
    pub window_bytes: usize,
    started: Instant,
    /// When data was last received, ms after `started`.
    received_at: AtomicU64,
}

/// Counters of the streams' data.
#[derive(Debug)]
pub struct Account {
    accepted: AtomicU64,
    /// Bytes accepted and not yet written to the socket. Negative for a moment if a frame is
    /// written before `unsettle` counts it as unwritten again.
    unwritten: AtomicI64,
    /// Room that is left for the queues of all streams, bytes.
    room: AtomicUsize,
    /// One for each turn's bytes that may be on their way to the socket; first come, first served.
    pub turns: Arc<Semaphore>,
}

impl Account {
    /// A stream has accepted data.
    pub fn accept(&self, bytes: usize) {
        self.accepted.fetch_add(bytes as u64, Ordering::Relaxed);
        self.unwritten.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Accepted data was written to the socket, or will never be because its stream was reset.
    pub fn settle(&self, bytes: usize) {
        self.unwritten.fetch_sub(bytes as i64, Ordering::Relaxed);
    }

    /// Counts settled bytes as unwritten again, because they will be written after all.
    pub fn unsettle(&self, bytes: usize) {
        self.unwritten.fetch_add(bytes as i64, Ordering::Relaxed);
    }

    /// Takes at most this much of the room that all streams share, bytes.
    pub fn take_room(&self, wanted: usize) -> usize {
        let take = |room: usize| Some(room - room.min(wanted));
        let before = self
            .room
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        before.expect("`take` never refuses").min(wanted)
    }

    /// Returns room.
    pub fn give_room(&self, bytes: usize) {
        self.room.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Data accepted since the tunnel was established, bytes.
    pub fn accepted_bytes(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

impl Core {
    /// A new tunnel over this socket; the peer may open `streams`.
    pub fn new(
        socket: Socket,
        rule: &str,
        limits: &Limits,
        streams: usize,
        paths: Paths,
        weights: Option<Weights>,
    ) -> Arc<Core> {
        raise_send_buffer(&socket);
        let peer = socket.peer_addr().ok().and_then(|peer| peer.as_socket());
        Arc::new(Core {
            rule: rule.to_owned(),
            is_ipv4: peer.is_none_or(|peer| peer.ip().to_canonical().is_ipv4()),
            paths: Mutex::new(paths),
            weights,
            kappa: AtomicU64::new(0),
            closed: watch::Sender::new(None),
            lost: OnceLock::new(),
            ended: watch::Sender::new(false),
            account: Account {
                accepted: AtomicU64::new(0),
                unwritten: AtomicI64::new(0),
                room: AtomicUsize::new(limits.tunnel_buffer_bytes),
                turns: Arc::new(Semaphore::new(TURNS)),
            },
            control: Control::default(),
            socket: Mutex::new(Some(socket)),
            streams,
            stream_bytes: limits.buffer_bytes,
            window_bytes: limits.tunnel_buffer_bytes,
            started: Instant::now(),
            received_at: AtomicU64::new(0),
        })
    }

    /// Closes the tunnel; the first reason counts.
    pub fn close(&self, reason: impl Into<String>) {
        self.closed.send_if_modified(|closed| {
            let open = closed.is_none();
            if open {
                *closed = Some(Closed(reason.into()));
            }
            open
        });
        self.account.turns.close();
    }

    /// Closes the tunnel and gives the peer the reason.
    pub fn close_by_user(&self, reason: &str) {
        self.control.request_close(reason);
        self.close(reason);
    }

    /// The connection has failed.
    pub fn set_lost(&self, reason: String) {
        self.account.turns.close();
        self.lost.get_or_init(|| reason);
    }

    /// Why the connection has failed.
    pub fn lost(&self) -> String {
        let unknown = || "the connection has failed".to_owned();
        self.lost.get().cloned().unwrap_or_else(unknown)
    }

    /// An error once the tunnel is closed.
    ///
    /// # Errors
    /// If it is closed.
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

    /// Closes this duplicate of the socket; the other one is closed already.
    pub fn end(&self) {
        drop(self.socket.lock().expect("no holder panics").take());
        self.ended.send_replace(true);
    }

    /// Waits until the tunnel is closed and its reason is sent.
    pub async fn until_ended(&self) -> Closed {
        let closed = self.until_closed().await;
        let mut receiver = self.ended.subscribe();
        let _ = receiver.wait_for(|ended| *ended).await;
        closed
    }

    /// Data was received.
    pub fn has_received(&self) {
        let now = self.started.elapsed().as_millis() as u64;
        self.received_at.store(now, Ordering::Relaxed);
    }

    /// How long nothing has been received.
    pub fn silence(&self) -> Duration {
        let received_at = Duration::from_millis(self.received_at.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(received_at)
    }

    /// Data that streams have accepted and that the kernel has not sent, bytes.
    pub fn unsent_bytes(&self) -> u64 {
        let in_kernel = self.unsent_in_kernel(&self.subflows().unwrap_or_default());
        let unwritten = self.account.unwritten.load(Ordering::Relaxed);
        unwritten.max(0) as u64 + in_kernel
    }

    /// Data that the kernel has not sent, in these subflows and before them, bytes.
    pub fn unsent_in_kernel(&self, subflows: &[Subflow]) -> u64 {
        let in_subflows = subflows.iter().map(|subflow| u64::from(subflow.unsent));
        let socket = self.socket.lock().expect("no holder panics");
        let before = socket.as_ref().map(unsent_bytes);
        in_subflows.sum::<u64>() + before.and_then(Result::ok).unwrap_or(0)
    }

    /// The subflows; `None` if it is no connection of Multipath TCP, or the tunnel is closed.
    pub fn subflows(&self) -> Option<Vec<Subflow>> {
        let socket = self.socket.lock().expect("no holder panics");
        mptcp_info(socket.as_ref()?).ok()?
    }

    /// Chooses the congestion control again: a route with `congctl` replaces a socket's congestion
    /// control when it connects or is accepted, and when a subflow is added.
    ///
    /// # Errors
    /// If the kernel refuses it.
    pub fn choose_rule(&self) -> io::Result<()> {
        match &*self.socket.lock().expect("no holder panics") {
            Some(socket) => socket.set_tcp_congestion(self.rule.as_bytes()),
            None => Ok(()), // closed
        }
    }

    /// The paths as last read.
    pub fn paths(&self) -> MutexGuard<'_, Paths> {
        self.paths.lock().expect("no holder panics")
    }

    /// Reads the paths' state; whether it is a connection of Multipath TCP, `None` once closed.
    pub fn update_paths(&self) -> Option<bool> {
        let socket = self.socket.lock().expect("no holder panics");
        let mut paths = self.paths();
        paths.update(socket.as_ref()?);
        paths.multipath
    }

    /// The weight that was set last.
    pub fn kappa(&self) -> Option<f64> {
        let bits = self.kappa.load(Ordering::Relaxed);
        (bits != 0).then(|| f64::from_bits(bits))
    }

    /// Sets the weight of the rule, if it has one.
    pub fn set_kappa(&self, kappa: f64) {
        let socket = self.socket.lock().expect("no holder panics");
        let (Some(weights), Some(socket)) = (&self.weights, socket.as_ref()) else {
            return;
        };
        match socket
            .cookie()
            .and_then(|cookie| weights.set(cookie, kappa))
        {
            Ok(()) => self.kappa.store(kappa.to_bits(), Ordering::Relaxed),
            Err(error) => tracing::warn!("setting the weight {kappa}: {error}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_rule_is_chosen_again_after_the_connection_has_lost_it() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let socket = Socket::from(TcpStream::connect(address).expect("listening"));
        let same = socket.try_clone().expect("a descriptor");
        let rule_of = |socket: &Socket| {
            let name = socket.tcp_congestion().expect("a name");
            String::from_utf8(name).expect("ASCII")
        };
        let core = Core::new(socket, "reno", &Limits::default(), 1, Paths::far(), None);
        // As a route with `congctl` does. Every kernel has these two.
        same.set_tcp_congestion(b"cubic").expect("registered");
        core.choose_rule().expect("registered");
        assert_eq!(rule_of(&same).trim_end_matches('\0'), "reno");
        core.end();
        core.choose_rule().expect("nothing to do");
    }
}
