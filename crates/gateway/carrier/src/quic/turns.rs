//! Turns of writers at the flow control of the whole tunnel.
//!
//! The library wakes all writers that the tunnel's window has blocked, the last one first, so that
//! the same few would use it up again and again. Here they queue, and only the first one tries.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::PollSemaphore;

/// Stream to the peer, whose data takes room in a window of its own and in that of the tunnel.
pub trait Outlet {
    /// Writes at once what both windows allow; pending if that is nothing.
    fn poll_write(&mut self, cx: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>>;
}

/// Queue of a tunnel's writers.
pub struct Turns<S> {
    first: Arc<Semaphore>,
    /// Number of writers in the queue, the first one included.
    queued: AtomicUsize,
    /// A stream without data, which only the tunnel's window can block.
    probe: Mutex<S>,
}

impl<S: Outlet> Turns<S> {
    /// An empty queue; `probe` must never carry data.
    pub fn new(probe: S) -> Turns<S> {
        Turns {
            first: Arc::new(Semaphore::new(1)),
            queued: AtomicUsize::new(0),
            probe: Mutex::new(probe),
        }
    }

    /// Whether the tunnel's window is used up. If so, the task is woken when it is not.
    fn is_blocked(&self, cx: &mut Context<'_>) -> bool {
        self.probe.lock().poll_write(cx, &[]).is_pending()
    }
}

/// A writer's part in the turns.
pub struct Turn<S> {
    turns: Arc<Turns<S>>,
    /// Place in the queue, while the writer is in it.
    place: Option<Place<S>>,
}

impl<S: Outlet> Turn<S> {
    /// A writer that is not in the queue.
    pub fn new(turns: Arc<Turns<S>>) -> Turn<S> {
        Turn { turns, place: None }
    }

    /// Writes when it is this writer's turn.
    pub fn poll_write(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.place.is_none() && self.turns.queued.load(Ordering::Relaxed) == 0 {
            let written = stream.poll_write(cx, buf);
            if written.is_ready() {
                return written;
            }
        }
        let place = self.place.get_or_insert_with(|| Place::new(&self.turns));
        ready!(place.poll_first(cx));
        let written = stream.poll_write(cx, buf);
        if written.is_ready() || !self.turns.is_blocked(cx) {
            // If nothing was written the stream's own window is used up, so others may go first.
            self.place = None;
        }
        written
    }
}

/// A place in the queue.
struct Place<S> {
    turns: Arc<Turns<S>>,
    semaphore: PollSemaphore,
    is_first: Option<OwnedSemaphorePermit>,
}

impl<S> Place<S> {
    fn new(turns: &Arc<Turns<S>>) -> Place<S> {
        turns.queued.fetch_add(1, Ordering::Relaxed);
        Place {
            turns: turns.clone(),
            semaphore: PollSemaphore::new(turns.first.clone()),
            is_first: None,
        }
    }

    /// Waits until all earlier writers have had their turn.
    fn poll_first(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_first.is_none() {
            self.is_first = ready!(self.semaphore.poll_acquire(cx));
        }
        Poll::Ready(())
    }
}

impl<S> Drop for Place<S> {
    fn drop(&mut self) {
        self.turns.queued.fetch_sub(1, Ordering::Relaxed);
    }
}
