//! Controllers in C: equal to the rule that they state, and refused where they answer wrongly.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anabranch::Loaded;
use anabranch_scenario::columns::Column;
use anabranch_scenario::users::Outside;
use anabranch_scenario::{Record, Scenario, Virtual};
use anabranch_sim::Simulation;
use tempfile::TempDir;

use crate::compiled::{example, library};

/// Losses of a queue, random losses, and timeouts while the link is down for 3 s.
const ONE_PATH: &str = r#"
algorithm = "reno"

[measure]
duration_s = 30
warmup_s = 1

[links.l]
rate_mbps = 10
delay_ms = 20
queue.drop_tail = { packets = 30 }
loss.bernoulli = { probability = 0.002 }
down = [{ from_s = 10, to_s = 13 }]

[[flows]]
name = "f"
paths = [["l"]]
"#;

/// Two paths, marks, and connections that begin and end.
const TWO_PATHS: &str = r#"
algorithm = "reno"

[measure]
duration_s = 30
warmup_s = 1

[tcp]
ecn = true

[links.a]
rate_mbps = 10
delay_ms = 20
queue.red = {}

[links.b]
rate_mbps = 4
delay_ms = 50
queue.drop_tail = { packets = 60 }
loss.bernoulli = { probability = 0.001 }

[[flows]]
name = "f"
paths = [["a"], ["b"]]

[[flows]]
name = "g"
count = 2
paths = [["a"]]
start_spread_s = 2
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text.as_bytes(), "abi.toml", &[]).expect("it is good")
}

/// Every number of a record, bit by bit.
fn bits(record: Record) -> Vec<u64> {
    let tables = record.tables().into_iter();
    let columns = tables.flat_map(|(_, columns)| columns);
    let each = columns.flat_map(|(_, column)| match column {
        Column::U32(values) => values.into_iter().map(u64::from).collect(),
        Column::U64(values) => values,
        Column::F64(values) => values.into_iter().map(f64::to_bits).collect::<Vec<_>>(),
    });
    each.collect()
}

fn compiled(folder: &Path, name: &str) -> PathBuf {
    let file = folder.join(format!("lib{name}.so"));
    library(&example(&format!("{name}.c")), &file);
    file
}

/// A controller whose `on_event` has these statements.
fn written(folder: &Path, version: u32, statements: &str) -> PathBuf {
    let (source, file) = (folder.join("own.c"), folder.join("libown.so"));
    let text = format!(
        r#"
#include <math.h>
#include "anabranch.h"
static size_t size(const struct anabranch_controller *self, uint32_t n) {{
    (void)self; (void)n; return 0;
}}
static int init(const struct anabranch_controller *self, void *state,
                const struct anabranch_start *start) {{
    (void)self; (void)state; (void)start; return 0;
}}
static int on_event(void *state, const struct anabranch_event *event,
                    struct anabranch_path *paths, uint32_t count) {{
    (void)state; (void)event; (void)paths; (void)count;
    {statements}
    return 0;
}}
static const struct anabranch_controller OWN = {{{version}, 0, size, init, on_event, NULL}};
const struct anabranch_controller *anabranch_find(const char *name) {{
    return name[0] == 'o' ? &OWN : NULL;
}}
"#
    );
    fs::write(&source, text).expect("the folder can be written");
    library(&source, &file);
    file
}

/// The fault of a run of a controller with these statements.
fn fault(statements: &str) -> Option<String> {
    let folder = TempDir::new().expect("a folder");
    let file = written(folder.path(), 1, statements);
    let loaded = Arc::new(Loaded::open(&file, "own").expect("it is one"));
    let custom = Outside::Controllers(loaded.clone());
    Simulation::with_custom(&scenario(ONE_PATH), 1, &custom).finish();
    let name = format!("{}:own: ", file.display());
    let fault = loaded.fault()?;
    Some(
        fault
            .strip_prefix(&name)
            .expect("it names the file")
            .to_owned(),
    )
}

fn refusal(file: &Path, name: &str) -> String {
    Loaded::open(file, name).expect_err("it is refused")
}

#[test]
fn newreno_in_c_is_reno_of_the_table_to_the_bit() {
    is_the_rule("newreno", "reno");
}

#[test]
fn cubic_in_c_is_cubic_of_the_table_to_the_bit() {
    is_the_rule("cubic", "cubic");
}

/// Pacing keeps the queue short where NewReno fills it; one packet of 500 is lost at random.
#[test]
fn a_controller_by_rates_in_c_fills_a_link_without_its_queue() {
    let folder = TempDir::new().expect("a folder");
    let loaded = Loaded::open(&compiled(folder.path(), "rate"), "rate").expect("it is one");
    let text = ONE_PATH.replace("{ packets = 30 }", "{ packets = 300 }");
    let run = Arc::new(loaded.for_run());
    let custom = Outside::Controllers(run.clone());
    let text = text.replace("down = [{ from_s = 10, to_s = 13 }]", "");
    let links = Simulation::with_custom(&scenario(&text), 1, &custom)
        .finish()
        .links;
    assert_eq!(run.fault(), None);
    let (used, queue) = (links.utilization[0], links.queue_packets[0]);
    assert!(used > 0.95, "{used}");
    // Two products of 33 packets in flight, one of which is queued.
    assert!(queue < 33.0, "{queue}");
}

fn is_the_rule(name: &str, rule: &str) {
    let folder = TempDir::new().expect("a folder");
    let loaded = Loaded::open(&compiled(folder.path(), name), name).expect("it is one");
    let keys: [&[(String, String)]; 3] = [
        &[],
        &[("tcp.recovery".into(), "\"rack\"".into())],
        &[("tcp.initial_ssthresh_packets".into(), "8".into())],
    ];
    for text in [ONE_PATH, TWO_PATHS].map(|text| text.replace("\"reno\"", &format!("\"{rule}\""))) {
        for set in keys {
            for seed in 1..=3 {
                let scenario = Scenario::parse(text.as_bytes(), "abi.toml", set);
                let scenario = scenario.expect("it is good");
                let run = Arc::new(loaded.for_run());
                let custom = Outside::Controllers(run.clone());
                let foreign = Simulation::with_custom(&scenario, seed, &custom).finish();
                assert_eq!(run.fault(), None);
                let own = Simulation::new(&scenario, seed).finish();
                assert!(bits(foreign) == bits(own), "seed {seed}, {set:?} of {text}");
            }
        }
    }
}

#[test]
fn a_wrong_answer_is_one_line_with_the_event() {
    let at_ack = |answer: &str| {
        let is = "if (event->kind == ANABRANCH_ACKED)";
        fault(&format!("{is} {answer};")).expect("it is noticed")
    };
    // Forty ms of propagation: the first acknowledgement.
    let window = at_ack("paths[0].window = NAN");
    assert!(
        window.starts_with("window of path 0 is NaN (expected packets, at least 1) at ACKED of "),
        "{window}"
    );
    let small = at_ack("paths[0].window = 0.5");
    assert!(
        small.starts_with("window of path 0 is 0.5 (expected packets, at least 1)"),
        "{small}"
    );
    let rate = at_ack("paths[0].pacing_rate = 0");
    assert!(
        rate.starts_with("pacing_rate of path 0 is 0 (expected"),
        "{rate}"
    );
    let refused = at_ack("return 7");
    assert!(
        refused.starts_with("on_event returned 7 (expected 0) at ACKED of path 0"),
        "{refused}"
    );
    assert_eq!(fault(""), None);
}

#[test]
fn a_library_without_such_a_controller_of_this_version_is_refused() {
    let folder = TempDir::new().expect("a folder");
    let file = written(folder.path(), 2, "");
    let version = refusal(&file, "own");
    assert!(
        version.starts_with("own is of version 2 of anabranch.h: expected 1;"),
        "{version}"
    );
    assert_eq!(
        refusal(&file, "lia"),
        "anabranch_find has no controller \"lia\""
    );
    let text = folder.path().join("text.so");
    fs::write(&text, "no library").expect("the folder can be written");
    let none = refusal(&text, "own");
    assert!(
        none.starts_with("not a shared library of this machine: "),
        "{none}"
    );
    let missing = refusal(&folder.path().join("missing.so"), "own");
    assert!(missing.contains("No such file"), "{missing}");
    let source = folder.path().join("empty.c");
    fs::write(&source, "int nothing;\n").expect("the folder can be written");
    let empty = folder.path().join("libempty.so");
    library(&source, &empty);
    assert!(refusal(&empty, "own").starts_with("exports no anabranch_find"));
}
