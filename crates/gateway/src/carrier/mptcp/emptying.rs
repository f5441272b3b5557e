//! Empties the queues of all streams into yamux, in the task of yamux: a task for each stream would
//! cost a wake-up of another thread for each frame.

use std::future::poll_fn;
use std::task::{Context, Poll};

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use tokio::sync::mpsc;

use super::stream::{Queued, empty};

/// All streams of a tunnel.
pub struct Emptying {
    added: mpsc::UnboundedReceiver<Queued>,
    streams: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Emptying {
    /// No streams; they come from the sender.
    pub fn new() -> (mpsc::UnboundedSender<Queued>, Emptying) {
        let (sender, added) = mpsc::unbounded_channel();
        let streams = FuturesUnordered::new();
        (sender, Emptying { added, streams })
    }

    /// Makes progress; ready when there are no streams and can be none.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let ended = loop {
            match self.added.poll_recv(cx) {
                Poll::Ready(Some(queued)) => self.streams.push(empty(queued).boxed()),
                Poll::Ready(None) => break true,
                Poll::Pending => break false,
            }
        };
        while let Poll::Ready(Some(())) = self.streams.poll_next_unpin(cx) {}
        match ended && self.streams.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Waits until there are no streams and can be none.
    pub async fn finish(mut self) {
        poll_fn(|cx| self.poll(cx)).await;
    }
}
