//! The first connection of a tunnel: it lives as long as the tunnel, and carries datagrams, signs
//! of life and the reason of the end.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, split};
use tokio::time::{interval, timeout};
use tokio_util::codec::{FramedRead, LengthDelimitedCodec};

use super::core::Core;
use super::frame::{Frame, codec};
use super::socket::Tls;
use crate::failure::{self, KEY_REFUSED};

/// Time limit for sending the reason of the end, and for the peer to close the connection.
const DRAIN: Duration = Duration::from_millis(500);

/// Interval at which each side sends a sign of life.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Silence after which the peer, or all paths to it, count as dead.
const SILENCE: Duration = Duration::from_secs(20);

/// Reason of a tunnel that the peer has closed without one.
pub const CLOSED: &str = "the peer has closed the connection";

/// Runs until the tunnel is closed.
pub async fn run(tls: Tls, core: Arc<Core>) {
    let (reader, mut writer) = split(tls);
    let mut frames = FramedRead::new(reader, codec());
    tokio::select! {
        biased;
        ended = receive(&mut frames, &core) => match ended {
            Ended::Fault(reason) => core.close_by_user(&reason),
            Ended::Silent(reason) => core.close(reason),
            Ended::ByPeer(reason) => drop(core.leave(reason)),
        },
        error = send(&mut writer, &core) => drop(core.leave(describe(&error))),
        _ = core.until_closed() => {}
    }
    let drain = async {
        if let Some(reason) = core.reason_for_peer() {
            let close = Frame::Close(reason).encode(core.is_near);
            writer.write_all(&close).await?;
        }
        writer.shutdown().await?;
        // The peer closes the connection when it has received the reason.
        while let Some(Ok(_)) = frames.next().await {}
        io::Result::Ok(())
    };
    let _ = timeout(DRAIN, drain).await;
    drop((frames, writer));
    core.end();
}

/// End of the connection, with its reason.
enum Ended {
    /// A fault of the peer, which is told so.
    Fault(String),
    /// Nothing was received.
    Silent(String),
    /// The peer has closed the tunnel, or its process has ended.
    ByPeer(String),
}

/// Receives until the connection ends. Returns why.
async fn receive(
    frames: &mut FramedRead<impl AsyncRead + Unpin, LengthDelimitedCodec>,
    core: &Core,
) -> Ended {
    loop {
        let frame = match timeout(SILENCE, frames.next()).await {
            Err(_) => {
                let silence = format!("nothing received for {} s", SILENCE.as_secs());
                return Ended::Silent(silence);
            }
            Ok(None) => return Ended::ByPeer(CLOSED.to_owned()),
            Ok(Some(Err(error))) => return Ended::ByPeer(describe(&error)),
            Ok(Some(Ok(frame))) => frame,
        };
        match Frame::decode(&frame, !core.is_near) {
            Ok(Frame::Close(reason)) => return Ended::ByPeer(format!("by the peer: {reason}")),
            Ok(frame) => {
                if let Err(reason) = core.receive(frame) {
                    return Ended::Fault(reason);
                }
            }
            Err(reason) => return Ended::Fault(reason),
        }
    }
}

/// Sends until that fails. Returns the error.
async fn send(writer: &mut (impl AsyncWrite + Unpin), core: &Core) -> io::Error {
    let mut clock = interval(KEEP_ALIVE);
    let sending = async {
        writer.write_all(&core.hello().encode(core.is_near)).await?;
        loop {
            writer.flush().await?;
            let next = tokio::select! {
                datagram = core.next_datagram() => Frame::Datagram(datagram),
                _ = clock.tick() => Frame::Alive,
            };
            writer.write_all(&next.encode(core.is_near)).await?;
        }
    };
    let result: io::Result<std::convert::Infallible> = sending.await;
    let Err(error) = result;
    error
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        // Without the end of TLS: the peer was killed, or refuses the key.
        ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => {
            CLOSED.to_owned()
        }
        _ if failure::refuses_key(error) => KEY_REFUSED.to_owned(),
        _ => error.to_string(),
    }
}
