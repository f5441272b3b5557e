//! Delays the answers to yamux' pings.
//!
//! yamux enlarges a stream's receive window while half of it is used up within two RTTs, which it
//! measures by pings. The kernel sends them over the fastest path. But what is lost on another one
//! holds up all data after it for some of that path's RTTs, and the sender needs windows for as
//! long; it has no other use for the RTT.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::time::{Instant, Sleep, sleep};

/// Makes windows of one to two seconds of a stream's rate.
const DELAY: Duration = Duration::from_millis(250);

/// A frame of yamux without a body.
type Header = [u8; 12];

/// The answer that is delayed.
#[derive(Debug)]
pub struct Pong {
    held: Option<Header>,
    due: Pin<Box<Sleep>>,
}

impl Pong {
    /// None yet.
    pub fn new() -> Pong {
        Pong {
            held: None,
            due: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// The frame as an answer to a ping, if it is one.
    pub fn answer(frame: &[u8]) -> Option<Header> {
        const PING: u8 = 2;
        const ACK: [u8; 2] = [0, 2];
        let header: Header = frame.try_into().ok()?;
        (header[1] == PING && header[2..4] == ACK).then_some(header)
    }

    /// Holds an answer back and returns the one held before, if any.
    pub fn hold(&mut self, answer: Header) -> Option<Header> {
        self.due.as_mut().reset(Instant::now() + DELAY);
        self.held.replace(answer)
    }

    /// Waits until an answer is due.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Header> {
        if self.held.is_some() {
            ready!(self.due.as_mut().poll(cx));
        }
        self.held.take().map_or(Poll::Pending, Poll::Ready)
    }
}
