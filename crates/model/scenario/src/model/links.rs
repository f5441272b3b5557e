//! Links: rate, delay, queue, loss, outages.

use anabranch_net::LinkConfig;

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
