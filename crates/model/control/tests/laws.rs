//! Laws that hold for every state of the paths.

use crate::common::{all_rules, any_path, any_paths, close, path, rule};
use anabranch_control::{AnyRule, Dual, Info, Path, Scalar};
use proptest::prelude::*;

proptest! {
    #[test]
    fn one_path_is_reno(path in any_path()) {
        for (info, rule) in all_rules().filter(|(info, _)| info.reno_on_one_path) {
            is_reno(info, &rule, path)?;
        }
    }

    #[test]
    fn rsf_below_its_targets_is_reno_over_one_path(mut path in any_path()) {
        path.queue_delay = path.queue_delay.min(0.05);
        path.loss_interval = path.loss_interval.max(path.rate());
        for (info, rule) in all_rules().filter(|(info, _)| info.name.starts_with("rsf-")) {
            is_reno(info, &rule, path)?;
        }
    }

    /// A rule that a queue of 10 s, without a loss, makes shrink would keep it for as long as an
    /// increase per packet takes. The others grow until the queue loses a packet.
    #[test]
    fn a_long_queue_makes_only_the_rules_shrink_that_keep_an_overshoot(mut path in any_path()) {
        path.queue_delay = 10.0;
        path.rtt = path.base_rtt + 10.0;
        path.loss_interval = 1e12;
        for (info, rule) in all_rules().filter(|(info, _)| info.fluid) {
            let shrinks = rule.increase(0, &[path]) < 0.0;
            prop_assert_eq!(shrinks, info.keeps_overshoot, "{}", info.name);
        }
    }

    /// At the states where OLIA's alpha is 0: there the best paths have the largest windows.
    #[test]
    fn an_equilibrium_by_loss_depends_on_windows_and_rtts_alone(
        paths in any_paths(), queue_delay in 0.0001..0.5, factor in 0.01..100.0,
    ) {
        let with = |queue_delay: f64, factor: f64| -> Vec<_> {
            paths.iter().map(|path| {
                let packets = factor * path.window * path.rtt * path.rtt;
                Path {
                    queue_delay,
                    since_loss: packets,
                    between_losses: packets,
                    loss_interval: packets,
                    ..*path
                }
            }).collect()
        };
        let (one, other) = (with(0.05, 1.0), with(queue_delay, factor));
        for (info, rule) in all_rules().filter(|(info, _)| info.equilibrium_by_loss) {
            for r in 0..paths.len() {
                let (a, b) = (rule.phi(r, &one), rule.phi(r, &other));
                prop_assert!(
                    (a - b).abs() <= 1e-9 * a.abs(),
                    "{}: EQUILIBRIUM_BY_LOSS, but phi is {a} and {b} at {:?}", info.name, paths
                );
            }
        }
    }

    #[test]
    fn rsf_is_as_its_row_states(path in any_path()) {
        let row = |ratio: f64| ratio.min(1.0) / path.window;
        let db = row((0.1 - path.queue_delay) / path.queue_delay);
        prop_assert!(close(rule("rsf-db").increase(0, &[path]), db));

        let losses_per_s = path.rate() / path.loss_interval.max(path.since_loss);
        let lb = row((4.0 - losses_per_s) / losses_per_s);
        prop_assert!(close(rule("rsf-lb").increase(0, &[path]), lb));
    }

    #[test]
    fn permuting_the_paths_permutes_the_results(paths in any_paths(), shift in 0usize..4, swap: bool) {
        let mut order: Vec<usize> = (0..paths.len()).collect();
        order.rotate_left(shift % paths.len());
        if swap {
            order.reverse();
        }
        let permuted: Vec<_> = order.iter().map(|&r| paths[r]).collect();
        for (info, rule) in all_rules() {
            for (new, &old) in order.iter().enumerate() {
                let (a, b) = (rule.increase(old, &paths), rule.increase(new, &permuted));
                prop_assert!(
                    (a - b).abs() <= 1e-9 * a.abs(),
                    "{}: I of path {old} is {a}, permuted {b}, of {paths:?}", info.name
                );
                let (a, b) = (rule.decrease(old, &paths), rule.decrease(new, &permuted));
                prop_assert!(
                    close(a, b), "{}: D of path {old} is {a}, permuted {b}, of {paths:?}", info.name
                );
            }
        }
    }

    #[test]
    fn equal_paths_get_equal_results(path in any_path(), other in any_path()) {
        let paths = [path, other, path];
        for (info, rule) in all_rules() {
            let name = info.name;
            let (a, b) = (rule.increase(0, &paths), rule.increase(2, &paths));
            prop_assert_eq!(a, b, "{}: I of the equal paths of {:?}", name, paths);
            let (a, b) = (rule.decrease(0, &paths), rule.decrease(2, &paths));
            prop_assert_eq!(a, b, "{}: D of the equal paths of {:?}", name, paths);
        }
    }

    /// At `p_r = phi_r`, the loss probability of the equilibrium, `w_r p_r^(1/phi)` is the same for
    /// all paths; phi = 0 is fully coupled, 2 uncoupled.
    #[test]
    fn windows_of_linked_follow_the_loss_to_the_power_of_its_index(mut paths in any_paths()) {
        let rtt = paths[0].rtt;
        paths.iter_mut().for_each(|path| path.rtt = rtt);
        for index in [0.5, 1.0, 1.5, 2.0] {
            let linked = rule(&format!("linked:phi={index}"));
            let product = |r: usize| paths[r].window * linked.phi(r, &paths).powf(1.0 / index);
            for r in 1..paths.len() {
                prop_assert!(close(product(r), product(0)), "phi = {index}");
            }
        }
        for r in 0..paths.len() {
            let (none, all) = (rule("linked:phi=0"), rule("linked:phi=2"));
            prop_assert!(close(none.increase(r, &paths), rule("coupled").increase(r, &paths)));
            prop_assert!(close(all.increase(r, &paths), rule("reno").increase(r, &paths)));
        }
    }

    /// Competing flows share a link in proportion to kappa: the loss probability of a window of
    /// `kappa w` is that of a window of w with kappa = 1.
    #[test]
    fn a_window_of_multcp_is_that_of_reno_times_kappa(path in any_path(), kappa in 0.05..50.0) {
        let many = Path { window: path.window * kappa, ..path };
        let multcp = rule(&format!("multcp:kappa={kappa}"));
        prop_assert!(close(multcp.phi(0, &[many]), rule("reno").phi(0, &[path])));
    }

    #[test]
    fn lia_never_grows_faster_than_reno(paths in any_paths()) {
        for r in 0..paths.len() {
            prop_assert!(rule("lia").increase(r, &paths) <= 1.0 / paths[r].window);
        }
    }

    /// It moves window between paths without a net change.
    #[test]
    fn the_alphas_of_olia_sum_to_zero(paths in any_paths()) {
        let y: f64 = paths.iter().map(Path::rate).sum();
        for name in ["olia", "olia-printed"] {
            let alpha = |r: usize| {
                let first: f64 = paths[r].rate() / paths[r].rtt / (y * y);
                (rule(name).increase(r, &paths) - first) * paths[r].window
            };
            prop_assert!((0..paths.len()).map(alpha).sum::<f64>().abs() < 1e-9);
        }
    }

    /// LIA's first term is `max_k(w_k/tau_k^2) / (sum_k w_k/tau_k)^2`: at equal RTTs the largest
    /// window over the square of the sum of windows.
    #[test]
    fn special_cases_of_generalized_at_equal_rtts(mut paths in any_paths()) {
        let rtt = paths[0].rtt;
        paths.iter_mut().for_each(|path| path.rtt = rtt);
        let total: f64 = paths.iter().map(|path| path.window).sum();
        let largest = paths.iter().fold(0.0, |max: f64, path| max.max(path.window));
        let agree = |spec: &str, r: usize, expected: f64| {
            let increase = rule(spec).increase(r, &paths);
            let decrease = rule(spec).decrease(r, &paths);
            close(increase, expected) && close(decrease, paths[r].window / 2.0)
        };
        for r in 0..paths.len() {
            let lia_first = largest / (total * total);
            prop_assert!(agree("generalized:beta=1:eta=0:norm=inf", r, lia_first));
            for norm in ["1", "2", "inf"] {
                let coupled = rule("coupled").increase(r, &paths);
                let spec = format!("generalized:beta=0:eta=0:norm={norm}");
                prop_assert!(agree(&spec, r, coupled));
            }
            let semicoupled = rule("semicoupled").increase(r, &paths);
            prop_assert!(agree("generalized:beta=1:eta=0:norm=1", r, semicoupled));
        }
    }

    /// As printed: `phi_r = 2 ((1 - beta) x_r + beta ||x||_n) / (tau_r^2 x_r ||x||_1^2)` and
    /// `x_r D_r / tau_r = k_r = x_r/2 (x_r + eta (||x||_inf - x_r))`.
    #[test]
    fn generalized_is_equation_12(paths in any_paths(), beta in 0.0..1.0f64, eta in 0.0..2.0f64) {
        let x: Vec<f64> = paths.iter().map(Path::rate).collect();
        let total: f64 = x.iter().sum();
        let fastest = x.iter().fold(0.0, |max: f64, &rate| max.max(rate));
        let euclidean = x.iter().map(|rate| rate * rate).sum::<f64>().sqrt();
        for (name, norm) in [("1", total), ("2", euclidean), ("inf", fastest)] {
            let rule = rule(&format!("generalized:beta={beta}:eta={eta}:norm={name}"));
            for (r, path) in paths.iter().enumerate() {
                let phi = 2.0 * ((1.0 - beta) * x[r] + beta * norm)
                    / (path.rtt * path.rtt * x[r] * total * total);
                prop_assert!(close(rule.phi(r, &paths), phi));
                let k = x[r] / 2.0 * (x[r] + eta * (fastest - x[r]));
                prop_assert!(close(x[r] * rule.decrease(r, &paths) / path.rtt, k));
            }
        }
    }

    /// Away from the kinks of `min`, `max` and of OLIA's sets, where the differences to the two
    /// sides disagree.
    #[test]
    fn the_slope_of_a_dual_is_the_finite_difference(
        paths in any_paths(), k in 0usize..4, field in 0usize..FIELDS,
    ) {
        let k = k % paths.len();
        let mut dual: Vec<Path<Dual>> =
            paths.iter().map(|path| path.map(Dual::from_f64)).collect();
        *nth_field(&mut dual[k], field) = Dual { value: *nth_field(&mut paths.clone()[k], field), slope: 1.0 };
        let moved = |factor: f64| {
            let mut paths = paths.clone();
            *nth_field(&mut paths[k], field) *= factor;
            paths
        };
        let x = nth_field(&mut paths.clone()[k], field).max(1e-9);
        const H: f64 = 1e-6;
        for (info, rule) in all_rules().filter(|(info, _)| !info.delay_based) {
            for (r, path) in paths.iter().enumerate() {
                let phi = |factor| rule.phi(r, &moved(factor));
                let (below, here, above) = (phi(1.0 - H), phi(1.0), phi(1.0 + H));
                let scale = here.abs() + 1e-3 / path.window;
                if ((above - here) - (here - below)).abs() > 1e-2 * H * scale {
                    continue; // a kink
                }
                let difference = (above - below) / (2.0 * H);
                let slope = rule.phi(r, &dual).slope * x;
                prop_assert!(
                    (slope - difference).abs() <= 1e-3 * (scale + slope.abs()),
                    "{}: slope of phi {slope}, difference {difference}, path {r} of {paths:?}",
                    info.name
                );
            }
        }
    }
}

fn is_reno(info: &Info, rule: &AnyRule, path: Path<f64>) -> Result<(), TestCaseError> {
    let (increase, decrease) = (rule.increase(0, &[path]), rule.decrease(0, &[path]));
    let (name, w) = (info.name, path.window);
    prop_assert!(
        close(increase, 1.0 / w),
        "{name}: RENO_ON_ONE_PATH, but I = {increase} at {path:?}"
    );
    prop_assert!(
        close(decrease, w / 2.0),
        "{name}: RENO_ON_ONE_PATH, but D = {decrease} at {path:?}"
    );
    Ok(())
}

const FIELDS: usize = 7;

fn nth_field<S>(path: &mut Path<S>, n: usize) -> &mut S {
    match n {
        0 => &mut path.window,
        1 => &mut path.rtt,
        2 => &mut path.queue_delay,
        3 => &mut path.loss_interval,
        4 => &mut path.since_loss,
        5 => &mut path.age,
        _ => &mut path.peak,
    }
}

/// Expected by hand, without a kink: `phi = (1/w)/(w/2) = 2/w^2`, so `dphi/dw = -4/w^3`.
#[test]
fn the_slope_of_reno_is_known() {
    let mut dual = path(10.0, 0.1).map(Dual::from_f64);
    dual.window.slope = 1.0;
    assert!(close(rule("reno").phi(0, &[dual]).slope, -4.0 / 1000.0));
}

/// `d sqrt(x^2 + y^2) / dx = x / norm`: 3/5 at (3, 4).
#[test]
fn the_slope_of_a_square_root_is_known() {
    let (x, y) = (
        Dual {
            value: 3.0,
            slope: 1.0,
        },
        Dual::of(4),
    );
    let norm = (x * x + y * y).sqrt();
    assert_eq!((norm.value, norm.slope), (5.0, 0.6));
}

/// A path without an RTT sample has no rate and does not affect the others.
#[test]
fn an_unmeasured_path_does_not_hold_back_the_others() {
    let paths = [path(10.0, 0.1), path(10.0, f64::INFINITY)];
    for (info, rule) in all_rules().filter(|(info, _)| info.fluid) {
        assert!(rule.increase(0, &paths) > 0.0, "{}", info.name);
    }
}
