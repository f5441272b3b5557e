//! Readers of files, and random simulations, with the inputs that `make fuzz` has found to reach
//! different code: `fuzz/corpus.tar.gz` has a folder for each. An input that fails is added.

use std::fs;
use std::path::Path;
use std::process::Command;

mod checks;
mod generated;

#[test]
fn the_corpus_is_checked_without_a_fault() {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus.tar.gz");
    let corpus = tempfile::tempdir().expect("a folder");
    let mut unpack = Command::new("tar");
    unpack.arg("-xzf").arg(archive).arg("-C").arg(corpus.path());
    assert!(unpack.status().expect("the program tar").success());
    for (target, check) in checks::TARGETS {
        let inputs = fs::read_dir(corpus.path().join(target)).expect("a folder per target");
        let inputs: Vec<_> = inputs.map(|input| input.expect("a file").path()).collect();
        assert!(!inputs.is_empty(), "{target}");
        for input in inputs {
            println!(
                "{}",
                input
                    .strip_prefix(corpus.path())
                    .expect("within it")
                    .display()
            );
            check(&fs::read(&input).expect("a readable file"));
        }
    }
}
