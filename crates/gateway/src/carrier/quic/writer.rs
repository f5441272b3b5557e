//! Writes a stream.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use noq::{SendStream, VarInt};
use tokio::io::AsyncWrite;

use super::account::Account;

mod turns;

use turns::Turn;
pub(super) use turns::Turns;

/// The code of a reset.
const NOT_FINISHED: VarInt = VarInt::from_u32(1);

/// A stream that is reset when it is dropped and was not shut down.
pub(super) struct Writer {
    stream: SendStream,
    turn: Turn,
    account: Arc<Account>,
    is_shut_down: bool,
}

impl Writer {
    /// Writes this stream.
    pub fn new(stream: SendStream, turns: Arc<Turns>, account: Arc<Account>) -> Writer {
        Writer {
            stream,
            turn: Turn::new(turns),
            account,
            is_shut_down: false,
        }
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(this.turn.poll_write(&mut this.stream, cx, buf))?;
        this.account.accept(written);
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
