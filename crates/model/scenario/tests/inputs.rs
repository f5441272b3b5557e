//! A scenario carries the files that it names: it can be read again where they are missing.

use std::fs;
use std::path::PathBuf;

use anabranch_scenario::{Inputs, Scenario};

const TEXT: &str = "
    algorithm = 'lia'
    measure.duration_s = 10
    links.a = { trace_file = '../lte.trace', delay_ms = 20 }
    links.b = { trace_file = 'lte.trace', delay_ms = 20 }
    links.c = { trace_file = 'flows.parquet', delay_ms = 20 }
    links.d = { trace_file = 'same/lte.trace', delay_ms = 20 }
    flows = [{ name = 'user', paths = [['a'], ['b'], ['c'], ['d']] }]
";

/// Each file with the one line that it holds.
const FILES: [(&str, &str); 4] = [
    ("../lte.trace", "1"),
    ("flows.parquet", "2"),
    ("lte.trace", "3"),
    ("same/lte.trace", "1"),
];

fn inputs() -> Inputs {
    FILES
        .map(|(name, line)| (name.to_owned(), line.as_bytes().into()))
        .into()
}

#[test]
fn the_contents_given_are_those_read_from_files() {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("inputs");
    fs::create_dir_all(folder.join("below/same")).unwrap();
    for (name, line) in FILES {
        fs::write(folder.join("below").join(name), line).unwrap();
    }
    let file = folder.join("below/scenario.toml");
    fs::write(&file, TEXT).unwrap();

    let read = Scenario::load(&file, &[]).unwrap();
    assert_eq!(*read.inputs(), inputs());
    let source = file.to_str().unwrap();
    fs::remove_dir_all(folder).unwrap();
    let given = Scenario::parse_with(TEXT.as_bytes(), source, &[], &inputs(), None);
    assert_eq!(given, Ok(read));
}

#[test]
fn origin_and_inputs_give_the_scenario_again_whatever_replaced_its_values() {
    let set = [("links.b.delay_ms".to_owned(), "35".to_owned())];
    let scenario = Scenario::parse_with(TEXT.as_bytes(), "a.toml", &set, &inputs(), None).unwrap();
    let scenario = scenario.with_algorithm("balia:cap=inf").unwrap();
    let again = Scenario::parse_with(
        scenario.original().as_bytes(),
        "a.toml",
        scenario.set(),
        scenario.inputs(),
        None,
    );
    assert_eq!(again, Ok(scenario));
}

#[test]
fn in_one_folder_files_have_names_of_their_own() {
    let scenario = Scenario::parse_with(TEXT.as_bytes(), "a.toml", &[], &inputs(), None).unwrap();
    let (text, files) = scenario.to_folder();
    // Equal contents share a file; a result has a table of the name flows.parquet.
    let expected = [
        ("2-lte.trace", "3"),
        ("flows.parquet.trace", "2"),
        ("lte.trace", "1"),
    ];
    let expected = expected.map(|(name, line)| (name.to_owned(), line.as_bytes().into()));
    assert_eq!(files, Inputs::from(expected));
    let again = Scenario::parse_with(text.as_bytes(), "b.toml", &[], &files, None).unwrap();
    for (link, other) in scenario.links.iter().zip(&again.links) {
        assert_eq!(link, other);
    }
    assert_eq!(again.to_folder(), (text, files));
}
