//! Keys of links that delay packets by different times: what they mean, errors, warnings.

use anabranch_net::{Arq, Displacement, Impairments, Loss, MILLISECOND, Reorder};
use anabranch_scenario::{Inputs, Scenario};

use crate::errors::{GOOD, error};

const MS: u64 = MILLISECOND;

/// The good scenario with further keys of R2, whose losses are in line 20 and outages in 21, and
/// whose queue is a drop-tail one. Keys begin in line 22.
fn with(keys: &str) -> String {
    let down = "down = [{ from_s = 10, to_s = 20 }]";
    GOOD.replace(down, &format!("{down}\n{keys}"))
}

fn read(keys: &str) -> Scenario {
    Scenario::parse(with(keys).as_bytes(), "odd.toml", &[]).expect("it is valid")
}

#[test]
fn keys_are_resolved_and_written_again() {
    let config = |keys: &str| {
        let scenario = read(keys);
        let text = scenario.to_toml();
        let again = Scenario::parse(text.as_bytes(), "odd.toml", &[]).expect("as written");
        assert_eq!(again.links, scenario.links, "{text}");
        scenario.links[1].config.clone()
    };
    assert_eq!(config("").impairments, Impairments::default());
    assert_eq!(config("keeps_order = true"), config(""));
    let all = config(
        "arq = { retries = 3, delay_ms = 8 }\njitter_ms = 5\nkeeps_order = false\n\
         reorder = { share = 0.01, packets = 5 }",
    );
    let arq = Arq {
        loss: Loss::Bernoulli { probability: 0.01 },
        retries: 3,
        delay: 8 * MS,
    };
    assert_eq!(all.loss, Loss::Repeated(Box::new(arq)));
    let by = |by| Some(Reorder { share: 0.01, by });
    let (count, hold) = (5, 100 * MS);
    let impairments = Impairments {
        more_delay: None,
        jitter: 5 * MS,
        overtakes: true,
        reorder: by(Displacement::Packets { count, hold }),
    };
    assert_eq!(all.impairments, impairments);
    // 60 ms, three retransmissions, jitter, and how long a displaced packet waits.
    assert_eq!(all.longest_delay(), (60 + 3 * 8 + 5 + 100) * MS);
    let late = config("reorder = { share = 0.01, by_ms = 30 }").impairments;
    assert_eq!(late.reorder, by(Displacement::Delay(30 * MS)));
    let held = config("reorder = { share = 0.01, packets = 5, hold_ms = 7 }").impairments;
    let hold = 7 * MS;
    assert_eq!(held.reorder, by(Displacement::Packets { count, hold }));
}

#[test]
#[rustfmt::skip]
fn values_without_a_meaning_are_errors() {
    let cases = [
        ["reorder = { share = 0.1 }", "reorder: expected packets or by_ms, got neither"],
        ["reorder = { share = 0.1, packets = 2, by_ms = 3 }", "reorder.by_ms: expected packets or by_ms, got both"],
        ["reorder = { share = 0.1, by_ms = 3, hold_ms = 3 }", "reorder.hold_ms: expected no hold_ms beside by_ms, because such a packet waits for none"],
        ["reorder = { share = 1.5, packets = 2 }", "reorder.share: expected a probability from 0 to 1, got 1.5"],
        ["reorder = { share = 0.1, packets = 0 }", "reorder.packets: expected a whole number from 1 to 4294967295, got 0"],
        ["reorder = { share = 0.1, by_ms = 0 }", "reorder.by_ms: expected a number above 0, got 0"],
        ["jitter_ms = -1", "jitter_ms: expected a number of at least 0, got -1"],
        ["arq = { retries = 0, delay_ms = 8 }", "arq.retries: expected 1 to 100 retries, got 0"],
        ["arq = { retries = 101, delay_ms = 8 }", "arq.retries: expected 1 to 100 retries, got 101"],
        ["arq.retries = 1", "arq.delay_ms: missing key"],
    ];
    for [keys, expected] in cases {
        let message = error(with(keys), &[]);
        assert!(message.ends_with(&format!(": links.R2.{expected}")), "{message}");
    }
    let codel = "queue.codel = {}\n";
    for keys in ["jitter_ms = 1", "arq = { retries = 1, delay_ms = 8 }", "keeps_order = false"] {
        let message = error(with(&format!("{codel}{keys}")), &[]);
        assert!(message.contains("links.R2.queue: expected another queue, or none of"), "{message}");
    }
}

/// The round trip over R2 and R1 is 240 ms. Five packets of 1500 bytes take 3 ms at
/// 20 Mbps.
#[test]
#[rustfmt::skip]
fn what_has_no_effect_or_too_much_is_a_warning() {
    let cases = [
        ["jitter_ms = 240", ""],
        ["jitter_ms = 241", "links.R2.jitter_ms: delays of up to 241 ms are more than the round trip of 240 ms without queues: RTTs are mostly jitter: lower it, or raise delay_ms"],
        ["keeps_order = false\njitter_ms = 1", ""],
        ["keeps_order = false\narq = { retries = 1, delay_ms = 8 }", ""],
        ["keeps_order = false", "links.R2.keeps_order: all packets have the same delay, so none overtakes another: give jitter_ms, arq, or a trace with delay_ms, or drop it"],
        ["reorder = { share = 0.5, packets = 5, hold_ms = 3 }", ""],
        ["reorder = { share = 0.6, packets = 5 }", "links.R2.reorder.share: more packets are displaced than keep their place, which are the ones that overtake: give a share of at most 0.5"],
        ["reorder = { share = 0.1, packets = 5, hold_ms = 2.5 }", "links.R2.reorder.hold_ms: the link transmits 5 packets in 3.000 ms: a packet that waits for 2.5 ms is overtaken by fewer: raise it, or lower packets"],
    ];
    for [keys, expected] in cases {
        let warnings = read(keys).warnings().join("\n");
        let expected = if expected.is_empty() { String::new() } else { format!("odd.toml: {expected}") };
        assert_eq!(warnings, expected, "{keys}");
    }
    let lossless = with("arq = { retries = 1, delay_ms = 8 }").replace("loss.bernoulli = { probability = 0.01 }\n", "");
    let scenario = Scenario::parse(lossless.as_bytes(), "odd.toml", &[]).expect("it is valid");
    assert_eq!(
        scenario.warnings(),
        ["odd.toml: links.R2.arq: the link loses nothing that it could send again: give it loss, or drop arq"]
    );
}

// Traces of rate, delay and loss: each fault at its line.

/// The error of a trace of R1 with this content, beside these overrides of its keys.
fn trace_error(content: &str, set: &[(&str, &str)]) -> String {
    let text = GOOD.replace("rate_mbps = 10", "trace_file = \"t.csv\"");
    let inputs = Inputs::from([("t.csv".to_owned(), content.as_bytes().into())]);
    let set: Vec<_> = set
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    let read = Scenario::parse_with(text.as_bytes(), "bad.toml", &set, &inputs, None);
    read.map_or_else(|error| error.to_string(), |_| "no error".to_owned())
}

#[test]
fn a_trace_with_faults() {
    let start = "bad.toml:13: links.R1.trace_file: t.csv: ";
    let cases = [
        (
            "time_s\n0\n",
            "line 1: expected time_s and one or more of rate_mbps, delay_ms, loss",
        ),
        (
            "time_s,mbps\n0,1\n",
            "line 1: unknown column \"mbps\", expected one of rate_mbps, delay_ms, loss",
        ),
        (
            "time_s,loss,loss\n0,0,0\n",
            "line 1: expected each column once, got \"loss\" again",
        ),
        (
            "time_s,rate_mbps\n",
            "expected a line after the header, got none",
        ),
        (
            "time_s,rate_mbps\n0\n",
            "line 2: expected 2 numbers, as the header has columns, found \"0\"",
        ),
        (
            "time_s,rate_mbps\n0,1\n\n0,2\n",
            "line 4: time_s: expected more than 0, the time before",
        ),
        (
            "time_s,rate_mbps\n0,-1\n",
            "line 2: rate_mbps: expected a number above 0, got -1",
        ),
        (
            "time_s,rate_mbps\n0,1\n1,0\n",
            "expected a last rate_mbps above 0, got 0: nothing would ever arrive",
        ),
        (
            "time_s,loss\n0,2\n",
            "line 2: loss: expected a probability from 0 to 1, got 2",
        ),
    ];
    for (content, fault) in cases {
        assert_eq!(trace_error(content, &[]), format!("{start}{fault}"));
    }
    assert_eq!(
        trace_error("time_s,rate_mbps\r\n0,1\r\n2,0\r\n3,1\r\n", &[]),
        "no error"
    );
}

#[test]
fn a_trace_and_keys_that_contradict_each_other() {
    let (rate, delay) = (
        "time_s,rate_mbps,loss\n0,1,0\n",
        "time_s,delay_ms\n0,1\n1,5\n",
    );
    let with_rate = [("links.R1.rate_mbps", "5")];
    assert!(trace_error(rate, &with_rate).ends_with("expected rate_mbps or trace_file, got both"));
    assert!(
        trace_error(delay, &[])
            .ends_with("expected rate_mbps here or as a column of the trace, got neither")
    );
    assert_eq!(trace_error(delay, &with_rate), "no error");
    let with_loss = [("links.R1.loss", "{ bernoulli = { probability = 0.1 } }")];
    let both = "expected loss here or as a column of the trace, got both";
    assert!(trace_error(rate, &with_loss).ends_with(both));
    let codel = [with_rate[0], ("links.R1.queue", "{ codel = {} }")];
    assert!(
        trace_error(delay, &codel)
            .contains("CoDel, FQ-CoDel and DualPI2 have no links whose delay changes")
    );
}
