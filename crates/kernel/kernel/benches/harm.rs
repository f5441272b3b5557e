//! Cost of the algorithms, in two tables. Ratios are from one run.
//!
//! 1. Goodput over unshaped links beside the kernel's Reno, in paired runs.
//! 2. Mean time per call from the kernel's own statistics, of connections with two subflows, beside
//!    CUBIC's. CUBIC and Reno are timed in the same way, by programs that only call the kernel's
//!    functions. The algorithms take turns. Long: the lab's links of 20 Mbps each with RTTs of 20
//!    and 60 ms without queues. Short: links of 50 Mbps whose only delay is queueing.
//!
//! ```text
//! cargo bench -p anabranch-kernel                      # all, 3 pairs of 2 s each
//! cargo bench -p anabranch-kernel -- wvegas:drain=0 5  # one algorithm, 5 pairs
//! ```

#[path = "../tests/common/network.rs"]
#[allow(dead_code, reason = "tests take more of it")]
mod network;

use std::env;
use std::fs;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anabranch_kernel::{Choice, Cost, Loaded, PROGRAMS, costs, load, registered};
use anabranch_lab::Lab;
use anabranch_scenario::Scenario;
use libbpf_rs::{Link, MapCore, Object, ObjectBuilder};
use network::{Host, Network, Sink, connect, send_for};

const STATISTICS: &str = "/proc/sys/kernel/bpf_stats_enabled";

const LONG: &str = r#"
algorithm = "reno"
measure.duration_s = 5
links.A = { rate_mbps = 20, delay_ms = 10 }
links.B = { rate_mbps = 20, delay_ms = 30 }
flows = [{ name = "one", paths = [["A"], ["B"]] }]
"#;

fn main() -> ExitCode {
    let mut arguments = env::args().skip(1).filter(|text| text != "--bench");
    let only = arguments.next();
    let pairs = arguments
        .next()
        .map_or(3, |text| text.parse().expect("a number of pairs"));
    let choices = match only {
        Some(choice) => vec![choice],
        None => PROGRAMS
            .iter()
            .map(|program| program.name.to_owned())
            .collect(),
    };
    let mut timed: Vec<Timed> = choices
        .iter()
        .filter_map(|choice| Timed::load(choice))
        .collect();
    if timed.is_empty() {
        eprintln!(
            "harm: nothing to measure: `anabranch-kernel unload --all`, and stop each `load`"
        );
        return ExitCode::FAILURE;
    }
    let peers = Peers::load();
    print_goodput(&timed, pairs);

    timed.extend(["cubic", "reno"].map(|name| Timed {
        text: name.to_owned(),
        name: format!("{name}_timed"),
        loaded: None,
    }));
    print_times(&timed, &peers, pairs);
    ExitCode::SUCCESS
}

/// An algorithm whose programs are timed.
struct Timed {
    text: String,
    name: String,
    /// Loaded programs; `None` for one of the kernel's own algorithms.
    loaded: Option<Loaded>,
}

impl Timed {
    /// Loads an algorithm; `None` if the name is taken.
    fn load(text: &str) -> Option<Timed> {
        let choice: Choice = text.parse().unwrap();
        let name = choice.program.name.to_owned();
        if registered().unwrap().contains(&name) {
            eprintln!("harm: {text} is not measured: it is registered already");
            return None;
        }
        Some(Timed {
            text: text.to_owned(),
            name,
            loaded: Some(load(&choice).unwrap()),
        })
    }

    fn costs(&self, peers: &Peers) -> Vec<Cost> {
        match &self.loaded {
            Some(loaded) => loaded.costs(),
            None => costs(&peers.object),
        }
        .unwrap()
    }
}

/// The kernel's own algorithms, `cubic_timed` and `reno_timed`.
struct Peers {
    object: Object,
    _links: [Link; 2],
}

impl Peers {
    fn load() -> Peers {
        let object = include_bytes!(concat!(env!("OUT_DIR"), "/peers.o"));
        let open = ObjectBuilder::default().open_memory(object).unwrap();
        let mut object = open.load().unwrap();
        let links = ["cubic_timed", "reno_timed"].map(|name| {
            let mut maps = object.maps_mut();
            let mut algorithm = maps.find(|map| map.name() == name).unwrap();
            algorithm.attach_struct_ops().unwrap()
        });
        Peers {
            object,
            _links: links,
        }
    }
}

fn print_goodput(algorithms: &[Timed], pairs: u32) {
    println!("| algorithm        | Mbps    | reno's  | ratio  |");
    println!("| ---              | --:     | --:     | --:    |");
    for Timed { text, name, .. } in algorithms {
        let network = Network::new(2, None);
        let sink = network.sink();
        let (mut ours, mut reno) = (0.0, 0.0);
        for _ in 0..pairs {
            reno += goodput_mbps(&network, &sink, "reno") / f64::from(pairs);
            ours += goodput_mbps(&network, &sink, name) / f64::from(pairs);
        }
        println!(
            "| {text:16} | {ours:7.0} | {reno:7.0} | {:6.2} |",
            ours / reno
        );
    }
}

fn goodput_mbps(network: &Network, sink: &Sink, algorithm: &str) -> f64 {
    let (start, before) = (Instant::now(), sink.received());
    let algorithm = algorithm.to_string();
    network.inside(Host::Client, move || {
        send_for(&mut connect(&algorithm, true), Duration::from_secs(2));
    });
    (sink.received() - before) as f64 * 8e-6 / start.elapsed().as_secs_f64()
}

/// The hooks that run for every acknowledgement.
const HOOKS: [&str; 3] = ["cong_avoid", "pkts_acked", "in_ack_event"];

/// Calls of each hook, and their time.
type Spent = [(u64, u64); HOOKS.len()];

fn add(spent: &mut Spent, before: &[Cost], after: &[Cost]) {
    for (then, now) in before.iter().zip(after) {
        if let Some(hook) = HOOKS.iter().position(|hook| now.program.ends_with(hook)) {
            spent[hook].0 += now.calls - then.calls;
            spent[hook].1 += now.time_ns - then.time_ns;
        }
    }
}

fn mean_ns((calls, time_ns): (u64, u64)) -> f64 {
    time_ns as f64 / calls as f64
}

/// The mean, or a dash for an algorithm without this hook.
fn shown_ns(calls: (u64, u64)) -> String {
    match calls.0 {
        0 => "-".to_owned(),
        _ => format!("{:.0}", mean_ns(calls)),
    }
}

/// Prints the table of times, from runs of their own, because the statistics themselves cost time.
fn print_times(algorithms: &[Timed], peers: &Peers, rounds: u32) {
    let setting = fs::read_to_string(STATISTICS).unwrap();
    fs::write(STATISTICS, "1").unwrap();
    for (links, run) in [
        ("long", over_long_links as fn(&str)),
        ("short", over_short_links),
    ] {
        let mut spent = vec![Spent::default(); algorithms.len()];
        for _ in 0..rounds {
            for (algorithm, spent) in algorithms.iter().zip(&mut spent) {
                let before = algorithm.costs(peers);
                run(&algorithm.name);
                add(spent, &before, &algorithm.costs(peers));
            }
        }
        let cubic = mean_ns(spent[spent.len() - 2][0]);
        println!();
        println!(
            "| {links:5} links      | cong_avoid ns  | of cubic's  | pkts_acked ns  | in_ack_event ns  | calls   |"
        );
        println!(
            "| ---              | --:            | --:         | --:            | --:              | --:     |"
        );
        for (Timed { text, .. }, [grows, samples, event]) in algorithms.iter().zip(&spent) {
            println!(
                "| {text:16} | {:>14} | {:11.2} | {:>14} | {:>16} | {:7} |",
                shown_ns(*grows),
                mean_ns(*grows) / cubic,
                shown_ns(*samples),
                shown_ns(*event),
                grows.0
            );
        }
    }
    fs::write(STATISTICS, setting).unwrap();
}

fn over_long_links(algorithm: &str) {
    let scenario = Scenario::parse(LONG.as_bytes(), "two links", &[]).unwrap();
    let lab = Lab::build(&scenario, 1, Some(algorithm)).unwrap();
    lab.run(()).unwrap();
}

fn over_short_links(algorithm: &str) {
    let network = Network::new(2, Some(50));
    goodput_mbps(&network, &network.sink(), algorithm);
}
