//! The interface of both gateways for the process that runs them.

use std::sync::Arc;

use crate::carrier::Tunnel;
use crate::config::difference::Differs;
use crate::config::read::Config;
use crate::counters::Counters;
use crate::network::{Kernel, Network};
use crate::tls::Identity;

/// A gateway that runs.
#[expect(async_fn_in_trait, reason = "used in this crate alone")]
pub trait Gateway: Sized {
    /// Configuration of this gateway.
    type Config: Config + Differs + Clone;
    /// Starts the gateway. Returns once it accepts connections.
    ///
    /// # Errors
    /// If an address cannot be bound; the message names its key.
    async fn start(
        config: Self::Config,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Self> {
        Self::start_on(Arc::new(Kernel), config, identity, counters).await
    }
    /// [`Gateway::start`] on this network.
    async fn start_on(
        network: Arc<dyn Network>,
        config: Self::Config,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Self>;
    /// Applies the changes that need no restart, and closes the tunnels of removed peers. Returns
    /// the configuration in use, and the faults of listeners that could not be opened.
    async fn apply(&self, new: Self::Config) -> (Self::Config, Vec<String>);
    /// Established tunnels with their names.
    fn named_tunnels(&self) -> Vec<(String, Tunnel)>;
    /// Tunnels that are not established, with the reason; one line each.
    fn failures(&self) -> Vec<String> {
        Vec::new()
    }
    /// Waits until the gateway can no longer do its work. Returns the reason.
    async fn failed(&self) -> &anyhow::Error;
    /// Number of present connections.
    fn active(&self) -> usize;
    /// Stops accepting connections and tunnels. Connections continue.
    async fn stop_accepting(&self);
    /// Resets all connections, closes all tunnels and waits until everything has ended.
    async fn close_all(&self);
}
