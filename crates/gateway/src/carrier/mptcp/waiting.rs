//! The datagrams that wait to be sent or taken, and the reason of a tunnel's end.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use tokio::sync::Notify;

use crate::carrier::NotSent;

/// Datagrams that wait, in each direction; then the oldest is discarded.
const WAITING: usize = 256;
/// Limit of the size of all waiting datagrams, bytes.
const WAITING_BYTES: usize = 1 << 20;

/// The datagrams that wait, and the close reason.
#[derive(Debug, Default)]
pub struct Control {
    /// To the peer.
    pub sending: Waiting,
    /// From the peer.
    pub received: Waiting,
    close_reason: Mutex<Option<String>>,
    /// The tunnel ends.
    pub ends: Notify,
    close_sent: AtomicBool,
    close_sent_now: Notify,
}

impl Control {
    /// Queues a datagram.
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        const LARGEST: usize = u16::MAX as usize - 1;
        if datagram.len() > LARGEST {
            return Err(NotSent::TooLarge(LARGEST));
        }
        self.sending.push(datagram);
        Ok(())
    }

    /// Tells the peer why the tunnel ends.
    pub fn request_close(&self, reason: &str) {
        let mut close_reason = self.close_reason.lock().expect("no holder panics");
        close_reason.get_or_insert_with(|| reason.chars().take(1000).collect());
        self.ends.notify_one();
    }

    /// The reason that was given.
    pub fn close_reason(&self) -> String {
        let mut close_reason = self.close_reason.lock().expect("no holder panics");
        close_reason.take().unwrap_or_default()
    }

    /// CLOSE was given to yamux.
    pub fn set_close_sent(&self) {
        self.close_sent.store(true, Ordering::Release);
        self.close_sent_now.notify_one();
    }

    /// Waits until CLOSE was given to yamux.
    pub async fn until_close_sent(&self) {
        while !self.close_sent.load(Ordering::Acquire) {
            self.close_sent_now.notified().await;
        }
    }
}

/// A queue that discards the oldest.
#[derive(Debug, Default)]
pub struct Waiting {
    queue: Mutex<(VecDeque<Bytes>, usize)>,
    filled: Notify,
}

impl Waiting {
    /// Adds one; the oldest go if there are too many.
    pub fn push(&self, datagram: Bytes) {
        let mut queue = self.queue.lock().expect("no holder panics");
        let (datagrams, bytes) = &mut *queue;
        *bytes += datagram.len();
        datagrams.push_back(datagram);
        while datagrams.len() > WAITING || *bytes > WAITING_BYTES {
            *bytes -= datagrams.pop_front().map_or(0, |oldest| oldest.len());
        }
        drop(queue);
        self.filled.notify_one();
    }

    /// The size of all together, bytes.
    pub fn bytes(&self) -> usize {
        self.queue.lock().expect("no holder panics").1
    }

    fn try_pop(&self) -> Option<Bytes> {
        let mut queue = self.queue.lock().expect("no holder panics");
        let datagram = queue.0.pop_front()?;
        queue.1 -= datagram.len();
        Some(datagram)
    }

    /// Waits for the next one.
    pub async fn pop(&self) -> Bytes {
        loop {
            if let Some(datagram) = self.try_pop() {
                // Others may wait, and only one was notified.
                self.filled.notify_one();
                return datagram;
            }
            self.filled.notified().await;
        }
    }
}
