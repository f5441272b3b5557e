//! File descriptors: the number that the limits of a configuration need, and that the process may
//! have.

use anabranch_scenario::{Fault, Key};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::Limits;

/// Most descriptors of a connection of `near`: a UDP association by SOCKS has its TCP connection,
/// its socket, and two with which `direct` sends.
pub const NEAR: usize = 4;

/// Most descriptors of a connection of `far`: a UDP association has a socket per family.
pub const FAR: usize = 2;

/// Descriptors of everything but connections: status page, listeners, handshakes, paths and
/// tunnels.
const RESERVE: usize = 512;

/// Raises the limit of open files to what the process may have at most. The lower limit is for
/// programs that use select(2).
pub fn raise() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("the limit of open files stays {:?}: {error}", limit.current);
    }
}

/// Fault of limits for which the process can't have enough descriptors, `each` a connection.
pub fn fault(limits: &Limits, each: usize) -> Option<Fault> {
    let allowed = getrlimit(Resource::Nofile).maximum?;
    let allowed = usize::try_from(allowed).unwrap_or(usize::MAX);
    let connections = limits.connections();
    let rest = limits.queries().saturating_add(RESERVE);
    let needed = connections.saturating_mul(each).saturating_add(rest);
    if needed <= allowed {
        return None;
    }
    // Queries have a quarter of the places of connections.
    let fit = allowed.saturating_sub(RESERVE) * 4 / (each * 4 + 1);
    let smaller = if fit > 0 {
        format!(", or connections = {fit}")
    } else {
        String::new()
    };
    let message = format!(
        "{connections} connections need {needed} file descriptors, and this process may open \
         {allowed}: ulimit -n {needed}, LimitNOFILE={needed} in a unit{smaller}"
    );
    Some(Key::root("limits").key("connections").fault(message))
}
