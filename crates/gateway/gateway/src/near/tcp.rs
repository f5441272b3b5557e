//! TCP connections of clients: the choice of a way by the rules, and relaying.

use std::sync::{Arc, Once};

use tracing::{debug, warn};

use super::request::request;
use super::{Permit, Shared, direct};
use crate::carrier::Stream;
use crate::config::destination::{Action, action, refused_networks};
use crate::socket::{canonical, is_opened_here};
use crate::traffic::relay::{self, Connection};
use crate::wire::{Destination, Head, Reply};

/// Other side of a local connection.
pub enum Remote {
    /// A stream in a tunnel.
    Stream(Stream),
    /// A connection of near's own.
    Direct(Connection),
}

/// Carries a connection to a fixed destination. The client's is reset if it cannot be reached.
pub async fn forward(shared: &Arc<Shared>, local: Connection, to: &Destination, permit: &Permit) {
    let opened = open(shared, to, permit, async { drop(local.reset().await) }).await;
    match opened {
        Ok(remote) => relay(shared, local, remote, permit).await,
        Err(reply) => debug!(%to, ?reply, "refused"),
    }
}

/// Opens a destination's side by the rules, unless the client leaves before.
pub async fn open(
    shared: &Arc<Shared>,
    to: &Destination,
    permit: &Permit,
    client_left: impl Future<Output = ()>,
) -> Result<Remote, Reply> {
    tokio::select! {
        biased;
        opened = reach(shared, to, permit) => opened,
        () = client_left => {
            shared.counters.refused_left.increment();
            Err(Reply::GeneralFailure)
        }
    }
}

async fn reach(shared: &Arc<Shared>, to: &Destination, permit: &Permit) -> Result<Remote, Reply> {
    let counters = &shared.counters;
    let rules = &shared.config().rules;
    let (path, relayed) = match action(rules, to) {
        Action::Tunnel => (None, &counters.relayed_tunnel),
        Action::Path(name) => (Some(name), &counters.relayed_path),
        Action::Direct => {
            let socket = direct::connect(shared, permit.party(), to).await?;
            return Ok(Remote::Direct(Connection::new(socket)));
        }
        Action::Refused => {
            counters.refused_rule.increment();
            return Err(Reply::NotAllowed);
        }
    };
    let head = Head::Tcp(to.clone(), refused_networks(rules, to));
    let stream = request(shared, path.as_deref(), &head, permit.client).await?;
    relayed.increment();
    Ok(Remote::Stream(stream))
}

/// Relays until both directions have ended, or resets both sides.
pub async fn relay(shared: &Shared, local: Connection, remote: Remote, permit: &Permit) {
    let counters = &shared.counters;
    let limits = shared.limiter.limits();
    let relayed = match remote {
        Remote::Stream(stream) => relay::relay(local, stream, counters, permit, &limits).await,
        Remote::Direct(remote) => relay::relay(local, remote, counters, permit, &limits).await,
    };
    if let Err(error) = relayed {
        debug!("reset: {error}");
    }
}

/// Carries a connection to its original destination. A connection of near's own is reset: it would
/// be redirected again, without end.
pub async fn serve_redirected(shared: &Arc<Shared>, local: Connection, permit: &Permit) {
    let client = local.peer_addr().ok().map(canonical);
    let (Some(client), Some(to)) = (client, local.original_destination()) else {
        return shared.counters.refused_malformed.increment();
    };
    if is_opened_here(client, to) {
        static LOGGED: Once = Once::new();
        LOGGED.call_once(|| {
            warn!(
                "redirect: connections that this gateway opens itself, such as one to {to}, come \
                 back to it and are reset: expected a packet filter that leaves out its user"
            );
        });
        return shared.counters.refused_loop.increment();
    }
    forward(shared, local, &to.into(), permit).await;
}
