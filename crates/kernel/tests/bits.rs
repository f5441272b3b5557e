//! The rules in C answer the bits of the Rust rules in `Soft`: compiled for this machine, and in the
//! kernel.

mod common;

use std::env;
use std::path::Path;
use std::process::Command;

use anabranch_control::{Scalar, Soft};
use anabranch_kernel::{Choice, PROGRAMS};
use common::can_load;
use common::question::{Question, answered};
use common::states::{State, states};
use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use libloading::Library;

const STATES: usize = 100_000;

/// Every algorithm with its defaults, and with other parameters.
fn choices() -> Vec<Choice> {
    let others = [
        "ewtcp:a=0.3",
        "balia:cap=inf",
        "rsf_db:d_s=0.01",
        "rsf_lb:mu=0.5",
    ];
    let delay_based = [
        "vegas_k:kappa=2.5",
        "wvegas:total_alpha=30:min_alpha=0.5:drain=1",
    ];
    let defaults = PROGRAMS.iter().map(|program| program.name);
    defaults
        .chain(others)
        .chain(delay_based)
        .map(|text| text.parse().unwrap())
        .collect()
}

/// Asks every choice about every state and compares. The states are made once: that takes longest.
fn compare(asked: &mut [(Choice, impl FnMut(&mut Question))]) {
    for State { r, paths, memory } in states(STATES) {
        for (choice, ask) in &mut *asked {
            let mut question = Question::new(&choice.algorithm, r, &paths, &memory);
            let expected = answered(&choice.algorithm, r, &paths, &mut memory.clone());
            ask(&mut question);
            assert_eq!(question, expected, "{choice}, path {r} of {paths:#?}");
        }
    }
}

/// A rule's header as a library of this machine's own code.
fn compiled(rule: &str, directory: &Path) -> Library {
    let library = directory.join(rule).with_extension("so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mirror.c");
    let status = Command::new(env::var("CC").unwrap_or("cc".into()))
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", source, "-o"])
        .arg(&library)
        .arg(format!("-DRULE={rule}"))
        .status()
        .expect("a C compiler; set CC");
    assert!(status.success());
    // Safety: it has no code that runs when it is loaded.
    unsafe { Library::new(library) }.unwrap()
}

#[test]
fn the_headers_answer_the_bits_of_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let libraries: Vec<_> = PROGRAMS
        .iter()
        .map(|program| compiled(program.name, directory.path()))
        .collect();
    let mut asked: Vec<_> = choices()
        .into_iter()
        .map(|choice| {
            let i = PROGRAMS
                .iter()
                .position(|program| program.name == choice.program.name);
            // Safety: tests/mirror.c defines it so; Question has the layout of struct question.
            let ask = unsafe { libraries[i.unwrap()].get::<extern "C" fn(*mut Question)>("ask") };
            let ask = ask.unwrap();
            (choice, move |question: &mut Question| ask(question))
        })
        .collect();
    compare(&mut asked);
}

#[test]
fn the_programs_in_the_kernel_answer_the_bits_of_the_rules() {
    if !can_load() {
        return;
    }
    let mut asked: Vec<_> = choices()
        .into_iter()
        .map(|choice| {
            let object = only_ask(&choice);
            let ask = move |question: &mut Question| {
                let ask = object
                    .progs_mut()
                    .find(|program| program.name() == "ask")
                    .unwrap();
                let context_in = Some(question.bytes_mut());
                let input = ProgramInput {
                    context_in,
                    ..Default::default()
                };
                assert_eq!(ask.test_run(input).unwrap().return_value, 0);
            };
            (choice, ask)
        })
        .collect();
    compare(&mut asked);
}

/// The algorithm's program loaded, but nothing of it registered.
fn only_ask(choice: &Choice) -> Object {
    let mut open = ObjectBuilder::default()
        .open_memory(choice.program.object)
        .unwrap();
    for mut program in open.progs_mut() {
        let is_asked = program.name() == "ask";
        program.set_autoload(is_asked);
    }
    for mut map in open.maps_mut() {
        let is_registered = map.name() == choice.program.name;
        map.set_autocreate(!is_registered).unwrap();
    }
    open.load().unwrap()
}

/// The operations that no rule takes to their bounds, and those that only the shell uses.
#[test]
fn the_operations_in_c_answer_the_bits_of_soft() {
    let directory = tempfile::tempdir().unwrap();
    let library = compiled("lia", directory.path());
    type Binary = extern "C" fn(Soft, Soft) -> Soft;
    // Safety: bpf/soft.h defines it so; Soft is a u64.
    let binary = |name: &str| unsafe { *library.get::<Binary>(name).unwrap() };
    let (add, sub) = (binary("soft_add"), binary("soft_sub"));
    let (mul, div) = (binary("soft_mul"), binary("soft_div"));
    let (max, min) = (binary("soft_max"), binary("soft_min"));
    // Safety: as above.
    let to_fixed = unsafe { library.get::<extern "C" fn(Soft) -> i64>("soft_to_fixed") }.unwrap();

    let mut numbers = vec![Soft::of(0), Soft::from_f64(f64::INFINITY)];
    for State { paths, .. } in states(300) {
        let mut scale = Soft::of(1);
        for path in paths {
            scale = scale * path.window;
            numbers.extend([
                path.rtt,
                scale,
                path.loss_interval / scale,
                path.rtt / (scale * scale),
            ]);
        }
    }
    numbers.extend(numbers.clone().iter().map(|&x| Soft::of(0) - x));
    // The largest and the smallest, and what lies between.
    for _ in 0..14 {
        numbers.push(numbers[3] * numbers[3]);
        numbers.swap_remove(3);
    }
    for (i, &x) in numbers.iter().enumerate() {
        for &y in &numbers[i % 7..]
            .iter()
            .step_by(7)
            .copied()
            .collect::<Vec<_>>()
        {
            assert_eq!(add(x, y), x + y, "{x:?} + {y:?}");
            assert_eq!(sub(x, y), x - y, "{x:?} - {y:?}");
            assert_eq!(mul(x, y), x * y, "{x:?} * {y:?}");
            assert_eq!(div(x, y), x / y, "{x:?} / {y:?}");
            assert_eq!(max(x, y), x.max(y));
            assert_eq!(min(x, y), x.min(y));
        }
        let fixed = (x.to_f64() * 2f64.powi(32)).clamp(-(2f64.powi(62)), 2f64.powi(62));
        assert_eq!(to_fixed(x), fixed as i64, "{x:?}");
    }
}
