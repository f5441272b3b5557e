//! The first stream of a tunnel: greetings, datagrams, signs of life, the reason of its end.
//!
//! A message is its length as two bytes, its kind, and the rest.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use bytes::Bytes;
use futures_util::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::time::timeout;

use crate::carrier::NotSent;

/// The greeting: version of this protocol, and how many streams the peer may open (4 bytes).
const GREETING: u8 = 0;
/// A datagram.
const DATAGRAM: u8 = 1;
/// Nothing else was sent.
const ALIVE: u8 = 2;
/// The tunnel ends; the reason as UTF-8.
const GOODBYE: u8 = 3;

/// Version of the messages and of the frames of streams.
const VERSION: u8 = 1;

/// Each side sends something this often.
const SIGN_OF_LIFE: Duration = Duration::from_secs(5);

/// Datagrams that wait, in each direction; then the oldest is discarded.
const WAITING: usize = 256;
/// Their size together, bytes.
const WAITING_BYTES: usize = 1 << 20;

/// The datagrams that wait, and the last words.
#[derive(Debug, Default)]
pub struct Control {
    /// To the peer.
    sending: Waiting,
    /// From the peer.
    pub received: Waiting,
    goodbye: Mutex<Option<String>>,
    ends: Notify,
    said: AtomicBool,
    has_said: Notify,
}

impl Control {
    /// Queues a datagram.
    pub fn send_datagram(&self, datagram: Bytes) -> Result<(), NotSent> {
        const LARGEST: usize = u16::MAX as usize - 1;
        if datagram.len() > LARGEST {
            return Err(NotSent::TooLarge(LARGEST));
        }
        self.sending.push(datagram);
        Ok(())
    }

    /// Tells the peer why the tunnel ends.
    pub fn say_goodbye(&self, reason: &str) {
        let mut goodbye = self.goodbye.lock().expect("no holder panics");
        goodbye.get_or_insert_with(|| reason.chars().take(1000).collect());
        self.ends.notify_one();
    }

    /// Waits until the goodbye is given to yamux.
    pub async fn until_said(&self) {
        while !self.said.load(Ordering::Acquire) {
            self.has_said.notified().await;
        }
    }
}

/// A queue that discards the oldest.
#[derive(Debug, Default)]
pub struct Waiting {
    queue: Mutex<(VecDeque<Bytes>, usize)>,
    filled: Notify,
}

impl Waiting {
    fn push(&self, datagram: Bytes) {
        let mut queue = self.queue.lock().expect("no holder panics");
        let (datagrams, bytes) = &mut *queue;
        *bytes += datagram.len();
        datagrams.push_back(datagram);
        while datagrams.len() > WAITING || *bytes > WAITING_BYTES {
            *bytes -= datagrams.pop_front().map_or(0, |oldest| oldest.len());
        }
        drop(queue);
        self.filled.notify_one();
    }

    fn try_pop(&self) -> Option<Bytes> {
        let mut queue = self.queue.lock().expect("no holder panics");
        let datagram = queue.0.pop_front()?;
        queue.1 -= datagram.len();
        Some(datagram)
    }

    /// Waits for the next one.
    pub async fn pop(&self) -> Bytes {
        loop {
            if let Some(datagram) = self.try_pop() {
                // Others may wait, and only one was notified.
                self.filled.notify_one();
                return datagram;
            }
            self.filled.notified().await;
        }
    }
}

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

/// Sends the greeting: the peer may open this many streams.
pub async fn greet(stream: &mut (impl AsyncWrite + Unpin), streams: usize) -> anyhow::Result<()> {
    let streams = u32::try_from(streams).unwrap_or(u32::MAX).to_be_bytes();
    let greeting = [&[VERSION], &streams[..]].concat();
    send(stream, GREETING, &greeting).await.context("greeting")
}

/// Reads the peer's greeting: how many streams may be opened.
pub async fn greeted(stream: &mut (impl AsyncRead + Unpin)) -> anyhow::Result<usize> {
    let (kind, rest) = receive(stream).await.context("no greeting")?;
    ensure!(kind == GREETING, "message {kind} instead of a greeting");
    match *rest.as_slice() {
        [VERSION, a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d]) as usize),
        [version, ..] if version != VERSION => {
            bail!("the peer speaks version {version} of the protocol, and this gateway {VERSION}")
        }
        _ => bail!("a malformed greeting"),
    }
}

/// Sends datagrams and signs of life; returns after the goodbye, or an error.
pub async fn send_all(
    stream: &mut (impl AsyncWrite + Unpin),
    control: &Control,
) -> std::io::Result<()> {
    loop {
        let next = async {
            tokio::select! {
                biased;
                () = control.ends.notified() => None,
                datagram = control.sending.pop() => Some(datagram),
            }
        };
        match timeout(SIGN_OF_LIFE, next).await {
            Ok(Some(datagram)) => send(stream, DATAGRAM, &datagram).await?,
            Err(_) => send(stream, ALIVE, &[]).await?,
            Ok(None) => {
                let reason = control.goodbye.lock().expect("no holder panics").take();
                send(stream, GOODBYE, reason.unwrap_or_default().as_bytes()).await?;
                control.said.store(true, Ordering::Release);
                control.has_said.notify_one();
                return Ok(());
            }
        }
    }
}

/// Receives messages until the tunnel ends; why it does, unless its connection has failed.
pub async fn receive_all(
    stream: &mut (impl AsyncRead + Unpin),
    control: &Control,
) -> Option<String> {
    loop {
        match receive(stream).await {
            Ok((DATAGRAM, rest)) => control.received.push(rest.into()),
            Ok((ALIVE, _)) => {}
            Ok((GOODBYE, reason)) => {
                return Some(format!("by the peer: {}", String::from_utf8_lossy(&reason)));
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
