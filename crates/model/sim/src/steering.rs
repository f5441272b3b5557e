//! Windows that an agent sets from outside, such as one that learns.

use std::sync::atomic::{AtomicU64, Ordering};

use anabranch_control::{External, Path};

/// What the values of an agent are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steered {
    /// Congestion windows, packets. A loss leaves them to the agent.
    Windows,
    /// The increase of a window per round trip, packets. A loss halves it, as NewReno does.
    Weights,
}

/// A rule whose values an agent sets while the run stands still, one value per path.
#[derive(Debug)]
pub struct Steering {
    steered: Steered,
    values: Vec<AtomicU64>,
}

impl Steering {
    /// A rule with these values at first.
    pub fn new(steered: Steered, values: &[f64]) -> Steering {
        Steering {
            steered,
            values: values
                .iter()
                .map(|value| AtomicU64::new(value.to_bits()))
                .collect(),
        }
    }

    /// Sets the values. A window changes with the next acknowledgement, or after the repair of a
    /// loss.
    pub fn set(&self, values: &[f64]) {
        for (place, value) in self.values.iter().zip(values) {
            place.store(value.to_bits(), Ordering::Relaxed);
        }
    }

    fn value(&self, r: usize) -> f64 {
        f64::from_bits(self.values[r].load(Ordering::Relaxed))
    }
}

impl External for Steering {
    fn increase(&self, r: usize, paths: &[Path<f64>]) -> f64 {
        match self.steered {
            Steered::Windows => self.value(r) - paths[r].window,
            Steered::Weights => self.value(r) / paths[r].window,
        }
    }

    fn decrease(&self, r: usize, paths: &[Path<f64>]) -> f64 {
        match self.steered {
            Steered::Windows => 0.0,
            Steered::Weights => paths[r].window / 2.0,
        }
    }
}
