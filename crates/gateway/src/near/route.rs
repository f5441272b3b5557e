//! The route of an association: the tunnel over the fastest path. In the tunnel over all paths a
//! datagram may go over the slowest.

use std::sync::Arc;
use std::time::Duration;

use super::Shared;
use crate::carrier::{Condition, PathState, Tunnel};

/// How often the paths are compared, and for how long after an association's last datagram: longer
/// than it takes to find a path dead.
pub const LOOK: Duration = Duration::from_millis(100);
pub const ACTIVE: Duration = Duration::from_secs(5);

/// A queue makes another path than that with the lowest base RTT the fastest one, if its RTT is
/// below this share; as long as it is below the second share. The RTT has the queues of both
/// directions, and what would be faster in one of them may be slower in the other.
const LEAVE: f64 = 0.5;
const STAY_AWAY: f64 = 0.8;

/// The route of an association whose stream is in the tunnel over all paths.
pub struct Route {
    all: Tunnel,
    path: Option<String>,
}

impl Route {
    /// The tunnel over all paths.
    pub fn new(all: Tunnel) -> Route {
        Route { all, path: None }
    }

    /// The tunnel over the fastest path, once it is established; over all paths while one
    /// alone works, or if the fastest has a limited rate, which is that of each tunnel.
    pub fn tunnel(&mut self, shared: &Arc<Shared>) -> Tunnel {
        self.path = fastest(&self.all.paths(), self.path.as_deref());
        let config = shared.config();
        let path = config
            .paths
            .iter()
            .find(|path| Some(&path.name) == self.path.as_ref() && path.rate_mbps.is_none());
        let manager = path.and_then(|path| shared.manager(Some(&path.name)));
        let established = manager.and_then(|manager| manager.established());
        established.unwrap_or_else(|| self.all.clone())
    }
}

/// The fastest path: that with the lowest base RTT, unless it has a long queue; `None` if there is
/// no choice.
fn fastest(paths: &[PathState], present: Option<&str>) -> Option<String> {
    struct Usable<'a> {
        name: &'a String,
        base_s: f64,
        rtt_s: f64,
    }
    let usable = paths
        .iter()
        .filter(|path| path.condition == Condition::Up)
        .filter_map(|path| {
            Some(Usable {
                name: &path.name,
                base_s: path.base_rtt_s?,
                rtt_s: path.rtt_s?,
            })
        });
    let usable: Vec<_> = usable.collect();
    let home = usable.iter().min_by(|a, b| a.base_s.total_cmp(&b.base_s))?;
    let now = usable.iter().min_by(|a, b| a.rtt_s.total_cmp(&b.rtt_s))?;
    let is_home = present.is_none_or(|present| present == home.name);
    let share = if is_home { LEAVE } else { STAY_AWAY };
    let fastest = if now.rtt_s < share * home.rtt_s {
        now
    } else {
        home
    };
    (usable.len() > 1).then(|| fastest.name.clone())
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
            fastest(&paths(dsl_s, lte_s), present).expect("there is a choice")
        };
        assert_eq!(chosen(0.02, 0.06, None), "dsl");
        assert_eq!(chosen(0.10, 0.06, None), "dsl");
        assert_eq!(chosen(0.10, 0.06, Some("dsl")), "dsl");
        assert_eq!(chosen(0.15, 0.06, Some("dsl")), "lte");
        assert_eq!(chosen(0.10, 0.06, Some("lte")), "lte");
        assert_eq!(chosen(0.07, 0.06, Some("lte")), "dsl");
        assert_eq!(chosen(0.07, 0.06, Some("dead")), "dsl");
        assert_eq!(fastest(&paths(0.02, 0.06)[..1], None), None);
        assert_eq!(fastest(&[], Some("dsl")), None);
    }
}
