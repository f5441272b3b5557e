//! The last hour of each path, one sample per second, in bounded memory.

use std::collections::{BTreeMap, VecDeque};

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

/// The histories of all paths; samples of the same second have the same distance from the end.
#[derive(Debug, Default)]
pub struct History {
    paths: BTreeMap<String, VecDeque<Sample>>,
}

impl History {
    /// Adds a second. A path without a sample in this second gets [`Sample::NONE`], and is
    /// forgotten after an hour of these. A path beyond [`PATHS`] has no history.
    pub fn push(&mut self, mut second: BTreeMap<String, Sample>) {
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

    /// Each path and its samples, the newest last.
    pub fn paths(&self) -> impl Iterator<Item = (&str, &VecDeque<Sample>)> {
        self.paths
            .iter()
            .map(|(name, samples)| (name.as_str(), samples))
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
        let kept: Vec<_> = history
            .paths()
            .map(|(name, samples)| (name, samples.len()))
            .collect();
        assert_eq!(kept, [("a", SAMPLES)]);
    }

    #[test]
    fn the_number_of_paths_is_bounded() {
        let mut history = History::default();
        for i in 0..1000 {
            history.push(second(&[&format!("path{i}")]));
        }
        assert_eq!(history.paths().count(), PATHS);
    }
}
