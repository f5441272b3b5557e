//! The times at which the counters of a run are sampled.

use anabranch_net::Time;
use anabranch_scenario::Scenario;
use anabranch_scenario::time::from_seconds;

/// The end of the warm-up, each sample and the end of the run.
pub struct SampleTimes {
    /// All times, increasing, ps.
    pub times: Vec<Time>,
    /// The index of the end of the warm-up. All others are samples, except possibly the last.
    pub warm_up: usize,
    /// Whether the last time is a sample too.
    ends_in_sample: bool,
}

impl SampleTimes {
    /// The sample times of a scenario.
    pub fn of(scenario: &Scenario) -> SampleTimes {
        let measure = &scenario.measure;
        let end = from_seconds(measure.duration_s.get());
        let every = from_seconds(measure.sample_ms.get() * 1e-3).max(1);
        let warm_up_at = from_seconds(measure.warmup_s.get());
        let mut times: Vec<Time> = (1..).map(|n| n * every).take_while(|&t| t <= end).collect();
        let ends_in_sample = times.last() == Some(&end);
        if !ends_in_sample {
            times.push(end);
        }
        let warm_up = times.partition_point(|&time| time < warm_up_at);
        times.insert(warm_up, warm_up_at);
        SampleTimes {
            times,
            warm_up,
            ends_in_sample,
        }
    }

    /// Whether the time with this index is a sample.
    pub fn is_sample(&self, index: usize) -> bool {
        index != self.warm_up && (index + 1 < self.times.len() || self.ends_in_sample)
    }
}
