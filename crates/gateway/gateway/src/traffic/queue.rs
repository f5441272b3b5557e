//! A queue of datagrams that is bounded in bytes; what does not fit is dropped, as in a socket.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use crate::wire::Destination;

/// Memory of a datagram besides its payload, bytes, about.
const OVERHEAD: usize = 256;

/// A datagram with its destination or origin.
#[derive(Debug)]
pub struct Packet {
    /// Destination, or origin.
    pub peer: Destination,
    /// Payload.
    pub payload: Bytes,
    _space: OwnedSemaphorePermit,
}

/// Sending end of a queue of datagrams.
#[derive(Clone, Debug)]
pub struct Sender {
    space: Arc<Semaphore>,
    queue: mpsc::UnboundedSender<Packet>,
}

/// A queue of at most `bytes`.
pub fn queue(bytes: usize) -> (Sender, mpsc::UnboundedReceiver<Packet>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let space = Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
    let queue = sender;
    (Sender { space, queue }, receiver)
}

impl Sender {
    /// Puts a datagram into the queue. Returns `false` if it is full or its receiver is gone.
    pub fn offer(&self, peer: Destination, payload: Bytes) -> bool {
        let size = u32::try_from(payload.len() + OVERHEAD).expect("a datagram has at most 64 KiB");
        let Ok(space) = self.space.clone().try_acquire_many_owned(size) else {
            return false;
        };
        let packet = Packet {
            peer,
            payload,
            _space: space,
        };
        self.queue.send(packet).is_ok()
    }

    /// Whether the receiver is gone.
    pub fn is_closed(&self) -> bool {
        self.queue.is_closed()
    }
}
