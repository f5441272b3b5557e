//! Credit: the position up to which the sender of each stream may send, by the receiver's
//! [`Windows`].
//!
//! The library has one window for all streams. With it as the only one, a few streams that are not
//! read would use up what all of them may have unread. Each end therefore sends the limits of the
//! streams that it receives in a stream of its own: pairs of a stream's identifier and the position
//! up to which it may be sent, 8 bytes each.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::{Instant, MissedTickBehavior, interval};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use super::library::{Connection, Receiving, Sending};
use crate::window::{FIRST, Read, Windows};

/// Interval of the search for stalled streams.
const RELIEVE: Duration = Duration::from_millis(500);

/// Limit of a stream that nobody reads any more: writing to it fails or has no effect.
const NO_LIMIT: u64 = u64::MAX;

/// Credit of a tunnel's streams in both directions.
#[derive(Debug)]
pub(super) struct Credit {
    incoming: Mutex<Incoming>,
    /// Notification of limits to send.
    changed: Notify,
    outgoing: Mutex<Outgoing>,
}

#[derive(Debug)]
struct Incoming {
    windows: Windows,
    /// Tokens whose cancellation resets a stream.
    resets: HashMap<u64, CancellationToken>,
    /// Limits to be sent.
    changed: HashMap<u64, u64>,
}

#[derive(Debug, Default)]
struct Outgoing {
    streams: HashMap<u64, Granted>,
    is_closed: bool,
}

/// Position that the peer has granted, and the writer that waits for more.
#[derive(Debug)]
struct Granted {
    limit: u64,
    writer: Option<Waker>,
}

impl Credit {
    /// Credit of a tunnel whose windows may together grow by `budget` bytes.
    pub fn new(budget: usize) -> Arc<Credit> {
        Arc::new(Credit {
            incoming: Mutex::new(Incoming {
                windows: Windows::new(budget as u64),
                resets: HashMap::new(),
                changed: HashMap::new(),
            }),
            changed: Notify::new(),
            outgoing: Mutex::default(),
        })
    }

    /// Sends limits and resets stalled streams until the connection is closed.
    pub async fn run(self: Arc<Self>, connection: Connection, mut limits: Sending) {
        let mut ticks = interval(RELIEVE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = connection.closed() => break,
                _ = ticks.tick() => self.relieve(),
                () = self.changed.notified() => {
                    if self.send(&mut limits).await.is_err() {
                        break;
                    }
                }
            }
        }
        let mut outgoing = self.outgoing.lock();
        outgoing.is_closed = true;
        for granted in outgoing.streams.values_mut() {
            granted.raise(NO_LIMIT);
        }
    }

    fn relieve(&self) {
        let mut incoming = self.incoming.lock();
        for id in incoming.windows.relieve(Instant::now()) {
            if let Some(reset) = incoming.resets.remove(&id) {
                reset.cancel();
            }
        }
    }

    async fn send(&self, limits: &mut Sending) -> io::Result<()> {
        let changed = std::mem::take(&mut self.incoming.lock().changed);
        let pairs = changed.into_iter().flat_map(|(id, limit)| [id, limit]);
        let message: Vec<u8> = pairs.flat_map(u64::to_be_bytes).collect();
        limits.write_all(&message).await
    }

    /// Receives limits until the connection is closed.
    pub async fn receive(&self, mut limits: Receiving) -> io::Result<()> {
        let mut pair = [0; 16];
        loop {
            limits.read_exact(&mut pair).await?;
            let [id, limit] = [&pair[..8], &pair[8..]]
                .map(|half| u64::from_be_bytes(half.try_into().expect("8 bytes")));
            // A stream that is not known was dropped.
            if let Some(granted) = self.outgoing.lock().streams.get_mut(&id) {
                granted.raise(limit);
            }
        }
    }

    /// Adds a stream from the peer with a window of [`FIRST`] bytes. The future is ready when the
    /// stream is to be reset.
    pub fn open_incoming(&self, id: u64) -> WaitForCancellationFutureOwned {
        let reset = CancellationToken::new();
        let mut incoming = self.incoming.lock();
        incoming.windows.open(id, Instant::now());
        incoming.resets.insert(id, reset.clone());
        reset.cancelled_owned()
    }

    /// Says whose stream from the peer this is.
    pub fn belongs_to(&self, id: u64, client: u64) {
        self.incoming.lock().windows.belongs_to(id, client);
    }

    /// Changes the budget by which the windows may grow together, bytes.
    pub fn set_budget(&self, budget: usize) {
        self.incoming.lock().windows.set_budget(budget as u64);
    }

    /// Records a reader's progress. Returns the position up to which the peer may send now, if it
    /// has changed.
    pub fn read(&self, id: u64, read: Read) -> Option<u64> {
        let mut incoming = self.incoming.lock();
        let limit = incoming.windows.read(id, read, Instant::now())?;
        incoming.changed.insert(id, limit);
        self.changed.notify_one();
        Some(limit)
    }

    /// Removes a stream from the peer, and wakes its writer if it has not ended.
    pub fn close_incoming(&self, id: u64, has_ended: bool) {
        let mut incoming = self.incoming.lock();
        incoming.windows.close(id);
        incoming.resets.remove(&id);
        if has_ended {
            incoming.changed.remove(&id);
        } else {
            incoming.changed.insert(id, NO_LIMIT);
            self.changed.notify_one();
        }
    }

    /// Adds a stream to the peer.
    pub fn open_outgoing(&self, id: u64) {
        let mut outgoing = self.outgoing.lock();
        let limit = if outgoing.is_closed { NO_LIMIT } else { FIRST };
        let writer = None;
        outgoing.streams.insert(id, Granted { limit, writer });
    }

    /// The position up to which the stream may be written; pending if it is no more than `written`.
    pub fn poll_limit(&self, id: u64, written: u64, cx: &mut Context<'_>) -> Poll<u64> {
        let mut outgoing = self.outgoing.lock();
        match outgoing.streams.get_mut(&id) {
            Some(granted) if granted.limit <= written => {
                granted.writer = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(granted) => Poll::Ready(granted.limit),
            None => Poll::Ready(NO_LIMIT),
        }
    }

    /// Ready when nobody reads the stream any more.
    pub fn poll_unread(&self, id: u64, cx: &mut Context<'_>) -> Poll<()> {
        self.poll_limit(id, NO_LIMIT - 1, cx).map(drop)
    }

    /// Removes a stream to the peer.
    pub fn close_outgoing(&self, id: u64) {
        self.outgoing.lock().streams.remove(&id);
    }
}

impl Granted {
    fn raise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}
