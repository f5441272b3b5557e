//! The last hour of each path, one sample per second, in bounded memory.

use std::collections::{BTreeMap, VecDeque};

use serde::{Serialize, Serializer};

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
            if self.paths.len() < PATHS {
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

    /// The newest samples of a path, the newest first.
    pub fn newest(&self, name: &str, count: usize) -> impl Iterator<Item = &Sample> + use<'_> {
        let samples = self.paths.get(name).into_iter();
        samples.flat_map(move |samples| samples.iter().rev().take(count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn the_number_of_paths_is_bounded() {
        let mut history = History::default();
        for i in 0..1000 {
            history.push(second(&[&format!("path{i}")]));
        }
        assert_eq!(history.since(0).paths.len(), PATHS);
    }
}
