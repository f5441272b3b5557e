//! The life of a gateway's process.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use tracing::{info, warn};

use crate::config::read::{Config, Valid};
use crate::config::{Far, Near};
use crate::tls::Identity;

/// A gateway as this module runs it.
#[expect(async_fn_in_trait, reason = "used here alone")]
pub trait Gateway: Sized {
    /// Its configuration.
    type Config: Config;
    /// Starts it: returns once it accepts connections.
    async fn start(config: Self::Config, identity: Arc<Identity>) -> anyhow::Result<Self>;
}

/// `near`.
#[derive(Debug)]
pub struct NearGateway;

impl Gateway for NearGateway {
    type Config = Near;
    async fn start(_config: Near, _identity: Arc<Identity>) -> anyhow::Result<Self> {
        anyhow::bail!("near is not written yet")
    }
}

/// `far`.
#[derive(Debug)]
pub struct FarGateway;

impl Gateway for FarGateway {
    type Config = Far;
    async fn start(_config: Far, _identity: Arc<Identity>) -> anyhow::Result<Self> {
        anyhow::bail!("far is not written yet")
    }
}

/// Runs a gateway until a signal ends it.
///
/// # Errors
/// If it cannot start.
pub fn run<G: Gateway>(file: &Path, valid: Valid<G::Config>) -> anyhow::Result<ExitCode> {
    for warning in &valid.warnings {
        warn!("{warning}");
    }
    info!("{} with {}", G::Config::ROLE, file.display());
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let identity = valid.identity();
        let _gateway = G::start(valid.config, identity).await?;
        tokio::signal::ctrl_c().await?;
        Ok(ExitCode::SUCCESS)
    })
}
