//! Connections to the addresses of a destination, and relaying with back-pressure: data that cannot
//! be written is not read.

use std::fmt::Display;
use std::future::poll_fn;
use std::hash::Hash;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::{Notify, Semaphore};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::limits::Permit;
use super::rate::Flow;
use crate::carrier::{Incoming, Outgoing, Stream};
use crate::config::Limits;
use crate::counters::{Counter, Counters};
use crate::names::{RESOLVE, race};
use crate::network::{Network, Sink, Socket, Source};

/// Buffer of a direction before its first read fills it, bytes.
const FIRST_BUFFER: usize = 16 << 10;

/// Largest buffer of a direction, bytes, unless the limit is lower: less than a chunk over
/// Multipath TCP. More is not faster.
const MAX_BUFFER: usize = 60 << 10;

/// A connection with a client or a server, which is reset when it is dropped before it is complete.
#[derive(Debug)]
pub struct Connection {
    socket: Box<dyn Socket>,
}

impl Connection {
    /// Takes over a socket.
    pub fn new(socket: Box<dyn Socket>) -> Connection {
        Connection { socket }
    }

    /// Ends the connection without a reset.
    pub fn complete(self) {
        self.socket.complete();
    }

    /// Waits until the peer has reset the connection.
    pub async fn reset(&self) -> io::Error {
        self.socket.failed().await
    }

    /// Waits until a peer that expects a reply has left: it has reset the connection, or ended it
    /// with nothing left to read.
    pub async fn left(&self) {
        if matches!(self.socket.has_data().await, Ok(true)) {
            self.reset().await;
        }
    }
}

impl Deref for Connection {
    type Target = Box<dyn Socket>;

    fn deref(&self) -> &Box<dyn Socket> {
        &self.socket
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut Box<dyn Socket> {
        &mut self.socket
    }
}

/// One of the two ends of a relayed connection.
pub trait End {
    /// Both directions.
    fn split(&mut self) -> (Box<dyn Source + '_>, Box<dyn Sink + '_>);
    /// Ends the connection without a reset.
    fn complete(self);
}

impl End for Connection {
    fn split(&mut self) -> (Box<dyn Source + '_>, Box<dyn Sink + '_>) {
        self.socket.split()
    }

    fn complete(self) {
        self.complete();
    }
}

impl End for Stream {
    fn split(&mut self) -> (Box<dyn Source + '_>, Box<dyn Sink + '_>) {
        (Box::new(&mut self.reader), Box::new(&mut self.writer))
    }

    /// Does nothing: its writer was shut down.
    fn complete(self) {}
}

impl Source for &mut Box<dyn Incoming> {
    fn failed(&mut self) -> BoxFuture<'_, io::Error> {
        poll_fn(|cx| self.poll_reset(cx)).boxed()
    }
}

impl Sink for &mut Box<dyn Outgoing> {
    fn failed(&mut self) -> BoxFuture<'_, io::Error> {
        poll_fn(|cx| self.poll_stopped(cx)).boxed()
    }
}

/// Relays until both directions have ended and everything is acknowledged, or resets both ends.
/// Data from the client is counted as up.
///
/// # Errors
/// The failure of an end, or `TimedOut` if nothing was relayed for too long.
pub async fn relay<K: Eq + Hash + Clone + Display>(
    mut client: impl End,
    mut server: impl End,
    counters: &Counters,
    permit: &Permit<K>,
    limits: &Limits,
) -> io::Result<()> {
    let activity = Activity::new();
    let direction = |bytes, to_client| Direction {
        bytes,
        to_client,
        flow: &permit.flow,
        largest: limits.buffer_bytes.min(MAX_BUFFER),
        activity: &activity,
    };
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let both = async {
        tokio::try_join!(
            direction(&counters.bytes_up, false).relay(from_client, to_server),
            direction(&counters.bytes_down, true).relay(from_server, to_client),
        )
    };
    let relayed = tokio::select! {
        biased;
        relayed = both => relayed,
        () = activity.idle(limits, permit) => {
            counters.ended_idle.increment();
            return Err(ErrorKind::TimedOut.into());
        }
    };
    match relayed {
        Ok(_) => {
            counters.ended_complete.increment();
            client.complete();
            server.complete();
            Ok(())
        }
        Err(error) => {
            match error.kind() {
                ErrorKind::QuotaExceeded => counters.ended_stalled.increment(),
                _ => counters.ended_reset.increment(),
            }
            Err(error)
        }
    }
}

/// Time without progress after which a half-closed connection gives its place to another of its
/// client that finds none.
const STUCK: Duration = Duration::from_secs(10);

/// Time at which either direction last relayed something.
struct Activity {
    start: Instant,
    /// Time of the last activity after `start`, ms.
    last: AtomicU64,
    /// Cancelled when one direction has ended.
    half_closed: CancellationToken,
}

impl Activity {
    fn new() -> Activity {
        Activity {
            start: Instant::now(),
            last: AtomicU64::new(0),
            half_closed: CancellationToken::new(),
        }
    }

    fn note(&self) {
        let now = self.start.elapsed().as_millis() as u64;
        self.last.store(now, Ordering::Relaxed);
    }

    /// Waits until nothing was relayed for longer than the limits allow.
    async fn idle<K: Eq + Hash + Clone + Display>(&self, limits: &Limits, permit: &Permit<K>) {
        let [idle, half_closed] =
            [limits.idle_s, limits.half_closed_s].map(Duration::from_secs_f64);
        loop {
            let is_half = self.half_closed.is_cancelled();
            let limit = if is_half { half_closed } else { idle };
            let last = Duration::from_millis(self.last.load(Ordering::Relaxed));
            let quiet = self.start.elapsed().saturating_sub(last);
            permit.set_stuck(is_half && quiet >= STUCK);
            if quiet >= limit {
                return;
            }
            // A direction may end meanwhile.
            sleep((limit - quiet).min(half_closed).min(STUCK)).await;
        }
    }
}

/// A direction of a relayed connection.
struct Direction<'a> {
    /// Counter of the relayed bytes.
    bytes: &'a Counter,
    to_client: bool,
    flow: &'a Flow,
    /// Largest buffer, bytes.
    largest: usize,
    activity: &'a Activity,
}

impl Direction<'_> {
    /// Relays until the source ends and the sink has everything.
    async fn relay(
        self,
        mut source: Box<dyn Source + '_>,
        mut sink: Box<dyn Sink + '_>,
    ) -> io::Result<()> {
        let mut buffer = vec![0; FIRST_BUFFER.min(self.largest)];
        loop {
            // While the other direction is relayed, it notices that the sink's end has failed; but
            // not that a client has left whose data has all arrived, and waits for the server.
            let sink_failed = async {
                if !self.to_client {
                    self.activity.half_closed.cancelled().await;
                }
                sink.failed().await
            };
            let mut n = tokio::select! {
                biased;
                read = source.read(&mut buffer) => read?,
                error = sink_failed => return Err(error),
            };
            // Writes all that has arrived at once: Multipath TCP may give each write another path.
            while n == buffer.len() && n < self.largest {
                buffer.resize((2 * n).min(self.largest), 0);
                match source.read(&mut buffer[n..]).now_or_never() {
                    Some(Ok(more)) => n += more,
                    _ => break,
                }
            }
            let write = async {
                if n == 0 {
                    self.activity.half_closed.cancel();
                    return sink.shutdown().await;
                }
                self.flow.take(n).await;
                sink.write_all(&buffer[..n]).await?;
                sink.flush().await
            };
            tokio::select! {
                biased;
                written = write => written?,
                error = async { source.failed().await } => return Err(error),
            }
            self.activity.note();
            if n == 0 {
                return Ok(());
            }
            self.bytes.add(n as u64);
        }
    }
}

/// Longest time of connecting.
const CONNECT: Duration = Duration::from_secs(10);

/// Longest time of resolving a name and connecting together.
pub const ESTABLISH: Duration = RESOLVE.saturating_add(CONNECT);

/// Attempts beside the first ones of all connections: their descriptors are not in a place.
static FURTHER: Semaphore = Semaphore::const_new(256);

/// Connects to the first of the addresses that accepts.
///
/// # Errors
/// The error of the last attempt, or a timeout.
pub(crate) async fn connect(
    network: &dyn Network,
    addresses: &[SocketAddr],
) -> io::Result<Box<dyn Socket>> {
    let none = || io::Error::from(io::ErrorKind::NotFound);
    let (is_first, ended) = (AtomicBool::new(true), Notify::new());
    let attempt = |address| {
        let is_first = is_first.swap(false, Ordering::Relaxed);
        let ended = &ended;
        async move {
            // It may use the descriptor of an attempt that has failed.
            let _further = tokio::select! {
                biased;
                () = std::future::ready(()), if is_first => None,
                () = ended.notified() => None,
                further = FURTHER.acquire() => further.ok(),
            };
            let connected = network.connect(address).await;
            ended.notify_one();
            connected
        }
    };
    match timeout(CONNECT, race(addresses, attempt)).await {
        Ok(raced) => raced.map_err(|failure| failure.unwrap_or_else(none)),
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}
