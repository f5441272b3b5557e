//! Sending: the queue of each stream, the peer's window, and the turns of streams.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::task::{Context, Poll, Waker};

use super::express::ExpressState;
use super::frame::{self, DATA_HEADER, Kind};
use super::lane::Recent;
use super::{Lane, Mux, RECORD};

/// Data that each stream can queue even if the others have taken all room of the tunnel, bytes.
const OWN_ROOM: usize = 16 << 10;

/// State of a stream's sending half (RFC 9000, section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendState {
    /// Data is taken.
    Open,
    /// The writer has ended it; the end is not sent yet.
    Ending,
    /// The end was sent.
    Ended,
    /// The peer has received everything.
    Received,
    /// The peer needs no more data.
    Stopped,
    /// The writer was dropped before the end.
    Reset,
}

/// Queue of a stream's data, and the peer's window.
#[derive(Debug)]
pub struct Outgoing {
    pub state: SendState,
    /// Position up to which the peer takes data; data was sent up to `sent`.
    limit: u64,
    sent: u64,
    pub recent: Recent,
    /// Whether the stream is queued for its turn.
    pub has_turn: bool,
    queue: VecDeque<u8>,
    /// Part of the queue that takes room shared by all streams, bytes.
    shared: usize,
    /// Task that waits, and the length of the queue at which it is woken, bytes.
    writer: Option<(Waker, usize)>,
}

impl Outgoing {
    /// A half with an empty queue, and the window that the peer gives a new stream.
    pub fn new(window: u64) -> Outgoing {
        Outgoing {
            state: SendState::Open,
            limit: window,
            sent: 0,
            recent: Recent::default(),
            has_turn: false,
            queue: VecDeque::new(),
            shared: 0,
            writer: None,
        }
    }

    /// Whether the stream may send something now.
    pub fn is_ready(&self) -> bool {
        match self.queue.is_empty() {
            true => self.state == SendState::Ending,
            false => self.sent < self.limit,
        }
    }

    /// Whether sending is over: everything was sent, and was received or need not be.
    pub fn is_over(&self) -> bool {
        matches!(
            self.state,
            SendState::Received | SendState::Stopped | SendState::Reset
        )
    }

    /// Position up to which data was sent.
    pub fn position(&self) -> u64 {
        self.sent
    }

    /// Raises the position up to which the peer takes data.
    pub fn raise(&mut self, limit: u64) {
        self.limit = self.limit.max(limit);
    }

    /// Queues as much as fits into a queue of `limit` bytes and into the `room` of all streams, and
    /// reduces the room. Returns the number of bytes.
    pub fn queue(&mut self, bytes: &[u8], limit: usize, room: &mut usize) -> usize {
        let queued = self.queue.len();
        let wanted = bytes.len().min(limit.saturating_sub(queued));
        let own = OWN_ROOM.saturating_sub(queued).min(wanted);
        let shared = (wanted - own).min(*room);
        *room -= shared;
        self.shared += shared;
        self.queue.extend(&bytes[..own + shared]);
        own + shared
    }

    /// Size of the next frame's body, at most `largest` bytes.
    pub fn next(&self, largest: usize) -> usize {
        let allowed = usize::try_from(self.limit - self.sent).unwrap_or(usize::MAX);
        self.queue.len().min(allowed).min(largest)
    }

    /// Moves data from the queue, and returns the writer if it is to be woken.
    pub fn send(&mut self, bytes: usize, to: &mut Vec<u8>, room: &mut usize) -> Option<Waker> {
        let (first, second) = self.queue.as_slices();
        let of_first = bytes.min(first.len());
        to.extend_from_slice(&first[..of_first]);
        to.extend_from_slice(&second[..bytes - of_first]);
        self.queue.drain(..bytes);
        shrink(&mut self.queue);
        self.sent += bytes as u64;
        self.recent.sent(bytes);
        let back = self.shared.min(bytes);
        self.shared -= back;
        *room += back;
        let queued = self.queue.len();
        self.writer
            .take_if(|(_, level)| queued <= *level)
            .map(|(writer, _)| writer)
    }

    /// Discards the queue. Returns its size.
    pub fn discard(&mut self, state: SendState, room: &mut usize) -> usize {
        self.state = state;
        *room += std::mem::take(&mut self.shared);
        std::mem::take(&mut self.queue).len()
    }

    /// Wakes the task when half of the queue was sent, or the state changes.
    pub fn wait(&mut self, cx: &Context<'_>) {
        self.writer = Some((cx.waker().clone(), self.queue.len() / 2));
    }

    /// Takes the task that waits.
    pub fn take_writer(&mut self) -> Option<Waker> {
        self.writer.take().map(|(writer, _)| writer)
    }
}

/// Returns memory that a queue no longer needs.
pub fn shrink(queue: &mut VecDeque<u8>) {
    let used = queue.len().max(OWN_ROOM);
    if queue.capacity() > 4 * used {
        queue.shrink_to(2 * used);
    }
}

/// Data that a stream may send in its turn, bytes.
const TURN: usize = 4000;

impl Mux {
    /// Queues data of a stream. Returns the number of bytes.
    ///
    /// # Errors
    /// If it was ended, the peer has stopped it, or the tunnel is closed.
    pub fn poll_write(
        &mut self,
        id: u32,
        bytes: &[u8],
        cx: &Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let stream = self.streams.get_mut(&id).expect("it has a writer");
        if stream.outgoing.state != SendState::Open || self.is_closed {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let limit = self.limits.buffer_bytes.max(1);
        let queued = stream.outgoing.queue(bytes, limit, &mut self.room);
        if queued == 0 && !bytes.is_empty() {
            stream.outgoing.wait(cx);
            return Poll::Pending;
        }
        self.accepted_bytes += queued as u64;
        self.unsent_bytes += queued as u64;
        self.line_up(id);
        Poll::Ready(Ok(queued))
    }

    /// Ends a stream; ready when the peer has received all of it.
    ///
    /// # Errors
    /// If the peer stops it, or the tunnel is closed.
    pub fn poll_shutdown(&mut self, id: u32, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let outgoing = &mut self.streams.get_mut(&id).expect("it has a writer").outgoing;
        match outgoing.state {
            SendState::Received => return Poll::Ready(Ok(())),
            SendState::Stopped | SendState::Reset => {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            _ if self.is_closed => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
            SendState::Open => outgoing.state = SendState::Ending,
            SendState::Ending | SendState::Ended => {}
        }
        outgoing.wait(cx);
        self.line_up(id);
        Poll::Pending
    }

    /// Ready when the peer has stopped a stream or the tunnel is closed.
    pub fn poll_stopped(&mut self, id: u32, cx: &Context<'_>) -> Poll<io::Error> {
        let outgoing = &mut self.streams.get_mut(&id).expect("it has a writer").outgoing;
        if outgoing.is_over() || self.is_closed {
            return Poll::Ready(ErrorKind::BrokenPipe.into());
        }
        outgoing.wait(cx);
        Poll::Pending
    }

    /// Drops the writer. The stream is reset, unless it was ended.
    pub fn drop_writer(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).expect("it has a writer");
        stream.has_writer = false;
        stream.outgoing.take_writer();
        if stream.outgoing.state == SendState::Open {
            let lost = stream.outgoing.discard(SendState::Reset, &mut self.room);
            self.unsent_bytes -= lost as u64;
            self.say_of(id, Kind::Reset, &[]);
        }
        self.forget(id);
    }

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
            outgoing.state = SendState::Ended;
            frame::write(to, Kind::End, id, &position.to_be_bytes());
        }
        self.line_up(id);
    }

    /// Queues a stream for its turn, if it has something to send.
    pub(super) fn line_up(&mut self, id: u32) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        let lane = stream.lane_of_data(self.express.state == ExpressState::Joined);
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
