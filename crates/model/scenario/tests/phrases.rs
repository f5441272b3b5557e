//! Errors of serde in the words of this crate: a case for each kind.

use anabranch_scenario::Scenario;

/// A good scenario; each case replaces the line that begins with the same word.
const GOOD: [&str; 7] = [
    "name = 'n'",
    "seeds = [1]",
    "algorithm = 'lia'",
    "measure = { duration_s = 10 }",
    "tcp = {}",
    "links = { a = { rate_mbps = 10, delay_ms = 5 } }",
    "flows = [{ name = 'f', paths = [['a']] }]",
];

/// A line of TOML, the key of the error and its message.
const CASES: [[&str; 3]; 27] = [
    ["measure = {}", "measure.duration_s", "missing key"],
    [
        "measure = { duration_s = 10, warmup = 1 }",
        "measure.warmup",
        "unknown key, expected one of duration_s, warmup_s, sample_ms, max_memory_gib (did you mean warmup_s?)",
    ],
    [
        "links = { a = { rate_mbps = 10, delay_ms = 5, loss.bernoulli = { probability = 0.1, seed = 1 } } }",
        "links.a.loss.bernoulli.seed",
        "unknown key, expected probability",
    ],
    [
        "tcp = { recovery = 'sak' }",
        "tcp.recovery",
        "unknown value \"sak\", expected one of sack, rack, newreno (did you mean sack?)",
    ],
    [
        "tcp = { packet_bytes = '1500' }",
        "tcp.packet_bytes",
        "expected a number, got \"1500\"",
    ],
    [
        "tcp = { header_bytes = 1.5 }",
        "tcp.header_bytes",
        "expected a whole number of at least 0, got 1.5",
    ],
    [
        "tcp = { header_bytes = -1 }",
        "tcp.header_bytes",
        "expected a whole number of at least 0, got -1",
    ],
    [
        "tcp = { delayed_acks = 1 }",
        "tcp.delayed_acks",
        "expected a boolean, got 1",
    ],
    [
        "tcp = { recovery = 3 }",
        "tcp.recovery",
        "expected a string",
    ],
    ["seeds = 1", "seeds", "expected a list, got 1"],
    [
        "seeds = { first = 1 }",
        "seeds",
        "expected a list, got a table",
    ],
    [
        "flows = { name = 'f', paths = [['a']] }",
        "flows",
        "expected a list of tables, got a table: write [[flows]]",
    ],
    [
        "tcp = { header_bytes = 4294967296 }",
        "tcp.header_bytes",
        "expected a whole number from 0 to 4294967295, got 4294967296",
    ],
    [
        "name = 1979-05-27",
        "name",
        "expected a string, got 1979-05-27",
    ],
    [
        "tcp = { min_rto_ms = 1e999 }",
        "tcp.min_rto_ms",
        "expected a number of at most 64 bits, got 1e999",
    ],
    [
        "seeds = ['1']",
        "seeds[0]",
        "expected a whole number of at least 0, got \"1\"",
    ],
    ["name = true", "name", "expected a string, got true"],
    ["name = ['n']", "name", "expected a string, got a list"],
    [
        "name = { first = 'n' }",
        "name",
        "expected a string, got a table",
    ],
    ["links = 3", "links", "expected a table, got 3"],
    ["measure = 3", "measure", "expected a table, got 3"],
    [
        "flows = [{ name = 'f', paths = ['a'] }]",
        "flows[0].paths[0]",
        "expected a list of links, got \"a\"",
    ],
    [
        "flows = [{ name = 'f', paths = [['a']], workload = 'file' }]",
        "flows[0].workload.file",
        "expected a table, got a string",
    ],
    [
        "links = { a = { rate_mbps = 10, delay_ms = 5, queue = 'red' } }",
        "links.a.queue.red",
        "expected a table, got a string",
    ],
    [
        "flows = [{ name = 'f', paths = [['a']], workload = 3 }]",
        "flows[0].workload",
        "expected a table, such as workload.file = { bytes = 1000000 }, got 3",
    ],
    [
        "flows = [{ name = 'f', paths = [['a']], workload = {} }]",
        "flows[0].workload",
        "expected a table with one key, such as workload.file = { bytes = 1000000 }",
    ],
    [
        "links = { a = { rate_mbps = 10, rate_mbps = 11, delay_ms = 5 } }",
        "links.a.rate_mbps",
        "duplicate key",
    ],
];

fn word(line: &str) -> Option<&str> {
    line.split_whitespace().next()
}

#[test]
fn an_error_of_serde_says_what_was_expected_and_what_was_found() {
    for [line, key, message] in CASES {
        let lines = GOOD.map(|good| if word(good) == word(line) { line } else { good });
        let text = lines.join("\n");
        let error = Scenario::parse(text.as_bytes(), "bad.toml", &[])
            .map_or_else(|error| error, |_| panic!("{line}: no error"));
        let found = [error.key.unwrap_or_default(), error.message];
        assert_eq!(found, [key, message], "{line}");
    }
}
