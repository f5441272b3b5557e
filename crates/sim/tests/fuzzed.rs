//! Readers of files, and random simulations, with the inputs that `make fuzz` has found to reach
//! different code: `fuzz/corpus` has a folder for each. An input that fails is added.

use std::fs;
use std::path::Path;

mod checks;
mod generated;

#[test]
fn the_corpus_is_checked_without_a_fault() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (target, check) in checks::TARGETS {
        let inputs = fs::read_dir(corpus.join(target)).expect("a folder per target");
        let inputs: Vec<_> = inputs.map(|input| input.expect("a file").path()).collect();
        assert!(!inputs.is_empty(), "{target}");
        for input in inputs {
            println!("{}", input.display());
            check(&fs::read(&input).expect("a readable file"));
        }
    }
}
