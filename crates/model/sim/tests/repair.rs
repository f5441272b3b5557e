//! Losses and timeouts of one TCP connection, on links for which the expected behaviour is derived
//! by hand.

use crate::common::{PAYLOAD, run};
use crate::common::{SLOW, assert_takes_ms, bulk, file, window_at};

use anabranch_scenario::Record;

mod reordering;

/// Timeouts of 200 ms, whatever the RTT: round numbers.
const FLOOR: &str = "min_rto_ms = 200";
/// Linux: 200 ms more than the smoothed RTT.
const LINUX_FLOOR: &str = "min_rto_ms = 200, rto_floor = \"variance\"";

/// Two links: packets reach the second 1 ms apart, from 11 ms on, and take 0.012 ms there. It is
/// down when those arrive that the test wants lost.
fn with_outages(packets: u64, outages: &str, tcp: &str) -> Record {
    let second = format!("rate_mbps = 1000, delay_ms = 0, down = [{outages}]");
    file(packets * PAYLOAD, &[SLOW, &second], tcp)
}

/// Linux' smoothed RTT after a handshake of 20 ms and these RTTs, ms.
fn srtt_ms(rtts_ms: &[f64]) -> f64 {
    let rtts = rtts_ms.iter();
    rtts.fold(20.0, |srtt, rtt| srtt + (rtt - srtt) / 8.0)
}

const THIRD_PACKET: &str = "{ from_s = 0.0125, to_s = 0.0135 }";

#[test]
fn a_single_loss_is_repaired_without_a_timeout() {
    // Packet 2 is lost. Packets 3, 4 and 5 are acknowledged at 24.012, 25.012 and 26.012 ms: then
    // it is sent again. The file of 10 packets has nothing else to send, so it takes 1 + 10 + 0.012
    // ms.
    for recovery in ["sack", "newreno"] {
        let record = with_outages(10, THIRD_PACKET, &format!("recovery = \"{recovery}\""));
        assert_takes_ms(&record, 37.024);
        assert_eq!(record.paths.lost_down, [1]);
        assert_eq!(record.paths.loss_events, [1]);
        assert_eq!(record.paths.retransmitted_packets, [1]);
        assert_eq!(record.paths.timeouts, [0]);
    }
}

#[test]
fn duplicate_acknowledgements_do_not_open_the_window() {
    // In congestion avoidance from 10 packets on, packets 0 and 1 add 1/10 and 1/10.1; packets 3, 4
    // and 5 add nothing (RFC 5681, section 3.2), then the loss halves what is there.
    let expected = (10.0 + 1.0 / 10.0 + 1.0 / 10.1) / 2.0;
    for recovery in ["sack", "newreno"] {
        let text = format!(
            r#"
            algorithm = "reno"
            measure = {{ duration_s = 0.03, sample_ms = 1 }}
            tcp = {{ recovery = "{recovery}", initial_ssthresh_packets = 10 }}
            links.A = {{ {SLOW} }}
            links.B = {{ rate_mbps = 1000, delay_ms = 0, down = [{THIRD_PACKET}] }}
            [[flows]]
            name = "user"
            paths = [["A", "B"]]
            start_spread_s = 0
            "#
        );
        let window = window_at(&run(&text, 1), 0.027);
        assert!(
            (window - expected).abs() < 1e-9,
            "{window}, expected {expected}"
        );
    }
}

#[test]
fn a_retransmission_that_is_lost_waits_for_the_timer() {
    // Sent again at 26.012 ms, packet 2 reaches the second link at 37.012, when that is down again.
    // The timer starts anew with the retransmission: 26.012 + 200 ms, and 11.012 ms of travel.
    let outages = format!("{THIRD_PACKET}, {{ from_s = 0.0365, to_s = 0.0375 }}");
    for recovery in ["sack", "newreno"] {
        let tcp = format!("recovery = \"{recovery}\", {FLOOR}");
        let record = with_outages(10, &outages, &tcp);
        assert_takes_ms(&record, 237.024);
        assert_eq!(record.paths.timeouts, [1]);
    }
}

#[test]
fn the_last_packet_of_a_file_waits_for_the_timer() {
    // Packet 4 of 5 would arrive at 15 ms; nothing follows it to be acknowledged. Packet 3 is
    // acknowledged at 24.012 ms. 200 ms later packet 4 is sent again.
    let outage = "{ from_s = 0.0145, to_s = 0.0155 }";
    let record = with_outages(5, outage, FLOOR);
    assert_takes_ms(&record, 235.024);
    assert_eq!(record.paths.timeouts, [1]);
    // Linux: 200 ms more than the smoothed RTT of the handshake and the four packets.
    let srtt_ms = srtt_ms(&[21.012, 22.012, 23.012, 24.012]);
    for undo in [false, true] {
        let record = with_outages(5, outage, &format!("{LINUX_FLOOR}, undo = {undo}"));
        assert_takes_ms(&record, 235.024 + srtt_ms);
        assert_eq!(
            (record.paths.timeouts, record.paths.spurious_timeouts),
            (vec![1], vec![0])
        );
    }
    // RFC 6298: 1 s.
    let record = with_outages(5, outage, "");
    assert_takes_ms(&record, 1035.024);
}

/// The first packet is lost; nothing was acknowledged before. The handshake took 20 ms, 4 rttvar
/// are 40 ms: Linux' timeout is 220 ms, that of RFC 6298 is 1 s. Then the packet takes 11.012 ms.
/// RACK's probe of a lone packet waits for two RTTs and 200 ms, but not for longer than the
/// timeout.
#[test]
fn a_lost_first_packet_waits_for_the_timeout_that_the_handshake_gives() {
    let outage = "{ from_s = 0.0105, to_s = 0.0115 }";
    let lost = |tcp: &str| with_outages(1, outage, tcp);
    assert_takes_ms(&lost(LINUX_FLOOR), 231.012);
    assert_takes_ms(&lost(""), 1011.012);
    let record = lost("profile = \"linux\", host_jitter_us = 0");
    assert_takes_ms(&record, 231.012);
    assert_eq!(
        (record.flows.timeouts[0], record.flows.lost_packets[0]),
        (0, 1)
    );
}

#[test]
fn a_spurious_timeout_is_undone() {
    // Three packets of 1500 bytes at 12 kbps: the first is acknowledged after 1 s and 20 ms, which
    // the initial timeout of 1 s does not wait for. No packet is lost. Packet 0 is sent again;
    // without undo packets 1 and 2 follow when the window is 2.
    let slow = "rate_mbps = 0.012, delay_ms = 10";
    for (undo, window, spurious, again) in [(false, 1.0, 0, 3), (true, 3.0, 1, 1)] {
        let tcp = format!("initial_window_packets = 3, undo = {undo}");
        let record = bulk(slow, &tcp, "", 1.5, 10.0);
        assert_eq!(record.paths.timeouts, [1]);
        assert_eq!(record.paths.spurious_timeouts, [spurious]);
        assert_eq!(record.paths.retransmitted_packets, [again]);
        assert_eq!(record.paths.lost_overflow, [0]);
        assert_eq!(window_at(&record, 1.01), 1.0);
        // The acknowledgement of packet 0 adds one to the window.
        assert_eq!(window_at(&record, 1.03), window + 1.0);
    }
}

#[test]
fn timeouts_back_off_while_a_link_is_down() {
    // One packet in flight: sent every 21 ms, the last that arrives at 47 x 21 = 987 ms. The next
    // goes at 1008 ms and is lost; so are those sent 0.2, 0.6, 1.4, 3, 6.2 and 12.6 s later, at
    // timeouts twice as long each. The seventh timeout is 25.4 s later, at 26.408 s, when the link
    // has been up again for 6 s; the packet arrives 11 ms later.
    let link = format!("{SLOW}, down = [{{ from_s = 1, to_s = 20 }}]");
    let tcp = format!("receive_buffer_packets = 1, {FLOOR}");
    let record = bulk(&link, &tcp, "", 26.6, 1.0);
    assert_eq!(record.flows.timeouts, [7]);
    assert_eq!(record.paths.lost_down, [7]);
    let samples = &record.flow_samples;
    let row = samples
        .delivered_bytes
        .iter()
        .position(|&bytes| bytes > 48 * PAYLOAD);
    assert_eq!(samples.time_s[row.expect("it goes on")], 26.419);
    // Twice as long no more: the timer has been reset.
    assert!(record.flows.delivered_bytes[0] > 55 * PAYLOAD);
}

#[test]
fn a_minimal_timeout_above_the_maximal_one_is_the_timeout() {
    let link = format!("{SLOW}, down = [{{ from_s = 1, to_s = 2 }}]");
    let record = bulk(
        &link,
        "min_rto_ms = 100e3, receive_buffer_packets = 1",
        "",
        102.0,
        1e3,
    );
    // The packet of 1.008 s is lost, the one of 101.008 s arrives.
    assert_eq!(record.flows.timeouts, [1]);
    assert!(record.flows.delivered_bytes[0] > 48 * PAYLOAD);
}

/// RACK with Linux' timeout and an ACK per packet.
const RACK: &str = "recovery = \"rack\", min_rto_ms = 200, rto_floor = \"variance\"";

#[test]
fn rack_repairs_a_lost_retransmission_without_a_timeout() {
    // Packets 2 and 5 are lost. Packets 3, 4 and 6 are acknowledged at 24.012, 25.012 and 27.012
    // ms: then both are sent again, and reach the second link at 38.012, when that is down again,
    // and 39.012 ms. The acknowledgement of packet 5 at 49.024 ms shows that packet 2, sent before
    // it, is lost again; sent once more, it takes 11.012 ms.
    let outages = format!(
        "{THIRD_PACKET}, {{ from_s = 0.0155, to_s = 0.0165 }}, {{ from_s = 0.0375, to_s = 0.0385 }}"
    );
    let record = with_outages(10, &outages, RACK);
    assert_takes_ms(&record, 60.036);
    assert_eq!(record.paths.retransmitted_packets, [3]);
    assert_eq!(record.paths.loss_events, [1]);
    assert_eq!(record.paths.timeouts, [0]);
}

#[test]
fn rack_waits_a_quarter_of_the_smallest_rtt_with_less_than_three_arrivals_above_a_hole() {
    // Packet 7 of 10 is lost. Packets 8 and 9 arrive, acknowledged at 30.012 ms with an RTT of
    // 30.012; the first RTT was 21.012. All were sent at 0, so packet 7 is late by a quarter of
    // 21.012 at 30.012 + 5.253 ms; it arrives 11.012 ms later.
    let record = with_outages(10, "{ from_s = 0.0175, to_s = 0.0185 }", RACK);
    assert_takes_ms(&record, 30.012 + 5.253 + 11.012);
    assert_eq!(record.paths.retransmitted_packets, [1]);
    assert_eq!(record.paths.loss_events, [1]);
    assert_eq!(record.paths.timeouts, [0]);
}

#[test]
fn a_probe_repairs_the_loss_of_the_last_packet() {
    // Packet 4 of 5 is lost. Packet 3 is acknowledged at 24.012 ms; two smoothed RTTs and 2 ms
    // later packet 4 is sent again as a probe, and arrives 11.012 ms later. The probe has repaired
    // a loss: the window is cut once.
    let srtt_ms = srtt_ms(&[21.012, 22.012, 23.012, 24.012]);
    let record = with_outages(5, "{ from_s = 0.0145, to_s = 0.0155 }", RACK);
    assert_takes_ms(&record, 24.012 + 2.0 * srtt_ms + 2.0 + 11.012);
    assert_eq!(record.paths.retransmitted_packets, [1]);
    assert_eq!(record.paths.timeouts, [0]);
    let cuts = [(RACK, 1), (FLOOR, 0)];
    for (tcp, losses) in cuts {
        let record = with_outages(5, "{ from_s = 0.0145, to_s = 0.0155 }", tcp);
        assert_eq!(record.paths.loss_events, [losses], "{tcp}");
    }
}

#[test]
fn a_probe_shows_the_loss_of_several_last_packets() {
    // Packets 3 and 4 of 5 are lost. Packet 2 is acknowledged at 23.012 ms, the probe is packet 4;
    // its acknowledgement, 21.012 ms later, shows that packet 3 is lost, which takes 11.012 ms.
    let srtt_ms = srtt_ms(&[21.012, 22.012, 23.012]);
    let record = with_outages(5, "{ from_s = 0.0135, to_s = 0.0155 }", RACK);
    assert_takes_ms(&record, 23.012 + 2.0 * srtt_ms + 2.0 + 21.012 + 11.012);
    assert_eq!(record.paths.retransmitted_packets, [2]);
    assert_eq!(record.paths.loss_events, [1]);
    assert_eq!(record.paths.timeouts, [0]);
}
