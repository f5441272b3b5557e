//! The state that status page, JSON and metrics show, renewed once a second.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::page;
use super::recorder::{Observed, Recorder};
use super::status::{Counted, Phase, Reload, Status};

/// How often the gateway is observed.
pub const PERIOD: Duration = Duration::from_secs(1);

/// How often a live page gets new plots.
pub const PLOTS: Duration = Duration::from_secs(10);

/// What a gateway reports about itself at one time.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Connections now.
    pub connections: u64,
    /// What it has counted.
    pub counters: Vec<Counted>,
    /// Tunnels of the gateway.
    pub tunnels: Vec<Observed>,
}

/// The last status and the last hour.
#[derive(Debug)]
pub struct Monitor {
    started: Instant,
    status: watch::Sender<Arc<Status>>,
    recorder: Mutex<(Recorder, Instant)>,
    plots: Mutex<Option<(Instant, Arc<str>)>>,
}

impl Monitor {
    /// For a gateway with this role, carrier and rule.
    pub fn new(role: &str, carrier: &str, algorithm: &str) -> Arc<Monitor> {
        let status = Status {
            role: role.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            carrier: carrier.to_owned(),
            algorithm: algorithm.to_owned(),
            ..Status::default()
        };
        let now = Instant::now();
        Arc::new(Monitor {
            started: now,
            status: watch::Sender::new(Arc::new(status)),
            recorder: Mutex::new((Recorder::default(), now)),
            plots: Mutex::new(None),
        })
    }

    /// The last status.
    pub fn status(&self) -> Arc<Status> {
        self.status.borrow().clone()
    }

    /// Each status from now on.
    pub fn subscribe(&self) -> watch::Receiver<Arc<Status>> {
        self.status.subscribe()
    }

    /// Adds an observation.
    pub fn observe(&self, observation: Observation) {
        let tunnels = {
            let mut recorder = self.recorder.lock().expect("no holder panics");
            let elapsed = recorder.1.elapsed();
            recorder.1 = Instant::now();
            recorder.0.observe(&observation.tunnels, elapsed)
        };
        self.change(|status| {
            if status.phase == Phase::Starting && !tunnels.is_empty() {
                status.phase = Phase::Ready;
            }
            status.uptime_s = self.started.elapsed().as_secs();
            status.connections = observation.connections;
            status.counters = observation.counters;
            status.tunnels = tunnels;
        });
    }

    /// Notes that the gateway drains.
    pub fn draining(&self) {
        self.change(|status| status.phase = Phase::Draining);
    }

    /// Notes the outcome of a reload.
    pub fn reloaded(&self, reload: Reload) {
        self.change(|status| status.reload = Some(reload));
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        self.status
            .send_modify(|status| change(Arc::make_mut(status)));
    }

    /// The page.
    pub fn page(&self) -> String {
        page::page(&self.status(), &self.live(), &self.plots())
    }

    /// The part of the page that changes every second.
    pub fn live(&self) -> String {
        let recorder = self.recorder.lock().expect("no holder panics");
        page::live(&self.status(), recorder.0.history())
    }

    /// The last hour, drawn less than half of [`PLOTS`] ago.
    pub fn plots(&self) -> Arc<str> {
        let mut plots = self.plots.lock().expect("no holder panics");
        if let Some((drawn, plots)) = &*plots
            && drawn.elapsed() < PLOTS / 2
        {
            return plots.clone();
        }
        let recorder = self.recorder.lock().expect("no holder panics");
        let drawn: Arc<str> = page::plots(recorder.0.history()).into();
        *plots = Some((Instant::now(), drawn.clone()));
        drawn
    }
}
