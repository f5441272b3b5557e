//! Links, and the measurement of a run.

use anabranch_net::LinkConfig;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{EndS, NonNegative, Positive, SampleMs};

/// One link, one way, with every default resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Name in the file and in the tables of a result.
    pub name: String,
    /// Effects on packets, ready for [`anabranch_net::Link::new`].
    pub config: LinkConfig,
}

impl Link {
    /// The rate in the mean over time, Mbps (10^6 bits per second, headers included).
    pub fn rate_mbps(&self) -> f64 {
        self.config.rate.mean_mbps()
    }
}

// The measurement of a run.

/// The measurement window of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Measure {
    /// Length of the run, s.
    pub duration_s: EndS,
    /// Totals count from here to the end, s. Less than `duration_s`.
    #[serde(default = "Measure::no_warmup")]
    pub warmup_s: NonNegative,
    /// Time between two samples of windows, queues and rates, ms.
    #[serde(default = "Measure::ten_per_second")]
    pub sample_ms: SampleMs,
    /// A scenario is rejected if a run could need more memory than this, GiB.
    #[serde(default = "Measure::four_gib")]
    pub max_memory_gib: Positive,
}

impl Measure {
    fn no_warmup() -> NonNegative {
        NonNegative::constant(0.0)
    }

    fn ten_per_second() -> SampleMs {
        SampleMs::constant(100.0)
    }

    fn four_gib() -> Positive {
        Positive::constant(4.0)
    }
}
