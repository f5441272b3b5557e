//! Small runs of every kind, pinned as one readable table.
//!
//! An optimisation must not change a bit of it. To write `golden.txt` anew after a change of
//! behaviour:
//!
//! ```text
//! UPDATE_GOLDEN=1 cargo test -p anabranch-sim golden
//! ```

use std::fmt::Write;
use std::{env, fs};

use crate::common::{bits_of, run};

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt");

/// Columns that came after the table was written: 0 in all its runs, and not in its hashes.
const NEWER: [&str; 4] = ["lost_aqm", "dropped_aqm", "marked_packets", "mark_events"];

const HEADER: &str = "\
# One line per user of each run of golden.rs: payload delivered, goodput, packets sent and lost (by a
# queue, RED, chance, an outage), sent again, timeouts, files done. `every bit` is a hash of the whole
# record, samples included. To write this file anew:
# UPDATE_GOLDEN=1 cargo test -p anabranch-sim golden

             user      bytes   Mbps    sent  queue    red chance outage  again timeouts files
";

/// Name, endpoints, links, flows; each runs for 20 s and is measured from 5 s on.
const RUNS: &[[&str; 4]] = &[
    [
        "drop-tail",
        "",
        "links.L = { rate_mbps = 10, delay_ms = 20, queue.drop_tail = { packets = 50 } }",
        r#"[{ name = "reno", count = 2, paths = [["L"]], start_spread_s = 1 }]"#,
    ],
    [
        "newreno recovery, delayed ACKs",
        "recovery = 'newreno', delayed_acks = true",
        "links.L = { rate_mbps = 10, delay_ms = 20, queue.drop_tail = { packets = 50 } }",
        r#"[{ name = "reno", count = 2, paths = [["L"]], start_spread_s = 1 }]"#,
    ],
    [
        "chance, bursts",
        "",
        "links.A = { rate_mbps = 20, delay_ms = 10, loss.bernoulli = { probability = 0.01 } }
         links.B = { rate_mbps = 20, delay_ms = 30,
                     loss.gilbert_elliott = { good_to_bad = 0.002, bad_to_good = 0.3 } }",
        r#"[{ name = "cubic", algorithm = "cubic", paths = [["A"]], start_spread_s = 0 },
            { name = "balia", algorithm = "balia", paths = [["A"], ["B"]], start_spread_s = 0 }]"#,
    ],
    [
        "scenario C, RED",
        "",
        "links.AP1 = { rate_mbps = 10, delay_ms = 40, queue.red = {} }
         links.AP2 = { rate_mbps = 10, delay_ms = 40, queue.red = { average_weight = 0.002 } }",
        r#"[{ name = "olia", algorithm = "olia", count = 2, paths = [["AP1"], ["AP2"]],
              start_spread_s = 0 },
            { name = "reno", count = 2, paths = [["AP2"]], start_spread_s = 1 }]"#,
    ],
    [
        "outages, a small buffer, in turn",
        "receive_buffer_packets = 60, scheduler = 'round-robin'",
        "links.A = { rate_mbps = 8, delay_ms = 10, down = [{ from_s = 7, to_s = 9 }] }
         links.B = { rate_mbps = 4, delay_ms = 50 }
         links.C = { rate_mbps = 50, delay_ms = 5 }",
        r#"[{ name = "lia", algorithm = "lia", paths = [["C", "A"], ["C", "B"]], start_spread_s = 0 },
            { name = "wvegas", algorithm = "wvegas", paths = [["C"], ["C", "B"]], start_spread_s = 0 }]"#,
    ],
    [
        "Linux' scheduler: chance, an outage, on and off",
        "scheduler = 'linux'",
        "links.A = { rate_mbps = 8, delay_ms = 10, down = [{ from_s = 7, to_s = 9 }] }
         links.B = { rate_mbps = 4, delay_ms = 50, loss.bernoulli = { probability = 0.02 } }",
        r#"[{ name = "lia", algorithm = "lia", paths = [["A"], ["B"]], start_spread_s = 0 },
            { name = "olia", algorithm = "olia", paths = [["A"], ["B"]], start_spread_s = 0,
              workload.on_off = { on_s = 3, off_s = 2 } }]"#,
    ],
    [
        "files, on and off, a trace",
        "",
        "links.lte = { trace_file = 'lte.trace', delay_ms = 15, queue.drop_tail = { bytes = 90000 } }
         links.fibre = { rate_mbps = 20, delay_ms = 5 }",
        r#"[{ name = "file", paths = [["lte"]], start_spread_s = 0, start_s = 5, workload.file.bytes = 3000000 },
            { name = "web", algorithm = "lia", count = 2, paths = [["lte"], ["fibre"]],
              workload.poisson = { rate_per_s = 2,
                                   size.pareto = { mean_bytes = 30000, shape = 1.5 } } },
            { name = "sensor", paths = [["fibre"]], stop_s = 15,
              workload.poisson = { rate_per_s = 5, size.exponential.mean_bytes = 5000 } },
            { name = "video", paths = [["fibre"]], start_spread_s = 0,
              workload.on_off = { on_s = 1.5, off_s = 2.5 } }]"#,
    ],
    [
        "gateways, one of them adjusted",
        "packet_bytes = 1000",
        "links.L = { rate_mbps = 10, delay_ms = 20, queue.drop_tail = { packets = 100 } }",
        r#"[{ name = "adjusted", algorithm = "vegas:kappa=8", paths = [["L"]],
              workload.gateway = { clients = 5, rate_per_s = 2, size.exponential.mean_bytes = 50000,
                                   adjust = { samples = 4, period_s = 0.25 } } },
            { name = "fixed", algorithm = "vegas:kappa=4", paths = [["L"]],
              workload.gateway = { clients = 5, rate_per_s = 2,
                                   size.pareto = { mean_bytes = 60000, shape = 1.2 } } }]"#,
    ],
];

fn table() -> String {
    let mut table = String::from(HEADER);
    for [name, tcp, links, flows] in RUNS {
        let text = format!(
            "algorithm = \"reno\"\nmeasure = {{ duration_s = 20, warmup_s = 5 }}\n\
             tcp = {{ {tcp} }}\nflows = {flows}\n{links}\n"
        );
        writeln!(table, "\n{name}").expect("a string takes all");
        write_run(&mut table, &text).expect("a string takes all");
    }
    table
}

fn write_run(table: &mut String, text: &str) -> std::fmt::Result {
    let names: Vec<String> = crate::common::scenario(text)
        .flows
        .iter()
        .map(|flow| flow.name.clone())
        .collect();
    let record = run(text, 1);
    let (flows, paths) = (&record.flows, &record.paths);
    for row in 0..flows.len() {
        let mine = |column: &[u64]| -> u64 {
            let key = (flows.flow[row], flows.user[row]);
            let of = |path: &usize| (paths.flow[*path], paths.user[*path]) == key;
            (0..paths.len()).filter(of).map(|path| column[path]).sum()
        };
        let user = format!("{} {}", names[flows.flow[row] as usize], flows.user[row]);
        writeln!(
            table,
            "{user:>17} {:10} {:6.3} {:7} {:6} {:6} {:6} {:6} {:6} {:8} {:5}",
            flows.delivered_bytes[row],
            flows.goodput_mbps[row],
            flows.sent_packets[row],
            mine(&paths.lost_overflow),
            mine(&paths.lost_red),
            mine(&paths.lost_random),
            mine(&paths.lost_down),
            flows.retransmitted_packets[row],
            flows.timeouts[row],
            flows.transfers_done[row],
        )?;
    }
    let newer = |name: &str| NEWER.contains(&name);
    assert!(bits_of(record.clone(), newer).iter().all(|&word| word == 0));
    let every = bits_of(record, |name| !newer(name));
    writeln!(table, "{:>17} {:016x}", "every bit", hash(&every))
}

/// FNV-1a over 64-bit words.
fn hash(words: &[u64]) -> u64 {
    words.iter().fold(0xcbf2_9ce4_8422_2325, |hash, word| {
        (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

#[test]
fn runs_are_those_of_the_golden_table() {
    let table = table();
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(FILE, &table).expect("the table can be written");
    }
    let golden = fs::read_to_string(FILE).expect("golden.txt is in the tree");
    for (ours, golden) in table.lines().zip(golden.lines()) {
        assert_eq!(ours, golden, "see the head of golden.rs");
    }
    assert_eq!(table.lines().count(), golden.lines().count());
}
