//! Data caps, which count since the start of near, over all tunnels.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::sleep;

use super::Shared;
use crate::carrier::{PathState, Tunnel};
use crate::config::{self, Role};

/// Interval at which the bytes of all tunnels together are counted. A tunnel that is alone counts
/// exactly.
const COUNT: Duration = Duration::from_millis(100);

/// Bytes that the tunnels that have ended carried over each path.
#[derive(Debug, Default)]
pub struct Carried(Mutex<HashMap<String, u64>>);

impl Carried {
    /// Adds the paths of a tunnel that has ended. Calls `forgotten` meanwhile, so that each tunnel
    /// counts once.
    pub fn add(&self, paths: &[PathState], forgotten: impl FnOnce()) {
        let mut carried = self.0.lock();
        forgotten();
        count(&mut carried, paths);
    }

    /// Bytes carried over each path, including those of the `established` tunnels.
    fn with(&self, established: impl FnOnce() -> Vec<Tunnel>) -> HashMap<String, u64> {
        let ended = self.0.lock();
        let mut carried = ended.clone();
        for tunnel in established() {
            count(&mut carried, &tunnel.paths());
        }
        carried
    }

    /// Paths with the rest of their caps after the ended and the `established` tunnels. Paths with
    /// nothing left are not used.
    pub fn left(
        &self,
        paths: &[config::Path],
        established: impl FnOnce() -> Vec<Tunnel>,
    ) -> Vec<config::Path> {
        let carried = self.with(established);
        let mut paths = paths.to_vec();
        for path in &mut paths {
            let Some(cap) = &mut path.cap_bytes else {
                continue;
            };
            *cap = cap.saturating_sub(carried.get(&path.name).copied().unwrap_or(0));
            if *cap == 0 {
                path.role = Role::Never;
            }
        }
        paths
    }
}

fn count(carried: &mut HashMap<String, u64>, paths: &[PathState]) {
    for path in paths {
        *carried.entry(path.name.clone()).or_default() += path.sent_bytes + path.received_bytes;
    }
}

/// Turns paths off, in every tunnel, once all tunnels together have reached their caps. Returns if
/// no path has a cap: a change of paths needs a restart.
pub async fn enforce(shared: Arc<Shared>) {
    let has_cap = |path: &config::Path| path.cap_bytes.is_some();
    while shared.config().paths.iter().any(has_cap) {
        sleep(COUNT).await;
        let carried = shared.carried.with(|| shared.established());
        for path in &shared.config().paths {
            let cap = path.cap_bytes.unwrap_or(u64::MAX);
            if carried.get(&path.name).is_some_and(|&bytes| bytes >= cap) {
                for tunnel in shared.established() {
                    tunnel.turn_off(&path.name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, sent_bytes: u64, received_bytes: u64) -> PathState {
        PathState {
            name: name.to_owned(),
            sent_bytes,
            received_bytes,
            ..PathState::default()
        }
    }

    #[test]
    fn a_cap_counts_what_earlier_tunnels_carried() {
        let path = |name: &str, cap: &str| {
            let text = format!("name = '{name}'\naddress = '127.0.0.1'\n{cap}");
            toml::from_str::<config::Path>(&text).expect("a path")
        };
        let paths = [path("lte", "cap_bytes = 1000"), path("dsl", "")];
        let carried = Carried::default();
        assert_eq!(carried.left(&paths, Vec::new), paths);
        carried.add(&[state("lte", 100, 500), state("dsl", 9000, 9000)], || ());
        let left = carried.left(&paths, Vec::new);
        assert_eq!(left[0].cap_bytes, Some(400));
        assert_eq!(left[0].role, Role::Available);
        assert_eq!(left[1], paths[1]);
        carried.add(&[state("lte", 500, 0)], || ());
        assert_eq!(carried.left(&paths, Vec::new)[0].role, Role::Never);
    }
}
