//! The status as metrics, in the text format of Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Unit::{self, Bytes, Ratios, Seconds};
use prometheus_client::registry::{Metric, Registry};

use super::status::{Counted, PathStatus, Phase, Status, TunnelStatus};
use crate::carrier::Condition::Up;

type Labels = Vec<(String, String)>;

/// Metric of each path: its name, help, unit and value.
type PathMetric<V> = (
    &'static str,
    &'static str,
    Option<Unit>,
    fn(&PathStatus) -> V,
);

#[rustfmt::skip]
const PATH_GAUGES: [PathMetric<Option<f64>>; 6] = [
    ("path_up", "1 if the path carries data, or would", None, |it| flag(it.condition == Up)),
    ("path_rtt", "Smoothed round-trip time", Some(Seconds), |it| seconds(it.rtt_ms)),
    ("path_base_rtt", "Smallest round-trip time", Some(Seconds), |it| seconds(it.base_rtt_ms)),
    ("path_window_packets", "Congestion window", None, |it| Some(it.window_packets)),
    ("path_share", "Of its tunnel's bytes in the last 10 s", Some(Ratios), |it| it.share),
    ("path_mtu", "Largest datagram or segment", Some(Bytes), |it| Some(it.mtu_bytes.into())),
];

/// Counters of paths, which start again with each tunnel.
#[rustfmt::skip]
const PATH_COUNTERS: [PathMetric<u64>; 5] = [
    ("path_sent", "Sent on a path", Some(Bytes), |it| it.sent_bytes),
    ("path_received", "Received on a path", Some(Bytes), |it| it.received_bytes),
    ("path_sent_packets", "Packets sent on a path", None, |it| it.sent_packets),
    ("path_lost_packets", "Packets declared lost", None, |it| it.lost_packets),
    ("path_deaths", "How often a path was found dead", None, |it| it.deaths),
];

/// Media type of [`text`].
pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Metrics of a gateway with this status.
pub fn text(status: &Status) -> String {
    let mut metrics = Metrics(Registry::with_prefix("anabranch_gateway"));
    let info = labels([
        ("version", &status.version),
        ("role", &status.role),
        ("carrier", &status.carrier),
        ("algorithm", &status.algorithm),
    ]);
    metrics.gauges("info", "The program and its tunnel", None, [(info, 1.0)]);
    let help = "1 if a tunnel was established and it does not drain";
    metrics.flag("ready", help, status.phase == Phase::Ready);
    let reload = status.reload.as_ref();
    let failed = reload.is_some_and(|reload| !reload.errors.is_empty());
    metrics.flag("reload_failed", "1 if the last reload was refused", failed);
    for rows in status.counters.chunk_by(|one, next| one.name == next.name) {
        let Counted {
            name, help, gauge, ..
        } = &rows[0];
        let label = |row: &Counted| row.label.iter().cloned().collect();
        if *gauge {
            let rows = rows.iter().map(|row| (label(row), row.value as f64));
            metrics.gauges(name, help, None, rows);
        } else {
            let rows = rows.iter().map(|row| (label(row), row.value));
            metrics.counters(name, help, None, rows);
        }
    }
    metrics.paths(&status.tunnels);
    metrics.tunnels(&status.tunnels);
    let mut text = String::new();
    encode(&mut text, &metrics.0).expect("a string can always grow");
    text
}

fn flag(is_set: bool) -> Option<f64> {
    Some(is_set.into())
}

fn seconds(ms: Option<f64>) -> Option<f64> {
    ms.map(|ms| ms / 1e3)
}

fn labels<const N: usize>(labels: [(&str, &str); N]) -> Labels {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    labels.map(owned).into()
}

struct Metrics(Registry);

impl Metrics {
    fn paths(&mut self, tunnels: &[TunnelStatus]) {
        let paths = || {
            tunnels.iter().flat_map(|tunnel| {
                let labels =
                    |path: &PathStatus| labels([("tunnel", &tunnel.name), ("path", &path.name)]);
                tunnel.paths.iter().map(move |path| (labels(path), path))
            })
        };
        for (name, help, unit, value) in PATH_GAUGES {
            let rows = paths().filter_map(|(labels, path)| Some((labels, value(path)?)));
            self.gauges(name, help, unit, rows);
        }
        for (name, help, unit, value) in PATH_COUNTERS {
            let rows = paths().map(|(labels, path)| (labels, value(path)));
            self.counters(name, help, unit, rows);
        }
        let conditions = paths().map(|(mut labels, path)| {
            labels.push(("condition".to_owned(), path.condition.to_string()));
            (labels, 1.0)
        });
        let help = "The path's present condition has the value 1";
        self.gauges("path_condition", help, None, conditions);
    }

    fn tunnels(&mut self, tunnels: &[TunnelStatus]) {
        let name = |tunnel: &TunnelStatus| labels([("tunnel", &tunnel.name)]);
        let kappa = tunnels.iter().filter_map(|it| Some((name(it), it.kappa?)));
        self.gauges("kappa_packets", "Weight of the tunnel's rule", None, kappa);
        let unsent = tunnels.iter().map(|it| (name(it), it.unsent_bytes as f64));
        let help = "Accepted data that was never sent";
        self.gauges("unsent", help, Some(Bytes), unsent);
    }

    fn flag(&mut self, name: &str, help: &str, value: bool) {
        let gauge = Gauge::<f64, AtomicU64>::default();
        gauge.set(f64::from(value));
        self.register(name, help, None, gauge);
    }

    fn gauges(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl IntoIterator<Item = (Labels, f64)>,
    ) {
        let gauges = Family::<Labels, Gauge<f64, AtomicU64>>::default();
        for (labels, value) in rows {
            gauges.get_or_create(&labels).set(value);
        }
        self.register(name, help, unit, gauges);
    }

    fn counters(
        &mut self,
        name: &str,
        help: &str,
        unit: Option<Unit>,
        rows: impl IntoIterator<Item = (Labels, u64)>,
    ) {
        let counters = Family::<Labels, Counter>::default();
        for (labels, value) in rows {
            counters.get_or_create(&labels).inc_by(value);
        }
        self.register(name, help, unit, counters);
    }

    fn register(&mut self, name: &str, help: &str, unit: Option<Unit>, metric: impl Metric) {
        match unit {
            Some(unit) => self.0.register_with_unit(name, help, unit, metric),
            None => self.0.register(name, help, metric),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_metrics_of_a_status_stay_what_dashboards_know() {
        let counted = |name: &str, label: Option<(&str, &str)>, gauge| Counted {
            name: name.to_owned(),
            label: label.map(|(name, value)| (name.to_owned(), value.to_owned())),
            gauge,
            help: format!("Help of {name}"),
            value: 3,
        };
        let path = PathStatus {
            name: "fibre".to_owned(),
            condition: Up,
            reason: None,
            local: None,
            interface: None,
            sent_mbps: 0.5,
            received_mbps: 1.5,
            share: Some(0.75),
            rtt_ms: Some(20.5),
            base_rtt_ms: None,
            loss: Some(0.0123),
            window_packets: 12.5,
            mtu_bytes: 1452,
            sent_bytes: 1_000_000,
            received_bytes: 500_000,
            sent_packets: 1000,
            lost_packets: 12,
            deaths: 1,
        };
        let status = Status {
            role: "near".to_owned(),
            version: "1.2.3".to_owned(),
            phase: Phase::Ready,
            carrier: "quic".to_owned(),
            algorithm: "vegas:kappa=3".to_owned(),
            counters: vec![
                counted("refused", Some(("reason", "limit")), false),
                counted("connections_active", None, true),
            ],
            tunnels: vec![TunnelStatus {
                kappa: Some(1.5),
                unsent_bytes: 7,
                paths: vec![path],
                ..TunnelStatus::default()
            }],
            ..Status::default()
        };
        assert_eq!(text(&status), include_str!("metrics.txt"));
    }
}
