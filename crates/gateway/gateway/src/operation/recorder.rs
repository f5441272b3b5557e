//! Conversion of counters into rates, once a second.

use std::collections::BTreeMap;
use std::time::Duration;

use super::history::{History, Sample};
use super::status::{PathStatus, TunnelStatus};
use crate::carrier::PathState;

/// Number of latest samples from which loss and shares are computed.
const RECENT: usize = 10;

/// State of a tunnel at one time.
#[derive(Clone, Debug)]
pub struct Observed {
    /// Name among the tunnels of this process; empty for the tunnel of `near`.
    pub name: String,
    /// Paths of the tunnel.
    pub paths: Vec<PathState>,
    /// Weight of its rule.
    pub kappa: Option<f64>,
    /// Accepted data that was never sent, bytes.
    pub unsent_bytes: u64,
    /// Accepted data, bytes.
    pub accepted_bytes: u64,
}

/// Counters of the second before, and the last hour.
#[derive(Debug, Default)]
pub struct Recorder {
    before: BTreeMap<String, PathState>,
    history: History,
}

impl Recorder {
    /// Last hour.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// Adds the tunnels observed `elapsed` after the last call.
    pub fn observe(&mut self, tunnels: &[Observed], elapsed: Duration) -> Vec<TunnelStatus> {
        let mut second = BTreeMap::new();
        let mut now = BTreeMap::new();
        for tunnel in tunnels {
            for path in &tunnel.paths {
                let name = name(tunnel, path);
                let sample = sample(self.before.get(&name), path, tunnel.kappa, elapsed);
                second.insert(name.clone(), sample);
                now.insert(name, path.clone());
            }
        }
        self.before = now;
        self.history.push(second.clone());
        let status = |tunnel| self.tunnel(tunnel, &second);
        tunnels.iter().map(status).collect()
    }

    fn tunnel(&self, tunnel: &Observed, second: &BTreeMap<String, Sample>) -> TunnelStatus {
        let carried = |path: &PathState| -> f64 {
            let recent = self.history.newest(&name(tunnel, path), RECENT);
            recent
                .filter(|sample| !sample.sent_mbps.is_nan())
                .map(|sample| f64::from(sample.sent_mbps + sample.received_mbps))
                .sum()
        };
        let all: f64 = tunnel.paths.iter().map(carried).sum();
        let paths = tunnel.paths.iter().map(|path| {
            let name = name(tunnel, path);
            let share = if all > 0.0 { carried(path) / all } else { 0.0 };
            self.path(path, &name, second[&name], share)
        });
        TunnelStatus {
            name: tunnel.name.clone(),
            kappa: tunnel.kappa,
            unsent_bytes: tunnel.unsent_bytes,
            accepted_bytes: tunnel.accepted_bytes,
            paths: paths.collect(),
        }
    }

    fn path(&self, path: &PathState, name: &str, sample: Sample, share: f64) -> PathStatus {
        let recent = self.history.newest(name, RECENT);
        let (lost, packets) = recent.fold((0, 0), |(lost, packets), sample| {
            (
                lost + u64::from(sample.lost),
                packets + u64::from(sample.packets),
            )
        });
        PathStatus {
            name: path.name.clone(),
            condition: path.condition,
            local: path.local.map(|address| address.to_string()),
            sent_mbps: f64::from(sample.sent_mbps),
            received_mbps: f64::from(sample.received_mbps),
            share,
            rtt_ms: path.rtt_s.map(|rtt| 1e3 * rtt),
            base_rtt_ms: path.base_rtt_s.map(|rtt| 1e3 * rtt),
            loss: if packets > 0 {
                (lost as f64 / packets as f64).min(1.0)
            } else {
                0.0
            },
            window_packets: path.window_packets,
            mtu_bytes: path.mtu_bytes,
            sent_bytes: path.sent_bytes,
            received_bytes: path.received_bytes,
            sent_packets: path.sent_packets,
            lost_packets: path.lost_packets,
            deaths: path.deaths,
        }
    }
}

/// Name of a path's history.
fn name(tunnel: &Observed, path: &PathState) -> String {
    match tunnel.name.as_str() {
        "" => path.name.clone(),
        name => format!("{name} {}", path.name),
    }
}

/// The second between two states of a path. Counters only grow, and begin at 0 with a new tunnel.
fn sample(
    before: Option<&PathState>,
    now: &PathState,
    kappa: Option<f64>,
    elapsed: Duration,
) -> Sample {
    let grown = |counter: fn(&PathState) -> u64| {
        let before = before.map_or(0, counter);
        let now = counter(now);
        now.checked_sub(before).unwrap_or(now)
    };
    let mbps = |bytes: u64| (8e-6 * bytes as f64 / elapsed.as_secs_f64().max(1e-3)) as f32;
    let count = |packets: u64| u32::try_from(packets).unwrap_or(u32::MAX);
    Sample {
        sent_mbps: mbps(grown(|path| path.sent_bytes)),
        received_mbps: mbps(grown(|path| path.received_bytes)),
        rtt_ms: now.rtt_s.map_or(f32::NAN, |rtt| (1e3 * rtt) as f32),
        packets: count(grown(|path| path.sent_packets)),
        lost: count(grown(|path| path.lost_packets)),
        kappa: kappa.map_or(f32::NAN, |kappa| kappa as f32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::carrier::Condition;

    fn path(name: &str, sent_bytes: u64, sent_packets: u64, lost_packets: u64) -> PathState {
        PathState {
            name: name.to_owned(),
            condition: Condition::Up,
            local: None,
            sent_bytes,
            received_bytes: 0,
            sent_packets,
            lost_packets,
            rtt_s: Some(0.02),
            base_rtt_s: Some(0.01),
            window_packets: 10.0,
            mtu_bytes: 1200,
            deaths: 0,
        }
    }

    fn tunnel(paths: Vec<PathState>) -> Observed {
        Observed {
            name: String::new(),
            paths,
            kappa: None,
            unsent_bytes: 0,
            accepted_bytes: 0,
        }
    }

    #[test]
    fn counters_become_rates_loss_and_shares() {
        let mut recorder = Recorder::default();
        let second = Duration::from_secs(1);
        recorder.observe(
            &[tunnel(vec![path("a", 0, 0, 0), path("b", 0, 0, 0)])],
            second,
        );
        // 3 MB and 1 MB in 2 s are 12 and 4 Mbit/s, shares of 3/4 and 1/4; 5 of 100 were lost.
        let paths = vec![path("a", 3_000_000, 100, 5), path("b", 1_000_000, 50, 0)];
        let status = recorder.observe(&[tunnel(paths)], 2 * second);
        let [a, b] = &status[0].paths[..] else {
            panic!("two paths")
        };
        assert_eq!((a.sent_mbps, b.sent_mbps), (12.0, 4.0));
        assert_eq!((a.share, b.share), (0.75, 0.25));
        assert_eq!((a.loss, b.loss), (0.05, 0.0));
        assert_eq!(a.rtt_ms, Some(20.0));
    }

    #[test]
    fn the_counters_of_a_new_tunnel_begin_at_0() {
        let mut recorder = Recorder::default();
        let second = Duration::from_secs(1);
        recorder.observe(&[tunnel(vec![path("a", 1_000_000, 0, 0)])], second);
        let status = recorder.observe(&[tunnel(vec![path("a", 125_000, 0, 0)])], second);
        assert_eq!(status[0].paths[0].sent_mbps, 1.0);
        let samples = recorder.history().newest("a", 10).count();
        assert_eq!(samples, 2, "the path's history continues");
    }
}
