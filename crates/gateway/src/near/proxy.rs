//! Serves clients of SOCKS5.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tracing::debug;

use super::socks::{NoRequest, Request, negotiate, reply};
use super::{Shared, tcp, udp};
use crate::traffic::limits::Permit;
use crate::traffic::relay::Connection;
use crate::wire::Reply;

/// The address in replies where no other is known; clients ignore it.
pub const NO_ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// How long a client may take to receive a reply.
const REPLY: Duration = Duration::from_secs(5);

/// Serves a connection.
pub async fn serve(shared: &Arc<Shared>, mut local: Connection, permit: &Permit<IpAddr>) {
    let counters = &shared.counters;
    let patience = Duration::from_secs_f64(shared.limiter.limits().handshake_s);
    let request = match timeout(patience, negotiate(&mut *local)).await {
        Ok(Ok(request)) => request,
        Ok(Err(NoRequest::Refused(code))) => {
            counters.refused_command.increment();
            return refuse(local, code).await;
        }
        Ok(Err(NoRequest::Malformed(malformed))) => {
            debug!("SOCKS5: {malformed}");
            counters.refused_malformed.increment();
            return end(local).await;
        }
        Ok(Err(NoRequest::Io(error))) => {
            debug!("SOCKS5: {error}");
            counters.refused_malformed.increment();
            return;
        }
        Err(_) => {
            counters.refused_timeout.increment();
            return;
        }
    };
    match request {
        Request::Associate(from) => udp::serve(shared, local, &from, permit).await,
        Request::Connect(to) => match tcp::open(shared, &to).await {
            Ok(remote) => {
                if local
                    .write_all(&reply(Reply::Succeeded, NO_ADDRESS))
                    .await
                    .is_ok()
                {
                    tcp::relay(shared, local, remote, permit).await;
                }
            }
            Err(code) => {
                debug!(%to, reply = ?code, "refused");
                refuse(local, code).await;
            }
        },
    }
}

/// Replies that a request failed, and ends the connection.
pub async fn refuse(mut local: Connection, code: Reply) {
    if local.write_all(&reply(code, NO_ADDRESS)).await.is_ok() {
        end(local).await;
    }
}

/// Ends the connection without a reset, which would discard the reply: what the client has sent
/// meanwhile is read and ignored until it ends, too.
async fn end(mut local: Connection) {
    let ended: Result<io::Result<()>, _> = timeout(REPLY, async {
        local.shutdown().await?;
        tokio::io::copy(&mut *local, &mut tokio::io::sink()).await?;
        Ok(())
    })
    .await;
    if let Ok(Ok(())) = ended {
        local.complete();
    }
}
