//! Schedulers of Multipath TCP against what they promise, on links for which it is derived by hand.

use anabranch_scenario::Record;

use crate::common::{PAYLOAD, run};

mod programs;

/// A Reno user with a path over each of these links, so that no path's window depends on another's.
fn user(links: &[&str], scheduler: &str, workload: &str, more: &str) -> Record {
    let tables = (0..)
        .zip(links)
        .map(|(i, link)| format!("links.L{i} = {{ {link} }}\n"));
    let paths: Vec<String> = (0..links.len()).map(|i| format!("[\"L{i}\"]")).collect();
    let text = format!(
        "algorithm = \"reno\"\ntcp.scheduler = \"{scheduler}\"\n{more}\n{}\
         [[flows]]\nname = \"user\"\npaths = [{}]\nworkload = {workload}\n",
        tables.collect::<String>(),
        paths.join(", "),
    );
    run(&text, 1)
}

/// 33 packets in 10 ms, and a queue of 20, so that the window ends at 53.
const QUICK: &str = "rate_mbps = 40, delay_ms = 5, queue.drop_tail = { packets = 20 }";
/// 100 packets in 300 ms.
const SLOW: &str = "rate_mbps = 4, delay_ms = 150";

/// The goodput of both paths by scheduler, relative to the quick path alone. Both links together
/// hold 44 Mbps times 300 ms, 1100 packets: the receive buffer, of 100, is a tenth of that.
fn beside_the_quick_path(scheduler: &str) -> f64 {
    let more = "measure = { duration_s = 60, warmup_s = 20 }\ntcp.receive_buffer_packets = 100";
    let goodput = |links: &[&str]| user(links, scheduler, "\"bulk\"", more).flows.goodput_mbps[0];
    let (alone, both) = (goodput(&[QUICK]), goodput(&[QUICK, SLOW]));
    println!("{scheduler}: {both:.2} Mbps, the quick path alone {alone:.2}");
    both / alone
}

/// Min-RTT fills the rest of the buffer over the slow path, and the quick one waits for that. The
/// window of 53 would send 53 + 54 + ... more than 1000 packets in 300 ms, so BLEST and ECF never
/// let the slow path send: they, and Redundant, have what the quick path has alone.
#[test]
fn a_small_receive_buffer_blocks_the_quick_path_with_min_rtt_alone() {
    assert!(beside_the_quick_path("min-rtt") < 0.5);
    for scheduler in ["blest", "ecf", "redundant"] {
        let share = beside_the_quick_path(scheduler);
        assert!(share >= 0.999, "{scheduler}: {share}");
    }
}

/// 12 Mbps, so that a packet takes 1 ms; 10 ms and 100 ms one way.
const NEAR: &str = "rate_mbps = 12, delay_ms = 10";
const FAR: &str = "rate_mbps = 12, delay_ms = 100";

/// Duration of a file of `packets`, ms, and the record. Windows begin at 30 and grow by one per
/// round trip: more than the near link's 21 packets, so that it is never idle.
fn file(links: &[&str], scheduler: &str, packets: u64, more: &str) -> (f64, Record) {
    let workload = format!("{{ file = {{ bytes = {} }} }}", packets * PAYLOAD);
    let more = format!(
        "measure.duration_s = 50\ntcp.initial_window_packets = 30\n\
         tcp.initial_ssthresh_packets = 30\n{more}"
    );
    let record = user(links, scheduler, &workload, &more);
    assert_eq!(record.transfers.len(), 1, "{scheduler}");
    assert_eq!(record.flows.delivered_bytes, [packets * PAYLOAD]);
    let duration_ms = 1e3 * record.transfers.duration_s[0];
    println!(
        "{scheduler}: {duration_ms} ms, {:?} packets",
        record.paths.sent_packets
    );
    (duration_ms, record)
}

/// The far path joins at 20 + 2 * 200 = 420 ms and sends a window of 30, whose acknowledgements
/// come from 621 ms on. By then the near path has sent 600 packets and a window of 47, so that less
/// than 60 of 730 are left. They take less than 110 ms over the near path, and over the far one at
/// least 201: it gets no more. The near path delivers 700 packets by 10 + 700 ms. A packet that
/// min-RTT sends over the far path at 621 ms or later arrives at 722 ms or later.
#[test]
fn ecf_waits_for_the_fast_path_with_the_end_of_a_file() {
    let (duration_ms, record) = file(&[NEAR, FAR], "ecf", 730, "");
    assert_eq!(record.paths.sent_packets, [700, 30]);
    assert!((duration_ms - 710.0).abs() < 1e-6, "{duration_ms} ms");
    let (duration_ms, _) = file(&[NEAR, FAR], "min-rtt", 730, "");
    assert!(duration_ms >= 722.0, "{duration_ms} ms");
}

const AT_ONCE: &str = "tcp.join_handshake = false";

/// The near path delivers 500 packets by 510 ms. The far one sends copies: 30, and then one for
/// each of its acknowledgements, which come from 201 ms on, as far as the data has not arrived.
#[test]
fn redundant_takes_as_long_as_the_best_path_and_uses_both() {
    let (duration_ms, record) = file(&[NEAR, FAR], "redundant", 500, AT_ONCE);
    assert!((duration_ms - 510.0).abs() < 1e-6, "{duration_ms} ms");
    assert_eq!(record.paths.sent_packets[0], 500);
    assert!(record.paths.sent_packets[1] > 60);
    assert_eq!(
        record.flows.retransmitted_packets[0],
        record.paths.sent_packets[1]
    );
}

/// One of two equal paths goes down for good at 0.1 s: the other has all data in flight, too, and
/// no timer is waited for. A second path that is down between 0.2 and 0.3 s changes nothing either,
/// where the first is the best path all the time.
#[test]
fn redundant_survives_the_loss_of_a_path() {
    let dead = format!("{NEAR}, down = [{{ from_s = 0.1, to_s = 100 }}]");
    let paused = format!("{FAR}, down = [{{ from_s = 0.2, to_s = 0.3 }}]");
    for links in [[dead.as_str(), NEAR], [NEAR, &dead], [NEAR, &paused]] {
        let (duration_ms, _) = file(&links, "redundant", 500, AT_ONCE);
        assert!((duration_ms - 510.0).abs() < 1e-6, "{duration_ms} ms");
    }
    let (duration_ms, _) = file(&[&dead, NEAR], "min-rtt", 500, AT_ONCE);
    assert!(
        duration_ms > 1000.0,
        "{duration_ms} ms: min-RTT waits for the timer"
    );
}
