//! Traces of rate, delay and loss: each fault at its line.

use anabranch_scenario::{Inputs, Scenario};

use crate::errors::GOOD;

/// The error of a trace of R1 with this content, beside these overrides of its keys.
fn error(content: &str, set: &[(&str, &str)]) -> String {
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
        assert_eq!(error(content, &[]), format!("{start}{fault}"));
    }
    assert_eq!(
        error("time_s,rate_mbps\r\n0,1\r\n2,0\r\n3,1\r\n", &[]),
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
    assert!(error(rate, &with_rate).ends_with("expected rate_mbps or trace_file, got both"));
    assert!(
        error(delay, &[])
            .ends_with("expected rate_mbps here or as a column of the trace, got neither")
    );
    assert_eq!(error(delay, &with_rate), "no error");
    let with_loss = [("links.R1.loss", "{ bernoulli = { probability = 0.1 } }")];
    let both = "expected loss here or as a column of the trace, got both";
    assert!(error(rate, &with_loss).ends_with(both));
    let codel = [with_rate[0], ("links.R1.queue", "{ codel = {} }")];
    assert!(
        error(delay, &codel)
            .contains("CoDel, FQ-CoDel and DualPI2 have no links whose delay changes")
    );
}
