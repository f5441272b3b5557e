//! Every parser, and the carriers under an authenticated peer, with the inputs that `make fuzz` has
//! found to reach different code: `fuzz/corpus` has a folder for each. An input that fails is
//! added.

use std::fs;
use std::path::Path;

mod checks;

#[test]
fn the_corpus_is_parsed_without_a_fault() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus");
    for (parser, check) in checks::PARSERS {
        let inputs = fs::read_dir(corpus.join(parser)).expect("a folder per parser");
        let inputs: Vec<_> = inputs.map(|input| input.expect("a file").path()).collect();
        assert!(!inputs.is_empty(), "{parser}");
        for input in inputs {
            println!("{}", input.display());
            check(&fs::read(&input).expect("a readable file"));
        }
    }
}
