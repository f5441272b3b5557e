//! Links of every kind with real packets, and captures. Needs root; takes a few seconds.

use crate::common::{can_create_hosts, file};
use anabranch_lab::Lab;
use anabranch_lab::hosts::{Host, set_sysctl};
use anabranch_lab::network::capture::Capture;
use anabranch_scenario::Scenario;

/// A link of each kind, with one user.
const KINDS: &str = r#"
algorithm = "reno"
measure = { duration_s = 3, sample_ms = 100 }
links.early = { rate_mbps = 8, delay_ms = 5, queue.red = {} }
links.random = { rate_mbps = 8, delay_ms = 5, loss.bernoulli = { probability = 0.02 } }
links.broken = { rate_mbps = 8, delay_ms = 5, down = [{ from_s = 1, to_s = 1.5 }] }
links.traced = { trace_file = "TRACE", delay_ms = 5, queue.drop_tail = { packets = 20 } }
flows = [
  { name = "early", paths = [["early"]] },
  { name = "random", paths = [["random"]] },
  { name = "broken", paths = [["broken"]] },
  { name = "traced", paths = [["traced"]] },
]
"#;

fn scenario(text: &str) -> Scenario {
    Scenario::parse(text.as_bytes(), "test", &[]).expect("the scenario is valid")
}

/// A download fills 100 packets of drop-tail, 120 ms at 10 Mbps, and empties half of them at a
/// loss; with CoDel its mean is near the target of 5 ms. With FQ-CoDel a message of 200 bytes,
/// which is a flow of its own, waits for two packets at most, 2.4 ms, beside its travel of 5 ms and
/// the kernel's time; with drop-tail it waits for the queue.
#[test]
fn queues_that_drop_on_departure_are_as_short_in_real_time() {
    if !can_create_hosts() {
        return;
    }
    let text = |queue: &str| {
        format!(
            "algorithm = 'reno'
             measure = {{ duration_s = 6, warmup_s = 2, sample_ms = 100 }}
             tcp.receive_buffer_packets = 1000
             links.L = {{ rate_mbps = 10, delay_ms = 5, queue.{queue} }}
             [[flows]]
             name = 'download'
             paths = [['L']]
             [[flows]]
             name = 'speech'
             paths = [['L']]
             workload.messages = {{ size_bytes = 200, interval_ms = 20 }}"
        )
    };
    let [drop_tail, codel, fq_codel] = ["drop_tail.packets = 100", "codel = {}", "fq_codel = {}"]
        .map(|queue| {
            let lab = Lab::build(&scenario(&text(queue)), 1, None).unwrap();
            let record = lab.run(()).unwrap().record;
            let mut late = record.transfers.duration_s.clone();
            // 6 s, less the last ones and the start's spread.
            assert!((270..=300).contains(&late.len()), "{} messages", late.len());
            assert!(record.transfers.bytes.iter().all(|bytes| *bytes == 200));
            late.sort_by(f64::total_cmp);
            let dropped = record.links.dropped_aqm[0];
            println!(
                "{queue}: {} ms, {:?} s, {dropped}",
                record.links.queue_ms[0], late[150]
            );
            (record.links.queue_ms[0], late[150], dropped)
        });
    assert!(drop_tail.0 > 30.0 && drop_tail.1 > 0.035, "{drop_tail:?}");
    assert!(codel.0 < 12.0 && codel.2 > 0, "{codel:?}");
    assert!(
        fq_codel.1 < 0.005 + 0.0024 + 0.002 && fq_codel.2 > 0,
        "{fq_codel:?}"
    );
}

/// CoDel marks once the delay was above 5 ms for 100 ms. At 10 Mbps and an RTT of 20 ms 5 ms are
/// 21 packets of window, and 100 ms are four rounds more: the window is halved at about 25, and
/// grows back by 12 or 13 packets in as many rounds of 22 ms, 0.3 s: 13 times in 4 s. Without ECN
/// CoDel drops instead. Subflows of Multipath TCP negotiate ECN each by itself.
#[test]
fn packets_that_are_ecn_capable_are_marked_instead_of_dropped_and_halve_the_window() {
    if !can_create_hosts() {
        return;
    }
    let text = |ecn: bool, paths: &str| {
        format!(
            "algorithm = 'reno'
             measure = {{ duration_s = 6, warmup_s = 2 }}
             tcp = {{ ecn = {ecn}, receive_buffer_packets = 1000 }}
             links.L = {{ rate_mbps = 10, delay_ms = 10, queue.codel = {{}} }}
             links.M = {{ rate_mbps = 10, delay_ms = 10, queue.codel = {{}} }}
             flows = [{{ name = 'f', paths = {paths} }}]"
        )
    };
    let run = |ecn, paths| {
        let scenario = scenario(&text(ecn, paths));
        let lab = Lab::build(&scenario, 1, None).unwrap();
        lab.run(()).unwrap().record
    };
    for paths in ["[['L']]", "[['L'], ['M']]"] {
        let record = run(true, paths);
        let rows = &record.paths;
        for path in 0..rows.len() {
            let (marked, events) = (rows.marked_packets[path], rows.mark_events[path]);
            println!("{paths}, path {path}: {marked} marks, {events} reductions");
            assert_eq!(rows.loss_probability[path], 0.0, "{paths}, path {path}");
            assert!((9..=20).contains(&events), "{events} reductions");
            assert!(marked >= events && record.links.marked_packets[path] >= marked);
            assert_eq!(rows.retransmitted_packets[path], 0);
            assert!(record.links.queue_ms[path] < 12.0);
        }
    }
    let record = run(false, "[['L']]");
    assert!(record.paths.lost_aqm[0] > 0 && record.paths.marked_packets[0] == 0);
}

#[test]
fn accurate_ecn_is_refused_where_the_kernel_has_none() {
    if !can_create_hosts() {
        return;
    }
    let text = KINDS.replace("trace_file = \"TRACE\"", "rate_mbps = 6");
    let scenario = scenario(&format!("tcp.ecn = 'accurate'\n{text}"));
    // Value in new namespaces: this machine's namespace has its own.
    let has_it = Host::new()
        .unwrap()
        .within(|| Ok(set_sysctl("ipv4/tcp_ecn", "3").is_ok()));
    let built = Lab::build(&scenario, 1, None).map(drop);
    let refusal = built.map_err(|error| error.to_string()).err();
    let expected = "tcp.ecn: \"accurate\" is not available on this kernel, which refuses \
                    net.ipv4.tcp_ecn = 3; set it to true, or run it with --on sim or quic";
    let is_refused = !has_it.unwrap();
    assert_eq!(refusal.as_deref(), is_refused.then_some(expected));
}

#[test]
fn packets_are_lost_for_the_reason_of_the_link() {
    if !can_create_hosts() {
        return;
    }
    // 1500 bytes in each of the first 4 of 8 ms: 6 Mbps.
    let trace = file("1\n2\n3\n4\n8\n");
    let text = KINDS.replace("TRACE", trace.to_str().unwrap());
    let lab = Lab::build(&scenario(&text), 3, None).unwrap();
    let record = lab.run(()).unwrap().record;
    let paths = &record.paths;
    let [early, random, broken, traced] = [0, 1, 2, 3].map(|user| {
        [
            paths.lost_overflow[user],
            paths.lost_red[user],
            paths.lost_random[user],
            paths.lost_down[user],
        ]
        .map(|lost| lost > 0)
    });
    // Overflow, RED, random, down. RED's queue may also overflow at the end of slow start.
    assert_eq!(early[1..], [true, false, false]);
    assert_eq!(random[2..], [true, false]);
    assert_eq!(broken[1..], [false, false, true]);
    assert_eq!(traced, [true, false, false, false]);

    // Nothing arrives over a link that is down, except packets in flight; samples of 0.1 s.
    let samples = &record.flow_samples;
    let goodput = |from: f64, to: f64| -> f64 {
        let within = (0..samples.len())
            .filter(|&row| samples.flow[row] == 2)
            .filter(|&row| (from..to).contains(&samples.time_s[row]));
        within.map(|row| samples.goodput_mbps[row]).sum()
    };
    assert_eq!(goodput(1.15, 1.55), 0.0);
    assert!(goodput(0.0, 0.95) > 20.0, "8 Mbps in most of nine samples");
    assert!(goodput(1.55, 3.05) > 0.0, "the transfer continues");

    // 5 packets of 1500 bytes in 8 ms: 7.5 Mbps, minus 52 bytes of headers per packet.
    let rate = record.flows.goodput_mbps[3];
    assert!((5.0..7.5 * 1448.0 / 1500.0 + 0.1).contains(&rate), "{rate}");
}

#[test]
fn a_capture_has_every_packet_and_the_cause_of_drops() {
    if !can_create_hosts() {
        return;
    }
    let text = KINDS.replace("trace_file = \"TRACE\"", "rate_mbps = 6");
    let scenario = scenario(&text.replace("duration_s = 3", "duration_s = 1.5"));
    let directory = tempfile::tempdir().unwrap();
    let capture = Capture::new(&scenario, directory.path()).unwrap();
    let outcome = Lab::build(&scenario, 3, None)
        .unwrap()
        .run(capture)
        .unwrap();
    outcome.tap.finish().unwrap();
    let links = &outcome.record.links;
    for (number, cause) in ["red", "random", "down", "overflow"]
        .into_iter()
        .enumerate()
    {
        let name = &scenario.links[number].name;
        let (packets, comments) = read(&directory.path().join(format!("{number}-{name}.pcapng")));
        assert_eq!(packets, links.arrived_packets[number], "{name}");
        let dropped = format!("dropped: {cause}");
        assert!(comments.contains(&dropped), "{name}: {comments:?}");
    }
}

/// The number of packets in a pcapng file, all of which must be TCP over IPv4 with a right
/// checksum, and the comments.
fn read(file: &std::path::Path) -> (u64, Vec<String>) {
    let file = std::fs::read(file).unwrap();
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let (mut packets, mut comments, mut at) = (0, Vec::new(), 0);
    while at < file.len() {
        let length = word(at + 4);
        assert_eq!(word(at + length - 4), length);
        if word(at) == 6 {
            // An enhanced packet block: five words, the packet, and a comment if it was dropped.
            let captured = word(at + 20);
            assert_eq!(captured, word(at + 24));
            let packet = &file[at + 28..][..captured];
            assert_eq!((packet[0], packet[9]), (0x45, 6));
            assert!(has_right_checksum(packet));
            packets += 1;
            let options = at + 28 + captured.next_multiple_of(4);
            if options < at + length - 4 {
                let text = &file[options + 4..][..word(options) >> 16];
                comments.push(String::from_utf8(text.to_vec()).unwrap());
            }
        }
        at += length;
    }
    (packets, comments)
}

/// Whether the words of addresses, protocol, length and TCP add up to 0xffff (RFC 9293).
fn has_right_checksum(packet: &[u8]) -> bool {
    let words = packet[12..].chunks(2);
    let words =
        words.map(|word| u64::from(word[0]) << 8 | word.get(1).map_or(0, |&low| low.into()));
    let sum = words.sum::<u64>() + 6 + (packet.len() - 20) as u64;
    sum.is_multiple_of(0xffff)
}

#[test]
fn a_path_with_a_start_time_opens_then() {
    if !can_create_hosts() {
        return;
    }
    let text = r#"
algorithm = "reno"
measure = { duration_s = 3, sample_ms = 100 }
links.A = { rate_mbps = 8, delay_ms = 5 }
links.B = { rate_mbps = 8, delay_ms = 5 }
flows = [{ name = "two", paths = [["A"], { links = ["B"], start_s = 1.5 }] }]
"#;
    let record = Lab::build(&scenario(text), 1, None)
        .unwrap()
        .run(())
        .unwrap()
        .record;
    let samples = &record.path_samples;
    let sent = |path: u32, from: f64, to: f64| {
        (0..samples.len())
            .filter(|&row| samples.path[row] == path)
            .filter(|&row| (from..to).contains(&samples.time_s[row]))
            .any(|row| samples.goodput_mbps[row] > 1.0)
    };
    assert!(sent(0, 0.0, 1.45));
    assert!(!sent(1, 0.0, 1.55) && sent(1, 1.55, 3.05));
}
