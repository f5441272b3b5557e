//! Users' end of a stream to the peer.

use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::future::BoxFuture;
use tokio::io::AsyncWrite;

use super::account::Account;
use super::credit::Credit;
use super::library::Sending;
use super::turns::{Outlet, Turn, Turns};
use crate::Outgoing;
use crate::shares::{Kind, Shares};

/// A stream that is reset when it is dropped before its end was acknowledged.
pub(super) struct Writer {
    stream: Sending,
    credit: Arc<Credit>,
    /// Bytes written.
    written: u64,
    turn: Turn<Sending>,
    account: Arc<Account>,
    shares: Arc<Shares>,
    client: u64,
    /// Once shut down, ready when the peer has acknowledged the end or has stopped the stream.
    ended: Option<BoxFuture<'static, io::Result<()>>>,
}

impl Writer {
    /// A writer of this stream.
    pub fn new(
        stream: Sending,
        credit: Arc<Credit>,
        turns: Arc<Turns<Sending>>,
        (account, shares): (Arc<Account>, Arc<Shares>),
    ) -> Writer {
        credit.open_outgoing(stream.id());
        Writer {
            stream,
            credit,
            written: 0,
            turn: Turn::new(turns),
            account,
            shares,
            client: 0,
            ended: None,
        }
    }

    fn poll_written(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let limit = ready!(self.credit.poll_limit(self.stream.id(), self.written, cx));
        let allowed = usize::try_from(limit - self.written).unwrap_or(usize::MAX);
        let buf = &buf[..buf.len().min(allowed)];
        self.turn.poll_write(&mut self.stream, cx, buf)
    }
}

impl Outgoing for Writer {
    /// Ready with the credit of a reader that is gone. The library's `SendStream::stopped` keeps
    /// state for each stream that is reset after its call.
    fn poll_stopped(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        ready!(self.credit.poll_unread(self.stream.id(), cx));
        Poll::Ready(ErrorKind::ConnectionReset.into())
    }

    fn belongs_to(&mut self, client: u64) {
        self.client = client;
    }
}

impl AsyncWrite for Writer {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(this.poll_written(cx, buf))?;
        this.written += written as u64;
        this.account.accept(written);
        this.shares.add(this.client, Kind::Streams, written);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            if let Some(acknowledged) = &mut self.ended {
                return acknowledged.as_mut().poll(cx);
            }
            // Fails if the peer has stopped the stream.
            if let Poll::Ready(Err(stopped)) = self.stream.poll_write(cx, &[]) {
                return Poll::Ready(Err(stopped));
            }
            self.ended = Some(self.stream.finish()?);
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.credit.close_outgoing(self.stream.id());
        self.stream.reset();
    }
}
