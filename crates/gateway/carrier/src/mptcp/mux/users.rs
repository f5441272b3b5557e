//! Operations of the users of streams.

use std::io::{self, ErrorKind};
use std::task::{Context, Poll};

use tokio::io::ReadBuf;
use tokio::time::Instant;

use super::frame::Kind;
use super::{Mux, Stream, incoming, outgoing};
use crate::window::{Read, stalled};

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
        if stream.outgoing.state != outgoing::State::Open || self.is_closed {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let limit = self.limits.stream_bytes.max(1);
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
            outgoing::State::Received => return Poll::Ready(Ok(())),
            outgoing::State::Stopped | outgoing::State::Reset => {
                return Poll::Ready(Err(ErrorKind::ConnectionReset.into()));
            }
            _ if self.is_closed => return Poll::Ready(Err(ErrorKind::BrokenPipe.into())),
            outgoing::State::Open => outgoing.state = outgoing::State::Ending,
            outgoing::State::Ending | outgoing::State::Ended => {}
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

    /// Ready when a stream was reset or the tunnel is closed, before all was received.
    pub fn poll_reset(&mut self, id: u32, cx: &Context<'_>) -> Poll<io::Error> {
        match self.poll_end(id, cx) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            _ => Poll::Pending,
        }
    }

    /// Reads data of a stream; nothing at its end.
    ///
    /// # Errors
    /// If the peer has reset it, or the tunnel is closed and all that was received has been read.
    pub fn poll_read(
        &mut self,
        id: u32,
        buffer: &mut ReadBuf<'_>,
        now: Instant,
        cx: &Context<'_>,
    ) -> Poll<io::Result<()>> {
        let incoming = &mut self.streams.get_mut(&id).expect("it has a reader").incoming;
        let taken = incoming.read(buffer);
        let waits = taken == 0 && buffer.remaining() > 0;
        let read = Read {
            taken: taken as u64,
            waits,
            ahead: incoming.ahead_bytes(),
        };
        let raised = self.windows.read(id.into(), read, now);
        if let Some(limit) = raised.filter(|_| incoming.state == incoming::State::Open) {
            incoming.raise(limit);
            self.say_of(id, Kind::Credit, &limit.to_be_bytes());
        }
        if waits {
            self.poll_end(id, cx)
        } else {
            Poll::Ready(Ok(()))
        }
    }

    /// The end of a stream; pending while more may come.
    fn poll_end(&mut self, id: u32, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let stream = self.streams.get_mut(&id).expect("it has a reader");
        let incoming = &mut stream.incoming;
        match incoming.state {
            incoming::State::Ended => Poll::Ready(Ok(())),
            incoming::State::Open if !self.is_closed => {
                incoming.reader = Some(cx.waker().clone());
                Poll::Pending
            }
            incoming::State::Stalled => Poll::Ready(Err(stalled())),
            _ => Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
        }
    }

    /// Resets the streams that stalled longest if windows need more than there is, lets those that
    /// send little rest, and confirms received data. Must be called every second.
    pub fn tick(&mut self, now: Instant) {
        let streams = self.streams.values_mut();
        streams.for_each(|stream| stream.outgoing.recent.tick());
        self.confirm(true);
        for id in self.windows.relieve(now) {
            let id = id as u32;
            let Some(Stream { incoming, .. }) = self.streams.get_mut(&id) else {
                continue;
            };
            let is_open = incoming.state == incoming::State::Open;
            incoming.end(incoming::State::Stalled);
            self.events.woken.extend(incoming.reader.take());
            if is_open {
                self.say_of(id, Kind::Stop, &[]);
            }
        }
    }

    /// Drops the writer. The stream is reset, unless it was ended.
    pub fn drop_writer(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).expect("it has a writer");
        stream.has_writer = false;
        stream.outgoing.take_writer();
        if stream.outgoing.state == outgoing::State::Open {
            let lost = stream
                .outgoing
                .discard(outgoing::State::Reset, &mut self.room);
            self.unsent_bytes -= lost as u64;
            self.say_of(id, Kind::Reset, &[]);
        }
        self.forget(id);
    }

    /// Drops the reader. The stream is stopped, unless the peer has ended it.
    pub fn drop_reader(&mut self, id: u32) {
        let stream = self.streams.get_mut(&id).expect("it has a reader");
        stream.has_reader = false;
        let is_open = stream.incoming.state == incoming::State::Open;
        stream.incoming.reader = None;
        stream.incoming.end(incoming::State::Stopped);
        self.windows.close(id.into());
        if is_open {
            self.say_of(id, Kind::Stop, &[]);
        }
        self.forget(id);
    }
}
