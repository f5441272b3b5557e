//! Rules of the table in C programs, linked with libanabranch.a.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anabranch_control::{Ack, Algorithm, AnyController};
use tempfile::TempDir;

use crate::compiled::{compile, example};

/// The newest libanabranch.a that Cargo has built beside this test.
fn archive() -> PathBuf {
    let test = std::env::current_exe().expect("this test is a file");
    let deps = test.parent().expect("it lies in a folder");
    let files = fs::read_dir(deps).expect("the folder can be read");
    let archives = files.filter_map(|file| {
        let file = file.ok()?;
        let name = file.file_name().into_string().ok()?;
        let is_one = name.starts_with("libanabranch-") || name == "libanabranch.a";
        let changed = file.metadata().ok()?.modified().ok()?;
        (is_one && name.ends_with(".a")).then(|| (changed, file.path()))
    });
    archives
        .max()
        .expect("Cargo builds the crate as staticlib, too")
        .1
}

/// The lines that `examples/abi/lia.c` prints: the windows after each event.
fn windows_of_lia() -> String {
    let mut controller = Algorithm::parse("lia").expect("a rule").controller(0, 10.0);
    controller.set_smallest_ssthresh(1.0);
    let mut lines = String::new();
    let mut note = |controller: &AnyController| {
        let windows = controller.paths().iter().map(|path| path.window.to_bits());
        writeln!(lines, "{:?}", windows.collect::<Vec<_>>()).expect("a string takes it");
    };
    for _ in 0..2 {
        controller.add_path();
        note(&controller);
    }
    for round in 1..=40 {
        for (r, (rtt, period)) in [(0.03125, 8), (0.125, 12)].into_iter().enumerate() {
            let now = f64::from(round) * 0.125;
            let ack = Ack {
                now,
                sent_at: now - rtt,
                packets: 3,
                rtt: Some(rtt),
                queue_delay: None,
                window_limited: true,
            };
            controller.on_ack(r, &ack);
            note(&controller);
            if round % period == 0 {
                controller.on_loss(r);
                note(&controller);
                controller.on_recovered(r);
                note(&controller);
            }
        }
    }
    lines
}

/// The number that C prints with %a, such as 0x1.4p+3: hexadecimal digits and a power of two.
fn from_hex(text: &str) -> f64 {
    let (digits, power) = text
        .strip_prefix("0x")
        .and_then(|rest| rest.split_once('p'))
        .expect("a number as of %a");
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = u64::from_str_radix(&format!("{whole}{fraction}"), 16).expect("hexadecimal");
    let power: i32 = power.parse().expect("a power of two");
    all as f64 * 2f64.powi(power - 4 * fraction.len() as i32)
}

#[test]
fn lia_in_a_c_program_has_the_windows_of_the_rule_to_the_bit() {
    let folder = TempDir::new().expect("a folder");
    let program = folder.path().join("lia");
    let archive = archive();
    let archive = archive.to_str().expect("the path is text");
    compile(
        &example("lia.c"),
        &program,
        &[archive, "-lm", "-lpthread", "-ldl"],
    );
    let output = Command::new(&program).output().expect("it runs");
    assert!(output.status.success());
    let printed = String::from_utf8(output.stdout).expect("it prints text");
    let mut lines = String::new();
    for line in printed.lines() {
        let windows = line.split(' ').map(|text| from_hex(text).to_bits());
        writeln!(lines, "{:?}", windows.collect::<Vec<_>>()).expect("a string takes it");
    }
    // Two paths open, 80 acknowledgements, 5 + 3 losses with their recoveries.
    assert_eq!(lines.lines().count(), 2 + 80 + 16);
    assert_eq!(lines, windows_of_lia());
}

#[test]
fn a_rule_that_is_none_or_cannot_be_run_is_null() {
    for rule in [c"lia", c"max", c"balia:cap=inf", c"vegas", c"cubic"] {
        // SAFETY: a string that ends with NUL.
        assert!(
            !unsafe { anabranch::anabranch_rule(rule.as_ptr()) }.is_null(),
            "{rule:?}"
        );
    }
    for rule in [
        c"",
        c"lya",
        c"lia:cap=1",
        c"bbr",
        c"bbr3",
        c"dctcp",
        c"l\xff",
    ] {
        // SAFETY: as above.
        assert!(
            unsafe { anabranch::anabranch_rule(rule.as_ptr()) }.is_null(),
            "{rule:?}"
        );
    }
    // SAFETY: NULL is allowed.
    assert!(unsafe { anabranch::anabranch_rule(std::ptr::null()) }.is_null());
}
