//! Streams of a tunnel.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use noq::{RecvStream, SendStream, VarInt};
use tokio::io::AsyncWrite;

use crate::carrier::Stream;

/// What streams have accepted.
#[derive(Debug, Default)]
pub(super) struct Account {
    accepted: AtomicU64,
}

impl Account {
    /// Bytes accepted since the tunnel was established.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }
}

/// A stream of a tunnel with this account.
pub(super) fn stream(account: &Arc<Account>, send: SendStream, receive: RecvStream) -> Stream {
    Stream {
        reader: Box::new(receive),
        writer: Box::new(Writer {
            stream: send,
            account: account.clone(),
            is_shut_down: false,
        }),
    }
}

/// The code of a reset.
const NOT_FINISHED: VarInt = VarInt::from_u32(1);

struct Writer {
    stream: SendStream,
    account: Arc<Account>,
    is_shut_down: bool,
}

impl AsyncWrite for Writer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.stream).poll_write(cx, buf))?;
        let accepted = &self.account.accepted;
        accepted.fetch_add(written as u64, Ordering::Relaxed);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.is_shut_down = true;
        Poll::Ready(self.stream.finish().map_err(io::Error::from))
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        if !self.is_shut_down {
            // Fails if the peer has stopped the stream or the tunnel is closed.
            let _ = self.stream.reset(NOT_FINISHED);
        }
    }
}
