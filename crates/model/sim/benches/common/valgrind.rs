//! Instructions of a run of this program, counted by valgrind.

use std::process::{Command, exit};

/// Packets, which the program prints when it gets these arguments, and its instructions.
pub fn counted(arguments: &[&str]) -> (u64, u64) {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|_| fail("valgrind is not installed (Debian: apt-get install valgrind)"));
    let errors = String::from_utf8_lossy(&output.stderr);
    let packets = String::from_utf8_lossy(&output.stdout);
    let collected = errors
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    match (
        packets.trim().parse(),
        collected.map(|(_, number)| number.trim().parse()),
    ) {
        (Ok(packets), Some(Ok(instructions))) => (packets, instructions),
        _ => fail(&format!("valgrind failed: {errors}")),
    }
}

fn fail(message: &str) -> ! {
    eprintln!("{message}");
    exit(2);
}
