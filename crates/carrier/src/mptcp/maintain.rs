//! Keeps the paths of `near` open: endpoints for the path manager, and new attempts for dead paths.
//!
//! The kernel tries an endpoint once per connection. A path that was dead and returns is opened
//! because its endpoint is removed and added again.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::core::Core;
use super::endpoints::{self, Endpoint};
use super::interfaces::address_of;
use crate::config::Role;

/// How often the state is read.
const PERIOD: Duration = Duration::from_millis(500);
/// Time from a path's death to the first attempt to open it, and between attempts.
const ATTEMPT: Duration = Duration::from_secs(3);
/// How long a connection may be without any path.
const ALONE: Duration = Duration::from_secs(10);
/// How long endpoints stay after the end of the tunnel.
const LINGER: Duration = Duration::from_secs(1);

/// A path that is to be kept open.
struct Kept {
    /// Index in the configuration.
    index: usize,
    endpoint: Option<Endpoint>,
    tried_at: Instant,
    /// A failure was logged.
    complained: bool,
}

/// Watches the paths until the tunnel is closed; on `near` also opens them.
pub async fn maintain(core: Arc<Core>, opens: bool) {
    let mut kept = Vec::new();
    let mut announced = false;
    let mut refused = false;
    let mut alone_since = None;
    while let Some(multipath) = core.update_paths() {
        if let Err(error) = core.choose_rule()
            && !refused
        {
            refused = true;
            tracing::warn!("the kernel refuses the tunnel's congestion control: {error}");
        }
        if core.paths().any_open() {
            alone_since = None;
        } else if alone_since.get_or_insert_with(Instant::now).elapsed() > ALONE {
            core.close("no path is left");
            break;
        }
        if !announced {
            announced = true;
            if !multipath && core.paths().rows().len() > 1 {
                tracing::warn!("the tunnel is plain TCP: it has one path");
            } else if multipath && opens {
                kept = to_keep(&core);
                endpoints::notice_dead_paths_early();
            }
        }
        if !kept.is_empty() {
            let with_core = core.clone();
            let opening = move || {
                open_missing(&with_core, &mut kept);
                kept
            };
            // It starts processes and waits for them.
            kept = tokio::task::spawn_blocking(opening)
                .await
                .unwrap_or_default();
        }
        tokio::select! {
            () = tokio::time::sleep(PERIOD) => {}
            _ = core.until_closed() => break,
        }
    }
    // The removal of endpoints ends paths: not before the end of the connection was delivered.
    core.until_ended().await;
    tokio::time::sleep(LINGER).await;
    let _ = tokio::task::spawn_blocking(move || drop(kept)).await;
}

/// All paths, also the one that has connected: it is opened anew if it dies.
fn to_keep(core: &Core) -> Vec<Kept> {
    let mut paths = core.paths();
    let rows = paths.rows().iter().enumerate();
    let used = rows.filter(|(_, row)| row.role != Role::Never);
    let kept = used.map(|(index, _)| Kept {
        index,
        endpoint: None,
        tried_at: Instant::now(),
        complained: false,
    });
    let kept: Vec<Kept> = kept.collect();
    if kept.len() > 1 { kept } else { Vec::new() }
}

fn open_missing(core: &Core, kept: &mut [Kept]) {
    let wanted = kept.len() - 1;
    for path in kept {
        let Some((address, interface, role, missing)) = look(core, path.index) else {
            continue; // an interface without an address, for now
        };
        let done = match &path.endpoint {
            None => endpoints::raise_limit(wanted)
                .and_then(|()| Endpoint::add(address, interface.as_deref(), role == Role::Backup))
                .map(|endpoint| path.endpoint = Some(endpoint)),
            Some(endpoint) if endpoint.address() != address => {
                path.endpoint = None;
                continue;
            }
            Some(endpoint) if missing && path.tried_at.elapsed() > ATTEMPT => endpoint.renew(),
            Some(_) => {
                if !missing {
                    path.tried_at = Instant::now();
                }
                continue;
            }
        };
        path.tried_at = Instant::now();
        match done {
            Ok(()) => path.complained = false,
            Err(_) if path.complained => {}
            Err(error) => {
                path.complained = true;
                tracing::warn!("{error:#}: the kernel opens only paths that have an endpoint");
            }
        }
    }
}

/// A path's address, interface and role, and whether it is missing.
fn look(core: &Core, index: usize) -> Option<(IpAddr, Option<String>, Role, bool)> {
    let mut paths = core.paths();
    let row = &mut paths.rows()[index];
    if let Some(interface) = &row.interface
        && !row.is_fixed
        && row.is_missing()
    {
        row.address = address_of(interface, core.is_ipv4);
    }
    Some((
        row.address?,
        row.interface.clone(),
        row.role,
        row.is_missing(),
    ))
}
