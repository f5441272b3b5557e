//! Coupled CUBIC: CUBIC over one path, one CUBIC in total over several.

use crate::common::{any_path, path, rule};
use anabranch_control::Path;
use proptest::prelude::*;

fn increase(r: usize, paths: &[Path<f64>]) -> f64 {
    rule("coupled-cubic").increase(r, paths)
}

fn agrees(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs()
}

proptest! {
    /// The ratios of the path to itself are exactly 1.
    #[test]
    fn over_one_path_it_is_cubic(path in any_path(), c in 0.001..100.0) {
        let [coupled, cubic] = ["coupled-cubic", "cubic"].map(|of| rule(&format!("{of}:c={c}")));
        prop_assert_eq!(coupled.increase(0, &[path]), cubic.increase(0, &[path]));
        prop_assert_eq!(coupled.decrease(0, &[path]), cubic.decrease(0, &[path]));
    }

    /// RFC 6356's third goal is that no path has more than a connection of its own would. A smaller
    /// C and slope never make CUBIC's target larger: `C (t - K)^3` is the cube of `C^(1/3) t -
    /// (W_max - epoch_window)^(1/3)`, and `W_est` increases with its slope.
    #[test]
    fn no_path_grows_faster_than_cubic(paths in prop::collection::vec(any_path(), 1..=4)) {
        let cubic = rule("cubic").increase(0, &paths);
        prop_assert!(increase(0, &paths) <= cubic * (1.0 + 1e-9));
    }
}

/// The windows of one CUBIC at this age, with shares of it on paths with its RTT of 0.1 s.
fn one_cubic(age: f64) -> Path<f64> {
    Path {
        epoch_window: 700.0,
        peak: 1000.0,
        age,
        rounds: age / 0.1,
        ..path(700.0, 0.1)
    }
}

fn shares_of(whole: Path<f64>, shares: &[f64]) -> Vec<Path<f64>> {
    let one = |&share: &f64| Path {
        window: share * whole.window,
        epoch_window: share * whole.epoch_window,
        peak: share * whole.peak,
        ..whole
    };
    shares.iter().map(one).collect()
}

/// With shares `s_r` of one CUBIC's windows and the largest share s, `C_r = C s_r s^3`. Then
/// `K_r^3 = s_r (W_max - W)/C_r`, so `K_r = K/s`, and each path gains `s_r` of what CUBIC gains
/// by the time `s t`: `C_r ((t - K_r)^3 + K_r^3) = s_r C ((s t - K)^3 + K^3)`. Reno's window, with
/// the slope `s_r s`, does likewise. K is cbrt(300/0.4) = 9.1 s; at 0.2 s `W_est` is the larger.
#[test]
fn on_one_link_the_paths_grow_as_one_cubic_whose_time_runs_slower() {
    for shares in [&[0.5, 0.5][..], &[0.7, 0.3], &[0.2, 0.2, 0.6]] {
        let largest = shares.iter().copied().fold(0.0, f64::max);
        for t in [0.2, 3.0, 9.0, 15.0] {
            let paths = shares_of(one_cubic(t - 0.1), shares);
            let grown: f64 = (0..paths.len())
                .map(|r| increase(r, &paths) * paths[r].window)
                .sum();
            let cubic = one_cubic(largest * t - 0.1);
            let expected = rule("cubic").increase(0, &[cubic]) * cubic.window;
            assert!(
                agrees(grown, expected),
                "{shares:?} {t}: {grown} {expected}"
            );
        }
    }
}

/// From what CUBIC alone would have, `x_k (C/C_k)^(1/4)` by RFC 9438's equation 5 (and Reno, with
/// its square root, `x_k slope_k^(-1/2)`), the connection has the best. Windows and RTTs such that
/// no path is at its own CUBIC's C.
///
/// Without a peak K is 0. At t = 10 s and an RTT of 1 s the increase is `C_k t^3/w_k`, 400 times a
/// share of C, and `W_est` grows by at most 10; at t = 0.02 s and an RTT of 0.01 s what counts is
/// twice a share of the slope, and `C t^3` at most 3e-6. Both less than half a window.
#[test]
fn in_total_it_has_as_much_as_cubic_on_the_best_path() {
    let windows = [3000.0, 2000.0, 2500.0];
    let rtts = |unit: f64| [unit, 1.25 * unit, unit];
    let paths = |unit: f64, age: f64| -> Vec<Path<f64>> {
        let stage = |(&window, rtt): (&f64, f64)| Path {
            epoch_window: window,
            age,
            rounds: age / rtt,
            ..path(window, rtt)
        };
        windows.iter().zip(rtts(unit)).map(stage).collect()
    };
    let best = |paths: &[Path<f64>], law: &dyn Fn(usize) -> f64| {
        let alone = |r: usize| paths[r].rate() * law(r);
        (0..paths.len()).map(alone).fold(0.0, f64::max)
    };
    let total = |paths: &[Path<f64>]| paths.iter().map(Path::rate).sum::<f64>();

    let in_cubic = paths(1.0, 9.0);
    let c = |r: usize| {
        let t: f64 = 9.0 + in_cubic[r].rtt;
        increase(r, &in_cubic) * windows[r] / t.powi(3)
    };
    assert!(agrees(
        best(&in_cubic, &|r| (0.4 / c(r)).powf(0.25)),
        total(&in_cubic)
    ));

    let in_reno = paths(0.01, 0.01);
    let slope = |r: usize| {
        let rounds = 0.01 / in_reno[r].rtt + 1.0;
        increase(r, &in_reno) * windows[r] / rounds
    };
    assert!(agrees(
        best(&in_reno, &|r| slope(r).powf(-0.5)),
        total(&in_reno)
    ));
}

/// The sawtooth of a sibling does not matter: the larger of its window and its window at the last
/// loss is the same before the loss and after it.
#[test]
fn a_loss_of_the_sibling_does_not_speed_up_the_path() {
    let mut paths = shares_of(one_cubic(5.0), &[0.5, 0.5]);
    paths[1].window = paths[1].peak;
    let before = increase(0, &paths);
    paths[1].window = 0.7 * paths[1].peak;
    assert_eq!(increase(0, &paths), before);
}
