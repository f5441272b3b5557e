//! Messages, and flows with a packet size of their own.

use proptest::prelude::*;

use anabranch_scenario::Record;

use crate::common::{cases, run};

/// Headers of the default, bytes.
const HEADER: u64 = 52;

/// A user with this workload alone on 8 Mbps, a byte per us, and 10 ms.
fn alone(flow: &str, link: &str) -> Record {
    let text = format!(
        "algorithm = 'reno'\nmeasure.duration_s = 30\n\
         links.L = {{ rate_mbps = 8, delay_ms = 10, {link} }}\n\
         [[flows]]\nname = 'user'\npaths = [['L']]\nstart_spread_s = 0\n{flow}\n"
    );
    run(&text, 1)
}

/// Every 20 ms from 1 s to 2 s, without 2 s: 50 messages. Each is alone, and its 252 bytes take
/// 252 us and 10 ms.
#[test]
fn a_message_that_is_alone_takes_transmission_and_travel() {
    let workload = "workload.messages = { size_bytes = 200, interval_ms = 20 }";
    let record = alone(&format!("start_s = 1\nstop_s = 2\n{workload}"), "");
    assert_eq!(record.transfers.bytes, [200; 50]);
    for (number, start_s) in record.transfers.start_s.iter().enumerate() {
        assert!((start_s - (1.0 + 0.02 * number as f64)).abs() < 1e-9);
        let latency_s = record.transfers.duration_s[number];
        assert!((latency_s - 0.010_252).abs() < 1e-12, "{latency_s}");
    }
    assert_eq!(record.flows.sent_packets[0], 50);
    assert_eq!(record.flows.delivered_bytes[0], 50 * 200);
}

/// 3000 bytes are 1448 + 1448 + 104, and begin to be transmitted at 0; the message of 100 bytes
/// that is submitted with them waits for all three packets: 1500 + 1500 + 156 + 152 us.
#[test]
fn a_message_waits_for_those_before_it() {
    let list = "[{ time_s = 0, bytes = 3000 }, { time_s = 0, bytes = 100 }]";
    let record = alone(&format!("workload.messages.list = {list}"), "");
    assert_eq!(record.transfers.bytes, [3000, 100]);
    let latencies = [0.010 + 0.003_156, 0.010 + 0.003_308];
    for (measured, expected) in record.transfers.duration_s.iter().zip(latencies) {
        assert!((measured - expected).abs() < 1e-12, "{measured}");
    }
}

/// After a silence longer than the timeout the window is the initial one, of 10 packets, again (RFC
/// 5681, section 4.1): the last 5 of 15 packets wait for an ACK, a round trip of 20 ms and the
/// first packet's 1.5 ms. In 1.5 s after a burst of 40 packets nothing is sent.
#[test]
fn an_idle_connection_begins_with_its_initial_window_again() {
    let list = "[{ time_s = 0, bytes = 57920 }, { time_s = 1.6, bytes = 21720 }]";
    let record = alone(&format!("workload.messages.list = {list}"), "");
    let latency_s = record.transfers.duration_s[1];
    let expected_s = 0.0215 + 5.0 * 0.0015 + 0.010;
    assert!((latency_s - expected_s).abs() < 1e-9, "{latency_s}");
}

/// 60 messages of 12 bytes at once are packets of 64 bytes. A window of 60 sends them at once, the
/// first at once and 10 of them into a queue of 10 packets. A queue of 15 000 bytes, the size of 10
/// full packets, holds 59 of them: 3776 bytes.
#[test]
fn small_packets_fill_a_queue_of_packets_and_not_one_of_bytes() {
    let small = |queue: &str| {
        let list = vec!["{ time_s = 0, bytes = 12 }"; 60].join(", ");
        let text = format!(
            "algorithm = 'reno'\nmeasure.duration_s = 30\ntcp.initial_window_packets = 60\n\
             links.L = {{ rate_mbps = 8, delay_ms = 10, queue.drop_tail.{queue} }}\n\
             [[flows]]\nname = 'user'\npaths = [['L']]\nworkload.messages.list = [{list}]\n"
        );
        run(&text, 1)
    };
    let (packets, bytes) = (small("packets = 10"), small("bytes = 15000"));
    assert_eq!(packets.transfers.len() + bytes.transfers.len(), 120);
    assert_eq!(packets.links.dropped_overflow[0], 49);
    assert_eq!(bytes.links.dropped_overflow[0], 0);
}

/// Two flows with windows of 100 packets through 8 Mbps: 20 ms and the queue. The flow of packets
/// of 300 bytes sends packets of 300 bytes, of which 248 are payload.
#[test]
fn a_flow_sends_packets_of_its_own_size() {
    let text = "algorithm = 'reno'\nmeasure.duration_s = 20\n\
                links.L = { rate_mbps = 8, delay_ms = 10, queue.drop_tail = { bytes = 1e6 } }\n\
                links.M = { rate_mbps = 8, delay_ms = 10, queue.drop_tail = { bytes = 1e6 } }\n\
                flows = [{ name = 'a', paths = [['L']], packet_bytes = 300 },\n\
                { name = 'b', paths = [['M']] }]\ntcp.receive_buffer_packets = 100\n";
    let record = run(text, 1);
    for (row, payload, bytes) in [(0, 248.0, 300.0), (1, 1448.0, 1500.0)] {
        let delivered = record.flows.delivered_bytes[row] as f64;
        assert_eq!(delivered % payload, 0.0);
        let throughput = record.links.throughput_mbps[row] / record.flows.goodput_mbps[row];
        assert!((throughput / (bytes / payload) - 1.0).abs() < 0.01);
        assert!(record.links.utilization[row] > 0.98);
    }
}

/// Random messages: times in ms, and sizes.
fn messages() -> impl Strategy<Value = Vec<(u32, u64)>> {
    prop::collection::vec((0u32..3000, 1u64..20_000), 1..60).prop_map(|mut messages| {
        messages.sort_unstable();
        messages
    })
}

proptest! {
    #![proptest_config(cases(32))]

    /// Each message arrives, in order, whole and once, and no earlier than the path's delay and the
    /// transmission of its packets allow.
    #[test]
    fn messages_arrive_whole_in_order_and_not_too_early(
        messages in messages(),
        packet_bytes in 60u64..1500,
        loss in prop_oneof![Just(0.0), 0.0..0.05],
        second in any::<bool>(),
        mbps in 1.0..50.0,
    ) {
        let link = |ms: u32| format!(
            "{{ rate_mbps = {mbps}, delay_ms = {ms}, loss.bernoulli.probability = {loss} }}"
        );
        let list: Vec<String> = messages
            .iter()
            .map(|(ms, bytes)| format!("{{ time_s = {}, bytes = {bytes} }}", f64::from(*ms) / 1e3))
            .collect();
        let paths = if second { "[['A'], ['B']]" } else { "[['A']]" };
        let text = format!(
            "algorithm = 'lia'\nmeasure.duration_s = 600\nmeasure.sample_ms = 10000\n\
             links.A = {}\nlinks.B = {}\n[[flows]]\nname = 'user'\npaths = {paths}\n\
             packet_bytes = {packet_bytes}\nworkload.messages.list = [{}]\n",
            link(10), link(15), list.join(", ")
        );
        let record = run(&text, 1);
        let sizes: Vec<u64> = messages.iter().map(|(_, bytes)| *bytes).collect();
        prop_assert_eq!(&record.transfers.bytes, &sizes, "all, in order");
        let total: u64 = sizes.iter().sum();
        prop_assert_eq!(record.flows.delivered_bytes[0], total);
        prop_assert_eq!(record.paths.delivered_bytes.iter().sum::<u64>(), total);
        let payload = packet_bytes - HEADER;
        let packets: u64 = sizes.iter().map(|bytes| bytes.div_ceil(payload)).sum();
        let flows = &record.flows;
        prop_assert_eq!(flows.sent_packets[0] - flows.retransmitted_packets[0], packets);
        let mut last_s = 0.0;
        let paths = if second { 2.0 } else { 1.0 };
        for (number, latency_s) in record.transfers.duration_s.iter().enumerate() {
            let wire = sizes[number] + HEADER * sizes[number].div_ceil(payload);
            // The links transmit at once, and the last packet needs no time on the other.
            let least_s = 0.010 + wire as f64 * 8e-6 / mbps / paths;
            prop_assert!(*latency_s > least_s - 1e-9, "{latency_s} s, at least {least_s}");
            let at_s = record.transfers.start_s[number] + latency_s;
            prop_assert!(at_s > last_s - 1e-9, "order");
            last_s = at_s;
        }
    }
}
