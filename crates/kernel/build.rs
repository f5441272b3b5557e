//! Compiles the programs in `bpf/` with the system's clang: `coupled.bpf.c` once for every rule. And
//! the one that the bench times the kernel's own algorithms with.

use std::path::PathBuf;
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, ensure};
use libbpf_cargo::SkeletonBuilder;

const NEEDS_CLANG: &str = "anabranch-kernel needs clang to build (Debian: apt-get install clang \
                           pkg-config libelf-dev zlib1g-dev); the rest of the workspace does not: \
                           cargo build";

fn main() -> Result<()> {
    println!("cargo::rerun-if-changed=bpf");
    println!("cargo::rerun-if-changed=benches/peers.bpf.c");
    println!("cargo::rerun-if-changed=tests/rules");
    ensure!(
        Command::new("clang").arg("--version").output().is_ok(),
        NEEDS_CLANG
    );
    compile("bpf/connections.bpf.c", "connections", &[])?;
    compile("benches/peers.bpf.c", "peers", &[])?;
    let careless = ["-DRULE=careless", "-Itests"].map(String::from);
    compile("bpf/coupled.bpf.c", "careless", &careless)?;
    for header in fs::read_dir("bpf/rules")? {
        let header = header?.path();
        let rule = header
            .file_stem()
            .and_then(|name| name.to_str())
            .context("a name in UTF-8")?;
        // What several rules share is no rule.
        if rule != "vegas" {
            compile("bpf/coupled.bpf.c", rule, &[format!("-DRULE={rule}")])?;
        }
    }
    Ok(())
}

/// Writes `OUT_DIR/NAME.o`.
fn compile(source: &str, name: &str, defines: &[String]) -> Result<()> {
    let object = PathBuf::from(env::var("OUT_DIR")?)
        .join(name)
        .with_extension("o");
    SkeletonBuilder::new()
        .source(source)
        .obj(object)
        .clang_args(
            ["-mcpu=v3", "-Wall", "-Werror"]
                .map(String::from)
                .iter()
                .chain(defines),
        )
        .build()
}
