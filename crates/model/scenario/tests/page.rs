//! Tables of pages in docs/reference that are made from tables in the code.

use std::path::Path;
use std::{env, fs};

const END: &str = "<!-- end of table -->\n";

/// Checks that the page whose table is named after `test` has it, or writes it there.
pub fn has_table(test: &str, table: &str) {
    let name = match test {
        "features" => "limits",
        other => other,
    };
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference");
    let file = docs.join(format!("{name}.md"));
    let begin =
        format!("<!-- table: UPDATE_GOLDEN=1 cargo test -p anabranch-scenario {test} -->\n");
    let page = fs::read_to_string(&file).expect("the page is in the tree");
    let (before, rest) = page.split_once(&begin).expect("the table begins");
    let (found, after) = rest.split_once(END).expect("the table ends");
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&file, format!("{before}{begin}{table}{END}{after}")).expect("it is written");
    } else {
        assert_eq!(found, table, "{begin}");
    }
}
