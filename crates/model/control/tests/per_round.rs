//! Increases computed once per round trip, beside those computed for every packet.

use crate::common::{ack, close, in_avoidance};
use anabranch_control::{Ack, AnyController, Phase};
use proptest::prelude::*;

/// Two controllers in the same state: the increase computed per packet, and per round trip.
fn both(spec: &str, windows: &[f64], rtts: &[f64]) -> [AnyController; 2] {
    [false, true].map(|per_round| {
        let mut controller = in_avoidance(spec, windows);
        controller.set_increase_per_round(per_round);
        for (r, &rtt) in rtts.iter().enumerate() {
            // Not window-limited: the windows keep their values.
            let window_limited = false;
            controller.on_ack(
                r,
                &Ack {
                    window_limited,
                    ..ack(0.0, Some(rtt))
                },
            );
        }
        controller
    })
}

/// One packet of the present round trip.
fn within_round(now: f64) -> Ack {
    Ack {
        sent_at: -1.0,
        ..ack(now, None)
    }
}

#[test]
fn the_increase_is_that_at_the_start_of_the_round_trip() {
    let [_, mut controller] = both("reno", &[10.0], &[0.1]);
    (0..10).for_each(|_| controller.on_ack(0, &within_round(0.1)));
    assert!(close(controller.window(0), 11.0)); // 10 times 1/10
    controller.on_ack(0, &ack(0.2, Some(0.1))); // the next one: 1/11
    assert!(close(controller.window(0), 11.0 + 1.0 / 11.0));
    controller.on_ack(0, &within_round(0.2));
    assert!(close(controller.window(0), 11.0 + 2.0 / 11.0));
}

#[test]
fn a_loss_or_a_timeout_ends_it() {
    let [_, mut controller] = both("reno", &[10.0], &[0.1]);
    controller.on_ack(0, &within_round(0.1));
    controller.on_loss(0);
    controller.on_recovered(0);
    let window = controller.window(0); // 5.05
    controller.on_ack(0, &within_round(0.1));
    assert!(close(controller.window(0), window + 1.0 / window));

    controller.on_timeout(0);
    while controller.phase(0) == Phase::SlowStart {
        controller.on_ack(0, &within_round(0.1));
    }
    let window = controller.window(0);
    controller.on_ack(0, &within_round(0.1));
    assert!(close(controller.window(0), window + 1.0 / window));
}

#[test]
fn an_increase_per_ack_does_not_count_the_packets_that_it_acknowledges() {
    for (per_ack, grown) in [
        (false, 10.0 + 1.0 / 10.0 + 1.0 / 10.1),
        (true, 10.0 + 1.0 / 10.0),
    ] {
        let mut controller = in_avoidance("reno", &[10.0]);
        controller.set_increase_per_ack(per_ack);
        controller.on_ack(
            0,
            &Ack {
                packets: 2,
                ..ack(0.1, None)
            },
        );
        assert!(close(controller.window(0), grown), "{per_ack}");
    }
}

/// An event of a sibling in the meantime.
#[derive(Clone, Copy, Debug)]
enum Event {
    Acks(u32),
    Loss,
    Timeout,
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1u32..50).prop_map(Event::Acks),
        1 => Just(Event::Loss),
        1 => Just(Event::Timeout),
    ]
}

fn apply(controller: &mut AnyController, event: Event) {
    match event {
        Event::Acks(packets) => controller.on_ack(
            1,
            &Ack {
                packets,
                ..ack(0.1, None)
            },
        ),
        Event::Loss => {
            controller.on_loss(1);
            controller.on_recovered(1);
        }
        Event::Timeout => controller.on_timeout(1),
    }
}

/// Bounds of `w_r I_r` over two paths: OLIA adds `-1/2`, 0 or `1/2` to a term from 0 to 1.
const RULES: [(&str, f64, f64); 6] = [
    ("reno", 0.0, 1.0),
    ("coupled", 0.0, 1.0),
    ("semicoupled", 0.0, 1.0),
    ("lia", 0.0, 1.0),
    ("balia", 0.0, 1.0),
    ("olia", -0.5, 1.5),
];

proptest! {
    /// `docs/reference/kernel.md`: in one round trip the path's window w, in packets, gets
    /// w
    /// acknowledgements. Each adds between `low / w` and `high / w`, whichever state the increase
    /// is computed from, so the two windows differ by `high - low` at most; with OLIA w itself may
    /// fall by 1/2 on the way, and the exact increase is larger by as much.
    #[test]
    fn in_a_round_trip_the_windows_differ_by_at_most_the_range_of_the_increase(
        windows in (2u32..1000, 1u32..1000),
        rtts in (0.005..0.5, 0.005..0.5),
        events in prop::collection::vec((0.0..1.0, any_event()), 0..8),
    ) {
        let windows = [f64::from(windows.0), f64::from(windows.1)];
        for (rule, low, high) in RULES {
            let [exact, held] = both(rule, &windows, &[rtts.0, rtts.1]).map(|mut controller| {
                let acks = windows[0] as u32;
                for i in 0..acks {
                    controller.on_ack(0, &within_round(0.1));
                    let share = |part: f64| (part * f64::from(acks)) as u32;
                    for &(part, event) in &events {
                        if share(part) == i {
                            apply(&mut controller, event);
                        }
                    }
                }
                controller.window(0)
            });
            let bound = (high - low) * windows[0] / (windows[0] + low.min(0.0));
            prop_assert!((exact - held).abs() <= bound, "{rule}: {exact} {held}");
        }
    }

    /// `docs/reference/kernel.md`: without losses the relative error of the increase is at
    /// most
    /// `3 (1 + max rtt / min rtt) / w`, w the smallest window: LIA's increase changes at most three
    /// times as much as the windows, and in a round trip of the path another with an RTT shorter by
    /// q grows by
    /// `q + 1` packets at most.
    #[test]
    fn between_losses_the_windows_grow_alike(
        windows in (30u32..300, 30u32..300),
        rtts in (0.01..0.04, 0.01..0.04),
    ) {
        let starts = [f64::from(windows.0), f64::from(windows.1)];
        let rtts = [rtts.0, rtts.1];
        let spread = f64::max(rtts[0], rtts[1]) / f64::min(rtts[0], rtts[1]);
        let off = 3.0 * (1.0 + spread) / f64::min(starts[0], starts[1]);
        for rule in ["lia", "coupled", "semicoupled"] {
            let ends = both(rule, &starts, &rtts).map(|mut controller| {
                let mut next = rtts;
                // Windows are acknowledged evenly over their RTTs, for 1 s.
                while next[0].min(next[1]) < 1.0 {
                    let r = usize::from(next[1] < next[0]);
                    let sent_at = next[r] - rtts[r];
                    controller.on_ack(r, &Ack { sent_at, ..ack(next[r], Some(rtts[r])) });
                    next[r] += rtts[r] / controller.window(r);
                }
                [controller.window(0), controller.window(1)]
            });
            for r in 0..2 {
                let growth = ends[0][r] - starts[r];
                prop_assert!(
                    (ends[1][r] - ends[0][r]).abs() <= off * growth,
                    "{rule}: {starts:?} {ends:?}"
                );
            }
        }
    }
}
