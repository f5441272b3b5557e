//! Users' ends of a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Instant;

use super::core::Core;
use crate::{Incoming, Outgoing, Stream};

/// The stream with this number, which was opened or accepted.
pub fn new(id: u32, core: &Arc<Core>) -> Stream {
    let core = || core.clone();
    Stream {
        reader: Box::new(Reader { id, core: core() }),
        writer: Box::new(Writer { id, core: core() }),
    }
}

struct Writer {
    id: u32,
    core: Arc<Core>,
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.core.mux(|mux| mux.poll_write(self.id, bytes, cx))
    }

    /// Succeeds at once: queued data is being sent.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.core.mux(|mux| mux.poll_shutdown(self.id, cx))
    }
}

impl Outgoing for Writer {
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.core.mux(|mux| mux.poll_stopped(self.id, cx))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.core.mux(|mux| mux.drop_writer(self.id));
    }
}

struct Reader {
    id: u32,
    core: Arc<Core>,
}

impl AsyncRead for Reader {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let now = Instant::now();
        self.core.mux(|mux| mux.poll_read(self.id, buffer, now, cx))
    }
}

impl Incoming for Reader {
    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.core.mux(|mux| mux.poll_reset(self.id, cx))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.core.mux(|mux| mux.drop_reader(self.id));
    }
}
