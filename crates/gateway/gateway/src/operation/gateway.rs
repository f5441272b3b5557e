//! The two gateways, as the process runs them.

use std::sync::Arc;

use super::monitor::Observation;
use super::recorder::Observed;
use super::status::Counted;
use crate::carrier::Tunnel;
use crate::config;
use crate::config::difference::Differs;
use crate::config::read::Config;
use crate::counters::{CounterKind, Counters, Row};
use crate::far::Far;
use crate::near::{Near, TunnelId};
use crate::tls::Identity;

/// Interface of a gateway for the process.
#[expect(async_fn_in_trait, reason = "used in this crate alone")]
pub trait Gateway: Sized {
    /// Configuration of this gateway.
    type Config: Config + Differs + Clone;
    /// Starts the gateway. Returns once it accepts connections.
    ///
    /// # Errors
    /// If an address cannot be bound.
    async fn start(
        config: Self::Config,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Self>;
    /// Applies the changes that need no restart. Returns the configuration in use, and failures.
    async fn apply(&self, new: Self::Config) -> (Self::Config, Vec<String>);
    /// Established tunnels with their names.
    fn tunnels(&self) -> Vec<(String, Tunnel)>;
    /// Waits until the gateway can no longer do its work. Returns the reason.
    async fn failed(&self) -> &anyhow::Error;
    /// Number of present connections.
    fn active(&self) -> usize;
    /// Stops accepting connections and tunnels.
    async fn stop_accepting(&self);
    /// Ends everything.
    async fn close_all(&self);
}

impl Gateway for Near {
    type Config = config::Near;

    async fn start(
        config: config::Near,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Near> {
        Near::start(config, identity, counters).await
    }

    async fn apply(&self, new: config::Near) -> (config::Near, Vec<String>) {
        Near::apply(self, new).await
    }

    fn tunnels(&self) -> Vec<(String, Tunnel)> {
        let name = |id: TunnelId| match id {
            TunnelId::All => String::new(),
            TunnelId::Path(_) | TunnelId::Datagrams(_) => id.to_string(),
        };
        let tunnels = Near::tunnels(self).into_iter();
        tunnels.map(|(id, tunnel)| (name(id), tunnel)).collect()
    }

    async fn failed(&self) -> &anyhow::Error {
        Near::failed(self).await
    }

    fn active(&self) -> usize {
        Near::active(self)
    }

    async fn stop_accepting(&self) {
        Near::stop_accepting(self).await;
    }

    async fn close_all(&self) {
        Near::close_all(self).await;
    }
}

impl Gateway for Far {
    type Config = config::Far;

    async fn start(
        config: config::Far,
        identity: Arc<Identity>,
        counters: Arc<Counters>,
    ) -> anyhow::Result<Far> {
        Far::start(config, identity, counters).await
    }

    async fn apply(&self, new: config::Far) -> (config::Far, Vec<String>) {
        (Far::apply(self, new), Vec::new())
    }

    fn tunnels(&self) -> Vec<(String, Tunnel)> {
        let tunnels = Far::tunnels(self).into_iter();
        tunnels
            .map(|(peer, tunnel)| (self.name(&peer), tunnel))
            .collect()
    }

    async fn failed(&self) -> &anyhow::Error {
        Far::failed(self).await
    }

    fn active(&self) -> usize {
        Far::active(self)
    }

    async fn stop_accepting(&self) {
        Far::stop_accepting(self);
    }

    async fn close_all(&self) {
        Far::close_all(self).await;
    }
}

/// Present state of a gateway.
pub fn observe(gateway: &impl Gateway, counters: &Counters) -> Observation {
    let mut tunnels: Vec<Observed> = Vec::new();
    for (name, tunnel) in gateway.tunnels() {
        let same = tunnels
            .iter()
            .filter(|other| other.name.starts_with(&name))
            .count();
        tunnels.push(Observed {
            name: if same > 0 {
                format!("{name} {}", same + 1)
            } else {
                name
            },
            paths: tunnel.paths(),
            kappa: tunnel.kappa(),
            unsent_bytes: tunnel.unsent_bytes(),
            accepted_bytes: tunnel.accepted_bytes(),
        });
    }
    Observation {
        connections: gateway.active() as u64,
        counters: counters.table().into_iter().map(counted).collect(),
        tunnels,
    }
}

fn counted(row: Row) -> Counted {
    Counted {
        name: row.name.to_owned(),
        label: row
            .label
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        gauge: row.kind == CounterKind::Gauge,
        help: row.help.to_owned(),
        value: row.value,
    }
}
