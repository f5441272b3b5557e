//! Conversion of counters into rates, once a second, and the last hour of each path in bounded
//! memory.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Serialize, Serializer};

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
    /// Latest samples of each present path, the newest first.
    recent: BTreeMap<String, VecDeque<Sample>>,
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
        self.recent.retain(|name, _| second.contains_key(name));
        for (name, sample) in &second {
            let recent = self.recent.entry(name.clone()).or_default();
            recent.truncate(RECENT - 1);
            recent.push_front(*sample);
        }
        self.history.push(second.clone());
        let status = |tunnel| self.tunnel(tunnel, &second);
        tunnels.iter().map(status).collect()
    }

    fn tunnel(&self, tunnel: &Observed, second: &BTreeMap<String, Sample>) -> TunnelStatus {
        let carried = |path: &PathState| -> f64 {
            let recent = self.recent.get(&name(tunnel, path)).into_iter().flatten();
            recent
                .map(|sample| f64::from(sample.sent_mbps + sample.received_mbps))
                .sum()
        };
        let all: f64 = tunnel.paths.iter().map(carried).sum();
        let paths = tunnel.paths.iter().map(|path| {
            let name = name(tunnel, path);
            let share = (all > 0.0).then(|| carried(path) / all);
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

    fn path(&self, path: &PathState, name: &str, sample: Sample, share: Option<f64>) -> PathStatus {
        let recent = self.recent.get(name).into_iter().flatten();
        let (lost, packets) = recent.fold((0, 0), |(lost, packets), sample| {
            (
                lost + u64::from(sample.lost),
                packets + u64::from(sample.packets),
            )
        });
        PathStatus {
            name: path.name.clone(),
            condition: path.condition,
            reason: path.reason.clone(),
            local: path.local.map(|address| address.to_string()),
            interface: path.interface.clone(),
            sent_mbps: f64::from(sample.sent_mbps),
            received_mbps: f64::from(sample.received_mbps),
            share,
            rtt_ms: path.rtt_s.map(|rtt| 1e3 * rtt),
            base_rtt_ms: path.base_rtt_s.map(|rtt| 1e3 * rtt),
            loss: (packets > 0).then(|| (lost as f64 / packets as f64).min(1.0)),
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

/// Tunnel in a path's name.
fn tunnel_of(name: &str) -> &str {
    name.rsplit_once(' ').map_or("", |(tunnel, _)| tunnel)
}

/// Samples of a path: an hour.
pub const SAMPLES: usize = 3600;

/// The most paths with a history: 5 MB.
pub const PATHS: usize = 64;

/// A second of a path. Values of a second without the path are NaN.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Sent, Mbit/s.
    pub sent_mbps: f32,
    /// Received, Mbit/s.
    pub received_mbps: f32,
    /// Smoothed round-trip time, ms; NaN before the first sample.
    pub rtt_ms: f32,
    /// Packets sent in this second.
    pub packets: u32,
    /// Packets declared lost in this second.
    pub lost: u32,
    /// Weight of the tunnel's rule; NaN without one.
    pub kappa: f32,
}

impl Sample {
    /// A second without the path.
    pub const NONE: Sample = Sample {
        sent_mbps: f32::NAN,
        received_mbps: f32::NAN,
        rtt_ms: f32::NAN,
        packets: 0,
        lost: 0,
        kappa: f32::NAN,
    };
}

/// Columns of a sample in JSON, an array. Unknown values are `null`.
const COLUMNS: [&str; 6] = [
    "sent_mbps",
    "received_mbps",
    "rtt_ms",
    "packets",
    "lost",
    "kappa",
];

impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let short = |value: f32| (1e3 * value).round() / 1e3;
        let [sent, received, rtt] = [self.sent_mbps, self.received_mbps, self.rtt_ms].map(short);
        let (packets, lost, kappa) = (self.packets, self.lost, short(self.kappa));
        (sent, received, rtt, packets, lost, kappa).serialize(serializer)
    }
}

/// Histories of all paths; samples of the same second have the same distance from the end.
#[derive(Debug, Default)]
pub struct History {
    second: u64,
    paths: BTreeMap<String, VecDeque<Sample>>,
}

/// End of a history, a JSON document: 30 bytes per sample, at most 7 MB.
#[derive(Debug, Serialize)]
pub struct Part<'h> {
    /// Seconds observed since the start.
    pub second: u64,
    columns: [&'static str; 6],
    /// Each path with its samples, the newest last.
    paths: BTreeMap<&'h str, Vec<&'h Sample>>,
}

impl History {
    /// Adds a second. A path without a sample in this second gets [`Sample::NONE`], and is
    /// forgotten after an hour of these. A path beyond [`PATHS`] has no history.
    pub fn push(&mut self, mut second: BTreeMap<String, Sample>) {
        self.second += 1;
        for (name, samples) in &mut self.paths {
            if samples.len() == SAMPLES {
                samples.pop_front();
            }
            samples.push_back(second.remove(name).unwrap_or(Sample::NONE));
        }
        self.paths
            .retain(|_, samples| samples.iter().any(|sample| !sample.sent_mbps.is_nan()));
        for (name, sample) in second {
            if self.make_room(&name) {
                self.paths.insert(name, VecDeque::from([sample]));
            }
        }
    }

    /// All paths, with the samples after this second; 0 is before all.
    pub fn since(&self, second: u64) -> Part<'_> {
        let count = usize::try_from(self.second.saturating_sub(second)).unwrap_or(usize::MAX);
        let end = |samples: &VecDeque<Sample>| samples.len().saturating_sub(count);
        let paths = self.paths.iter();
        Part {
            second: self.second,
            columns: COLUMNS,
            paths: paths
                .map(|(name, samples)| (name.as_str(), samples.range(end(samples)..).collect()))
                .collect(),
        }
    }

    /// Makes room for a path: of the tunnel that has most of them, the one whose last sample is
    /// oldest, if the new one's tunnel has fewer by two.
    fn make_room(&mut self, name: &str) -> bool {
        if self.paths.len() < PATHS {
            return true;
        }
        let mut of_tunnel: BTreeMap<&str, usize> = BTreeMap::new();
        for name in self.paths.keys() {
            *of_tunnel.entry(tunnel_of(name)).or_default() += 1;
        }
        let own = of_tunnel.get(tunnel_of(name)).copied().unwrap_or(0);
        let most = of_tunnel.values().max().copied().unwrap_or(0);
        let age = |samples: &VecDeque<Sample>| {
            let is_known = |sample: &Sample| !sample.sent_mbps.is_nan();
            samples.iter().rev().position(is_known).unwrap_or(SAMPLES)
        };
        let mut held: Vec<_> = self.paths.iter().collect();
        held.retain(|(name, _)| of_tunnel[tunnel_of(name)] == most);
        let oldest = held.into_iter().max_by_key(|(_, samples)| age(samples));
        let oldest = oldest
            .filter(|_| most > own + 1)
            .map(|(name, _)| name.clone());
        oldest.is_some_and(|name| self.paths.remove(&name).is_some())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(name: &str, sent_bytes: u64, sent_packets: u64, lost_packets: u64) -> PathState {
        PathState {
            name: name.to_owned(),
            sent_bytes,
            sent_packets,
            lost_packets,
            rtt_s: Some(0.02),
            ..PathState::default()
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
        assert_eq!((a.share, b.share), (Some(0.75), Some(0.25)));
        assert_eq!((a.loss, b.loss), (Some(0.05), Some(0.0)));
        assert_eq!(a.rtt_ms, Some(20.0));
    }

    #[test]
    fn the_counters_of_a_new_tunnel_begin_at_0() {
        let mut recorder = Recorder::default();
        let second = Duration::from_secs(1);
        recorder.observe(&[tunnel(vec![path("a", 1_000_000, 0, 0)])], second);
        let status = recorder.observe(&[tunnel(vec![path("a", 125_000, 0, 0)])], second);
        assert_eq!(status[0].paths[0].sent_mbps, 1.0);
        let samples = recorder.history().since(0).paths["a"].len();
        assert_eq!(samples, 2, "the path's history continues");
    }

    fn second(names: &[&str]) -> BTreeMap<String, Sample> {
        let sample = Sample {
            sent_mbps: 1.0,
            ..Sample::NONE
        };
        names
            .iter()
            .map(|name| ((*name).to_owned(), sample))
            .collect()
    }

    #[test]
    fn an_hour_is_kept_and_a_path_is_forgotten_an_hour_after_its_last_sample() {
        let mut history = History::default();
        history.push(second(&["a", "b"]));
        for _ in 0..2 * SAMPLES {
            history.push(second(&["a"]));
        }
        let paths = history.since(0).paths;
        assert_eq!(Vec::from_iter(paths.keys()), [&"a"]);
        assert_eq!(paths["a"].len(), SAMPLES);
    }

    #[test]
    fn the_document_has_what_is_new_and_null_for_what_is_not_known() {
        let mut history = History::default();
        history.push(second(&["a"]));
        history.push(second(&["a"]));
        let idle = Sample {
            sent_mbps: 0.12345,
            received_mbps: 0.0,
            rtt_ms: 20.0,
            ..Sample::NONE
        };
        history.push(BTreeMap::from([("b".to_owned(), idle)]));
        let json = |since| serde_json::to_string(&history.since(since)).expect("plain JSON");
        let columns =
            r#""columns":["sent_mbps","received_mbps","rtt_ms","packets","lost","kappa"]"#;
        let b = r#""b":[[0.123,0.0,20.0,0,0,null]]"#;
        let gone = "[null,null,null,0,0,null]";
        let newest = format!(r#"{{"second":3,{columns},"paths":{{"a":[{gone}],{b}}}}}"#);
        assert_eq!(json(2), newest);
        let one = "[1.0,null,null,0,0,null]";
        let all = format!(r#"{{"second":3,{columns},"paths":{{"a":[{one},{one},{gone}],{b}}}}}"#);
        assert_eq!(json(0), all);
        assert_eq!(
            json(3),
            format!(r#"{{"second":3,{columns},"paths":{{"a":[],"b":[]}}}}"#)
        );
    }

    #[test]
    fn paths_without_a_history_have_a_share_and_a_peer_with_many_names_leaves_others_theirs() {
        let mut recorder = Recorder::default();
        let of = |peer: &str, paths: Vec<PathState>| Observed {
            name: peer.to_owned(),
            ..tunnel(paths)
        };
        let names: Vec<String> = (0..2 * PATHS).map(|i| format!("p{i}")).collect();
        let many = |bytes| names.iter().map(|name| path(name, bytes, 100, 1)).collect();
        let second = Duration::from_secs(1);
        for n in 1..3 {
            recorder.observe(&[of("hostile", many(n * 1000))], second);
        }
        let last = recorder.observe(
            &[
                of("branch", vec![path("dsl", 1000, 10, 0)]),
                of("hostile", many(5000)),
            ],
            second,
        );
        assert_eq!(
            (last[0].paths[0].share, last[0].paths[0].loss),
            (Some(1.0), Some(0.0))
        );
        assert!(
            last[1]
                .paths
                .iter()
                .all(|it| it.share == Some(1.0 / names.len() as f64))
        );
        assert!(recorder.history().since(0).paths.contains_key("branch dsl"));
        // Nothing was carried: the share is not known.
        let idle = recorder.observe(&[of("new", vec![path("a", 0, 0, 0)])], second);
        assert_eq!(
            (idle[0].paths[0].share, idle[0].paths[0].loss),
            (None, None)
        );
    }

    #[test]
    fn the_number_of_paths_is_bounded() {
        let mut history = History::default();
        for i in 0..1000 {
            history.push(second(&[&format!("path{i}")]));
        }
        assert_eq!(history.since(0).paths.len(), PATHS);
    }
}
