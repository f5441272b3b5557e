//! The table of schedulers: what is made from it, and its page.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

use anabranch_scenario::{Scenario, Scheduler, schema};

fn scenario(scheduler: &str) -> Result<Scenario, String> {
    let text = "algorithm = 'lia'\nmeasure.duration_s = 1\nlinks.L.rate_mbps = 1\n\
                links.L.delay_ms = 1\nflows = [{ name = 'user', paths = [['L']] }]\n";
    let set = [("tcp.scheduler".to_owned(), scheduler.to_owned())];
    Scenario::parse(text.as_bytes(), "a.toml", &set).map_err(|error| error.to_string())
}

#[test]
fn each_scheduler_is_read_and_written_by_its_name() {
    for scheduler in Scheduler::ALL {
        let read = scenario(scheduler.name()).expect("a name of the table");
        assert_eq!(read.tcp.scheduler, *scheduler);
        let line = format!("scheduler = \"{}\"", scheduler.name());
        assert!(read.to_toml().contains(&line), "{line}");
        assert!(schema().contains(&format!("\"const\": \"{}\"", scheduler.name())));
    }
    let error = scenario("blast").expect_err("no such scheduler");
    for scheduler in Scheduler::ALL {
        assert!(error.contains(scheduler.name()), "{error}");
    }
    assert!(
        error.contains("tcp.scheduler=blast: unknown value"),
        "{error}"
    );
    assert!(error.ends_with("(did you mean blest?)"), "{error}");
}

#[test]
fn a_backend_refuses_by_name_the_schedulers_that_it_does_not_have() {
    assert_eq!(
        Scheduler::Ecf.refusal("quic").as_deref(),
        Some("tcp.scheduler: ecf is not available on quic; run it with --on sim")
    );
    for scheduler in Scheduler::ALL {
        assert_eq!(scheduler.refusal("sim"), None);
        for backend in ["quic", "kernel", "fluid", "equilibrium"] {
            let has = scheduler.backends().contains(&backend);
            assert_eq!(scheduler.refusal(backend).is_none(), has, "{scheduler:?}");
        }
    }
}

fn table() -> String {
    let mut table =
        String::from("| `tcp.scheduler` | what it does | backends | source |\n|---|---|---|---|\n");
    for one in Scheduler::ALL {
        let (name, meaning, source) = (one.name(), one.meaning(), one.source());
        let backends = one.backends().join(", ");
        writeln!(table, "| `{name}` | {meaning} | {backends} | {source} |")
            .expect("a string takes all");
    }
    table
}

#[test]
fn the_page_of_schedulers_has_the_table() {
    has_table("schedulers", &table());
}

// Tables of pages in docs/reference that are made from tables in the code.

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
