//! Errors of messages, media and packet sizes.

use anabranch_scenario::{Inputs, Scenario};

use crate::errors::{GOOD, error};

/// 1.2 x 10^8 messages: 2^27 rows of 32 B, and a place of 64 B for one in a hundred.
#[test]
fn too_many_messages_are_refused() {
    let messages = "messages = { size_bytes = 1, interval_ms = 0.001 }";
    let text = GOOD.replace("file = { bytes = 1e6 }", messages);
    let expected = "bad.toml:32: flows[1].workload.messages: expected a run that needs at most 4 \
                    GiB, got an estimate of 4.1 GiB: send fewer messages or raise \
                    measure.max_memory_gib";
    assert_eq!(error(text, &[]), expected);
}

/// A flow with packets of its own size through a policer, and over two paths with Linux' scheduler.
#[test]
fn a_packet_size_that_does_not_fit() {
    let policer = "{ policer = { rate_mbps = 5, burst_bytes = 1800 } }";
    let set = [
        ("links.R1.queue", policer),
        ("flows[0].packet_bytes", "2000"),
    ];
    let expected = "bad.toml: --set flows[0].packet_bytes=2000: expected at most \
                    links.R1.queue.policer.burst_bytes, which is 1800, got 2000: no full packet \
                    would ever pass";
    assert_eq!(error(GOOD, &set), expected);
    let set = [("tcp.scheduler", "linux"), ("flows[0].packet_bytes", "900")];
    let expected = "bad.toml: --set flows[0].packet_bytes=900: expected a flow of one path, or \
                    another tcp.scheduler: Linux' scheduler counts its buffers in packets of \
                    tcp.packet_bytes";
    assert_eq!(error(GOOD, &set), expected);
    assert_eq!(error(GOOD, &set[1..]), "no error");
}

/// A source of media over two paths, and over one with links of a way back.
#[test]
fn media_over_paths_that_cannot_carry_them() {
    let of = |paths: &str| {
        let set = [
            ("flows[0].workload", "{ media = { rate_mbps = 1 } }"),
            ("flows[0].paths", paths),
        ];
        error(GOOD, &set)
    };
    let start = "bad.toml: --set flows[0].paths=";
    let two = of("[[\"R1\"], [\"R2\"]]");
    assert!(two.starts_with(start), "{two}");
    assert!(
        two.ends_with(": expected one path of a media source, got 2"),
        "{two}"
    );
    let back = of("[{ links = [\"R1\"], back = [\"R2\"] }]");
    let expected = "expected no links of a way back: the reports of a media source return after a \
                    delay";
    assert!(back.ends_with(expected), "{back}");
    assert_eq!(of("[[\"R1\"]]"), "no error");
}

/// A file of messages, each fault at its line.
#[test]
fn a_file_of_messages() {
    let text = GOOD.replace("file = { bytes = 1e6 }", "messages.file = \"m.csv\"");
    let of = |content: &str| {
        let inputs = Inputs::from([("m.csv".to_owned(), content.as_bytes().into())]);
        let read = Scenario::parse_with(text.as_bytes(), "bad.toml", &[], &inputs, None);
        read.map_or_else(|error| error.to_string(), |_| "no error".to_owned())
    };
    let start = "bad.toml:32: flows[1].workload.messages.file: m.csv: ";
    let cases = [
        (
            "",
            "line 1: expected the header \"time_s,bytes\", found \"\"",
        ),
        (
            "0,1\n",
            "line 1: expected the header \"time_s,bytes\", found \"0,1\"",
        ),
        (
            "time_s,bytes\n",
            "expected a message, got none after the header",
        ),
        (
            "time_s,bytes\n0;1\n",
            "line 2: expected a time in s and a size in bytes, such as 0.02,160, found \"0;1\"",
        ),
        (
            "time_s,bytes\n\n-1,1\n",
            "line 3: time_s: expected a number of at least 0, got -1",
        ),
        (
            "time_s,bytes\n1,0\n",
            "line 2: bytes: expected a whole number of bytes, at least 1, got 0",
        ),
        (
            "time_s,bytes\n1,1\n0.5,1\n",
            "message 2: expected at least 1, the time_s of the message before, got 0.5",
        ),
    ];
    for (content, fault) in cases {
        assert_eq!(of(content), format!("{start}{fault}"));
    }
    assert_eq!(of("time_s,bytes\r\n0.5,160\r\n0.5,1e3\r\n"), "no error");
}

// When users start where a flow does not say over how many seconds.

fn spread_s(links: &str, flow: &str) -> f64 {
    let text = format!(
        "algorithm = 'reno'\nmeasure.duration_s = 60\n{links}\n[[flows]]\nname = 'user'\n{flow}\n"
    );
    let scenario = Scenario::parse(text.as_bytes(), "starts", &[]).expect("valid");
    scenario.flows[0].start_spread_s.get()
}

/// A packet of 1500 bytes takes 1 ms on each link, and travels 20 and 30 ms.
const TWO: &str = "links.A = { rate_mbps = 12, delay_ms = 20 }\n\
                   links.B = { rate_mbps = 12, delay_ms = 30 }";

fn assert_spread(flow: &str, expected_s: f64) {
    let found_s = spread_s(TWO, flow);
    assert!(
        (found_s - expected_s).abs() < 1e-12,
        "{flow}: {found_s} s, expected {expected_s} s"
    );
}

#[test]
fn users_start_within_four_round_trips_of_the_first_path() {
    // There 21 ms and back 20 ms.
    assert_spread("paths = [['A']]", 4.0 * 0.041);
    assert_spread("paths = [['A'], ['B']]", 4.0 * 0.041);
    // 21 + 31 ms, and 50 ms.
    assert_spread("paths = [['A', 'B']]", 4.0 * 0.102);
    let path = "paths = [{ links = ['A'], return_delay_ms = 5 }]";
    assert_spread(path, 4.0 * 0.026);
    let path = "paths = [{ links = ['A'], back = ['B'] }]";
    assert_spread(path, 4.0 * 0.051);
}

#[test]
fn users_start_in_the_first_tenth_of_their_flow() {
    // From 59 s to the end at 60 s, and from 0 to 0.5 s.
    assert_spread("paths = [['A']]\nstart_s = 59", 0.1);
    assert_spread("paths = [['A']]\nstop_s = 0.5", 0.05);
    assert_spread("paths = [['A']]\nstart_s = 90", 0.0);
}

#[test]
fn what_is_written_counts_and_random_arrivals_need_no_spread() {
    assert_spread("paths = [['A']]\nstart_spread_s = 0", 0.0);
    assert_spread("paths = [['A']]\nstart_spread_s = 7", 7.0);
    let size = "rate_per_s = 2, size.exponential.mean_bytes = 30000";
    assert_spread(
        &format!("paths = [['A']]\nworkload.poisson = {{ {size} }}"),
        0.0,
    );
    assert_spread(
        &format!("paths = [['A']]\nworkload.gateway = {{ clients = 2, {size} }}"),
        0.0,
    );
}

#[test]
fn a_link_without_delay_has_a_spread_too() {
    // There 1 ms, and back at once.
    let link = "links.A = { rate_mbps = 12, delay_ms = 0 }";
    assert_eq!(spread_s(link, "paths = [['A']]"), 4.0 * 0.001);
}
