//! Task of a connection: moves data between the multiplexer and TLS.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_sockets::Subflow;
use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, Sleep, interval, sleep, timeout};
use tokio_rustls::TlsStream;

use super::allowance::Allowance;
use super::core::Core;
use super::mux::{Lane, RECORD};
use crate::failure::{self, KEY_REFUSED};

/// Size of a read from the socket, bytes: TLS by itself reads 4096.
const READ: usize = 64 << 10;

/// Time limit for sending the reason of the end, and for the peer to close the connection.
const DRAIN: Duration = Duration::from_millis(500);

/// Interval at which the silence is measured.
const TICK: Duration = Duration::from_secs(1);

/// Interval at which a second connection that has sent something is examined.
const LOOK: Duration = Duration::from_millis(50);

/// Ticks after which each side sends something.
const KEEP_ALIVE: u32 = 5;

/// Silence after which the peer, or all paths to it, count as dead.
const SILENCE: Duration = Duration::from_secs(20);

/// Reason of a tunnel that the peer has closed without one.
pub const CLOSED: &str = "the peer has closed the connection";

/// The socket below TLS.
pub type Socket = BufReader<TcpStream>;

/// Prepares a connected socket for TLS.
pub fn buffered(stream: TcpStream) -> Socket {
    BufReader::with_capacity(READ, stream)
}

/// State of the task.
struct Driver {
    tls: TlsStream<Socket>,
    core: Arc<Core>,
    lane: Lane,
    allowance: Allowance,
    received: Vec<u8>,
    /// Record that is being written; `written` bytes of it were.
    record: Vec<u8>,
    written: usize,
    clock: Interval,
    ticks: u32,
    /// Time at which data was last received.
    heard: Instant,
    look: Pin<Box<Sleep>>,
    /// Time since which data has been in flight over the second connection.
    waits_since: Option<Instant>,
}

/// Runs until the tunnel is closed.
pub async fn run(mut tls: TlsStream<Socket>, core: Arc<Core>, lane: Lane) {
    // A rest of a record would leave room for only a part of the next.
    match &mut tls {
        TlsStream::Client(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
        TlsStream::Server(tls) => tls.get_mut().1.set_buffer_limit(Some(RECORD)),
    }
    let mut driver = Driver {
        tls,
        core: core.clone(),
        lane,
        allowance: Allowance::new(),
        received: vec![0; RECORD],
        record: Vec::with_capacity(RECORD),
        written: 0,
        clock: interval(TICK),
        ticks: 0,
        heard: Instant::now(),
        look: Box::pin(sleep(LOOK)),
        waits_since: None,
    };
    tokio::select! {
        biased;
        Err(reason) = poll_fn(|cx| driver.poll(cx)) => driver.ended(reason),
        // The peer closes the connection when it has received the reason.
        _ = core.until_closed() => drop(timeout(DRAIN, poll_fn(|cx| driver.poll(cx))).await),
    }
    drop(driver);
    core.end(lane);
}

impl Driver {
    /// Handles the end of the connection. The tunnel goes on without the second one.
    fn ended(&self, reason: String) {
        match self.lane {
            Lane::Bulk => self.core.close(reason),
            Lane::Express => {
                tracing::debug!("the second connection ends: {reason}");
                self.core.mux(|mux| mux.leave());
            }
        }
    }

    /// Makes progress; ready with the reason when the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Infallible, String>> {
        while self.clock.poll_tick(cx).is_ready() {
            if self.heard.elapsed() >= SILENCE {
                let silence = format!("nothing received for {} s", SILENCE.as_secs());
                return Poll::Ready(Err(silence));
            }
            if self.lane == Lane::Bulk {
                self.core.mux(|mux| mux.tick(Instant::now()));
            }
            self.ticks += 1;
            if self.ticks.is_multiple_of(KEEP_ALIVE) {
                self.core.mux(|mux| mux.keep_alive(self.lane));
            }
        }
        loop {
            let received = self.poll_receive(cx)?;
            let sent = self.poll_send(cx).map_err(describe)?;
            if received.is_pending() && sent.is_pending() {
                if self.lane == Lane::Express {
                    self.check_express(cx)?;
                }
                return Poll::Pending;
            }
        }
    }

    /// Gives up the second connection if nothing returns over its path.
    fn check_express(&mut self, cx: &mut Context<'_>) -> Result<(), String> {
        if !self.core.mux(|mux| mux.is_joined()) {
            return Err("the tunnel has left it".to_owned());
        }
        if self.core.mux(|mux| mux.unheard_bytes()) == 0 {
            self.waits_since = None;
            return Ok(());
        }
        let now = Instant::now();
        let since = *self.waits_since.get_or_insert_with(|| {
            self.look.as_mut().reset(now + LOOK);
            now
        });
        while self.look.as_mut().poll(cx).is_ready() {
            self.look.as_mut().reset(now + LOOK);
            match self.core.express() {
                Some(tcp) if tcp.in_flight == 0 => self.waits_since = Some(now),
                Some(tcp) if is_stalled(&tcp, now - since) => return Err("nothing returns".into()),
                _ => {}
            }
        }
        Ok(())
    }

    /// Receives once.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), String>> {
        let mut buffer = ReadBuf::new(&mut self.received);
        ready!(Pin::new(&mut self.tls).poll_read(cx, &mut buffer)).map_err(describe)?;
        if buffer.filled().is_empty() {
            return Poll::Ready(Err(CLOSED.to_owned()));
        }
        self.heard = Instant::now();
        let (bytes, now) = (buffer.filled(), self.heard);
        let received = self.core.mux(|mux| mux.receive(self.lane, bytes, now));
        // A fault of the peer ends the tunnel, over either connection.
        Poll::Ready(received.inspect_err(|reason| self.core.close(reason)))
    }

    /// Sends a record.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.record.len() {
            let rest = &self.record[self.written..];
            self.written += ready!(Pin::new(&mut self.tls).poll_write(cx, rest))?;
        }
        ready!(Pin::new(&mut self.tls).poll_flush(cx))?;
        ready!(self.core.mux(|mux| mux.poll_ready(self.lane, cx)));
        ready!(self.allowance.poll(&self.core, self.lane, cx));
        self.record.clear();
        self.written = 0;
        self.core
            .mux(|mux| mux.transmit(self.lane, &mut self.record));
        self.allowance.take(self.record.len());
        Poll::Ready(Ok(()))
    }
}

/// Whether a connection has stalled: data has been in flight for this time, and no acknowledgement
/// has arrived for two round trips and a delayed acknowledgement.
fn is_stalled(tcp: &Subflow, in_flight: Duration) -> bool {
    const SLACK: Duration = Duration::from_millis(150);
    let since_ack = Duration::from_millis(tcp.since_ack_ms.into());
    let rtt = Duration::from_micros(tcp.rtt_us.into());
    in_flight.min(since_ack) > 2 * rtt + SLACK
}

fn describe(error: io::Error) -> String {
    match error.kind() {
        // Without the end of TLS: the peer was killed, or refuses the key.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            CLOSED.to_owned()
        }
        _ if failure::refuses_key(&error) => KEY_REFUSED.to_owned(),
        _ => error.to_string(),
    }
}
