//! The status as metrics, in the text format of Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

use super::status::{PathStatus, Phase, Status, TunnelStatus, condition};
use crate::carrier::Condition;

type Labels = Vec<(String, String)>;
type Gauges = Family<Labels, Gauge<f64, AtomicU64>>;
type Counters = Family<Labels, Counter>;

/// A gauge per path: its name, help, unit and value.
type PathGauge = (
    &'static str,
    &'static str,
    Option<Unit>,
    fn(&PathStatus) -> Option<f64>,
);

const PATH_GAUGES: [PathGauge; 6] = [
    (
        "path_up",
        "1 if the path carries data, or would",
        None,
        |path| Some(f64::from(u8::from(path.condition == Condition::Up))),
    ),
    (
        "path_rtt",
        "Smoothed round-trip time",
        Some(Unit::Seconds),
        |path| path.rtt_ms.map(|rtt| rtt / 1e3),
    ),
    (
        "path_base_rtt",
        "Smallest round-trip time",
        Some(Unit::Seconds),
        |path| path.base_rtt_ms.map(|rtt| rtt / 1e3),
    ),
    ("path_window_packets", "Congestion window", None, |path| {
        Some(path.window_packets)
    }),
    (
        "path_share",
        "Of its tunnel's bytes in the last 10 s",
        Some(Unit::Ratios),
        |path| Some(path.share),
    ),
    (
        "path_mtu",
        "Largest datagram or segment",
        Some(Unit::Bytes),
        |path| Some(f64::from(path.mtu_bytes)),
    ),
];

/// A counter per path: its name, help, unit and value.
type PathCounter = (
    &'static str,
    &'static str,
    Option<Unit>,
    fn(&PathStatus) -> u64,
);

/// They start again with each tunnel.
const PATH_COUNTERS: [PathCounter; 5] = [
    ("path_sent", "Sent on a path", Some(Unit::Bytes), |path| {
        path.sent_bytes
    }),
    (
        "path_received",
        "Received on a path",
        Some(Unit::Bytes),
        |path| path.received_bytes,
    ),
    (
        "path_sent_packets",
        "Packets sent on a path",
        None,
        |path| path.sent_packets,
    ),
    ("path_lost_packets", "Packets declared lost", None, |path| {
        path.lost_packets
    }),
    (
        "path_deaths",
        "How often a path was found dead",
        None,
        |path| path.deaths,
    ),
];

/// Media type of [`text`].
pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a gateway with this status.
pub fn text(status: &Status) -> String {
    let mut registry = Registry::with_prefix("anabranch_gateway");
    let info = Gauges::default();
    let labels = [
        ("version", &status.version),
        ("role", &status.role),
        ("carrier", &status.carrier),
        ("algorithm", &status.algorithm),
    ];
    let labels: Labels = labels
        .map(|(name, value)| (name.to_owned(), value.clone()))
        .into();
    info.get_or_create(&labels).set(1.0);
    registry.register("info", "The program and its tunnel", info);
    let gauge = |registry: &mut Registry, name: &str, help: &str, value: f64| {
        let one: Gauge<f64, AtomicU64> = Gauge::default();
        one.set(value);
        registry.register(name, help, one);
    };
    let ready = f64::from(u8::from(status.phase == Phase::Ready));
    gauge(
        &mut registry,
        "ready",
        "1 if a tunnel was established and it does not drain",
        ready,
    );
    let failed = status
        .reload
        .as_ref()
        .is_some_and(|reload| !reload.errors.is_empty());
    let failed = f64::from(u8::from(failed));
    gauge(
        &mut registry,
        "reload_failed",
        "1 if the last reload was refused",
        failed,
    );
    counters(&mut registry, status);
    paths(&mut registry, &status.tunnels);
    let mut text = String::new();
    encode(&mut text, &registry).expect("a string can always grow");
    text
}

/// Rows of the same name are one metric.
fn counters(registry: &mut Registry, status: &Status) {
    for rows in status.counters.chunk_by(|one, next| one.name == next.name) {
        let labels = |label: &Option<(String, String)>| label.iter().cloned().collect::<Labels>();
        let first = &rows[0];
        if first.gauge {
            let gauges = Gauges::default();
            for row in rows {
                gauges
                    .get_or_create(&labels(&row.label))
                    .set(row.value as f64);
            }
            registry.register(&first.name, &first.help, gauges);
        } else {
            let counters = Counters::default();
            for row in rows {
                counters
                    .get_or_create(&labels(&row.label))
                    .inc_by(row.value);
            }
            registry.register(&first.name, &first.help, counters);
        }
    }
}

fn paths(registry: &mut Registry, tunnels: &[TunnelStatus]) {
    let paths = || {
        tunnels.iter().flat_map(|tunnel| {
            let labels = |path: &PathStatus| -> Labels {
                vec![
                    ("tunnel".to_owned(), tunnel.name.clone()),
                    ("path".to_owned(), path.name.clone()),
                ]
            };
            tunnel.paths.iter().map(move |path| (labels(path), path))
        })
    };
    for (name, help, unit, value) in PATH_GAUGES {
        let gauges = Gauges::default();
        for (labels, path) in paths() {
            if let Some(value) = value(path) {
                gauges.get_or_create(&labels).set(value);
            }
        }
        register(registry, name, help, unit, gauges);
    }
    for (name, help, unit, value) in PATH_COUNTERS {
        let counters = Counters::default();
        for (labels, path) in paths() {
            counters.get_or_create(&labels).inc_by(value(path));
        }
        register(registry, name, help, unit, counters);
    }
    let conditions = Gauges::default();
    for (mut labels, path) in paths() {
        labels.push(("condition".to_owned(), condition(path.condition).to_owned()));
        conditions.get_or_create(&labels).set(1.0);
    }
    registry.register(
        "path_condition",
        "The path's present condition has the value 1",
        conditions,
    );
    let [kappa, unsent] = [(); 2].map(|()| Gauges::default());
    for tunnel in tunnels {
        let labels: Labels = vec![("tunnel".to_owned(), tunnel.name.clone())];
        if let Some(weight) = tunnel.kappa {
            kappa.get_or_create(&labels).set(weight);
        }
        unsent
            .get_or_create(&labels)
            .inc_by(tunnel.unsent_bytes as f64);
    }
    registry.register("kappa_packets", "Weight of the tunnel's rule", kappa);
    let help = "Accepted data that was never sent";
    registry.register_with_unit("unsent", help, Unit::Bytes, unsent);
}

fn register<M: prometheus_client::registry::Metric>(
    registry: &mut Registry,
    name: &str,
    help: &str,
    unit: Option<Unit>,
    metric: M,
) {
    match unit {
        Some(unit) => registry.register_with_unit(name, help, unit, metric),
        None => registry.register(name, help, metric),
    }
}
