//! Writes a stream.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use noq::{SendStream, Stopped, VarInt};
use tokio::io::AsyncWrite;

use super::account::Account;
use crate::carrier::Outgoing;

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
    /// Ready when the peer has stopped the stream or has acknowledged its end.
    stopped: Pin<Box<Stopped>>,
}

impl Writer {
    /// Writes this stream.
    pub fn new(stream: SendStream, turns: Arc<Turns>, account: Arc<Account>) -> Writer {
        Writer {
            stopped: Box::pin(stream.stopped()),
            stream,
            turn: Turn::new(turns),
            account,
            is_shut_down: false,
        }
    }

    /// Waits for the acknowledgement of the end.
    fn poll_acknowledged(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(match ready!(self.stopped.as_mut().poll(cx)) {
            Ok(None) => Ok(()),
            Ok(Some(_)) => Err(ErrorKind::ConnectionReset.into()),
            Err(lost) => Err(lost.into()),
        })
    }
}

impl Outgoing for Writer {
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        self.poll_acknowledged(cx)
            .map(|stopped| stopped.expect_err("acknowledged before its end"))
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

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_shut_down {
            self.is_shut_down = true;
            self.stream.finish()?;
        }
        self.poll_acknowledged(cx)
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
