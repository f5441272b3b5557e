//! The status as metrics, in the text format of Prometheus.

use std::sync::atomic::AtomicU64;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Metric, Registry, Unit};

use super::status::{Counted, PathStatus, Phase, Status, TunnelStatus};
use crate::carrier::Condition;

type Labels = Vec<(String, String)>;

/// Media type of [`text`].
pub const KIND: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a gateway with this status.
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
        let mut gauge = |name, help, unit, value: fn(&PathStatus) -> Option<f64>| {
            let rows = paths().filter_map(|(labels, path)| Some((labels, value(path)?)));
            self.gauges(name, help, unit, rows);
        };
        gauge(
            "path_up",
            "1 if the path carries data, or would",
            None,
            |path| Some(f64::from(path.condition == Condition::Up)),
        );
        gauge(
            "path_rtt",
            "Smoothed round-trip time",
            Some(Unit::Seconds),
            |path| path.rtt_ms.map(|rtt| rtt / 1e3),
        );
        gauge(
            "path_base_rtt",
            "Smallest round-trip time",
            Some(Unit::Seconds),
            |path| path.base_rtt_ms.map(|rtt| rtt / 1e3),
        );
        gauge("path_window_packets", "Congestion window", None, |path| {
            Some(path.window_packets)
        });
        let help = "Of its tunnel's bytes in the last 10 s";
        gauge("path_share", help, Some(Unit::Ratios), |path| {
            Some(path.share)
        });
        gauge(
            "path_mtu",
            "Largest datagram or segment",
            Some(Unit::Bytes),
            |path| Some(f64::from(path.mtu_bytes)),
        );
        // They start again with each tunnel.
        let mut counter = |name, help, unit, value: fn(&PathStatus) -> u64| {
            let rows = paths().map(|(labels, path)| (labels, value(path)));
            self.counters(name, help, unit, rows);
        };
        counter("path_sent", "Sent on a path", Some(Unit::Bytes), |path| {
            path.sent_bytes
        });
        counter(
            "path_received",
            "Received on a path",
            Some(Unit::Bytes),
            |path| path.received_bytes,
        );
        counter(
            "path_sent_packets",
            "Packets sent on a path",
            None,
            |path| path.sent_packets,
        );
        counter("path_lost_packets", "Packets declared lost", None, |path| {
            path.lost_packets
        });
        counter(
            "path_deaths",
            "How often a path was found dead",
            None,
            |path| path.deaths,
        );
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
        self.gauges("unsent", help, Some(Unit::Bytes), unsent);
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
            condition: Condition::Up,
            local: None,
            sent_mbps: 0.5,
            received_mbps: 1.5,
            share: 0.75,
            rtt_ms: Some(20.5),
            base_rtt_ms: None,
            loss: 0.0123,
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
