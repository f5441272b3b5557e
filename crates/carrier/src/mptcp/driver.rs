//! The task of a connection: moves what is sent and received between the multiplexer and TLS.

use std::convert::Infallible;
use std::future::poll_fn;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Instant, Interval, interval, timeout};
use tokio_rustls::TlsStream;

use super::allowance::Allowance;
use super::core::Core;
use super::mux::{Lane, RECORD};

/// What is read from the socket at once, bytes: TLS by itself reads 4096.
const READ: usize = 64 << 10;

/// How long sending the reason of the end may take, and the peer's closing of the connection.
const DRAIN: Duration = Duration::from_millis(500);

/// How often the silence is measured.
const TICK: Duration = Duration::from_secs(1);

/// Each side sends something after this many ticks.
const KEEP_ALIVE: u32 = 5;

/// Longer silence means that the peer, or all paths to it, are dead.
const SILENCE: Duration = Duration::from_secs(20);

/// Why a tunnel is closed if the peer gives no reason.
const CLOSED: &str = "the peer has closed the connection";

/// The socket below TLS.
pub type Socket = BufReader<TcpStream>;

/// Prepares a connected socket for TLS.
pub fn buffered(stream: TcpStream) -> Socket {
    BufReader::with_capacity(READ, stream)
}

/// What the task owns.
struct Driver {
    tls: TlsStream<Socket>,
    core: Arc<Core>,
    lane: Lane,
    allowance: Allowance,
    received: Vec<u8>,
    /// What is being written, and how much of it was.
    record: Vec<u8>,
    written: usize,
    clock: Interval,
    ticks: u32,
    /// When data was last received.
    heard: Instant,
}

/// Runs until the tunnel is closed.
pub async fn run(mut tls: TlsStream<Socket>, core: Arc<Core>, lane: Lane) {
    // What is left of a record would leave room for a part of the next one only.
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
    };
    tokio::select! {
        biased;
        Err(reason) = poll_fn(|cx| driver.poll(cx)) => core.close(reason),
        // The peer closes the connection when it has received the reason.
        _ = core.until_closed() => drop(timeout(DRAIN, poll_fn(|cx| driver.poll(cx))).await),
    }
    drop(driver);
    core.end(lane);
}

impl Driver {
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
                return Poll::Pending;
            }
        }
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
        Poll::Ready(self.core.mux(|mux| mux.receive(self.lane, bytes, now)))
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

fn describe(error: io::Error) -> String {
    match error.kind() {
        // Without the end of TLS: the peer was killed.
        ErrorKind::UnexpectedEof => CLOSED.to_owned(),
        _ => error.to_string(),
    }
}
