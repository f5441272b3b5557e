//! Relays TCP connections, with back-pressure: what cannot be written is not read.

use std::io;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::limits::Rate;
use crate::counters::Counter;

/// The buffer of a direction before its first read fills it, bytes.
const FIRST_BUFFER: usize = 8 << 10;

/// The largest buffer of a direction, bytes, unless the limit is lower: more is not faster.
const MAX_BUFFER: usize = 64 << 10;

/// A TCP connection that is reset when it is dropped before it is complete, so that its peer sees
/// an error and not an end.
#[derive(Debug)]
pub struct Connection {
    socket: TcpStream,
    complete: bool,
}

impl Connection {
    /// Takes over a socket: without delay for small segments, with keep-alives, so that a peer that
    /// has vanished doesn't hold it forever.
    pub fn new(socket: TcpStream) -> Connection {
        let keepalive = TcpKeepalive::new()
            .with_time(Duration::from_secs(120))
            .with_interval(Duration::from_secs(30));
        // Without these options a connection works, too.
        let _ = SockRef::from(&socket).set_tcp_keepalive(&keepalive);
        let _ = socket.set_nodelay(true);
        Connection {
            socket,
            complete: false,
        }
    }

    /// Ends the connection without a reset.
    pub fn complete(mut self) {
        self.complete = true;
    }
}

impl Deref for Connection {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.socket
    }
}

impl DerefMut for Connection {
    fn deref_mut(&mut self) -> &mut TcpStream {
        &mut self.socket
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if !self.complete {
            let _ = SockRef::from(&self.socket).set_linger(Some(Duration::ZERO));
        }
    }
}

/// What is counted and limited in a direction.
#[derive(Clone, Copy, Debug)]
pub struct Meter<'a> {
    /// Counts the bytes that were passed on.
    pub bytes: &'a Counter,
    /// Limits them.
    pub rate: &'a Rate,
    /// Largest buffer, bytes.
    pub buffer_bytes: usize,
}

/// Passes on `reader`'s bytes to `writer` until the end, and then the end.
///
/// # Errors
/// Errors of the reader and of the writer.
pub async fn pump(
    mut reader: impl AsyncRead + Unpin,
    mut writer: impl AsyncWrite + Unpin,
    meter: Meter<'_>,
) -> io::Result<()> {
    let largest = meter.buffer_bytes.min(MAX_BUFFER);
    let mut buffer = vec![0; FIRST_BUFFER.min(largest)];
    loop {
        let n = reader.read(&mut buffer).await?;
        if n == 0 {
            return writer.shutdown().await;
        }
        meter.rate.take(n).await;
        writer.write_all(&buffer[..n]).await?;
        writer.flush().await?;
        meter.bytes.add(n as u64);
        if n == buffer.len() && n < largest {
            buffer.resize((2 * n).min(largest), 0);
        }
    }
}
