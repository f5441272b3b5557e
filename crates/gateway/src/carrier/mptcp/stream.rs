//! A stream: a queue that the user fills and [`empty`] empties into yamux, and a reader.
//!
//! yamux shows a stream's reset and the end of its connection as its end. So the first byte of each
//! frame is its kind, [`DATA`] or [`END`], and yamux's own end is always a reset: a stream whose
//! last frame was not `END` was reset.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker, ready};

use futures_util::{AsyncWrite as _, Stream as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{Notify, OwnedSemaphorePermit};

use super::core::Core;
use crate::carrier::{Incoming, Outgoing, Stream};

/// What a stream may write in its turn, with the kind, bytes.
pub const TURN: usize = 4000;

/// The largest frame, bytes: four turns, written by a stream while no other waits for one. With the
/// header of yamux it fits into a TLS record of 16384 bytes.
pub const FRAME: usize = 4 * TURN;

/// The rest of the frame is data.
const DATA: u8 = 0;
/// The sender has no more data.
const END: u8 = 1;

/// Each stream can buffer this much, even if the others have taken all room of the tunnel, bytes.
const OWN_ROOM: usize = 16 << 10;

/// Turns that a frame of this size takes.
pub fn turns(bytes: usize) -> usize {
    bytes.div_ceil(TURN)
}

/// Makes a stream of the tunnel out of yamux's; its queue is to be emptied. A stream that this side
/// has opened has a `slot`, which is returned when the stream is dropped.
pub fn new(
    stream: yamux::Stream,
    core: &Arc<Core>,
    slot: Option<OwnedSemaphorePermit>,
) -> (Stream, Queued) {
    // yamux opens at most 256 streams that the peer has not acknowledged, which only a frame does.
    let acknowledges = slot.is_none();
    let half = Arc::new(Half {
        stream: Mutex::new(Some(stream)),
        queue: Mutex::default(),
        filled: Notify::new(),
        core: core.clone(),
        _slot: slot,
    });
    let stream = Stream {
        reader: Box::new(Reader {
            half: half.clone(),
            frame: None,
            at: 0,
            ended: false,
        }),
        writer: Box::new(Writer(half.clone())),
    };
    (stream, Queued { half, acknowledges })
}

/// A stream whose queue is to be emptied.
pub struct Queued {
    half: Arc<Half>,
    acknowledges: bool,
}

/// What the reader, the writer and [`empty`] have in common.
struct Half {
    /// `None` once the stream was reset.
    stream: Mutex<Option<yamux::Stream>>,
    queue: Mutex<Queue>,
    /// There is something in the queue, or it has ended.
    filled: Notify,
    core: Arc<Core>,
    _slot: Option<OwnedSemaphorePermit>,
}

#[derive(Default)]
struct Queue {
    data: VecDeque<u8>,
    /// Room taken from the tunnel's, bytes.
    taken: usize,
    /// The writer was shut down.
    ended: bool,
    /// yamux has taken the end.
    finished: bool,
    /// Nothing can be sent any more.
    dead: bool,
    writer: Option<Waker>,
}

impl Queue {
    /// Wakes the writer.
    fn wake(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }
}

impl Half {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no holder panics")
    }

    fn stream(&self) -> MutexGuard<'_, Option<yamux::Stream>> {
        self.stream.lock().expect("no holder panics")
    }

    /// Resets the stream in both directions, unless both have ended: yamux sends the peer a reset
    /// when its stream is dropped.
    fn reset(&self) {
        self.discard();
        drop(self.stream().take());
        self.filled.notify_one();
    }

    /// yamux has taken everything.
    fn finish(&self) {
        let mut queue = self.queue();
        queue.finished = true;
        queue.wake();
    }

    /// Discards what is queued; the writer gets an error.
    fn discard(&self) {
        let mut queue = self.queue();
        queue.dead = true;
        self.core.account.settle(queue.data.len());
        self.core.account.give_room(queue.taken);
        queue.taken = 0;
        queue.data = VecDeque::new();
        queue.wake();
    }

    /// The kind of the next frame and the turns that it could use; `None` if there is none yet.
    fn next_frame(&self) -> Option<(u8, usize)> {
        let queue = self.queue();
        match queue.data.len() {
            0 if queue.ended => Some((END, 1)),
            0 => None,
            bytes => Some((DATA, turns(1 + bytes.min(FRAME - 1)))),
        }
    }

    /// Makes a frame of this kind that takes at most `turns` turns.
    fn fill(&self, frame: &mut Vec<u8>, kind: u8, turns: usize) {
        frame.clear();
        frame.push(kind);
        let queue = self.queue();
        let (first, second) = queue.data.as_slices();
        for part in [first, second] {
            frame.extend(&part[..part.len().min(turns * TURN - frame.len())]);
        }
    }

    /// Removes data that yamux has taken from the queue.
    fn remove(&self, bytes: usize) {
        let mut queue = self.queue();
        if queue.dead {
            // It was discarded, and settled, meanwhile; it will be settled when it is written.
            return self.core.account.unsettle(bytes);
        }
        queue.data.drain(..bytes);
        let back = queue.taken.min(bytes);
        queue.taken -= back;
        self.core.account.give_room(back);
        // The room that it returns must be memory that others can have.
        let used = queue.data.len().max(OWN_ROOM);
        if queue.data.capacity() > 4 * used {
            queue.data.shrink_to(2 * used);
        }
        queue.wake();
    }

    /// Writes a frame of this kind to yamux when it is this stream's turn, of the size of at most
    /// `wanted` turns; how much of it was taken.
    async fn write(&self, frame: &mut Vec<u8>, kind: u8, wanted: usize) -> io::Result<usize> {
        let all = &self.core.account.turns;
        let own = all.acquire().await;
        let mut own = own.map_err(|_| ErrorKind::BrokenPipe)?;
        let mut held = 1;
        while held < wanted
            && let Ok(unused) = all.try_acquire()
        {
            own.merge(unused);
            held += 1;
        }
        self.fill(frame, kind, held);
        let mut own = Some(own);
        let taken = std::future::poll_fn(|cx| {
            let mut stream = self.stream();
            let Some(stream) = stream.as_mut() else {
                return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
            };
            let written = Pin::new(stream).poll_write(cx, frame);
            if written.is_pending() {
                // The peer's window is full: others may write meanwhile.
                own = None;
            }
            written
        })
        .await?;
        let used = turns(taken);
        let used = match own {
            Some(mut own) => own.split(used).expect("it holds those of the whole frame"),
            // It was written without turns, which are taken now.
            None => match all.acquire_many(used as u32).await {
                Ok(used) => used,
                Err(_) => return Err(ErrorKind::BrokenPipe.into()),
            },
        };
        used.forget();
        Ok(taken)
    }
}

/// Empties the queue into yamux until it has ended or the stream was reset.
pub async fn empty(queued: Queued) {
    let Queued { half, acknowledges } = queued;
    let mut frame = Vec::new();
    if acknowledges {
        match half.write(&mut frame, DATA, 1).await {
            Ok(taken) => half.remove(taken - 1),
            Err(_) => return half.discard(),
        }
    }
    loop {
        let Some((kind, wanted)) = half.next_frame() else {
            if half.queue().dead {
                return;
            }
            half.filled.notified().await;
            continue;
        };
        match half.write(&mut frame, kind, wanted).await {
            Ok(_) if kind == END => return half.finish(),
            Ok(taken) => half.remove(taken - 1),
            Err(_) => return half.discard(),
        }
    }
}

/// Dropped before its shutdown has returned, it resets the stream.
struct Writer(Arc<Half>);

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.0.queue().finished {
            self.0.reset();
        }
    }
}

impl Outgoing for Writer {
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        // The reader has ended: what follows is a reset.
        let reset = match self.0.stream().as_mut() {
            Some(stream) => Pin::new(stream).poll_next(cx).is_ready(),
            None => true,
        };
        match reset {
            true => Poll::Ready(ErrorKind::ConnectionReset.into()),
            false => Poll::Pending,
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let core = &self.0.core;
        let mut queue = self.0.queue();
        if queue.dead || queue.ended || core.account.turns.is_closed() {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        let queued = queue.data.len();
        let wanted = bytes
            .len()
            .min(core.stream_bytes.max(1).saturating_sub(queued));
        let own = OWN_ROOM.saturating_sub(queued).min(wanted);
        let taken = core.account.take_room(wanted - own);
        let accepted = own + taken;
        if accepted == 0 && !bytes.is_empty() {
            queue.writer = Some(cx.waker().clone());
            return Poll::Pending;
        }
        queue.taken += taken;
        queue.data.extend(&bytes[..accepted]);
        core.account.accept(accepted);
        drop(queue);
        self.0.filled.notify_one();
        Poll::Ready(Ok(accepted))
    }

    /// What is queued is being sent.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Waits until yamux has taken the queue and the end. It has no acknowledgement.
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut queue = self.0.queue();
        if queue.finished {
            return Poll::Ready(Ok(()));
        }
        if queue.dead {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        queue.writer = Some(cx.waker().clone());
        if !std::mem::replace(&mut queue.ended, true) {
            self.0.filled.notify_one();
        }
        Poll::Pending
    }
}

/// Dropped before the end, while the writer is not shut down, it resets the stream.
struct Reader {
    half: Arc<Half>,
    frame: Option<yamux::Packet>,
    /// How much of `frame` was read.
    at: usize,
    ended: bool,
}

impl Drop for Reader {
    fn drop(&mut self) {
        if !self.ended && !self.half.queue().ended {
            self.half.reset();
        }
    }
}

impl Reader {
    fn take(&mut self, frame: yamux::Packet) {
        self.ended = frame.as_ref().first() == Some(&END);
        self.frame = Some(frame);
        self.at = 1;
    }

    /// The next frame; `None` if the stream was reset.
    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<yamux::Packet>> {
        let mut stream = self.half.stream();
        match stream.as_mut() {
            Some(stream) => Pin::new(stream).poll_next(cx).map(|next| next?.ok()),
            None => Poll::Ready(None),
        }
    }
}

impl Incoming for Reader {
    /// yamux does not show a reset behind data that is not read.
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        let at = self.at;
        let is_read = |frame: &yamux::Packet| frame.as_ref().len() == at;
        while !self.ended && self.frame.as_ref().is_none_or(is_read) {
            match ready!(self.poll_frame(cx)) {
                Some(frame) => self.take(frame),
                None => return Poll::Ready(ErrorKind::ConnectionReset.into()),
            }
        }
        Poll::Pending
    }
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        // As many frames as fit: the caller often writes to a socket what it gets at once.
        while !this.ended {
            if let Some(frame) = &this.frame {
                let rest = &frame.as_ref()[this.at..];
                let read = rest.len().min(buffer.remaining());
                buffer.put_slice(&rest[..read]);
                this.at += read;
                if buffer.remaining() == 0 {
                    break;
                }
            }
            this.frame = None;
            match this.poll_frame(cx) {
                Poll::Ready(Some(frame)) => this.take(frame),
                _ if buffer.filled().len() > before => break,
                Poll::Ready(None) => return Poll::Ready(Err(ErrorKind::ConnectionReset.into())),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::paths::Paths;
    use super::*;
    use crate::config::Limits;

    #[test]
    fn a_frame_is_at_most_four_turns_and_has_what_fits_into_those_it_got() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let socket = std::net::TcpStream::connect(address).expect("listening");
        let limits = Limits::default();
        let half = Half {
            stream: Mutex::new(None),
            queue: Mutex::default(),
            filled: Notify::new(),
            core: Core::new(socket.into(), "reno", &limits, 1, Paths::far(), None),
            _slot: None,
        };
        let mut frame = Vec::new();
        assert_eq!(half.next_frame(), None);
        half.queue().data.extend(vec![7; 9_000]);
        // 9001 bytes with the kind: two turns of 4000 and a part of the third.
        assert_eq!(half.next_frame(), Some((DATA, 3)));
        half.fill(&mut frame, DATA, 2);
        assert_eq!((frame.len(), frame[0], frame[1]), (8_000, DATA, 7));
        half.fill(&mut frame, DATA, 3);
        assert_eq!(frame.len(), 9_001);
        half.queue().data.extend(vec![7; 100_000]);
        assert_eq!(half.next_frame(), Some((DATA, 4)));
        half.queue().data.clear();
        half.queue().ended = true;
        assert_eq!(half.next_frame(), Some((END, 1)));
    }
}
