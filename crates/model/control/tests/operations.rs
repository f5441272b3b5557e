//! Invariants of a controller under random operations.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::common::{ack, all_rules, close, in_avoidance};
use anabranch_control::{
    Ack, AnyController, AnyRule, Custom, External, Info, MAX_WINDOW, Path, Phase,
};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Operation {
    Ack {
        after: f64,
        flight: f64,
        packets: u32,
        rtt: Option<f64>,
        queue_delay: Option<f64>,
        limited: bool,
    },
    Loss,
    MarkedShare {
        share: f64,
    },
    Recovered,
    Timeout,
    KeptLoss,
    Spurious,
    Idle {
        after: f64,
    },
    SetSsthresh {
        packets: f64,
    },
}

fn any_operation() -> impl Strategy<Value = Operation> {
    let rtt = prop_oneof![
        8 => (1e-6..10.0).prop_map(Some),
        1 => prop::sample::select(vec![0.0, -1.0, 1e-300, 1e300, f64::NAN, f64::INFINITY])
            .prop_map(Some),
        1 => Just(None),
    ];
    let queue_delay = prop_oneof![Just(None), (0.0..1.0).prop_map(Some)];
    prop_oneof![
        12 => (0.0..0.5, 0.0..1.0, 0u32..64, rtt, queue_delay, any::<bool>()).prop_map(
            |(after, flight, packets, rtt, queue_delay, limited)| {
                Operation::Ack { after, flight, packets, rtt, queue_delay, limited }
            }
        ),
        2 => Just(Operation::Loss),
        1 => (0.0..=1.0).prop_map(|share| Operation::MarkedShare { share }),
        1 => Just(Operation::KeptLoss),
        2 => Just(Operation::Recovered),
        1 => Just(Operation::Timeout),
        1 => Just(Operation::Spurious),
        1 => (0.0..100.0).prop_map(|after| Operation::Idle { after }),
        1 => (0.0..1e3).prop_map(|packets| Operation::SetSsthresh { packets }),
    ]
}

fn apply(controller: &mut AnyController, now: &mut f64, r: usize, operation: &Operation) {
    match *operation {
        Operation::Ack {
            after,
            flight,
            packets,
            rtt,
            queue_delay,
            limited: window_limited,
        } => {
            *now += after;
            let sent_at = *now - flight;
            let ack = Ack {
                now: *now,
                sent_at,
                packets,
                rtt,
                queue_delay,
                window_limited,
            };
            controller.on_ack(r, &ack);
        }
        Operation::Loss => controller.on_loss(r),
        Operation::MarkedShare { share } => controller.on_marked_share(r, share),
        Operation::Recovered => controller.on_recovered(r),
        Operation::Timeout => controller.on_timeout(r),
        Operation::KeptLoss => {
            controller.keep_for_undo(r);
            controller.on_loss(r);
        }
        Operation::Spurious => controller.on_spurious(r),
        Operation::Idle { after } => {
            *now += after;
            controller.on_idle(r, *now);
        }
        Operation::SetSsthresh { packets } => controller.set_ssthresh(r, packets),
    }
}

/// Runs the list and checks the invariants after each step.
fn keeps_its_invariants(
    name: &str,
    mut controller: AnyController,
    operations: &[(usize, Operation)],
) {
    let (mut now, paths) = (0.0, controller.paths().len());
    // Timeouts in a row: a path has the floor of a connection with one path while all others are
    // silent.
    let mut timeouts = vec![0; paths];
    let is_alone = |timeouts: &[u32], r| (0..paths).all(|k| k == r || timeouts[k] > 1);
    for (r, operation) in operations {
        let r = r % paths;
        let before = controller.clone();
        apply(&mut controller, &mut now, r, operation);
        match operation {
            Operation::Timeout => timeouts[r] += 1,
            Operation::Ack { packets: 1.., .. } => timeouts[r] = 0,
            _ => {}
        }
        let least = if paths == 1 { 2.0 } else { 1.0 };
        let floor = if is_alone(&timeouts, r) { 2.0 } else { 1.0 };

        for k in 0..paths {
            let window = controller.window(k);
            assert!(
                (1.0..=MAX_WINDOW).contains(&window),
                "{name}: {operation:?}: window {window}"
            );
            let ssthresh = controller.ssthresh(k);
            assert!(
                ssthresh >= least,
                "{name}: {operation:?}: ssthresh {ssthresh}"
            );
            assert!(controller.path(k).rtt > 0.0, "{name}: {operation:?}");
            assert!(
                k == r || window == before.window(k),
                "{name}: {operation:?} moved another path"
            );
        }
        let (window, earlier) = (controller.window(r), before.window(r));
        match operation {
            Operation::Ack {
                limited, packets, ..
            } => {
                let still = before.phase(r) == Phase::Recovery;
                assert!(!still || window == earlier, "{name}: moved in recovery");
                assert!(
                    *limited || window <= earlier,
                    "{name}: grew without being window-limited"
                );
                let slow = controller.phase(r) == Phase::SlowStart;
                let most = (earlier + f64::from(*packets)) * (1.0 + 1e-12);
                assert!(
                    !slow || window <= most,
                    "{name}: {operation:?} in slow start: {window}"
                );
            }
            Operation::Loss | Operation::KeptLoss => {
                assert!(
                    before.phase(r) == Phase::Recovery
                        || controller.is_by_rate() // it has no ssthresh
                        || controller.ssthresh(r) <= earlier.max(floor),
                    "{name}: a loss raised ssthresh above {earlier}"
                );
                assert!(window <= earlier, "{name}: a loss raised the window");
            }
            // Back to the window before the timeout or loss.
            Operation::Spurious => {}
            // A rule by delivery rates restores its window (Bbr3, section 5.6.4.4 of its draft).
            Operation::Recovered if controller.is_by_rate() => {}
            _ => assert!(window <= earlier, "{name}: {operation:?} grew the window"),
        }
    }
}

/// Returns NaN, infinities and other numbers that make no sense, in turn.
#[derive(Default)]
struct Absurd(AtomicUsize);

impl External for Absurd {
    fn increase(&self, _r: usize, _paths: &[Path<f64>]) -> f64 {
        let results = [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            1e300,
            -1e300,
            -0.0,
        ];
        results[self.0.fetch_add(1, Ordering::Relaxed) % results.len()]
    }

    fn decrease(&self, r: usize, paths: &[Path<f64>]) -> f64 {
        self.increase(r, paths)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    #[test]
    fn every_rule_keeps_the_window_within_bounds(
        paths in 1usize..4, operations in prop::collection::vec((0usize..4, any_operation()), 1..200),
    ) {
        for (info, rule) in all_rules() {
            keeps_its_invariants(info.name, rule.controller(paths, 10.0), &operations);
        }
    }

    #[test]
    fn a_rule_that_returns_no_sensible_number_keeps_the_window_within_bounds(
        paths in 1usize..4, operations in prop::collection::vec((0usize..4, any_operation()), 1..200),
    ) {
        let absurd = AnyRule::Custom(Custom(Arc::new(Absurd::default())));
        keeps_its_invariants("absurd", absurd.controller(paths, 10.0), &operations);
    }

    /// Expects the increase of the path itself, by the state the acknowledgement leaves, for any
    /// number of paths.
    #[test]
    fn a_packet_moves_the_window_by_the_increase(
        windows in prop::collection::vec(10u32..1000, 1..5), r in 0usize..4,
    ) {
        let (n, r) = (windows.len(), r % windows.len());
        let windows: Vec<f64> = windows.into_iter().map(f64::from).collect();
        let by_increase = |info: &Info| !info.delay_based && !info.by_rate;
        for (info, rule) in all_rules().filter(|(info, _)| by_increase(info)) {
            let mut controller = in_avoidance(info.name, &windows);
            (0..n).for_each(|k| {
                controller.on_ack(k, &Ack { packets: 0, ..ack(1.0, 0.05 * (k + 1) as f64) });
            });
            controller.on_ack(r, &Ack { window_limited: false, ..ack(2.0, None) });
            // One packet more since the loss and in the stage, and no more time.
            let mut paths = controller.paths().to_vec();
            paths[r].since_loss += 1.0;
            paths[r].rounds += 1.0 / windows[r];
            let increase = rule.increase(r, &paths);
            controller.on_ack(r, &Ack { packets: 1, ..ack(2.0, None) });
            prop_assert!(close(controller.window(r), windows[r] + increase), "{}", info.name);
        }
    }

    /// Whether they come in one acknowledgement or in as many as packets. The 2000 packets before
    /// the first loss keep OLIA's measure of a good path from changing in between.
    #[test]
    fn growth_counts_packets_not_acknowledgements(
        ssthresh in 2.0..100.0, losses in 0usize..3, packets in 1u32..60,
    ) {
        for (info, rule) in all_rules() {
            let mut one = rule.controller(2, 10.0);
            for r in 0..2 {
                one.on_ack(r, &Ack { packets: 2000, ..ack(0.0, 0.1 * (r + 1) as f64) });
                one.on_loss(r);
                one.on_recovered(r);
            }
            for _ in 0..losses {
                one.on_timeout(0);
                one.on_ack(0, &ack(0.5, None));
            }
            one.set_ssthresh(0, ssthresh);
            let mut many = one.clone();
            one.on_ack(0, &Ack { packets, ..ack(1.0, None) });
            (0..packets).for_each(|_| many.on_ack(0, &ack(1.0, None)));
            prop_assert!(close(one.window(0), many.window(0)), "{}", info.name);
            prop_assert_eq!(one.phase(0), many.phase(0));
        }
    }
}

/// The window does not change.
#[test]
fn a_result_that_is_nan_changes_nothing() {
    struct Silent;
    impl External for Silent {
        fn increase(&self, _r: usize, _paths: &[Path<f64>]) -> f64 {
            f64::NAN
        }
        fn decrease(&self, _r: usize, _paths: &[Path<f64>]) -> f64 {
            f64::NAN
        }
    }
    let mut controller = AnyRule::Custom(Custom(Arc::new(Silent))).controller(1, 10.0);
    controller.set_ssthresh(0, 10.0);
    controller.on_ack(0, &ack(1.0, 0.1));
    controller.on_loss(0);
    assert_eq!(controller.window(0), 10.0);
}
