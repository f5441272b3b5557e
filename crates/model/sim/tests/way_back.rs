//! Acknowledgements that return over links: with a way back that is never congested nothing
//! changes; where they are lost or wait, the effect is derived by hand.

use anabranch_scenario::{Record, columns};

use crate::common::{PAYLOAD, bits, run};

/// 52 bytes on the fastest link, 10^12 bit/s: 416 ps, added to the pure delay of the same length.
const DELAY_MS: &str = "20.000000416";
const FASTEST: &str = "{ rate_mbps = 1e6, delay_ms = 20 }";

/// Two users of a queue that overflows, and one of Multipath TCP.
fn three_users(path: &str, second: &str, tcp: &str) -> Record {
    let text = format!(
        r#"
        algorithm = "lia"
        measure = {{ duration_s = 20, sample_ms = 100 }}
        tcp = {{ join_handshake = false, {tcp} }}
        links.A = {{ rate_mbps = 10, delay_ms = 20, queue.drop_tail = {{ packets = 30 }} }}
        links.B = {{ rate_mbps = 4, delay_ms = 30, loss.bernoulli = {{ probability = 0.005 }} }}
        links.a = {FASTEST}
        links.b = {FASTEST}
        flows = [
            {{ name = "one", count = 2, paths = [{path}], start_spread_s = 1 }},
            {{ name = "two", paths = [{path}, {second}], start_s = 2, start_spread_s = 0 }},
        ]
        "#
    );
    run(&text, 1)
}

fn delayed(tcp: &str) -> Record {
    let path = |link: &str| format!("{{ links = ['{link}'], return_delay_ms = {DELAY_MS} }}");
    three_users(&path("A"), &path("B"), tcp)
}

fn over_links(tcp: &str) -> Record {
    let path = |link: &str, back: &str| format!("{{ links = ['{link}'], back = ['{back}'] }}");
    three_users(&path("A", "a"), &path("B", "b"), tcp)
}

/// Without SACK all acknowledgements have 52 bytes, and the fastest link only delays them.
#[test]
fn a_way_back_without_congestion_changes_no_bit() {
    for tcp in [
        "",
        ", delayed_acks = true",
        ", profile = 'linux', scheduler = 'min-rtt'",
    ] {
        let tcp = format!("recovery = 'newreno'{tcp}");
        let [delayed, over_links] = [delayed(&tcp), over_links(&tcp)].map(|record| {
            let no_links = columns::Links::default();
            bits(Record {
                links: no_links,
                link_samples: Default::default(),
                ..record
            })
        });
        assert!(delayed == over_links, "{tcp}");
    }
}

/// With SACK blocks an acknowledgement takes up to 224 ps longer: what happens is the same.
#[test]
fn a_way_back_without_congestion_changes_no_count_with_sack_blocks() {
    for recovery in ["sack", "rack"] {
        let tcp = format!("recovery = '{recovery}'");
        let [delayed, over_links] = [delayed(&tcp), over_links(&tcp)].map(|record| record.paths);
        assert!(delayed.lost_overflow.iter().sum::<u64>() > 20);
        assert_eq!(delayed.sent_packets, over_links.sent_packets);
        assert_eq!(delayed.delivered_bytes, over_links.delivered_bytes);
        assert_eq!(
            delayed.retransmitted_packets,
            over_links.retransmitted_packets
        );
        assert_eq!(delayed.loss_events, over_links.loss_events);
        assert_eq!(delayed.timeouts, over_links.timeouts);
    }
}

/// A file over 10 Mbps and 20 ms, with `queue` packets of queue, whose acknowledgements return over
/// a link with these properties.
fn file(packets: u64, queue: u32, back: &str, tcp: &str) -> Record {
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = 600, sample_ms = 1e5 }}
        tcp = {{ {tcp} }}
        links.down = {{ rate_mbps = 10, delay_ms = 20, queue.drop_tail.packets = {queue} }}
        links.up = {{ delay_ms = 20, {back} }}
        [[flows]]
        name = "user"
        paths = [{{ links = ["down"], back = ["up"] }}]
        workload.file.bytes = {}
        "#,
        packets * PAYLOAD
    );
    run(&text, 1)
}

fn duration_s(record: &Record) -> f64 {
    assert_eq!(record.transfers.len(), 1, "the file arrives");
    record.transfers.duration_s[0]
}

/// A window of 30 packets over 40 ms and 1.2 ms per packet is never full: nothing is lost on the
/// way there. Each packet is acknowledged, so that 10 000 acknowledgements of 52 bytes are offered
/// to the link back, and one for each packet sent twice. All are lost or delivered.
#[test]
fn acknowledgements_are_conserved_on_the_link_back() {
    let lossy = "rate_mbps = 1, loss.bernoulli.probability = 0.1";
    let record = file(10_000, 100, lossy, "receive_buffer_packets = 30");
    let (paths, links) = (&record.paths, &record.links);
    let again = paths.retransmitted_packets[0];
    assert_eq!(paths.sent_packets, [10_000 + again]);
    assert_eq!(links.arrived_packets, [10_000 + again; 2]);
    assert_eq!(record.flows.lost_packets, [0]);
    // 1000 are expected; the standard deviation is 30.
    let lost = links.dropped_random[1];
    assert!((900..1100).contains(&lost), "{lost}");
    let bytes = links.throughput_mbps[1] * 600.0 / 8e-6;
    assert!(
        (bytes / 52.0 - (10_000 + again - lost) as f64).abs() < 1e-3,
        "{bytes}"
    );
}

/// A fifth of the acknowledgements is lost. Every packet that is sent again was lost on the way
/// there, and the file takes at most 1 % longer over a queue of two bandwidth-delay products, 5 %
/// over one of a third: windows grow by what is acknowledged, not by the number of
/// acknowledgements. (An acknowledgement of the last packets has no successor; with this seed it
/// arrives.)
#[test]
fn a_lost_acknowledgement_is_replaced_by_the_next_one() {
    let calm = "rate_mbps = 1000";
    let lossy = "rate_mbps = 1000, loss.bernoulli.probability = 0.2";
    for (queue, most) in [(10, 1.05), (60, 1.01)] {
        let [calm, lossy] = [calm, lossy].map(|back| file(20_000, queue, back, ""));
        for record in [&calm, &lossy] {
            let lost = record.flows.lost_packets[0];
            assert!(lost > 20, "{lost}");
            assert_eq!(record.paths.retransmitted_packets, [lost], "queue {queue}");
            assert_eq!(record.paths.timeouts, [0]);
        }
        let [calm_s, lossy_s] = [&calm, &lossy].map(duration_s);
        println!("queue {queue}: {calm_s:.3} s, {lossy_s:.3} s with losses of acknowledgements");
        assert!(
            lossy_s < most * calm_s,
            "{lossy_s} s, {calm_s} s without losses"
        );
    }
}

/// A download over 100 Mbps, and `uploads` over 5 Mbps, whose queue holds 450 kB, as a modem's.
fn access(uploads: u32) -> Record {
    let upload = "paths = [{ links = ['up'], back = ['down'] }]";
    let uploads = match uploads {
        0 => String::new(),
        count => format!("{{ name = 'upload', count = {count}, {upload} }}"),
    };
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = 60, warmup_s = 20 }}
        links.down = {{ rate_mbps = 100, delay_ms = 10, queue.drop_tail.packets = 200 }}
        links.up = {{ rate_mbps = 5, delay_ms = 10, queue.drop_tail.bytes = 450000 }}
        flows = [
            {{ name = "download", paths = [{{ links = ["down"], back = ["up"] }}] }},
            {uploads}
        ]
        "#
    );
    run(&text, 1)
}

/// Alone, the download's 8333 packets/s cause as many acknowledgements of 52 bytes: 3.5 of 5 Mbps,
/// and the download has 1448 of 1500 bytes of its link, 96.5 Mbps.
///
/// The upload fills the queue of 450 kB, 720 ms, and halves its window when it overflows; the
/// download's acknowledgements wait in it. When the RTT was still 20 ms, the download's first slow
/// start ended where its window overflowed what the way down holds, 167 + 200 packets: ssthresh is
/// at most 367. From then on the window grows by one packet per RTT of at least 250 ms, by at most
/// 240 in 60 s to 607 packets: in an RTT of 500 ms these are 14 Mbps. To fill the link it would
/// take 100 Mbps * 0.5 s = 4200 packets.
///
/// The acknowledgements of the download meet in the queue between two packets of the upload, which
/// take 2.4 ms each, and leave 0.08 ms apart (ACK compression): the download sends bursts, and its
/// packets wait although the link down is used by a seventh. Evenly spaced none would wait.
#[test]
fn an_upload_through_a_deep_queue_starves_a_download() {
    let (alone, both) = (access(0), access(1));
    assert!(alone.flows.goodput_mbps[0] > 96.0);
    println!(
        "download alone {:?}, both {:?} Mbps, RTT {:.0?} ms",
        alone.flows.goodput_mbps, both.flows.goodput_mbps, both.paths.rtt_ms
    );
    let [download_mbps, upload_mbps] = both.flows.goodput_mbps[..] else {
        panic!("two users");
    };
    assert!(both.paths.rtt_ms[0] > 500.0, "{} ms", both.paths.rtt_ms[0]);
    assert!(download_mbps < 14.0, "{download_mbps} Mbps down");
    assert!(upload_mbps > 4.3, "{upload_mbps} Mbps up");
    let (utilization, queue_ms) = (both.links.utilization[0], both.links.queue_ms[0]);
    assert!(utilization < 1.0 / 7.0, "{utilization}");
    assert!(queue_ms > 1.0, "{queue_ms} ms");
}
