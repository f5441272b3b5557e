//! The C compiler of this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The repository.
const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");

/// An example in C.
pub fn example(name: &str) -> PathBuf {
    Path::new(ROOT).join("examples/abi").join(name)
}

/// Compiles with `anabranch.h` and every warning; contractions would round differently.
pub fn compile(source: &Path, out: &Path, more: &[&str]) {
    let mut compiler = Command::new("cc");
    compiler
        .args([
            "-std=c11",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-O2",
            "-ffp-contract=off",
        ])
        .arg(format!("-I{}/include", env!("CARGO_MANIFEST_DIR")))
        .arg(source)
        .arg("-o")
        .arg(out)
        .args(more);
    let output = compiler.output().expect("there is a C compiler");
    let says = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {says}", source.display());
}

/// Compiles a shared library.
pub fn library(source: &Path, out: &Path) {
    compile(source, out, &["-shared", "-fPIC", "-lm"]);
}
