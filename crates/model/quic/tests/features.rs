//! Links, ways back and workloads beside bulk data over drop-tail queues.

use anabranch_quic::Simulation;
use anabranch_scenario::{Record, Scenario, Virtual};

fn scenario(text: &str) -> Scenario {
    let text = format!("measure = {{ duration_s = 25, warmup_s = 5 }}\n{text}");
    Scenario::parse(text.as_bytes(), "a test", &[]).unwrap_or_else(|error| panic!("{error}"))
}

fn quic(text: &str) -> Record {
    let simulation = Simulation::new(&scenario(text), 1);
    simulation.expect("it is supported").finish()
}

fn sim(text: &str) -> Record {
    anabranch_sim::Simulation::new(&scenario(text), 1).finish()
}

/// One flow of Reno over 20 Mbps and a round trip of 40 ms, with this queue.
fn one_flow(queue: &str, tcp: &str) -> String {
    format!(
        "algorithm = 'reno'\n{tcp}\n\
         links.L = {{ rate_mbps = 20, delay_ms = 20, queue.{queue} }}\n\
         flows = [{{ name = 'f', paths = [['L']] }}]\n"
    )
}

/// A product of rate and round trip of 67 packets. In drop-tail of 200 packets Reno's sawtooth
/// swings between 133 and 267 packets, 66 to 200 of which wait: 80 ms in the mean. CoDel begins to
/// drop when the delay has been above its target of 5 ms for 100 ms, in which Reno adds two or
/// three packets, 1.8 ms; one drop halves the window, which empties the queue of a single flow. The
/// mean is therefore below the target and those packets.
#[test]
fn codel_keeps_a_queue_near_its_target_over_quic() {
    let standing = quic(&one_flow("drop_tail.packets = 200", ""));
    assert!(standing.links.queue_ms[0] > 60.0, "{:?}", standing.links);
    for queue in ["codel = {}", "fq_codel = {}"] {
        let record = quic(&one_flow(queue, ""));
        let queue_ms = record.links.queue_ms[0];
        println!("{queue}: {queue_ms} ms, {:?}", record.links);
        assert!((0.1..7.0).contains(&queue_ms), "{queue}: {queue_ms} ms");
        assert!(record.links.dropped_aqm[0] > 0 && record.links.dropped_overflow[0] == 0);
        assert_eq!(record.paths.lost_aqm[0], record.links.dropped_aqm[0]);
        // Reno with its window halved below the product leaves at least 3/4 of the link.
        assert!(record.links.utilization[0] > 0.8, "{:?}", record.links);
    }
}

/// With ECN CoDel marks where it dropped, and RFC 9002 halves the window for each round trip with
/// marks: the queue is as short, and nothing is sent again.
#[test]
fn marks_take_the_place_of_drops_over_quic() {
    for queue in ["codel = {}", "pie = {}", "dualpi2 = {}"] {
        let record = quic(&one_flow(queue, "tcp.ecn = true"));
        let (path, link) = (&record.paths, &record.links);
        println!("{queue}: {path:?} {link:?}");
        assert!(link.marked_packets[0] > 0, "{queue}: {link:?}");
        assert_eq!(link.dropped_aqm[0], 0, "{queue}");
        assert_eq!(path.retransmitted_packets[0], 0, "{queue}");
        // The last marked packets have not arrived at the end of the run: a queue and a delay.
        let on_the_way = link.marked_packets[0] - path.marked_packets[0];
        assert!(on_the_way < 100, "{queue}: {on_the_way}");
        let events = path.mark_events[0];
        assert!(
            (1..=path.marked_packets[0]).contains(&events),
            "{queue}: {events}"
        );
        // One reduction per round trip, of at least 40 ms in 20 s.
        assert!(events <= 20 * 25, "{queue}: {events}");
        assert_eq!(path.loss_events[0], 0, "{queue}");
        assert!(link.queue_ms[0] < 25.0, "{queue}: {}", link.queue_ms[0]);
        assert!(
            link.utilization[0] > 0.8,
            "{queue}: {}",
            link.utilization[0]
        );
    }
}

/// Without ECN no packet is ECN-capable, and none is marked.
#[test]
fn without_ecn_nothing_is_marked_over_quic() {
    let record = quic(&one_flow("codel = {}", ""));
    assert_eq!(record.links.marked_packets[0], 0);
    assert_eq!(record.paths.mark_events[0], 0);
}

/// A step at 20 packets, where the product is 67. DCTCP takes alpha/2 of the window, and fills the
/// link above a step of a seventh of the product (Alizadeh et al., SIGCOMM 2010, equation 13), 10
/// packets; the queue stands at the step. Reno's window falls from 87 to 44 packets at each mark,
/// two thirds of the product, and needs 23 round trips to fill the link. With ABE (RFC 8511) it
/// falls to 70, which fill it.
#[test]
fn a_scalable_rule_reduces_by_the_share_of_marks_over_quic() {
    let step = "red = { min_packets = 19, mid_packets = 20, mid_probability = 1, max_packets = 400, limit_packets = 500 }";
    let with = |rule: &str| {
        let text = one_flow(step, "tcp.ecn = 'accurate'").replace("'reno'", rule);
        let record = quic(&text);
        println!("{rule}: {:?} {:?}", record.links, record.paths);
        (record.links.utilization[0], record.links.queue_packets[0])
    };
    let ((scalable, queue), (reno, _)) = (with("'dctcp'"), with("'reno'"));
    let (abe, _) = with("'reno:beta_ecn=0.8'");
    assert!(
        scalable > 0.97 && (10.0..25.0).contains(&queue),
        "{scalable} {queue}"
    );
    assert!(reno < 0.95, "{reno}");
    assert!(abe > 0.98, "{abe}");
}

/// DualPI2 couples the marks of both queues so that a scalable and a classic flow have rates of the
/// same order: 23.5 and 15 Mbps in the simulator's file (`crates/model/sim/tests/aqm/scalable.rs`),
/// 0.61 for the scalable one. Its packets wait below a step of 1 ms, those of the other for the
/// target of 15 ms.
#[test]
fn scalable_packets_have_a_queue_of_low_delay_over_quic() {
    let record = quic(
        "algorithm = 'reno'
         tcp.ecn = 'accurate'
         links.L = { rate_mbps = 40, delay_ms = 10, queue.dualpi2 = {} }
         [[flows]]
         name = 'scalable'
         algorithm = 'dctcp'
         paths = [['L']]
         [[flows]]
         name = 'classic'
         paths = [['L']]",
    );
    let (goodput, delay) = (&record.flows.goodput_mbps, &record.paths.one_way_delay_ms);
    println!("{goodput:?} {delay:?}");
    let share = goodput[0] / (goodput[0] + goodput[1]);
    assert!((0.5..0.75).contains(&share), "{share}");
    assert!(delay[0] < 10.0 + 0.3 + 1.0, "{}", delay[0]);
    assert!(
        (10.0 + 5.0..10.0 + 25.0).contains(&delay[1]),
        "{}",
        delay[1]
    );
}

/// An upload fills its direction of the cable, whose queue of 75 kB takes up to 120 ms. The
/// acknowledgements of the download wait there: its round trip contains that queue.
#[test]
fn acknowledgements_wait_on_the_links_of_the_way_back_over_quic() {
    let text = |back: &str| {
        format!(
            "algorithm = 'reno'
             links.down = {{ rate_mbps = 20, delay_ms = 10, queue.codel = {{}} }}
             links.up = {{ rate_mbps = 5, delay_ms = 10, queue.drop_tail.bytes = 75e3 }}
             [[flows]]
             name = 'download'
             paths = [{{ links = ['down']{back} }}]
             [[flows]]
             name = 'upload'
             paths = [['up']]"
        )
    };
    let (over, without) = (quic(&text(", back = ['up']")), quic(&text("")));
    let (rtt, waits) = (over.paths.rtt_ms[0], over.links.queue_ms[1]);
    println!("{rtt} {waits} {} {:?}", without.paths.rtt_ms[0], over.links);
    assert!(waits > 40.0, "{waits}");
    // The mean over acknowledgements is not that over the packets of the queue, but of the same
    // queue; 20 ms are the delays of both links.
    assert!(rtt > 20.0 + 0.7 * waits, "{rtt} {waits}");
    assert!(
        without.paths.rtt_ms[0] < 20.0 + 10.0,
        "{}",
        without.paths.rtt_ms[0]
    );
}

/// 2 MB in datagrams of 1500 bytes are 1400 acknowledgements of 60 to 80 bytes. At 10 Mbps they
/// come at 430 kbit/s, and the way back takes 200: every second one is lost. Each has all ranges
/// that the sender does not know yet, so that nothing is sent again because of it.
#[test]
fn a_file_arrives_although_acknowledgements_are_lost_over_quic() {
    let text = |back: &str| {
        format!(
            "algorithm = 'reno'
             tcp.initial_ssthresh_packets = 30
             links.down = {{ rate_mbps = 10, delay_ms = 10 }}
             links.up = {{ rate_mbps = 0.2, delay_ms = 10, queue.drop_tail.packets = 5 }}
             [[flows]]
             name = 'file'
             paths = [{{ links = ['down']{back} }}]
             start_s = 5
             workload.file.bytes = 2e6"
        )
    };
    let (over, without) = (quic(&text(", back = ['up']")), quic(&text("")));
    println!(
        "{:?} {:?} {:?}",
        over.transfers, without.transfers, over.links
    );
    assert_eq!(over.transfers.bytes, [2_000_000]);
    assert!(over.links.dropped_overflow[1] > 100, "{:?}", over.links);
    assert_eq!(over.paths.lost_overflow[0], 0, "of data only");
    assert_eq!(over.paths.retransmitted_packets[0], 0);
    let longer = over.transfers.duration_s[0] / without.transfers.duration_s[0];
    assert!(longer < 1.2, "{longer}");
}

/// A message of 200 bytes alone: 20 Mbps, 10 ms. QUIC's headers are those of IP and UDP, 28 bytes,
/// 1 + 8 to 20 of the packet and its connection id, 1 to 4 of its number, 2 to 12 of the stream's
/// frame, 16 of the tag, and perhaps frames beside it: 56 to 100 bytes, 0.02 to 0.04 ms. The first
/// messages wait for the handshake, two round trips.
#[test]
fn a_message_alone_takes_transmission_and_travel_over_quic() {
    let text = "algorithm = 'reno'
         links.L = { rate_mbps = 20, delay_ms = 10 }
         [[flows]]
         name = 'speech'
         paths = [['L']]
         start_spread_s = 0
         stop_s = 20
         workload.messages = { size_bytes = 200, interval_ms = 100 }";
    let (quic, sim) = (quic(text), sim(text));
    assert_eq!(quic.transfers.bytes, [200; 200]);
    assert_eq!(quic.transfers.start_s, sim.transfers.start_s);
    let latest = |from: usize| {
        quic.transfers.duration_s[from..]
            .iter()
            .copied()
            .fold(0.0, f64::max)
    };
    println!(
        "{} {} {}",
        latest(0),
        latest(10),
        sim.transfers.duration_s[10]
    );
    assert!((0.030..0.065).contains(&latest(0)), "{}", latest(0));
    assert!(
        (latest(10) - sim.transfers.duration_s[10]).abs() < 20e-6,
        "{}",
        latest(10)
    );
    assert_eq!(quic.flows.transfers_done, sim.flows.transfers_done);
}

/// Speech beside a download through a queue of 50 ms at most: a message waits for the queue, not
/// for much more, on both backends.
#[test]
fn messages_wait_behind_a_download_as_in_the_simulator() {
    let text = "algorithm = 'reno'
         links.L = { rate_mbps = 6, delay_ms = 15, queue.drop_tail.packets = 25 }
         [[flows]]
         name = 'download'
         paths = [['L']]
         [[flows]]
         name = 'speech'
         paths = [['L']]
         workload.messages = { size_bytes = 160, interval_ms = 20 }";
    let median = |record: Record| {
        let mut late = record.transfers.duration_s;
        late.sort_by(f64::total_cmp);
        late[late.len() / 2]
    };
    let (quic, sim) = (median(quic(text)), median(sim(text)));
    println!("{quic} {sim}");
    // Travel, and up to 25 packets of 2 ms.
    assert!((0.015..0.067).contains(&quic), "{quic}");
    assert!((quic / sim - 1.0).abs() < 0.3, "{quic} {sim}");
}

/// Media are datagrams of their own, in no connection: alone they do to the bit what they do in the
/// simulator.
#[test]
fn media_alone_are_those_of_the_simulator() {
    for media in ["rate_mbps = 2", "nada = {}"] {
        let text = format!(
            "algorithm = 'reno'
             links.L = {{ rate_mbps = 1.2, delay_ms = 10, queue.drop_tail.packets = 30 }}
             flows = [{{ name = 'call', paths = [['L']], workload.media = {{ {media} }} }}]"
        );
        let (quic, sim) = (quic(&text), sim(&text));
        assert_eq!(quic.media, sim.media, "{media}");
        assert_eq!(quic.links, sim.links, "{media}");
        assert_eq!(quic.paths.lost_overflow, sim.paths.lost_overflow, "{media}");
        assert_eq!(
            quic.flows.delivered_bytes, sim.flows.delivered_bytes,
            "{media}"
        );
    }
}

/// A download of QUIC fills drop-tail of 100 packets, 240 ms at 5 Mbps, in which media freeze that
/// count as late after 100 ms; with FQ-CoDel they wait for a packet or two of the download.
#[test]
fn fq_codel_keeps_media_from_a_download_over_quic() {
    let freezes = |queue: &str| {
        let record = quic(&format!(
            "algorithm = 'reno'
             links.L = {{ rate_mbps = 5, delay_ms = 15, queue.{queue} }}
             [[flows]]
             name = 'download'
             paths = [['L']]
             [[flows]]
             name = 'call'
             paths = [['L']]
             workload.media = {{ rate_mbps = 1, late_ms = 100 }}"
        ));
        record.media.freezes[0] as f64 / record.media.frames[0] as f64
    };
    let (drop_tail, fq_codel) = (freezes("drop_tail.packets = 100"), freezes("fq_codel = {}"));
    println!("{drop_tail} {fq_codel}");
    assert!(drop_tail > 0.5 && fq_codel < 0.02, "{drop_tail} {fq_codel}");
}

/// A receiver that gives credit for 200 packets of 1500 bytes, the data of 209 datagrams, holds a
/// sender on a path of 830. A window grows in slow start while half of it is in flight, as in
/// Linux, so up to 2 (209 + 2) = 422 packets. A window that grew with every acknowledgement would
/// pass 830 within five round trips.
#[test]
fn a_window_does_not_grow_beyond_what_the_receiver_gives() {
    for rule in ["reno", "cubic", "lia"] {
        let record = quic(&format!(
            "algorithm = '{rule}'
             tcp.receive_buffer_packets = 200
             links.L = {{ rate_mbps = 100, delay_ms = 50 }}
             flows = [{{ name = 'f', paths = [['L']] }}]"
        ));
        let windows = &record.path_samples.window_packets;
        let largest = windows.iter().copied().fold(0.0, f64::max);
        println!("{rule}: {largest}, {:?}", record.flows.goodput_mbps);
        assert!((180.0..423.0).contains(&largest), "{rule}: {largest}");
    }
}
