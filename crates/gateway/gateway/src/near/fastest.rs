//! Tunnel over the fastest path, for the datagrams of an association. In the tunnel over all paths
//! a datagram may go over the slowest, and with the carrier `mptcp` it waits for lost ones.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Shared, TunnelId};
use crate::carrier::{Condition, PathState, Tunnel};
use crate::config::{self, Carrier};

/// Interval at which the paths are compared.
pub const LOOK: Duration = Duration::from_millis(100);

/// Time after an association's last datagram for which the paths are compared: longer than it takes
/// to find a path dead.
pub const ACTIVE: Duration = Duration::from_secs(5);

/// Interval at which the fastest path is looked for while there may be no association.
const PREPARE: Duration = Duration::from_secs(1);

/// Ratio of RTTs below which a faster path replaces the one with the lowest base RTT. RTTs include
/// the queues of both directions: a path that is faster in one may be slower in the other.
const LEAVE: f64 = 0.5;

/// Ratio of RTTs below which the path with the lowest base RTT stays replaced.
const STAY_AWAY: f64 = 0.8;

/// Choice of the fastest path of a tunnel, with hysteresis.
pub struct FastestPath {
    /// Tunnel of the association's stream.
    tunnel: Tunnel,
    path: Option<String>,
}

impl FastestPath {
    /// The choice among the paths of this tunnel, in which the association has a stream.
    pub fn new(tunnel: Tunnel) -> FastestPath {
        FastestPath { tunnel, path: None }
    }

    /// The tunnel for datagrams over the fastest path, once it is established. It is the stream's
    /// tunnel with the carrier `quic`, while one path alone works, or if the fastest has a limited
    /// rate, because such a limit applies to each tunnel by itself.
    pub fn tunnel(&mut self, shared: &Arc<Shared>) -> Tunnel {
        let config = shared.config();
        let carrier = config.tunnel.carrier;
        let mut paths = usable(&self.tunnel.paths());
        let several = paths.len() > 1;
        // Without data the tunnel of all paths notices a dead path late, and over `mptcp` never one
        // that carries no UDP.
        let carries_datagrams =
            |path: &Usable| !shared.is_silent(&TunnelId::datagrams(carrier, &path.name));
        if paths.iter().any(carries_datagrams) {
            paths.retain(carries_datagrams);
        }
        self.path = fastest(&paths, self.path.as_deref());
        let serves = |path: &&config::Path| {
            let has_own = several && path.rate_mbps.is_none();
            Some(&path.name) == self.path.as_ref() && (has_own || carrier == Carrier::Mptcp)
        };
        let path = config.paths.iter().find(serves);
        let id = path.map(|path| TunnelId::datagrams(carrier, &path.name));
        let connector = id.and_then(|id| shared.connector(id));
        let established = connector.and_then(|connector| connector.established());
        established.unwrap_or_else(|| self.tunnel.clone())
    }
}

/// Establishes the tunnel for datagrams over the fastest path before the first association needs
/// it: meanwhile datagrams would wait for lost data in the other tunnel.
pub async fn prepare(shared: Arc<Shared>) {
    loop {
        let main = shared
            .connector(TunnelId::All)
            .and_then(|all| all.established());
        if let Some(main) = main.filter(|_| shared.config().carries_udp()) {
            FastestPath::new(main).tunnel(&shared);
        }
        sleep(PREPARE).await;
    }
}

struct Usable {
    name: String,
    base_s: f64,
    rtt_s: f64,
}

fn usable(paths: &[PathState]) -> Vec<Usable> {
    let up = paths.iter().filter(|path| path.condition == Condition::Up);
    let usable = up.filter_map(|path| {
        Some(Usable {
            name: path.name.clone(),
            base_s: path.base_rtt_s?,
            rtt_s: path.rtt_s?,
        })
    });
    usable.collect()
}

/// Name of the fastest path: the one with the lowest base RTT, unless it has a long queue.
fn fastest(usable: &[Usable], present: Option<&str>) -> Option<String> {
    let home = usable.iter().min_by(|a, b| a.base_s.total_cmp(&b.base_s))?;
    let now = usable.iter().min_by(|a, b| a.rtt_s.total_cmp(&b.rtt_s))?;
    let is_home = present.is_none_or(|present| present == home.name);
    let share = if is_home { LEAVE } else { STAY_AWAY };
    let fastest = if now.rtt_s < share * home.rtt_s {
        now
    } else {
        home
    };
    Some(fastest.name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, condition: Condition, base_s: f64, rtt_s: Option<f64>) -> PathState {
        PathState {
            name: name.to_owned(),
            condition,
            base_rtt_s: Some(base_s),
            rtt_s,
            ..PathState::default()
        }
    }

    #[test]
    fn the_path_of_the_lowest_base_rtt_is_left_while_its_queue_is_long() {
        let paths = |dsl_s, lte_s| {
            [
                path("dsl", Condition::Up, 0.02, Some(dsl_s)),
                path("lte", Condition::Up, 0.06, Some(lte_s)),
                path("new", Condition::Up, 0.01, None),
                path("dead", Condition::Dead, 0.001, Some(0.001)),
            ]
        };
        let chosen = |dsl_s, lte_s, present| {
            fastest(&usable(&paths(dsl_s, lte_s)), present).expect("a path is up")
        };
        assert_eq!(chosen(0.02, 0.06, None), "dsl");
        assert_eq!(chosen(0.10, 0.06, None), "dsl");
        assert_eq!(chosen(0.10, 0.06, Some("dsl")), "dsl");
        assert_eq!(chosen(0.15, 0.06, Some("dsl")), "lte");
        assert_eq!(chosen(0.10, 0.06, Some("lte")), "lte");
        assert_eq!(chosen(0.07, 0.06, Some("lte")), "dsl");
        assert_eq!(chosen(0.07, 0.06, Some("dead")), "dsl");
        assert_eq!(fastest(&[], Some("dsl")), None);
    }
}
