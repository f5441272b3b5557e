//! Second connection. When it fails, data that the peer has not confirmed is sent again over the
//! first one, so the tunnel and its streams go on without it.
//!
//! An end that leaves it says over the first connection how much it has received, and the other one
//! leaves, too. Each then sends the data that the other has not received, and everything that
//! waited.

use super::frame::{self, HEADER, Kind};
use super::{Lane, Mux};

/// Most data that the peer has not confirmed, bytes.
const UNHEARD: usize = 512 << 10;

/// Received data that is confirmed at once, bytes; less is confirmed every second.
const MUCH: u64 = 16 << 10;

/// Size of a confirmation, which is not confirmed alone, bytes.
const LITTLE: u64 = HEADER as u64 + 8 + 1;

/// Use of the second connection by an end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExpressState {
    /// There is no second connection.
    #[default]
    Absent,
    /// Both ends use it.
    Joined,
    /// This end has left it, and does not know yet how much the peer has received.
    Leaving,
}

/// One end of the second connection.
#[derive(Debug, Default)]
pub struct Express {
    pub state: ExpressState,
    /// Data that was sent last and is not confirmed.
    unheard: Vec<u8>,
    /// Number of bytes confirmed before.
    heard: u64,
    /// Part of a frame that was received.
    partial: Vec<u8>,
    /// Number of bytes received in complete frames; `confirmed` of them were confirmed to the peer.
    received: u64,
    confirmed: u64,
}

impl Express {
    /// Whether more may be sent before the peer confirms.
    pub fn has_room(&self) -> bool {
        self.state == ExpressState::Joined && self.unheard.len() < UNHEARD
    }

    /// Keeps sent data until it is confirmed.
    pub fn keep(&mut self, sent: &[u8]) {
        self.unheard.extend_from_slice(sent);
    }

    /// Takes the complete frames of the received data.
    pub fn complete(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.partial.extend_from_slice(bytes);
        let rest = self.partial.split_off(frame::complete(&self.partial));
        let complete = std::mem::replace(&mut self.partial, rest);
        self.received += complete.len() as u64;
        complete
    }

    /// Takes a confirmation of `heard` bytes. Returns the data after them.
    ///
    /// # Errors
    /// If that is less than it has said before, or more than was sent.
    fn unheard_after(&mut self, heard: u64) -> Result<Vec<u8>, String> {
        let more = heard.checked_sub(self.heard).map(usize::try_from);
        let more = more.and_then(Result::ok);
        let more = more.filter(|more| *more <= self.unheard.len());
        let more = more.ok_or("the peer has confirmed what was not sent")?;
        self.heard = heard;
        Ok(self.unheard.split_off(more))
    }
}

impl Mux {
    /// Uses the second connection, which the peer knows. Returns `false` if there is one already.
    pub fn join(&mut self) -> bool {
        let joins = self.can_join();
        if joins {
            self.express = Express {
                state: ExpressState::Joined,
                ..Express::default()
            };
        }
        joins
    }

    /// Whether the second connection is in use.
    pub fn is_joined(&self) -> bool {
        self.express.state == ExpressState::Joined
    }

    /// Whether a second connection may join.
    pub fn can_join(&self) -> bool {
        // A peer that reads nothing could otherwise add to it.
        let has_nothing_to_repeat = self.ends[Lane::Bulk as usize].again.is_empty();
        let is_open = self.is_established() && !self.is_closed;
        self.express.state == ExpressState::Absent && has_nothing_to_repeat && is_open
    }

    /// Data sent over the second connection and not confirmed, bytes.
    pub fn unheard_bytes(&self) -> usize {
        self.express.unheard.len()
    }

    /// Leaves the second connection, which has failed or is not wanted any more.
    pub fn leave(&mut self) {
        if self.is_joined() {
            self.express.state = ExpressState::Leaving;
            let received = self.express.received.to_be_bytes();
            self.say_over(Lane::Bulk, Kind::Left, 0, &received);
            self.wake_sender(Lane::Express);
        }
    }

    /// Confirms received data, if it is much, or `all` of it.
    pub(super) fn confirm(&mut self, all: bool) {
        let enough = if all { LITTLE } else { MUCH };
        let express = &mut self.express;
        if express.received - express.confirmed >= enough && express.state == ExpressState::Joined {
            express.confirmed = express.received;
            let received = express.received.to_be_bytes();
            self.say_over(Lane::Express, Kind::Heard, 0, &received);
        }
    }

    /// Takes the peer's confirmation of this many bytes.
    pub(super) fn heard(&mut self, heard: u64) -> Result<(), String> {
        self.express.unheard = self.express.unheard_after(heard)?;
        self.wake_sender(Lane::Express);
        Ok(())
    }

    /// Handles that the peer has left the second connection after `heard` bytes over it.
    pub(super) fn left(&mut self, heard: u64) -> Result<(), String> {
        self.leave();
        if self.express.state == ExpressState::Absent {
            // The peer considers joined what this end does not.
            self.say_over(Lane::Bulk, Kind::Left, 0, &0_u64.to_be_bytes());
            return Ok(());
        }
        let unheard = self.express.unheard_after(heard)?;
        self.express = Express::default();
        let waiting = std::mem::take(&mut self.ends[Lane::Express as usize].first);
        let turns = std::mem::take(&mut self.ends[Lane::Express as usize].turns);
        let bulk = &mut self.ends[Lane::Bulk as usize];
        bulk.again.extend(unheard);
        bulk.first.extend(waiting);
        bulk.turns.extend(turns);
        let streams = self.streams.values_mut();
        streams.for_each(|stream| stream.lane = Lane::Bulk);
        self.wake_sender(Lane::Bulk);
        Ok(())
    }
}
