//! Transmission by a multiplexer: frames about streams, then datagrams, then data in turns.

use std::task::{Context, Poll};

use super::express::State;
use super::frame::{self, DATA_HEADER, Kind};
use super::{Lane, Mux, RECORD, outgoing};

/// Data that a stream may send in its turn, bytes.
const TURN: usize = 4000;

impl Mux {
    /// Ready when there is something to send over this connection.
    pub fn poll_ready(&mut self, lane: Lane, cx: &Context<'_>) -> Poll<()> {
        if lane == Lane::Express && !self.express.has_room() {
            self.ends[lane as usize].sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let no_datagrams = self.sending.is_empty() || lane != self.lane_of_frames();
        let end = &mut self.ends[lane as usize];
        if end.again.is_empty() && end.first.is_empty() && end.turns.is_empty() && no_datagrams {
            end.sender = Some(cx.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(())
    }

    /// Appends the next data for this connection.
    pub fn transmit(&mut self, lane: Lane, to: &mut Vec<u8>) {
        match lane {
            Lane::Bulk => self.transmit_over(lane, to),
            Lane::Express if self.express.has_room() => {
                let before = to.len();
                self.transmit_over(lane, to);
                self.express.keep(&to[before..]);
            }
            Lane::Express => {}
        }
    }

    fn transmit_over(&mut self, lane: Lane, to: &mut Vec<u8>) {
        let again = &mut self.ends[lane as usize].again;
        if !again.is_empty() {
            to.extend(again.drain(..again.len().min(RECORD)));
            return;
        }
        to.append(&mut self.ends[lane as usize].first);
        // Datagrams leave room for a turn, so that they can't stop the streams.
        while lane == self.lane_of_frames()
            && to.len() + DATA_HEADER + TURN <= RECORD
            && let Some(datagram) = self.sending.pop()
        {
            frame::write(to, Kind::Datagram, 0, &datagram);
        }
        while let Some(id) = self.ends[lane as usize].turns.pop_front() {
            // A stream that is alone takes the turns of others.
            let room = RECORD.saturating_sub(to.len() + DATA_HEADER);
            let is_alone = self.ends[lane as usize].turns.is_empty();
            let largest = if is_alone { room } else { TURN };
            self.turn(id, largest.max(TURN), to);
            if to.len() + DATA_HEADER + TURN > RECORD {
                break;
            }
        }
    }

    /// Gives a stream its turn.
    fn turn(&mut self, id: u32, largest: usize, to: &mut Vec<u8>) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let outgoing = &mut stream.outgoing;
        outgoing.has_turn = false;
        let (bytes, position) = (outgoing.next(largest), outgoing.position());
        if bytes > 0 {
            frame::write_data_header(to, id, bytes as u16, position);
            self.events
                .woken
                .extend(outgoing.send(bytes, to, &mut self.room));
            self.unsent_bytes -= bytes as u64;
        } else if outgoing.is_ready() {
            outgoing.state = outgoing::State::Ended;
            frame::write(to, Kind::End, id, &position.to_be_bytes());
        }
        self.line_up(id);
    }

    /// Queues a stream for its turn, if it has something to send.
    pub(super) fn line_up(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let lane = stream.lane_of_data(self.express.state == State::Joined);
        let outgoing = &mut stream.outgoing;
        if outgoing.is_ready() && !outgoing.has_turn && !self.is_closed {
            outgoing.has_turn = true;
            self.ends[lane as usize].turns.push_back(id);
            self.wake_sender(lane);
        }
    }

    /// Connection of datagrams and of frames about new streams.
    pub(super) fn lane_of_frames(&self) -> Lane {
        match self.is_joined() {
            true => Lane::Express,
            false => Lane::Bulk,
        }
    }

    /// Queues a frame about a stream, before all data.
    pub(super) fn say_of(&mut self, id: u32, kind: Kind, body: &[u8]) {
        if let Some(stream) = self.streams.get(&id) {
            self.say_over(stream.lane, kind, id, body);
        }
    }

    /// Queues a frame before all data of this connection.
    pub(super) fn say_over(&mut self, lane: Lane, kind: Kind, id: u32, body: &[u8]) {
        frame::write(&mut self.ends[lane as usize].first, kind, id, body);
        self.wake_sender(lane);
    }

    pub(super) fn wake_sender(&mut self, lane: Lane) {
        let sender = self.ends[lane as usize].sender.take();
        self.events.woken.extend(sender);
    }
}
