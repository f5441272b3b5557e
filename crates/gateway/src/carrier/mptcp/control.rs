//! The control stream, the first of a tunnel: limits, datagrams, keep-alives, the close reason.
//!
//! A message is its length as two bytes, its kind, and the rest.

use std::time::Duration;

use anyhow::{Context, bail, ensure};
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use super::core::Core;
use crate::carrier::printable;

/// The first message: version of this protocol, and how many streams the peer may open (4 bytes).
const HELLO: u8 = 0;
/// A datagram.
const DATAGRAM: u8 = 1;
/// Nothing else was sent.
const ALIVE: u8 = 2;
/// The tunnel ends; the reason as UTF-8.
const CLOSE: u8 = 3;

/// Version of the messages and of the frames of streams.
const VERSION: u8 = 1;

/// Each side sends something this often.
const KEEP_ALIVE: Duration = Duration::from_secs(5);
/// Longer silence means that the peer, or all paths to it, are dead.
const SILENCE: Duration = Duration::from_secs(20);

async fn send(
    stream: &mut (impl AsyncWrite + Unpin),
    kind: u8,
    rest: &[u8],
) -> std::io::Result<()> {
    let length = (rest.len() + 1) as u16;
    let message = [&length.to_be_bytes()[..], &[kind], rest].concat();
    stream.write_all(&message).await
}

async fn receive(stream: &mut (impl AsyncRead + Unpin)) -> std::io::Result<(u8, Vec<u8>)> {
    let mut length = [0; 2];
    stream.read_exact(&mut length).await?;
    let mut message = vec![0; usize::from(u16::from_be_bytes(length))];
    stream.read_exact(&mut message).await?;
    if message.is_empty() {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let rest = message.split_off(1);
    Ok((message[0], rest))
}

/// Sends HELLO.
pub async fn send_hello(stream: &mut (impl AsyncWrite + Unpin), core: &Core) -> anyhow::Result<()> {
    let streams = u32::try_from(core.streams)
        .unwrap_or(u32::MAX)
        .to_be_bytes();
    let hello = [&[VERSION], &streams[..]].concat();
    send(stream, HELLO, &hello).await.context("sending HELLO")
}

/// Receives the peer's HELLO: how many streams may be opened.
pub async fn receive_hello(stream: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<usize> {
    let (kind, rest) = receive(stream).await.context("no HELLO message")?;
    ensure!(kind == HELLO, "message {kind} instead of HELLO");
    match *rest.as_slice() {
        [VERSION, a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d]) as usize),
        [version, ..] if version != VERSION => {
            bail!("the peer has protocol version {version}, and this gateway {VERSION}")
        }
        _ => bail!("a malformed HELLO message"),
    }
}

/// Sends datagrams and keep-alives; returns once CLOSE is sent, or with an error.
pub async fn send_all(stream: &mut (impl AsyncWrite + Unpin), core: &Core) -> std::io::Result<()> {
    let control = &core.control;
    loop {
        let next = async {
            tokio::select! {
                biased;
                () = control.ends.notified() => None,
                datagram = control.sending.pop() => Some(datagram),
            }
        };
        match timeout(KEEP_ALIVE, next).await {
            Ok(Some(datagram)) => send(stream, DATAGRAM, &datagram).await?,
            Err(_) => send(stream, ALIVE, &[]).await?,
            Ok(None) => {
                send(stream, CLOSE, control.close_reason().as_bytes()).await?;
                control.set_close_sent();
                return Ok(());
            }
        }
    }
}

/// Receives messages until the tunnel ends; why it does, unless its connection has failed.
pub async fn receive_all(stream: &mut (impl AsyncRead + Unpin), core: &Core) -> Option<String> {
    loop {
        match receive(stream).await {
            Ok((DATAGRAM, rest)) => core.control.received.push(rest.into()),
            Ok((ALIVE, _)) => {}
            Ok((CLOSE, reason)) => {
                return Some(format!("by the peer: {}", printable(&reason)));
            }
            Ok((kind, _)) => {
                return Some(format!(
                    "the peer has sent a message of unknown kind {kind}"
                ));
            }
            Err(_) => return None,
        }
    }
}

/// Waits until nothing has been received for too long; why the tunnel ends.
pub async fn watch(core: &Core) -> String {
    while core.silence() < SILENCE {
        tokio::time::sleep(SILENCE - core.silence()).await;
    }
    format!("nothing received for {} s", SILENCE.as_secs())
}
