//! HyStart++ against RFC 9406, round by round.

use anabranch_control::{Ack, AnyController, Phase};

use crate::common::rule;

/// A path in its first slow start, with a window of 10 packets.
struct First {
    controller: AnyController,
    now: f64,
}

impl First {
    fn new(name: &str) -> First {
        let mut controller = rule(name).controller(1, 10.0);
        controller.set_hystart(true);
        First {
            controller,
            now: 0.0,
        }
    }

    /// A round trip of `acks` acknowledgements of `packets` each, all with this RTT, s. The first
    /// is of a packet sent when the round before ended.
    fn round(&mut self, acks: u32, packets: u32, rtt: f64) -> f64 {
        let sent_at = self.now;
        self.now += rtt;
        for number in 0..acks {
            self.controller.on_ack(
                0,
                &Ack {
                    now: self.now,
                    sent_at: if number == 0 {
                        sent_at
                    } else {
                        sent_at - rtt / 2.0
                    },
                    packets,
                    rtt: Some(rtt),
                    queue_delay: None,
                    window_limited: true,
                },
            );
        }
        self.controller.window(0)
    }

    fn phase(&self) -> Phase {
        self.controller.phase(0)
    }
}

/// Windows after rounds of 8 packets at 100 ms: 18, 26. A rise of 12 ms is less than 100/8 = 12.5
/// ms and does nothing: 34. At 126.1 ms, more than 112/8 = 14 ms above the round before, the eighth
/// sample begins CSS; its packets have opened the window already: 42. From then on 8 packets are 2:
/// after four more rounds the window is 50, and the ACK that ends the fifth, with the one that
/// began it, adds a quarter and leaves.
#[test]
fn conservative_slow_start_follows_a_rise_and_lasts_five_rounds() {
    let mut path = First::new("reno");
    assert_eq!([path.round(8, 1, 0.1), path.round(8, 1, 0.1)], [18.0, 26.0]);
    assert_eq!(path.round(8, 1, 0.112), 34.0);
    assert_eq!(path.round(8, 1, 0.1261), 42.0);
    let windows: Vec<f64> = (0..4).map(|_| path.round(8, 1, 0.1261)).collect();
    assert_eq!(windows, [44.0, 46.0, 48.0, 50.0]);
    assert_eq!(path.phase(), Phase::SlowStart);
    path.round(1, 1, 0.1261);
    assert_eq!(path.phase(), Phase::Avoidance);
    assert_eq!(path.controller.window(0), 50.25);
    assert_eq!(path.controller.ssthresh(0), 50.25);
}

/// The rise that counts is an eighth of the RTT, but at least 4 ms and at most 16 ms.
#[test]
fn the_threshold_is_an_eighth_of_the_rtt_within_bounds() {
    let enters = |rtt: f64, rise: f64| {
        let mut path = First::new("cubic");
        path.round(8, 1, rtt);
        path.round(8, 1, rtt + rise);
        let before = path.controller.window(0);
        path.round(8, 1, rtt + rise) - before == 2.0
    };
    for (rtt, rise) in [(0.01, 0.004), (0.08, 0.01), (0.4, 0.016)] {
        assert!(!enters(rtt, rise - 1e-6), "{rtt}");
        assert!(enters(rtt, rise + 1e-6), "{rtt}");
    }
}

#[test]
fn seven_samples_do_not_suffice() {
    let mut path = First::new("reno");
    path.round(8, 1, 0.1);
    path.round(7, 1, 0.2);
    assert_eq!(path.round(8, 1, 0.2), 33.0);
}

/// A round whose smallest RTT is below that at which CSS began: the exit was spurious, and slow
/// start goes on from its eighth sample.
#[test]
fn a_fall_of_the_rtt_resumes_slow_start() {
    let mut path = First::new("reno");
    path.round(8, 1, 0.1);
    path.round(8, 1, 0.13);
    assert_eq!(path.round(8, 1, 0.1), 28.0);
    assert_eq!(path.round(8, 1, 0.1), 36.0);
}

/// L = 8: an ACK of 20 packets opens the window by 8.
#[test]
fn an_acknowledgement_counts_for_at_most_eight_packets() {
    assert_eq!(First::new("reno").round(1, 20, 0.1), 18.0);
}

/// Section 4.3: after a loss or a timeout slow start is the standard one; and so it is with an
/// ssthresh, and without the option.
#[test]
fn only_the_first_slow_start_is_changed() {
    let mut path = First::new("reno");
    path.round(20, 1, 0.1);
    path.controller.on_timeout(0);
    path.now += 1.0;
    path.round(2, 1, 0.1);
    assert_eq!(path.round(8, 1, 0.3), 11.0);
    assert_eq!(path.round(1, 4, 0.5), 15.0, "ssthresh");

    let mut path = First::new("reno");
    path.controller.set_ssthresh(0, 100.0);
    assert_eq!(path.round(1, 20, 0.1), 30.0);
    let mut path = First::new("reno");
    path.controller.set_hystart(false);
    path.controller.reset_path(0);
    assert_eq!(path.round(1, 20, 0.1), 30.0);
}

/// Vegas grows in every other round trip by its own rule.
#[test]
fn a_rule_with_its_own_slow_start_keeps_it() {
    let windows = |on: bool| {
        let mut path = First::new("vegas");
        path.controller.set_hystart(on);
        [0.1, 0.1, 0.1, 0.1].map(|rtt| path.round(8, 1, rtt))
    };
    assert_eq!(windows(true), windows(false));
}
