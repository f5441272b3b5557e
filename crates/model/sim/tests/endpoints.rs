//! One TCP connection, on links for which the expected behaviour is derived by hand.
//!
//! At 12 Mbps a full packet of 1500 bytes takes 1 ms. Acknowledgements take no time to transmit.

use crate::common::{FAST, SLOW, assert_takes_ms, bulk, file, window_at};
use crate::common::{PAYLOAD, run};

#[test]
fn a_file_within_the_initial_window_takes_transmission_and_travel() {
    // 7000 bytes are 4 full packets and 1208 bytes more, 1260 with their header: 0.84 ms. The last
    // bit leaves after 4 x 1 + 0.84 ms and travels for 10.
    let record = file(7000, &[SLOW], "");
    assert_takes_ms(&record, 14.84);
    assert_eq!(record.flows.sent_packets, [5]);
    assert_eq!(record.flows.delivered_bytes, [7000]);
    assert_eq!(record.flows.transfers_done, [1]);
    assert_eq!(record.links.arrived_packets, [5]);
    assert_eq!(record.flows.start_s, [0.0]);
    assert!((record.flows.stop_s[0] - 0.01484).abs() < 1e-9);
}

#[test]
fn a_file_of_more_than_2_32_packets_does_not_end_early() {
    let record = file((1 << 32) * PAYLOAD + 1, &[SLOW], "");
    assert_eq!(record.transfers.len(), 0);
    // Most of 1000 packets per second for 10 s.
    assert!(record.flows.delivered_bytes[0] > 9000 * PAYLOAD);
}

#[test]
fn a_second_link_stores_a_packet_and_forwards_it() {
    // The third packet leaves the first link after 3 ms and 10 of travel, takes 0.5 ms on the
    // second, which is twice as fast and so never has a queue, and travels for 5.
    let record = file(3 * PAYLOAD, &[SLOW, "rate_mbps = 24, delay_ms = 5"], "");
    assert_takes_ms(&record, 18.5);
}

#[test]
fn a_file_beyond_the_initial_window_waits_for_acknowledgements() {
    // Packets 0 to 9 leave until 10 ms. The acknowledgement of packet 0 comes at 1 + 10 + 10 = 21
    // ms, the others' 1 ms apart, and each lets 2 packets go: faster than the link, so that
    // 10 to 19 leave back to back from 21 to 31 ms, and the last arrives at 41.
    assert_takes_ms(&file(20 * PAYLOAD, &[SLOW], ""), 41.0);
}

#[test]
fn every_second_packet_is_acknowledged_at_once_if_acknowledgements_are_delayed() {
    // Packets 0 and 1 arrive at 11 and 12 ms. Acknowledged each, packet 2 goes at 21 ms and arrives
    // at 32. Acknowledged together at 12 ms, it goes at 22 and arrives at 33.
    let two = "initial_window_packets = 2";
    assert_takes_ms(&file(3 * PAYLOAD, &[SLOW], two), 32.0);
    let delayed = format!("{two}, delayed_acks = true");
    assert_takes_ms(&file(3 * PAYLOAD, &[SLOW], &delayed), 33.0);
}

#[test]
fn a_lone_packet_is_acknowledged_after_40_ms_if_acknowledgements_are_delayed() {
    // Packet 0 arrives at 11 ms, its acknowledgement leaves at 51 and comes at 61, and packet 1
    // takes 11 ms more.
    let record = file(
        2 * PAYLOAD,
        &[SLOW],
        "initial_window_packets = 1, delayed_acks = true",
    );
    assert_takes_ms(&record, 72.0);
}

#[test]
fn quick_acks_end_after_16() {
    // A packet at a time: packets 0 to 15 are acknowledged at once, 21 ms apart; the
    // acknowledgement of packet 16 waits 40 ms.
    let tcp = "initial_window_packets = 1, receive_buffer_packets = 1, delayed_acks = true, \
               quick_acks = true";
    assert_takes_ms(&file(16 * PAYLOAD, &[SLOW], tcp), 15.0 * 21.0 + 11.0);
    assert_takes_ms(&file(17 * PAYLOAD, &[SLOW], tcp), 16.0 * 21.0 + 11.0);
    assert_takes_ms(&file(18 * PAYLOAD, &[SLOW], tcp), 17.0 * 21.0 + 40.0 + 11.0);
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    // Round trips of 100 ms and a little: sampled in their middles.
    for tcp in ["", "recovery = \"newreno\"", "delayed_acks = true"] {
        let record = bulk(FAST, tcp, "", 0.6, 50.0);
        let windows = [0.05, 0.15, 0.25, 0.35, 0.45].map(|time_s| window_at(&record, time_s));
        assert_eq!(windows, [10.0, 20.0, 40.0, 80.0, 160.0], "with {tcp}");
    }
}

/// A window in congestion avoidance after `acknowledgements`.
fn avoidance(window: f64, acknowledgements: u32) -> f64 {
    (0..acknowledgements).fold(window, |w, _| w + 1.0 / w)
}

#[test]
fn slow_start_ends_at_the_initial_threshold() {
    // 10, 20, then 12 acknowledgements up to 32 and 8 above; then one per packet of that window.
    let record = bulk(FAST, "initial_ssthresh_packets = 32", "", 0.5, 50.0);
    let windows = [0.15, 0.25, 0.35].map(|time_s| window_at(&record, time_s));
    assert_eq!(windows, [20.0, avoidance(32.0, 8), avoidance(32.0, 8 + 32)]);
}

#[test]
fn a_long_silence_ends_in_a_slow_start_and_a_short_one_does_not() {
    let tcp = "initial_ssthresh_packets = 50";
    // 5 s on leave a window of 50 and most of 1 per round trip. After 5 s off it is 10 again, and
    // grows as at the start.
    let on_off = "workload.on_off = { on_s = 5, off_s = 5 }";
    let long = bulk(FAST, tcp, on_off, 11.0, 50.0);
    assert!(window_at(&long, 9.95) > 90.0);
    let windows = [10.05, 10.15, 10.25, 10.35].map(|time_s| window_at(&long, time_s));
    assert_eq!(windows, [10.0, 20.0, 40.0, avoidance(50.0, 30)]);
    // The last burst leaves at 4.9 s, and 80 ms off end 180 ms later: longer than a round trip, and
    // shorter than a timeout, which is 200 ms at least.
    let on_off = "workload.on_off = { on_s = 5, off_s = 0.08 }";
    let short = bulk(FAST, tcp, on_off, 6.0, 50.0);
    assert!(window_at(&short, 5.1) > 90.0);
}

#[test]
fn the_receive_buffer_limits_the_rate() {
    // 20 packets per round trip of 100 ms and 20 x 1.2 us at most: 200 packets/s. All of the first
    // window is measured too.
    let record = bulk(FAST, "receive_buffer_packets = 20", "", 100.0, 1e3);
    let packets = record.flows.delivered_bytes[0] / PAYLOAD;
    assert!((19_950..=20_000).contains(&packets), "{packets}");
    assert_eq!(
        record.path_samples.in_flight_packets.iter().max(),
        Some(&20)
    );
}

/// Linux accounts 2304 bytes for a packet of 1500: 46 080 bytes hold 20 packets. The RTT is 100 ms,
/// and up to 100 us more in the sender's host. The profile `rfc` has no such limit of its own.
#[test]
fn the_largest_receive_buffer_in_bytes_limits_the_rate_too() {
    for profile in ["rfc", "linux"] {
        let tcp = format!("profile = \"{profile}\", rmem_max_bytes = 46_080");
        let record = bulk(FAST, &tcp, "", 100.0, 1e3);
        assert_eq!(
            record.path_samples.in_flight_packets.iter().max(),
            Some(&20),
            "{profile}"
        );
    }
}

/// 6291456 bytes hold 2730 packets of 1500, whatever the window: 27 300 per second. A window below
/// that is not limited.
#[test]
fn a_linux_host_has_a_receive_buffer_of_6_mb() {
    let most = |tcp: &str, duration_s: f64| {
        let record = bulk(FAST, tcp, "", duration_s, 1e3);
        record.path_samples.in_flight_packets.into_iter().max()
    };
    assert_eq!(most("profile = \"linux\"", 3.0), Some(2730));
    assert!(most("", 3.0) > Some(2730));
}

#[test]
fn totals_count_from_the_end_of_the_warm_up() {
    // 20 packets per 100 ms, of which half a second is measured.
    let text = |warmup: &str| {
        format!(
            r#"
            algorithm = "reno"
            measure = {{ duration_s = 1.05, {warmup} }}
            tcp.receive_buffer_packets = 20
            links.L = {{ {FAST} }}
            [[flows]]
            name = "user"
            paths = [["L"]]
            "#
        )
    };
    assert_eq!(
        run(&text("warmup_s = 0.55"), 1).links.arrived_packets,
        [5 * 20]
    );
    // 10 at the start, then 20 in each of 10 round trips.
    assert_eq!(
        run(&text("warmup_s = 0"), 1).links.arrived_packets,
        [10 + 10 * 20]
    );
}

/// 3.5e9 bytes are 1.63 x 2^31, more than a signed number of 32 bits holds. 65 483 bytes of payload
/// in packets of 65 535 keep the run short.
#[test]
fn files_beyond_2_gib_arrive_complete() {
    let record = run(
        r#"
        algorithm = "reno"
        measure.duration_s = 20
        tcp.packet_bytes = 65535
        links.L = { rate_mbps = 1e5, delay_ms = 1 }
        [[flows]]
        name = "large"
        count = 4
        paths = [["L"]]
        stop_s = 2
        workload.poisson = { rate_per_s = 2, size.exponential.mean_bytes = 3.5e9 }
        "#,
        1,
    );
    let bytes = &record.transfers.bytes;
    let beyond = bytes.iter().filter(|&&bytes| bytes > 1 << 31).count();
    // P(size > 2^31) = exp(-2^31 / 3.5e9) = 0.54.
    assert!(beyond >= 3 && bytes.len() >= 8, "{bytes:?}");
    let (sent, delivered): (u64, u64) = (
        bytes.iter().sum(),
        record.flows.delivered_bytes.iter().sum(),
    );
    assert_eq!(sent, delivered);
}
