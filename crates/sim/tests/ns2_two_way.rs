//! Agreement with ns-2 where senders at both ends of a link share its queues with the
//! acknowledgements of the others (`tests/ns2/two_way.tcl`).
//!
//! As in `ns2.rs`; acknowledgements have 40 bytes, and in the simulator their SACK blocks more.

use crate::common::run;
use crate::ns2::{ask, skip};

const SEEDS: u64 = 8;
const WARMUP_S: u64 = 20;
const DURATION_S: u64 = 80;
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ns2/two_way.tcl");

/// What a link has in each direction: there and back.
struct Network {
    flows: [u32; 2],
    rate_mbps: [u32; 2],
    queue_packets: [u32; 2],
    delay_ms: u32,
}

/// Packets acknowledged there and back.
type Acknowledged = [f64; 2];

fn ours(network: &Network, seed: u64) -> Acknowledged {
    let Network {
        flows,
        rate_mbps,
        queue_packets,
        delay_ms,
    } = network;
    let link = |way: usize| {
        format!(
            "{{ rate_mbps = {}, delay_ms = {delay_ms}, queue.drop_tail = {{ packets = {} }} }}",
            rate_mbps[way], queue_packets[way]
        )
    };
    let flow = |count: u32, there: &str, back: &str| {
        format!(
            "[[flows]]\nname = '{there}'\ncount = {count}\nstart_spread_s = 1\n\
             paths = [{{ links = ['{there}'], back = ['{back}'] }}]\n"
        )
    };
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = {DURATION_S}, warmup_s = {WARMUP_S}, sample_ms = 1e6 }}
        tcp = {{ header_bytes = 40, initial_window_packets = 2, min_rto_ms = 200 }}
        links.there = {}
        links.back = {}
        {}{}
        "#,
        link(0),
        link(1),
        flow(flows[0], "there", "back"),
        flow(flows[1], "back", "there"),
    );
    let users = run(&text, seed).flows;
    let acknowledged = |way: u32| {
        let rows = users.flow.iter().zip(&users.delivered_bytes);
        let bytes = rows
            .filter(|(flow, _)| **flow == way)
            .map(|(_, bytes)| bytes);
        bytes.sum::<u64>() as f64 / 1460.0
    };
    [acknowledged(0), acknowledged(1)]
}

/// What ns-2 makes of the same; `None` if it is not installed.
fn theirs(network: &Network, seed: u64) -> Option<Acknowledged> {
    let pair = |values: [u32; 2]| values.map(|value| value.to_string());
    // ns-2 drops a packet that would fill its queue.
    let queues = network.queue_packets.map(|packets| packets + 1);
    let arguments = [
        pair(network.flows).to_vec(),
        pair(network.rate_mbps).to_vec(),
        vec![network.delay_ms.to_string()],
        pair(queues).to_vec(),
        [WARMUP_S, DURATION_S, seed]
            .map(|number| number.to_string())
            .to_vec(),
    ];
    let numbers = ask(SCRIPT, &arguments.concat())?;
    let &[there, back] = numbers.as_slice() else {
        panic!("expected two numbers from ns, got {numbers:?}");
    };
    Some([there, back])
}

fn sum(outcomes: &[Acknowledged]) -> Acknowledged {
    [0, 1].map(|way| outcomes.iter().map(|outcome| outcome[way]).sum())
}

/// Goodput there and back differs from ns-2's by less than this share.
fn compare(network: &Network, bound: f64) {
    let theirs: Option<Vec<_>> = (1..=SEEDS).map(|seed| theirs(network, seed)).collect();
    let Some(theirs) = theirs else {
        return skip();
    };
    let ours: Vec<_> = (1..=SEEDS).map(|seed| ours(network, seed)).collect();
    let (ours, theirs) = (sum(&ours), sum(&theirs));
    let deviations = [0, 1].map(|way| ours[way] / theirs[way] - 1.0);
    let [there, back] = deviations.map(|deviation| format!("{:+.2} %", 100.0 * deviation));
    println!(
        "{:?} flows on {:?} Mbps: {there} there, {back} back of ns-2's {theirs:?}",
        network.flows, network.rate_mbps
    );
    assert!(
        deviations.iter().all(|deviation| deviation.abs() < bound),
        "goodput deviates from ns-2's by {there} there and {back} back"
    );
}

/// A link alike in both directions, with queues of `products` bandwidth-delay products.
fn alike(flows: [u32; 2], rate_mbps: u32, rtt_ms: u32, products: f64) -> Network {
    let product = f64::from(rate_mbps * rtt_ms) * 1e3 / (8.0 * 1500.0);
    Network {
        flows,
        rate_mbps: [rate_mbps; 2],
        queue_packets: [(products * product).round() as u32; 2],
        delay_ms: rtt_ms / 2,
    }
}

#[test]
fn agrees_with_ns2_with_2_flows_each_way_on_5_mbps() {
    compare(&alike([2, 2], 5, 100, 1.0), 0.02);
}

#[test]
fn agrees_with_ns2_with_10_flows_each_way_on_20_mbps() {
    compare(&alike([10, 10], 20, 60, 2.0), 0.02);
}

#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_with_1_flow_each_way_on_10_mbps() {
    compare(&alike([1, 1], 10, 50, 1.0), 0.02);
}

#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_with_20_flows_there_and_5_back_on_50_mbps() {
    compare(&alike([20, 5], 50, 80, 0.5), 0.02);
}

#[test]
fn agrees_with_ns2_with_5_flows_there_and_1_back_on_20_and_5_mbps() {
    let network = Network {
        flows: [5, 1],
        rate_mbps: [20, 5],
        queue_packets: [100, 50],
        delay_ms: 20,
    };
    compare(&network, 0.02);
}

#[test]
#[ignore = "slow: make test-all"]
fn agrees_with_ns2_with_1_flow_there_and_1_back_on_100_and_5_mbps() {
    let network = Network {
        flows: [1, 1],
        rate_mbps: [100, 5],
        queue_packets: [500, 200],
        delay_ms: 10,
    };
    compare(&network, 0.02);
}
