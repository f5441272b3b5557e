//! Sources of media: constant, and with NADA's control law.

use anabranch_scenario::Record;
use proptest::prelude::*;

use crate::common::{cases, run};

/// A source alone on a link of 10 ms, from 5 s on to 35 s.
fn alone(media: &str, link: &str) -> Record {
    measured(media, link, 5)
}

/// The same for 30 s from this time on.
fn measured(media: &str, link: &str, from_s: u32) -> Record {
    let to_s = from_s + 30;
    let text = format!(
        "algorithm = 'reno'\nmeasure = {{ duration_s = {to_s}, warmup_s = {from_s} }}\n\
         links.L = {{ delay_ms = 10, {link} }}\n\
         flows = [{{ name = 'call', paths = [['L']], start_spread_s = 0, workload.media = {{ {media} }} }}]\n"
    );
    run(&text, 1)
}

/// 1.2 Mbps in 30 frames per s are 5000 bytes each: 1448 x 3 + 656, with headers 1500 x 3 + 708. At
/// 8 Mbps the packets arrive 1.5, 3, 4.5 and 5.208 ms after the frame, and 10 ms of travel. In 30 s
/// there are 900 frames, and one at the very end; half of the packets are no later than the second
/// of a frame.
#[test]
fn a_constant_source_alone_has_the_delay_of_its_link() {
    let record = alone("rate_mbps = 1.2", "rate_mbps = 8");
    let media = &record.media;
    assert_eq!((media.flow[0], media.user[0]), (0, 0));
    assert_eq!((media.frames[0], media.packets[0]), (900, 901 * 4));
    assert!((media.rate_mbps[0] - 1.2).abs() < 1e-9);
    assert!((media.delay_median_ms[0] - 13.0).abs() < 1e-9);
    assert!((media.delay_p99_ms[0] - 15.208).abs() < 1e-9);
    assert_eq!((media.lost_packets[0], media.freezes[0]), (0, 0));
    assert!((record.flows.goodput_mbps[0] - 1.2).abs() < 0.001);
    assert!((record.paths.one_way_delay_ms[0] - 13.552).abs() < 1e-6);
}

/// A bound of 15.2 ms, 8 us before a frame is whole, makes each frame late.
#[test]
fn a_frame_after_its_bound_is_a_freeze() {
    let late = |ms: f64| {
        let record = alone(&format!("rate_mbps = 1.2, late_ms = {ms}"), "rate_mbps = 8");
        let media = &record.media;
        assert_eq!(media.late_frames[0], media.freezes[0]);
        media.freezes[0]
    };
    assert_eq!((late(15.2), late(15.21)), (900, 0));
}

/// 2 Mbps through 1 Mbps: more than half is lost, nothing is sent again, and of nearly every frame
/// of six packets something is lost. A queue of 20 packets is 240 ms.
#[test]
fn a_constant_source_does_not_yield() {
    let link = "rate_mbps = 1, queue.drop_tail.packets = 20";
    let record = alone("rate_mbps = 2", link);
    let media = &record.media;
    assert_eq!(record.flows.retransmitted_packets[0], 0);
    let share = media.lost_packets[0] as f64 / media.packets[0] as f64;
    assert!((0.48..0.6).contains(&share), "{share}");
    assert!(media.freezes[0] as f64 > 0.99 * media.frames[0] as f64);
    assert!(media.delay_p99_ms[0] > 240.0);
    assert!(record.links.utilization[0] > 0.999);
}

/// NADA's law has its equilibrium where the queueing delay is XREF RMAX / r (RFC 8698, equation 5).
/// At 1 Mbps with headers the media get 0.955 Mbps or so, and the reference is 10 x 1.5 / 0.955 =
/// 16 ms. The smallest of 15 packets measures it, and those of a frame of three packets wait for
/// one another, 32 ms, so that the largest delays are 10 + 16 + 32 ms and what the law oscillates.
/// The gradual update is slow: the rate grows by a few percent per second.
#[test]
fn nada_fills_a_link_and_keeps_its_queue_short() {
    let queue = "rate_mbps = 1, queue.drop_tail.packets = 200";
    let record = measured("nada = {}", queue, 60);
    let media = &record.media;
    println!("{media:?} {:?}", record.links.utilization);
    assert!(record.links.utilization[0] > 0.9);
    assert_eq!((media.lost_packets[0], media.freezes[0]), (0, 0));
    assert!(media.delay_p99_ms[0] < 80.0, "{}", media.delay_p99_ms[0]);
}

/// On a path with room it reaches RMAX: 1.5 Mbps.
#[test]
fn nada_reaches_its_largest_rate_where_there_is_room() {
    let record = alone("nada = {}", "rate_mbps = 10");
    assert!((record.media.rate_mbps[0] - 1.5).abs() < 1e-9);
}

proptest! {
    #![proptest_config(cases(32))]

    /// Beside data over the same links: each packet arrives once or is lost, no byte twice, and no
    /// earlier than the path's delay.
    #[test]
    fn every_packet_of_media_arrives_or_is_lost(
        rate in prop_oneof![
            (0.05..4.0).prop_map(|mbps| format!("rate_mbps = {mbps}")),
            Just(String::from("nada = { max_mbps = 4 }")),
        ],
        fps in 1.0..100.0_f64,
        mbps in 0.5..8.0,
        loss in prop_oneof![Just(0.0), 0.0..0.1],
        queue in prop_oneof![
            (2u32..50).prop_map(|packets| format!("drop_tail.packets = {packets}")),
            Just(String::from("fq_codel = {}")),
        ],
    ) {
        let text = format!(
            "algorithm = 'cubic'\nmeasure.duration_s = 12\nmeasure.sample_ms = 1000\n\
             links.A = {{ rate_mbps = {mbps}, delay_ms = 10, queue.{queue}, \
             loss.bernoulli.probability = {loss} }}\nlinks.B = {{ rate_mbps = 5, delay_ms = 5 }}\n\
             flows = [{{ name = 'call', paths = [['A', 'B']], start_spread_s = 0, stop_s = 8, \
             workload.media = {{ {rate}, frames_per_s = {fps} }} }},\n\
             {{ name = 'file', paths = [['A', 'B']], stop_s = 5 }}]\n"
        );
        let record = run(&text, 1);
        let (media, paths) = (&record.media, &record.paths);
        prop_assert_eq!(media.len(), 1);
        let lost: u64 = record.flows.lost_packets[0];
        prop_assert_eq!(media.packets[0], paths.sent_packets[0]);
        prop_assert_eq!(media.lost_packets[0], lost);
        prop_assert!(media.freezes[0] <= media.frames[0]);
        prop_assert!(media.lost_frames[0] <= lost);
        // 4 s after its end everything has left queues of 50 packets at 0.5 Mbps.
        prop_assert_eq!(media.frames[0], (8.0 * fps).ceil() as u64);
        prop_assert!(media.delay_median_ms[0] > 15.0 || media.delay_median_ms[0].is_nan());
        prop_assert_eq!(record.flows.delivered_bytes[0], paths.delivered_bytes[0]);
        let arrived: u64 = (media.packets[0] - lost) * 1448;
        prop_assert!(paths.delivered_bytes[0] <= arrived);
    }
}
