//! Connections that the packet filter has redirected to near.

use std::net::IpAddr;
use std::sync::{Arc, Once};

use tracing::warn;

use super::{Shared, tcp};
use crate::socket::{canonical, is_opened_here};
use crate::traffic::limits::Permit;
use crate::traffic::relay::Connection;

/// Carries a connection to its original destination. A connection of near's own is reset: it would
/// be redirected again, without end.
pub async fn serve(shared: &Arc<Shared>, local: Connection, permit: &Permit<IpAddr>) {
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
    tcp::forward(shared, local, &to.into(), permit).await;
}
