//! The rules in C are bit-equal to the Rust rules in `Soft`: compiled for this machine, and in the
//! kernel.

use std::env;
use std::path::Path;
use std::process::Command;

use crate::common::evaluation::{Evaluation, expected};
use crate::common::states::{State, states};
use crate::common::{can_load, in_full};
use anabranch_control::{Info, Parameter, Scalar, Soft};
use anabranch_kernel::{Choice, PROGRAMS};
use libbpf_rs::{Object, ObjectBuilder, ProgramInput};
use libloading::Library;

/// Random states of each rule in the gate, and in `make test-all`.
const STATES: [usize; 2] = [3_000, 100_000];

/// Every algorithm with its defaults, with other parameters, and with some chosen ones.
fn choices() -> Vec<Choice> {
    let others = [
        "ewtcp:a=0.3",
        "balia:cap=inf",
        "rsf_db:d_s=0.01",
        "rsf_lb:mu=0.5",
    ];
    let delay_based = [
        "vegas_k:kappa=2.5",
        "wvegas:total_alpha=30:min_alpha=0.5:drain=0",
        "wvegas:vegas=1",
    ];
    let defaults = PROGRAMS.iter().map(|program| program.name.to_owned());
    let varied = PROGRAMS.iter().map(|program| {
        let parameters = varied(program.info());
        format!("{}{parameters}", program.name)
    });
    let chosen = others.iter().chain(&delay_based).map(|&text| text.into());
    defaults
        .chain(varied)
        .chain(chosen)
        .map(|text| text.parse().unwrap())
        .collect()
}

/// Every parameter at a value that is not its default, as in a specification.
fn varied(info: &Info) -> String {
    let other = |parameter: &Parameter| {
        let mut choices = parameter.choices.iter().copied();
        let scaled = (0.7 * parameter.default).clamp(parameter.min, parameter.max);
        choices
            .find(|&choice| choice != parameter.default)
            .unwrap_or(scaled)
    };
    let parameters = info.parameters.iter();
    let texts = parameters.map(|parameter| format!(":{}={}", parameter.name, other(parameter)));
    texts.collect()
}

/// Evaluates every choice at every state and compares. The states are generated once, because that
/// takes longest.
fn compare(evaluated: &mut [(Choice, impl FnMut(&mut Evaluation))]) {
    for State { r, paths, memory } in states(STATES[usize::from(in_full())]) {
        for (choice, evaluate) in &mut *evaluated {
            let mut evaluation = Evaluation::new(&choice.algorithm, r, &paths, &memory);
            let expected = expected(&choice.algorithm, r, &paths, &mut memory.clone());
            evaluate(&mut evaluation);
            assert_eq!(evaluation, expected, "{choice}, path {r} of {paths:#?}");
        }
    }
}

/// A rule's header compiled to a library for this machine.
fn compiled(rule: &str, directory: &Path) -> Library {
    let library = directory.join(rule).with_extension("so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/mirror.c");
    let status = Command::new(env::var("CC").unwrap_or("cc".into()))
        .args(["-shared", "-fPIC", "-O2", "-Wall", "-Werror", source])
        .args(["-I", env!("OUT_DIR"), "-o"])
        .arg(&library)
        .arg(format!("-DRULE={rule}"))
        .status()
        .expect("a C compiler; set CC");
    assert!(status.success());
    // Safety: the library has no initialisers.
    unsafe { Library::new(library) }.unwrap()
}

#[test]
fn the_headers_are_bit_equal_to_the_rules() {
    let directory = tempfile::tempdir().unwrap();
    let libraries: Vec<_> = PROGRAMS
        .iter()
        .map(|program| compiled(program.name, directory.path()))
        .collect();
    let mut evaluated: Vec<_> = choices()
        .into_iter()
        .map(|choice| {
            let i = PROGRAMS
                .iter()
                .position(|program| program.name == choice.program.name);
            type Evaluate = extern "C" fn(*mut Evaluation);
            // Safety: the signature is that in tests/mirror.c; Evaluation has the layout of struct
            // evaluation.
            let evaluate = unsafe { libraries[i.unwrap()].get::<Evaluate>("evaluate") };
            let evaluate = evaluate.unwrap();
            (choice, move |evaluation: &mut Evaluation| {
                evaluate(evaluation)
            })
        })
        .collect();
    compare(&mut evaluated);
}

#[test]
fn the_programs_in_the_kernel_are_bit_equal_to_the_rules() {
    if !can_load() {
        return;
    }
    let mut evaluated: Vec<_> = choices()
        .into_iter()
        .map(|choice| {
            let object = evaluator(choice.program.name);
            let evaluate = move |evaluation: &mut Evaluation| {
                let program = object
                    .progs_mut()
                    .find(|program| program.name() == "evaluate")
                    .unwrap();
                let context_in = Some(evaluation.bytes_mut());
                let input = ProgramInput {
                    context_in,
                    ..Default::default()
                };
                assert_eq!(program.test_run(input).unwrap().return_value, 0);
            };
            (choice, evaluate)
        })
        .collect();
    compare(&mut evaluated);
}

/// The loaded program that evaluates a rule.
fn evaluator(name: &str) -> Object {
    let object = format!("{}/evaluate-{name}.o", env!("OUT_DIR"));
    let open = ObjectBuilder::default().open_file(object).unwrap();
    open.load().unwrap()
}

/// Also at bounds that no rule reaches, and operations that only `coupled.bpf.c` uses.
#[test]
fn the_operations_in_c_are_bit_equal_to_soft() {
    let directory = tempfile::tempdir().unwrap();
    let library = compiled("lia", directory.path());
    type Binary = extern "C" fn(Soft, Soft) -> Soft;
    // Safety: the signature is that in bpf/soft.h; Soft is a u64.
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
    // The largest, the smallest, and values in between.
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
