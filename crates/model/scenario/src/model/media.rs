//! Media: frames at equal times, as datagrams that are never sent again.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{FramesPerS, LateMs, RateMbps};

/// A source of media and how its rate is chosen: `rate_mbps`, constant, or `nada`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Media {
    /// The constant rate of the media, headers excluded, Mbps.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<RateMbps>,
    /// The rate follows queueing delay and losses by the control law of NADA (RFC 8698).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nada: Option<NadaRates>,
    /// Frames per second.
    pub frames_per_s: FramesPerS,
    /// A frame of which not every byte has arrived after this time is a freeze, ms.
    pub late_ms: LateMs,
}

/// The rates of NADA's source, headers excluded. Defaults: RFC 8698, figure 3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct NadaRates {
    /// RMIN, at which it begins, Mbps.
    pub min_mbps: RateMbps,
    /// RMAX, Mbps.
    pub max_mbps: RateMbps,
}

impl Default for NadaRates {
    fn default() -> Self {
        NadaRates {
            min_mbps: RateMbps::constant(0.15),
            max_mbps: RateMbps::constant(1.5),
        }
    }
}

impl Media {
    /// The largest rate, Mbps.
    pub(crate) fn largest_mbps(&self) -> f64 {
        let nada = self.nada.as_ref().map(|nada| nada.max_mbps);
        self.rate_mbps.or(nada).map_or(0.0, RateMbps::get)
    }
}
