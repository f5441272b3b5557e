//! Laws of every scenario: what is written can be read, the schema agrees, nothing panics.

use std::collections::BTreeSet;

use anabranch_scenario::{Ecn, Profile, Recovery, RtoFloor, Scenario, Scheduler, Tcp, schema};
use proptest::prelude::*;
use serde_json::Value;

const EXAMPLES: [&str; 8] = [
    "two_links",
    "shared_bottleneck",
    "wireless",
    "web_traffic",
    "gateways",
    "access",
    "geo",
    "leo",
];

fn path(example: &str) -> String {
    format!(
        "{}/../../../examples/{example}.toml",
        env!("CARGO_MANIFEST_DIR")
    )
}

fn load(example: &str, overrides: &[(&str, &str)]) -> Scenario {
    let overrides: Vec<(String, String)> = overrides
        .iter()
        .map(|(key, value)| (key.to_string(), value.to_string()))
        .collect();
    Scenario::load(path(example).as_ref(), &overrides).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn what_is_written_reads_as_the_same() {
    for example in EXAMPLES {
        let scenario = load(example, &[]);
        let text = scenario.to_toml();
        let again = Scenario::parse(text.as_bytes(), &path(example), &[]);
        assert_eq!(again.as_ref(), Ok(&scenario), "{text}");
    }
}

#[test]
fn an_override_is_the_same_as_writing_it() {
    let text = std::fs::read_to_string(path("two_links")).expect("it is in the tree");
    let written = text
        .replacen("rate_mbps = 10", "rate_mbps = 30", 1)
        .replacen("spread_s = 5", "spread_s = 7", 1);
    let written = Scenario::parse(written.as_bytes(), &path("two_links"), &[]).expect("it is good");
    let by_name = "flows.\"two-path\".start_spread_s";
    for flow in [by_name, "flows[0].start_spread_s"] {
        assert_eq!(
            load("two_links", &[("links.left.rate_mbps", "30"), (flow, "7")]),
            written
        );
    }
    for text in ["\"newreno\"", "newreno"] {
        let added = load("two_links", &[("tcp.recovery", text)]);
        assert!(added.to_toml().contains("recovery = \"newreno\""));
    }
}

#[test]
fn another_algorithm_is_for_flows_without_one_of_their_own() {
    let scenario = load("two_links", &[])
        .with_algorithm("balia:cap=inf")
        .expect("balia is known");
    let run: Vec<String> = scenario
        .flows
        .iter()
        .map(|flow| flow.algorithm.to_string())
        .collect();
    assert_eq!(run, ["balia:cap=inf", "reno", "reno"]);
    assert_eq!(
        scenario,
        load("two_links", &[("algorithm", "\"balia:cap=inf\"")])
    );
}

/// 100 ms of 10 Mbps are 83.3 packets of 1500 bytes; 10 packets are the least; RED's thresholds are
/// 25, 50 and 100 packets per 10 Mbps. ACKs return in the propagation delay of the way there.
#[test]
fn defaults_are_as_documented() {
    let text = "algorithm = \"lia\"\nmeasure.duration_s = 1\n\
        flows = [{ name = \"f\", paths = [[\"a\", \"b\"]] }]\n\
        links.a = { rate_mbps = 10, delay_ms = 20 }\n\
        links.b = { rate_mbps = 0.1, delay_ms = 2.5 }\n\
        links.c = { rate_mbps = 30, delay_ms = 0, queue.red = {} }\n\
        links.d = { rate_mbps = 30, delay_ms = 0, queue.codel = {} }\n\
        links.e = { rate_mbps = 30, delay_ms = 0, queue.fq_codel = {} }\n\
        links.f = { rate_mbps = 30, delay_ms = 0, queue.pie = {} }\n\
        links.g = { rate_mbps = 30, delay_ms = 0, queue.dualpi2 = {} }\n";
    let scenario = Scenario::parse(text.as_bytes(), "defaults.toml", &[]).expect("it is good");
    let queues: Vec<String> = scenario
        .links
        .iter()
        .map(|link| format!("{:?}", link.config.queue))
        .collect();
    assert_eq!(queues[0], "DropTail { packets: Some(84), bytes: None }");
    assert_eq!(queues[1], "DropTail { packets: Some(10), bytes: None }");
    assert_eq!(
        queues[2],
        "Red(Red { min_packets: 75.0, mid_packets: 150.0, max_packets: 300.0, \
         mid_probability: 0.1, average_weight: None, limit_packets: 300, ecn: true, \
         uniform: false })"
    );
    // Times in ps: RFC 8289, RFC 8290 and RFC 8033, and the limits of Linux.
    let codel = |limit| {
        format!(
            "Codel {{ target: 5000000000, interval: 100000000000, limit_packets: {limit}, ecn: true }}"
        )
    };
    assert_eq!(queues[3], format!("Codel({})", codel(1000)));
    assert_eq!(
        queues[4],
        format!(
            "FqCodel(FqCodel {{ codel: {}, quantum_bytes: 1514, flows: 1024 }})",
            codel(10240)
        )
    );
    assert_eq!(
        queues[5],
        "Pie(Pie { target: 15000000000, tupdate: 15000000000, alpha: 0.125, beta: 1.25, \
         max_burst: 150000000000, limit_packets: 1000, derandomize: false, ecn: true })"
    );
    // RFC 9332, appendix A, and Linux.
    assert_eq!(
        queues[6],
        "DualPi2(DualPi2 { target: 15000000000, tupdate: 16000000000, alpha: 0.16, beta: 3.2, \
         coupling: 2.0, step: 1000000000, classic_share: 0.1, limit_packets: 10000 })"
    );
    assert_eq!(scenario.flows[0].paths[0].return_delay_ms.get(), 22.5);
    assert_eq!(scenario.seeds, [1]);
}

/// A key that is written replaces the value of the profile.
#[test]
fn a_profile_sets_the_keys_that_are_not_written() {
    let endpoints = |overrides: &[(&str, &str)]| load("two_links", overrides).tcp;
    let rfc = endpoints(&[]);
    assert_eq!(
        (rfc.min_rto_ms.get(), rfc.rto_floor, rfc.undo),
        (1000.0, RtoFloor::Rto, false)
    );
    let written = endpoints(&[("tcp.profile", "linux"), ("tcp.min_rto_ms", "300")]);
    assert_eq!(
        (written.min_rto_ms.get(), written.rto_floor),
        (300.0, RtoFloor::Variance)
    );
    let linux = endpoints(&[("tcp.profile", "linux"), ("tcp.undo", "false")]);
    assert_eq!((linux.undo, linux.delayed_acks), (false, true));
    assert_eq!(linux.scheduler, Scheduler::Linux);
    assert_eq!(linux.recovery, Recovery::Rack);
    assert_eq!(linux.packet_bytes, rfc.packet_bytes);
    assert_eq!(Tcp::default(), Tcp::of(Profile::Rfc));
}

/// Linux 7.0 negotiates accurate ECN by default; all else is as in 6.18.
#[test]
fn the_profile_of_linux_7_differs_from_that_of_linux_6_in_ecn_alone() {
    let tcp = |overrides: &[(&str, &str)]| load("two_links", overrides).tcp;
    let (older, newer) = (
        tcp(&[("tcp.profile", "linux")]),
        tcp(&[("tcp.profile", "linux-7.0")]),
    );
    assert_eq!((older.ecn, newer.ecn), (Ecn::Off, Ecn::Accurate));
    assert_eq!(
        Tcp {
            ecn: Ecn::Off,
            ..newer
        },
        older
    );
    let written = tcp(&[("tcp.profile", "linux-7.0"), ("tcp.ecn", "false")]);
    assert_eq!(written, older);
}

#[test]
fn what_is_written_has_every_key_of_the_endpoints() {
    let text = load("two_links", &[("tcp.profile", "rfc")]).to_toml();
    for line in [
        "profile = \"rfc\"",
        "min_rto_ms = 1000.0",
        "quick_acks = false",
    ] {
        assert!(text.contains(line), "{text}");
    }
}

/// 12 Mbps are 1000 packets per s. In 50 ms 51 are on the wire, and 100 in the queue: a ring of 48
/// B with room for 256, which grows while the one of 128 is there, and one of 16 B for 128. 51
/// acknowledgements: 64 x 48 B. The window may be 100 + 100 + 1; twice that in slow start, and 1000
/// in a timeout of 1 s: 1.2 times the bits of three rings of 32 words, for 22 of 64 and one more.
/// 1024 B for the user and 2048 B for its path. 100 samples of user, path and link, 48, 72 and 44 B
/// with room for 128; a column of 8 B grows.
#[test]
fn the_memory_estimate_adds_up() {
    let scenario =
        small("links.a = { rate_mbps = 12, delay_ms = 50, queue.drop_tail.packets = 100 }");
    let network = 1.5 * 256.0 * 48.0 + 128.0 * 16.0 + 64.0 * 48.0;
    let expected =
        network + 1024.0 + 2048.0 + 1.2 * 3.0 * 32.0 * 8.0 + 128.0 * (48.0 + 72.0 + 44.0 + 4.0);
    assert_eq!(scenario.memory_estimate(), expected as u64);
}

/// The same with a way back, whose full queue of 100 packets of 1500 B takes 120 ms: the window may
/// be 321, and as many acknowledgements of 64 B, in a ring of 512, have blocks of 48 B. 51 are on
/// the wire of 50 ms, and one more than a first window of 10 never waits: rings of 64 and 16.
/// Samples of two links.
#[test]
fn acknowledgements_over_links_need_memory() {
    let scenario = small(
        "links.a = { rate_mbps = 12, delay_ms = 50, queue.drop_tail.packets = 100 }\n\
         links.b = { rate_mbps = 10, delay_ms = 50, queue.drop_tail.packets = 100 }\n\
         flows = [{ name = \"f\", paths = [{ links = [\"a\"], back = [\"b\"] }] }]",
    );
    let network = 1.5 * 256.0 * 48.0 + 128.0 * 16.0 + 64.0 * 48.0 + 16.0 * 16.0;
    let acks = 512.0 * 64.0 + 321.0 * 48.0;
    let expected = network
        + (1024.0 + 2048.0 + 1.2 * (3.0 * 32.0 * 8.0 + acks))
        + 128.0 * (48.0 + 72.0 + 4.0)
        + 256.0 * 44.0;
    assert_eq!(scenario.memory_estimate(), expected as u64);
}

fn small(links: &str) -> Scenario {
    let flows = "flows = [{ name = \"f\", paths = [[\"a\"]] }]\n";
    let flows = if links.contains("flows") { "" } else { flows };
    let text = format!(
        "algorithm = \"lia\"\nmeasure = {{ duration_s = 10, sample_ms = 100 }}\n{flows}{links}"
    );
    Scenario::parse(text.as_bytes(), "small.toml", &[]).expect("it is good")
}

#[test]
fn the_schema_accepts_the_examples() {
    let schema: Value = serde_json::from_str(&schema()).expect("a schema is JSON");
    for example in EXAMPLES {
        let text = std::fs::read_to_string(path(example)).expect("it is in the tree");
        assert!(accepts(&schema, &schema, &json(&text)), "{example}");
        let written = load(example, &[]).to_toml();
        assert!(accepts(&schema, &schema, &json(&written)), "{example}");
    }
}

#[test]
fn the_schema_refuses_what_is_wrong() {
    let schema: Value = serde_json::from_str(&schema()).expect("a schema is JSON");
    let good = json(&load("two_links", &[]).to_toml());
    for (table, key, value) in [
        ("/flows/0", "name", Value::from("")),
        ("/flows/0", "count", Value::from(0)),
        ("/flows/0", "workload", Value::from("bulky")),
        ("/flows/0", "paths", Value::from("left")),
        ("/measure", "duration_s", Value::from("long")),
        ("/measure", "warmup_s", Value::from(-1)),
        ("/links/left", "rate_mbps", Value::from(0)),
        ("/links/left", "queue", Value::Null),
        ("", "seeds", Value::from(3)),
    ] {
        let mut bad = good.clone();
        bad.pointer_mut(table).expect("it is there")[key] = value;
        assert!(!accepts(&schema, &schema, &bad), "{table}/{key}");
    }
}

#[test]
fn no_table_takes_an_unknown_key() {
    let schema: Value = serde_json::from_str(&schema()).expect("a schema is JSON");
    for example in EXAMPLES {
        let good = json(&load(example, &[]).to_toml().replace("= inf", "= 1e9"));
        for table in tables(&good, String::new()) {
            let mut bad = good.clone();
            bad.pointer_mut(&table).expect("it is there")["zzz"] = true.into();
            let text = toml::to_string(&bad).expect("it is TOML but for the key");
            assert!(
                Scenario::parse(text.as_bytes(), &path(example), &[]).is_err(),
                "{text}"
            );
            assert!(!accepts(&schema, &schema, &bad), "{example}: {table}");
        }
    }
}

/// Every number of the examples, set to less and more than its key takes: each end of the range
/// in the error is taken, or refused for a reason other than a range.
#[test]
fn a_range_in_an_error_is_that_of_its_key() {
    let mut ranges = 0;
    for example in EXAMPLES {
        let good = json(&load(example, &[]).to_toml().replace("= inf", "= 1e9"));
        let outside = ["-1", "0", "0.5", "1e5", "1e300"];
        for key in numbers(&good, String::new()) {
            let said = |value: &str| {
                let text = std::fs::read_to_string(path(example)).expect("it is in the tree");
                let set = [(key.clone(), value.to_owned())];
                let read = Scenario::parse(text.as_bytes(), &path(example), &set);
                read.err()
                    .map(|error| error.to_string())
                    .unwrap_or_default()
            };
            let errors: BTreeSet<String> = outside.iter().map(|value| said(value)).collect();
            for range in errors.iter().filter_map(|error| range(error)) {
                ranges += 1;
                for end in &range {
                    let again = said(end);
                    let out = again.ends_with(&format!("got {end}"));
                    let other = self::range(&again).filter(|_| out);
                    assert_eq!(other, None, "{example}: {key} = {end}: {again}");
                }
            }
        }
    }
    assert!(ranges > 30, "{ranges}");
}

/// The ends in "expected [a whole number from] A to B ...".
fn range(error: &str) -> Option<[String; 2]> {
    let words: Vec<&str> = error.split_once("expected ")?.1.split([' ', ',']).collect();
    let to = words.iter().position(|word| *word == "to")?;
    let ends = [words[to - 1].to_owned(), words.get(to + 1)?.to_string()];
    ends.iter()
        .all(|end| end.parse::<f64>().is_ok())
        .then_some(ends)
}

/// The key of every number.
fn numbers(value: &Value, key: String) -> Vec<String> {
    match value {
        Value::Number(_) => vec![key],
        Value::Object(table) => {
            let dot = if key.is_empty() { "" } else { "." };
            let inner = table
                .iter()
                .flat_map(|(name, value)| numbers(value, format!("{key}{dot}{name}")));
            inner.collect()
        }
        Value::Array(list) => {
            let inner = list.iter().enumerate();
            inner
                .flat_map(|(i, value)| numbers(value, format!("{key}[{i}]")))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// The JSON pointer of every table.
fn tables(value: &Value, pointer: String) -> Vec<String> {
    let children: Vec<(String, &Value)> = match value {
        Value::Object(table) => table
            .iter()
            .map(|(key, value)| (key.clone(), value))
            .collect(),
        Value::Array(list) => list
            .iter()
            .enumerate()
            .map(|(i, v)| (i.to_string(), v))
            .collect(),
        _ => Vec::new(),
    };
    let below = children
        .into_iter()
        .flat_map(|(key, value)| tables(value, format!("{pointer}/{key}")));
    below
        .chain(value.is_object().then(|| pointer.clone()))
        .collect()
}

fn json(text: &str) -> Value {
    toml::from_str(text).expect("it is TOML")
}

/// As much of JSON Schema as the schema of a scenario needs.
fn accepts(root: &Value, schema: &Value, value: &Value) -> bool {
    let all = |key: &str, holds: &dyn Fn(&Value) -> bool| schema.get(key).is_none_or(holds);
    let number = value.as_f64();
    let at = |limit: &Value| limit.as_f64().expect("a limit is a number");
    all("$ref", &|to| {
        let pointer = to
            .as_str()
            .expect("a reference is text")
            .trim_start_matches('#');
        accepts(
            root,
            root.pointer(pointer).expect("a reference leads somewhere"),
            value,
        )
    }) && all("type", &|name| match name.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("boolean") => value.is_boolean(),
        Some("integer") => value.is_i64(),
        // Infinity, which TOML has and JSON lacks, has become null on the way here.
        Some("number") => value.is_number() || value.is_null(),
        _ => panic!("a type that this test does not know: {name}"),
    }) && all("const", &|only| only == value)
        && all("minLength", &|low| {
            value
                .as_str()
                .is_none_or(|text| text.len() as f64 >= at(low))
        })
        && all("minimum", &|low| number.is_none_or(|x| x >= at(low)))
        && all("exclusiveMinimum", &|low| {
            number.is_none_or(|x| x > at(low))
        })
        && all("maximum", &|high| number.is_none_or(|x| x <= at(high)))
        && all("anyOf", &|of| {
            choices(of).any(|one| accepts(root, one, value))
        })
        && all("oneOf", &|of| {
            choices(of).filter(|one| accepts(root, one, value)).count() == 1
        })
        && all("required", &|keys| {
            choices(keys).all(|key| !value[key.as_str().unwrap_or("")].is_null())
        })
        && all("items", &|item| {
            choices(value).all(|one| accepts(root, item, one))
        })
        && value.as_object().into_iter().flatten().all(|(key, value)| {
            let known = schema.get("properties").and_then(|known| known.get(key));
            match (known, schema.get("additionalProperties")) {
                (Some(known), _) | (None, Some(known @ Value::Object(_))) => {
                    accepts(root, known, value)
                }
                (None, other) => other != Some(&Value::Bool(false)),
            }
        })
}

fn choices(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Whatever the text, the answer is a scenario that can be written and read again, or one line.
fn assert_one_line_or_the_same_again(text: &[u8]) {
    match Scenario::parse(text, "random.toml", &[]) {
        Ok(scenario) => {
            let again = Scenario::parse(scenario.to_toml().as_bytes(), "random.toml", &[]);
            assert_eq!(again, Ok(scenario));
        }
        Err(error) => {
            let line = error.to_string();
            assert!(
                !line.contains('\n') && line.starts_with("random.toml:"),
                "{line}"
            );
        }
    }
}

#[test]
fn deep_nesting_is_an_error() {
    for deep in [
        "[".repeat(1 << 16),
        "a.".repeat(1 << 16),
        "a={".repeat(1 << 16),
    ] {
        assert_one_line_or_the_same_again(deep.as_bytes());
        assert_one_line_or_the_same_again(format!("a = {deep}").as_bytes());
        assert_one_line_or_the_same_again(format!("[{deep}a]").as_bytes());
    }
}

/// 400 cases, unless `PROPTEST_CASES` chooses others, as in `make test-all`.
fn config() -> ProptestConfig {
    let mut config = ProptestConfig::default();
    if std::env::var_os("PROPTEST_CASES").is_none() {
        config.cases = 400;
    }
    config
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_bytes_panic(text in proptest::collection::vec(any::<u8>(), 0..200)) {
        assert_one_line_or_the_same_again(&text);
    }

    #[test]
    fn no_text_of_toml_panics(text in r#"([a-z."=\[\]{},\n 0-9#'-]|links|flows|measure|nan|inf|1e9){0,60}"#) {
        assert_one_line_or_the_same_again(text.as_bytes());
    }

    /// Cuts a piece out of an example and puts some bytes, or another piece, in its place.
    #[test]
    fn no_mutation_of_an_example_panics(
        example in 0..EXAMPLES.len(),
        [cut, length, from, to] in prop::array::uniform4(any::<prop::sample::Index>()),
        bytes in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..4).prop_map(Some),
            Just(None),
            prop::sample::select(vec!["-1", "0", "nan", "inf", "1e300", "1e-300", "\"\"", "[]", "{}"])
                .prop_map(|value| Some(value.into())),
        ],
    ) {
        let mut text = std::fs::read(path(EXAMPLES[example])).expect("it is in the tree");
        let cut = cut.index(text.len());
        let end = cut + length.index(20.min(text.len() - cut));
        let from = from.index(text.len());
        let piece = &text[from..from + to.index(100.min(text.len() - from))];
        let piece = bytes.unwrap_or_else(|| piece.to_vec());
        text.splice(cut..end, piece);
        assert_one_line_or_the_same_again(&text);
    }

    #[test]
    fn no_override_panics(key in r#"[a-z."\[\]0-9]{0,20}|(links|flows|tcp)\.[a-z]{1,8}\.[a-z_]{1,10}"#, value in ".{0,12}") {
        let overrides = [(key, value)];
        if let Err(error) = Scenario::load(path("two_links").as_ref(), &overrides) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }
}
