//! HyStart++ in the simulator: slow start ends before the queue overflows.

use crate::common::run;

/// 50 Mbps and 100 ms hold 417 packets, the queue 5000. Standard slow start doubles the window from
/// 5120 packets, and loses more than a thousand. HyStart++ compares the smallest RTTs of two
/// rounds, those of their first packets: the round from 1280 packets on is the first whose packets
/// were sent to a queue. Five rounds of a quarter leave 1280 x 1.25^5 = 3910, which fit.
#[test]
fn hystart_leaves_slow_start_before_the_queue_overflows() {
    let lost = |slow_start: &str, rule: &str| {
        let text = format!(
            "algorithm = '{rule}'\nmeasure.duration_s = 12\ntcp.slow_start = '{slow_start}'\n\
             links.L = {{ rate_mbps = 50, delay_ms = 50, queue.drop_tail.packets = 5000 }}\n\
             flows = [{{ name = 'user', paths = [['L']] }}]\n"
        );
        let record = run(&text, 1);
        assert!(record.links.utilization[0] > 0.6, "{slow_start}");
        record.flows.lost_packets[0]
    };
    for rule in ["reno", "cubic"] {
        let (standard, hystart) = (lost("standard", rule), lost("hystart++", rule));
        println!("{rule}: {standard} and {hystart} packets");
        assert!(standard > 1000, "{rule}");
        assert_eq!(hystart, 0, "{rule}");
    }
}
