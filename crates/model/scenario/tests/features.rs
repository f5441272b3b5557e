//! The table of features: what a scenario uses, the refusals made from it, and its page.

use std::fmt::Write;

use anabranch_scenario::{BACKENDS, Feature, Inputs, Scenario};

use crate::schedulers;

/// A change of a scenario that makes it use each feature, and the key that a refusal names.
const EXAMPLES: &[(Feature, &str, &str, &str)] = &[
    (Feature::NewReno, "tcp.recovery", "newreno", "tcp.recovery"),
    (Feature::Ecn, "tcp.ecn", "true", "tcp.ecn"),
    (Feature::Ecn, "tcp.ecn", "accurate", "tcp.ecn"),
    (
        Feature::Codel,
        "links.L.queue",
        "{ codel = {} }",
        "links.L.queue",
    ),
    (
        Feature::SpacedDrops,
        "links.L.queue",
        "{ red = { uniform = true } }",
        "links.L.queue",
    ),
    (
        Feature::FqCodel,
        "links.L.queue",
        "{ fq_codel = {} }",
        "links.L.queue",
    ),
    (
        Feature::Pie,
        "links.L.queue",
        "{ pie = {} }",
        "links.L.queue",
    ),
    (
        Feature::DualPi2,
        "links.L.queue",
        "{ dualpi2 = {} }",
        "links.L.queue",
    ),
    (
        Feature::Policer,
        "links.L.queue",
        "{ policer = { rate_mbps = 1, burst_bytes = 30000 } }",
        "links.L.queue",
    ),
    (
        Feature::ChangingRate,
        "links.L",
        "{ trace_file = 'rate.csv', delay_ms = 1 }",
        "links.L.rate_mbps",
    ),
    (
        Feature::ChangingDelay,
        "links.L",
        "{ trace_file = 'delay.csv', rate_mbps = 1, delay_ms = 1 }",
        "links.L.delay_ms",
    ),
    (
        Feature::ChangingLoss,
        "links.L",
        "{ trace_file = 'loss.csv', rate_mbps = 1, delay_ms = 1 }",
        "links.L.loss",
    ),
    (
        Feature::Jitter,
        "links.L.jitter_ms",
        "4",
        "links.L.jitter_ms",
    ),
    (
        Feature::Reordering,
        "links.L.reorder",
        "{ share = 0.1, packets = 5 }",
        "links.L.reorder",
    ),
    (
        Feature::Bursts,
        "links.L.loss",
        "{ gilbert_elliott = { good_to_bad = 0.01, bad_to_good = 0.5 } }",
        "links.L.loss",
    ),
    (
        Feature::Periodic,
        "links.L.loss",
        "{ periodic = { packets = 100 } }",
        "links.L.loss",
    ),
    (
        Feature::Arq,
        "links.L",
        "{ rate_mbps = 1, delay_ms = 1, loss = { bernoulli = { probability = 0.1 } }, arq = { retries = 3, delay_ms = 8 } }",
        "links.L.arq",
    ),
    (
        Feature::OnOff,
        "flows[0].workload",
        "{ on_off = { on_s = 1, off_s = 1 } }",
        "flows.user.workload",
    ),
    (
        Feature::Poisson,
        "flows[0].workload",
        "{ poisson = { rate_per_s = 1, size = { exponential = { mean_bytes = 1e4 } } } }",
        "flows.user.workload",
    ),
    (
        Feature::Gateway,
        "flows[0].workload",
        "{ gateway = { clients = 2, rate_per_s = 1, size = { exponential = { mean_bytes = 1e4 } } } }",
        "flows.user.workload",
    ),
    (
        Feature::Messages,
        "flows[0].workload",
        "{ messages = { size_bytes = 9, interval_ms = 9 } }",
        "flows.user.workload",
    ),
    (
        Feature::Media,
        "flows[0].workload",
        "{ media = { rate_mbps = 1 } }",
        "flows.user.workload",
    ),
    (
        Feature::PacketBytes,
        "flows[0].packet_bytes",
        "900",
        "flows.user.packet_bytes",
    ),
    (
        Feature::Abe,
        "flows[0].algorithm",
        "lia:beta_ecn=0.8",
        "flows.user.algorithm",
    ),
    (
        Feature::WayBack,
        "flows[0].paths",
        "[{ links = ['L'], back = ['L'] }]",
        "flows.user.paths",
    ),
];

fn scenario(set: &[(String, String)]) -> Scenario {
    let text = "algorithm = 'lia'\nmeasure.duration_s = 1\nlinks.L.rate_mbps = 1\n\
                links.L.delay_ms = 1\nflows = [{ name = 'user', paths = [['L']] }]\n";
    let traces = [
        ("rate.csv", "time_s,rate_mbps\n0,1\n1,2\n"),
        ("delay.csv", "time_s,delay_ms\n0,1\n1,2\n"),
        ("loss.csv", "time_s,loss\n0,0.1\n1,0.2\n"),
    ];
    let traces = traces.map(|(name, text)| (name.to_owned(), text.as_bytes().into()));
    let inputs = Inputs::from(traces);
    Scenario::parse_with(text.as_bytes(), "a.toml", set, &inputs, None)
        .unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_backend_refuses_by_its_key_each_feature_that_it_lacks_and_no_other() {
    for feature in Feature::ALL {
        let mut examples = EXAMPLES.iter().filter(|(of, ..)| of == feature).peekable();
        assert!(examples.peek().is_some(), "{feature:?} has an example");
        for (_, key, value, named) in examples {
            let used = scenario(&[((*key).to_owned(), (*value).to_owned())]);
            let features = used.features();
            assert_eq!(features, [(*feature, (*named).to_owned())], "{key}={value}");
            for backend in BACKENDS {
                let refusal = used.refusal(backend);
                let has = feature.backends().contains(backend);
                assert_eq!(
                    refusal.is_none(),
                    has,
                    "{key}={value} on {backend}: {refusal:?}"
                );
                let name = feature.name();
                let begin =
                    format!("{named}: {name} is not available on {backend}; run it with --on sim");
                assert!(refusal.is_none_or(|it| it.starts_with(&begin)), "{begin}");
            }
        }
    }
}

#[test]
fn a_scenario_without_features_runs_on_every_backend() {
    let plain = scenario(&[]);
    assert_eq!(plain.features(), []);
    assert!(
        BACKENDS
            .iter()
            .all(|backend| plain.refusal(backend).is_none())
    );
}

#[test]
fn a_refusal_names_every_backend_of_packets_that_runs_the_scenario() {
    let refusal = |key: &str, value: &str, backend| {
        scenario(&[(key.to_owned(), value.to_owned())]).refusal(backend)
    };
    assert_eq!(
        refusal("links.L.queue", "{ dualpi2 = {} }", "kernel").as_deref(),
        Some("links.L.queue: dualpi2 is not available on kernel; run it with --on sim or quic")
    );
    assert_eq!(
        refusal("tcp.ecn", "true", "fluid").as_deref(),
        Some("tcp.ecn: ECN is not available on fluid; run it with --on sim, quic or kernel")
    );
}

fn table() -> String {
    let mut table = format!("| feature | key | {} |\n", BACKENDS.join(" | "));
    writeln!(table, "|---|---|{}", ":-:|".repeat(BACKENDS.len())).expect("a string takes all");
    for feature in Feature::ALL {
        let has = |backend: &&str| {
            if feature.backends().contains(backend) {
                "yes"
            } else {
                ""
            }
        };
        let cells: Vec<&str> = BACKENDS.iter().map(has).collect();
        let (name, key) = (feature.name(), feature.key());
        writeln!(table, "| {name} | `{key}` | {} |", cells.join(" | "))
            .expect("a string takes all");
    }
    table
}

#[test]
fn the_page_of_limits_has_the_table() {
    schedulers::has_table("features", &table());
}
