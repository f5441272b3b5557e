//! Life of a gateway's process: start, reload, drain.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tracing::{error, info, warn};

use super::monitor::{Monitor, PERIOD, observe};
use super::server::{self, Server};
use super::service;
use super::status::Reload;
use crate::config::difference::{Differs, RESTART, difference};
use crate::config::read::{self, Config, Valid};
use crate::config::{Carrier, Operation, check};
use crate::counters::Counters;
use crate::gateway::Gateway;
use crate::tls::Identity;

/// Longest time of a gateway's tasks to end once everything is closed.
const CLOSE: Duration = Duration::from_secs(3);

/// Interval at which free memory is returned to the system. Without it, the heap stays as large as
/// it was at its largest, because something at its end is in use.
const TRIM: Duration = Duration::from_secs(60);

/// Interval at which a draining gateway checks whether it has connections.
const DRAIN_CHECK: Duration = Duration::from_millis(50);

/// Runs a gateway until a signal ends it.
pub fn run<G: Gateway>(file: &Path, valid: Valid<G::Config>) -> anyhow::Result<ExitCode> {
    warnings(&valid.warnings);
    check::raise();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let result = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let mut process = Process::<G>::start(file, valid).await?;
        process.serve(&mut signals).await?;
        process.drain(&mut signals).await;
        Ok(ExitCode::SUCCESS)
    });
    // A resolver's thread may still wait.
    runtime.shutdown_background();
    result
}

fn warnings(warnings: &[String]) {
    for warning in warnings {
        warn!("{warning}");
    }
}

struct Signals {
    reload: Signal,
    end: End,
}

/// SIGTERM, and SIGINT for Ctrl-C.
struct End(Signal, Signal);

impl Signals {
    fn new() -> std::io::Result<Signals> {
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = signal(SignalKind::interrupt())?;
        Ok(Signals {
            reload: signal(SignalKind::hangup())?,
            end: End(terminate, interrupt),
        })
    }
}

impl End {
    async fn received(&mut self) {
        tokio::select! {
            _ = self.0.recv() => {}
            _ = self.1.recv() => {}
        }
    }
}

/// A running gateway with its configuration.
struct Process<'f, G: Gateway> {
    file: &'f Path,
    valid: Valid<G::Config>,
    gateway: G,
    identity: Arc<Identity>,
    counters: Arc<Counters>,
    monitor: Arc<Monitor>,
    server: Option<Server>,
}

impl<'f, G: Gateway> Process<'f, G> {
    async fn start(file: &'f Path, mut valid: Valid<G::Config>) -> anyhow::Result<Self> {
        let tunnel = valid.config.tunnel().clone();
        let carrier = match tunnel.carrier {
            Carrier::Quic => "quic",
            Carrier::Mptcp => "mptcp",
        };
        let monitor = Monitor::new(G::Config::ROLE, carrier, &tunnel.algorithm);
        let server = serve(valid.config.operation(), &monitor).await?;
        let identity = valid.identity();
        let counters = Arc::new(Counters::default());
        let gateway = G::start(valid.config.clone(), identity.clone(), counters.clone()).await?;
        info!(
            "{} started with {}: {carrier}, {}",
            G::Config::ROLE,
            file.display(),
            tunnel.algorithm
        );
        service::ready();
        Ok(Process {
            file,
            valid,
            gateway,
            identity,
            counters,
            monitor,
            server,
        })
    }

    /// Observes the gateway every second and reloads on SIGHUP, until a signal ends it.
    async fn serve(&mut self, signals: &mut Signals) -> anyhow::Result<()> {
        let period = service::watchdog().map_or(PERIOD, |watchdog| watchdog.min(PERIOD));
        let mut ticks = interval(period);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut observed = Instant::now();
        let mut trimmed = Instant::now();
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    if trimmed.elapsed() >= TRIM {
                        trimmed = Instant::now();
                        drop(tokio::task::spawn_blocking(trim_heap));
                    }
                    if observed.elapsed() + period / 2 >= PERIOD {
                        observed = Instant::now();
                        self.observe();
                    }
                    // The gateway's locks could be taken, so it is alive.
                    service::alive();
                }
                _ = signals.reload.recv() => {
                    service::reloading();
                    let reload = self.reload().await;
                    report(&reload);
                    self.monitor.reloaded(reload);
                    service::ready();
                }
                () = signals.end.received() => return Ok(()),
                error = self.gateway.failed() => anyhow::bail!("{error:#}"),
            }
        }
    }

    fn observe(&self) {
        self.monitor.observe(observe(&self.gateway, &self.counters));
        let status = self.monitor.status();
        let paths = status.tunnels.iter().flat_map(|tunnel| &tunnel.paths);
        let up = paths
            .filter(|path| path.condition == crate::carrier::Condition::Up)
            .count();
        let (tunnels, connections) = (status.tunnels.len(), status.connections);
        service::status(&format!(
            "{tunnels} tunnels, {up} paths up, {connections} connections"
        ));
    }

    /// Reads the file again and applies what has changed. A faulty file changes nothing.
    async fn reload(&mut self) -> Reload {
        let new = match read::read::<G::Config>(self.file) {
            Ok(new) => new,
            Err(errors) => {
                let errors = errors.iter().map(ToString::to_string).collect();
                return Reload {
                    errors,
                    ..Reload::default()
                };
            }
        };
        warnings(&new.warnings);
        let operation = new.config.operation();
        if operation.status != self.valid.config.operation().status {
            match serve(operation, &self.monitor).await {
                Ok(server) => self.server = server,
                Err(error) => {
                    let errors = vec![format!("{error:#}")];
                    return Reload {
                        errors,
                        ..Reload::default()
                    };
                }
            }
        }
        self.identity.replace(&new.key, new.peers.clone());
        let (config, errors) = self.gateway.apply(new.config.clone()).await;
        let mut restart = config.parts(&new.config);
        restart.retain(|part| RESTART.contains(part));
        let running = Valid { config, ..new };
        let applied = difference(&self.valid, &running);
        self.valid = running;
        let names = |parts: Vec<&str>| parts.into_iter().map(str::to_owned).collect();
        Reload {
            applied: names(applied),
            restart: names(restart),
            errors,
        }
    }

    /// Accepts nothing new and waits for the connections to end, until the deadline or a second
    /// signal.
    async fn drain(self, signals: &mut Signals) {
        let drain = Duration::from_secs_f64(self.valid.config.operation().drain_s);
        service::stopping(drain + CLOSE);
        self.monitor.draining();
        info!(
            "draining {} connections, {} s at most",
            self.gateway.active(),
            drain.as_secs_f64()
        );
        self.gateway.stop_accepting().await;
        let deadline = Instant::now() + drain;
        tokio::select! {
            () = self.idle() => info!("every connection has ended"),
            () = sleep_until(deadline) => {
                warn!("the deadline is over: {} connections are reset", self.gateway.active());
            }
            () = signals.end.received() => {
                warn!("a second signal: {} connections are reset", self.gateway.active());
            }
        }
        if timeout(CLOSE, self.gateway.close_all()).await.is_err() {
            error!("some tasks have not ended within {} s", CLOSE.as_secs());
        }
    }

    async fn idle(&self) {
        let mut observed = Instant::now();
        while self.gateway.active() > 0 {
            service::alive();
            if observed.elapsed() >= PERIOD {
                observed = Instant::now();
                self.observe();
            }
            sleep(DRAIN_CHECK).await;
        }
    }
}

/// Returns free memory to the system.
fn trim_heap() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call has no conditions.
    unsafe {
        libc::malloc_trim(0);
    }
}

fn report(reload: &Reload) {
    for error in &reload.errors {
        error!("reload: {error}");
    }
    if !reload.restart.is_empty() {
        warn!(
            "reload: a change of {} takes effect with a restart",
            reload.restart.join(", ")
        );
    }
    match &reload.applied[..] {
        [] if reload.errors.is_empty() && reload.restart.is_empty() => {
            info!("reload: nothing has changed");
        }
        [] => {}
        applied => info!("reload: applied {}", applied.join(", ")),
    }
}

/// The server of status and metrics, if there is one.
async fn serve(operation: &Operation, monitor: &Arc<Monitor>) -> anyhow::Result<Option<Server>> {
    match operation.status {
        Some(address) => Ok(Some(server::start(address, monitor.clone()).await?)),
        None => Ok(None),
    }
}
