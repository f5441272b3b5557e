//! Qlog files: one per connection and end, and errors that are not lost.

use std::fs;
use std::path::PathBuf;

use anabranch_quic::Simulation;
use anabranch_scenario::{Scenario, Virtual};

/// An empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).expect("the target directory can be written");
    folder
}

fn simulation() -> Simulation {
    let text = "
        algorithm = 'lia'
        measure = { duration_s = 4 }
        links.R1 = { rate_mbps = 5, delay_ms = 20, loss.bernoulli = { probability = 0.02 } }
        links.R2 = { rate_mbps = 5, delay_ms = 10, down = [{ from_s = 1, to_s = 3 }] }
        [[flows]]
        name = 'a \"user\"'
        paths = [['R1'], ['R2']]
        [[flows]]
        name = 'files'
        paths = [['R1']]
        workload.file = { bytes = 1e5 }
    ";
    let scenario = Scenario::parse(text.as_bytes(), "a test", &[]);
    Simulation::new(&scenario.expect("valid"), 1).expect("it is supported")
}

/// `tests/quic/test_qlog.py` validates them by the schema.
#[test]
fn each_end_of_each_connection_has_a_file() {
    let folder = folder("qlog");
    let mut run = simulation();
    run.write_log(&folder);
    run.finish_with_log().expect("all files can be written");
    let files = fs::read_dir(&folder).expect("it is there");
    let mut names: Vec<_> = files
        .map(|file| file.expect("readable").file_name().into_string())
        .collect();
    names.sort();
    let ends = ["0-receiver", "0-sender", "1-receiver", "1-sender"];
    assert_eq!(names, ends.map(|end| Ok(format!("connection-{end}.sqlog"))));
    let text = fs::read_to_string(folder.join("connection-0-sender.sqlog")).expect("text");
    let header = text.lines().next().unwrap_or_default();
    assert!(header.starts_with("\u{1e}{"), "{header}");
    assert!(
        header.contains(r#""title":"a \"user\", user 0, connection 0, sender""#),
        "{header}"
    );
    // The library's header is not there, and the last event is complete.
    assert_eq!(text.matches("file_schema").count(), 1);
    assert!(text.ends_with("}\n"));
}

#[test]
fn a_file_that_exists_is_not_replaced() {
    let folder = folder("qlog_exists");
    let file = folder.join("connection-1-receiver.sqlog");
    fs::write(&file, "kept").expect("the folder can be written");
    let mut run = simulation();
    run.write_log(&folder);
    let error = run.finish_with_log().err();
    let error = error.map(|error| error.to_string()).unwrap_or_default();
    assert!(error.starts_with(&file.display().to_string()), "{error}");
    assert_eq!(fs::read_to_string(&file).expect("it is there"), "kept");
}
