//! State that status page, JSON and metrics show, renewed once a second.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::watch;
use tracing::warn;

use super::recorder::{Observed, Part, Recorder};
use super::status::{Counted, Phase, Reload, Status, TunnelStatus};
use crate::carrier::Lines;
use crate::counters::{CounterKind, Counters, Row};
use crate::gateway::Gateway;

/// Interval at which the gateway is observed.
pub const PERIOD: Duration = Duration::from_secs(1);

/// State of a gateway at one time.
#[derive(Clone, Debug, Default)]
pub struct Observation {
    /// Number of present connections.
    pub connections: u64,
    /// Values of its counters.
    pub counters: Vec<Counted>,
    /// Tunnels of the gateway.
    pub tunnels: Vec<Observed>,
    /// Tunnels that are not established, with the reason.
    pub failures: Vec<String>,
}

/// Present state of a gateway.
pub fn observe(gateway: &impl Gateway, counters: &Counters) -> Observation {
    let mut tunnels: Vec<Observed> = Vec::new();
    for (name, tunnel) in gateway.named_tunnels() {
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
        failures: gateway.failures(),
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

/// Last status and last hour.
#[derive(Debug)]
pub struct Monitor {
    started: Instant,
    status: watch::Sender<Arc<Status>>,
    recorder: Mutex<(Recorder, Instant)>,
    /// State of each path that was logged last, and its lines in the log.
    logged: Mutex<BTreeMap<(String, String), (String, Lines)>>,
}

impl Monitor {
    /// A monitor of a gateway with this role, carrier and rule.
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
            logged: Mutex::default(),
        })
    }

    /// Last status.
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
            let mut recorder = self.recorder.lock();
            let elapsed = recorder.1.elapsed();
            recorder.1 = Instant::now();
            recorder.0.observe(&observation.tunnels, elapsed)
        };
        self.log(&tunnels);
        self.change(|status| {
            if status.phase == Phase::Starting && !tunnels.is_empty() {
                status.phase = Phase::Ready;
            }
            status.uptime_s = self.started.elapsed().as_secs();
            status.connections = observation.connections;
            status.counters = observation.counters;
            status.tunnels = tunnels;
            status.failures = observation.failures;
        });
    }

    /// Logs the reasons for which paths carry nothing: each change, at most once a minute.
    fn log(&self, tunnels: &[TunnelStatus]) {
        let paths = tunnels
            .iter()
            .flat_map(|tunnel| tunnel.paths.iter().map(move |path| (&tunnel.name, path)));
        let mut logged = self.logged.lock();
        for (tunnel, path) in paths {
            let key = (tunnel.clone(), path.name.clone());
            let (last, lines) = logged.entry(key).or_default();
            let Some(reason) = path.reason.as_ref().filter(|reason| *reason != last) else {
                continue;
            };
            if lines.count(tokio::time::Instant::now()).is_some() {
                last.clone_from(reason);
                let (name, condition) = (&path.name, path.condition);
                let tunnel = Some(tunnel).filter(|it| !it.is_empty());
                warn!(tunnel, path = name, "path {condition}: {reason}");
            }
        }
    }

    /// Records that the gateway drains.
    pub fn draining(&self) {
        self.change(|status| status.phase = Phase::Draining);
    }

    /// Records the outcome of a reload.
    pub fn reloaded(&self, reload: Reload) {
        self.change(|status| status.reload = Some(reload));
    }

    fn change(&self, change: impl FnOnce(&mut Status)) {
        self.status
            .send_modify(|status| change(Arc::make_mut(status)));
    }

    /// Last hour, a JSON document.
    pub fn history(&self) -> String {
        let recorder = self.recorder.lock();
        json(&recorder.0.history().since(0))
    }

    /// News since this second, a JSON document, and the present second.
    pub fn update(&self, since: u64) -> (String, u64) {
        let recorder = self.recorder.lock();
        let history = recorder.0.history().since(since);
        let (status, second) = (self.status(), history.second);
        let status = &*status;
        (json(&Update { status, history }), second)
    }
}

/// News for a live page, each second.
#[derive(Serialize)]
struct Update<'a> {
    status: &'a Status,
    history: Part<'a>,
}

/// A JSON document.
pub fn json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("plain data")
}
