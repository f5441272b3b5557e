//! Clients of SOCKS5.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;
use tracing::debug;

use super::socks::{NO_ADDRESS, NoRequest, Request, end, negotiate, refuse, reply};
use super::{Shared, tcp, udp};
use crate::traffic::limits::Permit;
use crate::traffic::relay::Connection;
use crate::wire::Reply;

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
        Request::Connect(to) => match tcp::open(shared, &to, permit, local.left()).await {
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
