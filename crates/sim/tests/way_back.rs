//! Acknowledgements that return over links: with a way back that is never congested nothing changes;
//! where they are lost or wait, the effect is derived by hand.

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
            {{ name = "two", paths = [{path}, {second}], start_s = 2 }},
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

/// A window of 30 packets over 40 ms and 1.2 ms per packet is never full: nothing is lost on the way
/// there. Each packet is acknowledged, so that 10 000 acknowledgements of 52 bytes are offered to
/// the link back, and one for each packet sent twice. All are lost or delivered.
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

/// The last packets alone can be sent twice: no later acknowledgement replaces a lost one.
#[test]
fn a_lost_acknowledgement_is_replaced_by_the_next_one() {
    let calm = "rate_mbps = 1000";
    let lossy = "rate_mbps = 1000, loss.bernoulli.probability = 0.2";
    let [calm, lossy] = [calm, lossy].map(|back| file(20_000, 60, back, ""));
    for record in [&calm, &lossy] {
        let (paths, lost) = (&record.paths, record.flows.lost_packets[0]);
        println!(
            "{:?} again, {lost} lost, {:?} timeouts, {} s",
            paths.retransmitted_packets,
            paths.timeouts,
            duration_s(record)
        );
    }
}

/// A download over 100 Mbps beside `uploads` over 5 Mbps with a queue of this form.
fn access(uploads: u32, queue: &str) -> Record {
    let uploads = match uploads {
        0 => String::new(),
        count => format!(
            "{{ name = 'up', count = {count}, paths = [{{ links = ['up'], back = ['down'] }}] }},"
        ),
    };
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = 60, warmup_s = 20 }}
        links.down = {{ rate_mbps = 100, delay_ms = 10, queue.drop_tail.packets = 200 }}
        links.up = {{ rate_mbps = 5, delay_ms = 10, queue.drop_tail = {queue} }}
        flows = [
            {{ name = "down", paths = [{{ links = ["down"], back = ["up"] }}] }},
            {uploads}
        ]
        "#
    );
    run(&text, 1)
}

#[test]
fn an_upload_through_a_deep_queue_starves_a_download() {
    for (uploads, queue) in [
        (0, "{ packets = 300 }"),
        (1, "{ packets = 300 }"),
        (1, "{ packets = 20 }"),
        (4, "{packets=300}"),
        (1, "{bytes=450000}"),
    ] {
        let record = access(uploads, queue);
        println!(
            "{uploads} {queue} {:?} rtt {:?} links {:?} {:?} q {:?}",
            record.flows.goodput_mbps,
            record.paths.rtt_ms,
            record.links.arrived_packets,
            record.links.dropped_overflow,
            record.links.queue_ms
        );
    }
}
