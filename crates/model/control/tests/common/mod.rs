//! Shared by several tests.

use anabranch_control::{Ack, Algorithm, AnyController, AnyRule, Info, Path, RULES};
use proptest::prelude::*;

/// A path of which only window and RTT matter.
pub fn path(window: f64, rtt: f64) -> Path<f64> {
    Path {
        window,
        rtt,
        base_rtt: rtt,
        round_rtt: rtt,
        ..Path::default()
    }
}

/// Any valid path.
pub fn any_path() -> impl Strategy<Value = Path<f64>> {
    let windows = (1.0..1e4, 1.0..1e4, 1.0..1e4, 1.0..1e4);
    let times = (0.001..1.0, 0.0001..0.5, 0.0..30.0, 0.0..1e4);
    let losses = (0u32..100_000, 1u32..100_000, 1.0..1e5);
    (windows, times, losses).prop_map(|(windows, times, losses)| Path {
        window: windows.0,
        peak: windows.1,
        prior_peak: windows.2,
        epoch_window: f64::min(windows.3, windows.0),
        rtt: times.0 + times.1,
        base_rtt: times.0,
        round_rtt: times.0 + times.1,
        queue_delay: times.1,
        age: times.2,
        rounds: times.3,
        since_loss: f64::from(losses.0),
        between_losses: f64::from(losses.1),
        loss_interval: losses.2,
    })
}

/// Any set of one to four paths.
pub fn any_paths() -> impl Strategy<Value = Vec<Path<f64>>> {
    prop::collection::vec(any_path(), 1..=4)
}

/// Every rule of the table with its defaults.
pub fn all_rules() -> impl Iterator<Item = (&'static Info, AnyRule)> {
    RULES.iter().map(|info| (info, rule(info.name)))
}

/// The rule that a specification names.
pub fn rule(spec: &str) -> AnyRule {
    Algorithm::parse(spec).unwrap().rule()
}

/// A controller whose paths are in congestion avoidance with these windows, whole numbers.
pub fn in_avoidance(spec: &str, windows: &[f64]) -> AnyController {
    let mut controller = Algorithm::parse(spec)
        .unwrap()
        .controller(windows.len(), 1.0);
    for (r, &window) in windows.iter().enumerate() {
        controller.set_ssthresh(r, window);
        controller.on_ack(
            r,
            &Ack {
                packets: window as u32 - 1,
                ..ack(0.0, None)
            },
        );
    }
    controller
}

/// An acknowledgement of one packet that ends a round trip.
pub fn ack(now: f64, rtt: impl Into<Option<f64>>) -> Ack {
    Ack {
        now,
        sent_at: now,
        packets: 1,
        rtt: rtt.into(),
        queue_delay: None,
        window_limited: true,
    }
}

/// Whether two numbers agree to rounding.
pub fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-12 * a.abs().max(b.abs())
}
