//! What runs on links, ways back and workloads beside bulk data over drop-tail queues.

use anabranch_quic::Simulation;
use anabranch_scenario::{Record, Scenario, Virtual};

fn scenario(text: &str) -> Scenario {
    let text = format!("measure = {{ duration_s = 40, warmup_s = 10 }}\n{text}");
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
