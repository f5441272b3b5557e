//! Errors of whole files, of text that is not TOML, and of what the command line replaces.

use anabranch_scenario::{Inputs, Scenario};

use crate::errors::{GOOD, assert_errors, error};

#[test]
#[rustfmt::skip]
fn a_text_that_is_not_toml() {
    assert_errors(&[
        ["rate_mbps = 10", "rate_mbps = = 10", "13: links.R1.rate_mbps: extra `=`, expected nothing"],
        ["rate_mbps = 10", "rate_mbps = 10 Mbps", "13: links.R1.rate_mbps: string values must be quoted, expected literal string"],
        ["rate_mbps = 10", "rate_mbps = 10\nrate_mbps = 20", "14: links.R1.rate_mbps: duplicate key"],
        ["\"two links\"", "\"two links", "1: name: invalid basic string, expected `\"`"],
        ["[links.R1]", "[links.R1", "12: links.R1: unclosed table, expected `]`"],
        ["[links.R2]", "[links.R2", "17: links.R2: unclosed table, expected `]`"],
        ["[tcp]", "[measure]\n[tcp]", "9: measure: duplicate key"],
        ["[[flows]]\nname = \"type2\"", "[flows]\nname = \"type2\"", "28: flows: duplicate key: write [[flows]] above each if there are several"],
        ["seeds = [1, 2]", "seeds.a.b", "3: seeds.a.b: key with no value, expected `=`"],
        ["[[\"R1\"], [\"R2\", \"R1\"]]", "[[\"R1\"],\n  [\"R2\", 01]]", "27: flows[0].paths[1][1]: unexpected leading zero, expected nothing"],
        ["\"two links\"", "\"\"\"two\nlinks", "35: name: invalid multi-line basic string, expected `\"`"],
    ]);
}

#[test]
fn bytes_that_are_not_utf8() {
    let broken = |before: &str| {
        let at = GOOD.find(before).expect("it stands there") + before.len();
        [&GOOD.as_bytes()[..at], b"\xff", &GOOD.as_bytes()[at..]].concat()
    };
    let in_a_value = "bad.toml:24: flows[0].name: expected UTF-8, got byte 0xff";
    assert_eq!(error(broken("name = \"type1"), &[]), in_a_value);
    let on_an_empty_line = "bad.toml:4: \u{fffd}: expected UTF-8, got byte 0xff";
    assert_eq!(error(broken("seeds = [1, 2]\n"), &[]), on_an_empty_line);
}

#[test]
fn a_file_that_cannot_be_read() {
    let error = |path: &str| {
        Scenario::load(path.as_ref(), &[])
            .expect_err("unreadable")
            .to_string()
    };
    let missing = "no/such.toml: file not found";
    assert_eq!(error("no/such.toml"), missing);
    assert_eq!(error("src"), "src: expected a file, got a directory");
    let large = std::env::temp_dir().join(format!("anabranch-large-{}.toml", std::process::id()));
    let file = std::fs::File::create(&large).expect("the temporary directory is writable");
    file.set_len((16 << 20) + 1)
        .expect("a file of zeros needs no room");
    let message = error(&large.display().to_string());
    std::fs::remove_file(&large).expect("it was just made");
    assert!(
        message.ends_with(": expected at most 16 MiB, got a larger file"),
        "{message}"
    );
}

#[test]
fn a_file_of_another_kind_is_named() {
    let trace = "bad.toml: this is a mahimahi trace: name it by links.NAME.trace_file";
    assert_eq!(error("0\n12\n12\n24\n", &[]), trace);
    let parquet = "bad.toml: not TOML: this is a Parquet file";
    assert_eq!(error(b"PAR1\x15\x04\x15\xff", &[]), parquet);
    let image = "bad.toml: not TOML: this is a PNG image";
    assert_eq!(error(b"\x89PNG\r\n\x1a\n", &[]), image);
    let binary = "bad.toml: not TOML: this is a binary file or UTF-16: expected UTF-8 text";
    for content in [
        b"\x7fELF\x02\0\0".as_slice(),
        b"\xff\xfen\0a\0\n\0",
        &[0; 9],
    ] {
        assert_eq!(error(content, &[]), binary);
    }
}

#[test]
fn a_scenario_without_flows_or_links() {
    let empty = "algorithm = \"lia\"\nmeasure.duration_s = 1\n";
    let no_flows = format!("{empty}flows = []\n[links.R1]\nrate_mbps = 1\ndelay_ms = 1\n");
    assert_eq!(
        error(no_flows, &[]),
        "bad.toml:3: flows: expected at least one flow, got none"
    );
    let no_links = format!("{empty}flows = []\nlinks = {{}}\n");
    let expected = "bad.toml:4: links: expected at least one link, such as [links.R1]";
    assert_eq!(error(no_links, &[]), expected);
    let missing = "bad.toml:1: measure: missing key";
    assert_eq!(error("seeds = [1]", &[]), missing);
    let empty = "bad.toml: expected a scenario, got an empty file: `anabranch init` writes one to start from";
    for nothing in ["", "  \n", "# nothing yet\n"] {
        assert_eq!(error(nothing, &[]), empty);
    }
}

#[test]
#[rustfmt::skip]
fn an_override_that_is_wrong_is_named_instead_of_the_line() {
    let cases = [
        ["links.R1.rate_mbps", "-3", "expected a number above 0, got -3"],
        ["links.R1.rate_mpbs", "3", "unknown key, expected one of rate_mbps, trace_file, delay_ms, queue, loss, arq, jitter_ms, keeps_order, reorder, down (did you mean rate_mbps?)"],
        ["links.R1.queue", "{ red.min_packets = -1 }", "links.R1.queue.red.min_packets: expected a number above 0, got -1"],
        ["flows.type2.paths", "[[\"R9\"]]", "flows[1].paths[0][0]: unknown link \"R9\", expected one of R1, R2"],
        ["flows[0].count", "0", "expected a whole number from 1 to 4294967295, got 0"],
        ["flows.type3.count", "1", "unknown name \"type3\", expected one of type1, type2 (did you mean type1?)"],
        ["links.r1.delay_ms", "1", "unknown link \"r1\", expected one of R1, R2 (did you mean R1?)"],
        ["link.R1.delay_ms", "1", "link: unknown key, expected one of name, description, algorithm, seeds, measure, tcp, links, flows (did you mean links?)"],
        ["flows.type1.workload.poisson.rate_per_s", "1", "flows[0].workload.poisson.size: missing key"],
        ["flows[2].count", "1", "expected an index below 2, the length of flows, got 2"],
        ["name.first", "\"x\"", "expected the end of the key, but name is neither a table nor a list"],
        ["links[0]", "3", "expected a key, but links is a table"],
        ["links..rate", "3", "expected a dotted key, such as links.R1.rate_mbps or flows.type1.count"],
        ["links.R1.rate_mbps", "fast", "expected a number, got \"fast\""],
        ["seeds", "[1, 2", "expected a list, got \"[1, 2\""],
    ];
    for [key, value, expected] in cases {
        assert_eq!(error(GOOD, &[(key, value)]), format!("bad.toml: --set {key}={value}: {expected}"));
    }
}

#[test]
fn an_algorithm_of_the_command_line_is_named_instead_of_the_line() {
    let scenario = Scenario::parse(GOOD.as_bytes(), "good.toml", &[]).expect("it is good");
    let error = scenario
        .with_algorithm("lia:alpha=2")
        .expect_err("lia has no parameter");
    let expected =
        "good.toml: --algorithm lia:alpha=2: unknown parameter \"alpha\": lia takes none";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_link_is_added_by_an_override_of_its_whole_table() {
    let third = ("links.R3", "{ rate_mbps = 1, delay_ms = 1 }");
    assert_eq!(error(GOOD, &[third]), "no error");
}

#[test]
fn an_algorithm_of_the_command_line_is_enough() {
    let without = GOOD.replace("algorithm = \"lia\"\n", "");
    let of = |text: &str| {
        let scenario = Scenario::parse_with(
            text.as_bytes(),
            "good.toml",
            &[],
            &Inputs::new(),
            Some("olia"),
        );
        let scenario = scenario.expect("it is good");
        let flows = scenario.flows.iter();
        flows.map(|flow| flow.algorithm.name()).collect::<Vec<_>>()
    };
    assert_eq!(of(&without), ["olia", "reno"]);
    assert_eq!(of(GOOD), ["lia", "reno"]);
}
