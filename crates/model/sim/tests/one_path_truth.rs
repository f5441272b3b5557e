//! One path with random loss: the rate is C / (RTT sqrt(p)), and C is what theory predicts.
//!
//! C depends on how losses come: sqrt(3/2) = 1.22 if every 1/p-th packet is lost, sqrt(2) = 1.41 in
//! the fluid model of LIA, where a window sees the mean of increase and decrease. Losses here are
//! independent, and the model for those predicts 1.31 ([`ideal`]). It leaves out that recovery
//! takes a round trip in which the window does not grow, and that there are timeouts. Both cost
//! more the smaller the window, so C falls from 1.29 at p = 1e-4 (windows of 130 packets) to 1.17
//! at 1e-2 (12 packets), where ns-2's Sack1 agent has 1.17 too, and the exponent is -0.521 rather
//! than -1/2.

use std::f64::consts::PI;

use crate::common::{PAYLOAD, run};

const PROBABILITIES: [f64; 5] = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2];
const RTT_S: f64 = 0.1;
const USERS: f64 = 20.0;

/// Loss probability and goodput, in packets per RTT, of 20 independent NewReno users on a link so
/// fast that nothing ever waits. The probability is that measured, because chance moves both: in
/// 200 s there are only about 500 losses where p is 1e-4.
fn measure(p: f64, recovery: &str) -> (f64, f64) {
    let (warmup_s, duration_s) = (25.0, 225.0);
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = {duration_s}, warmup_s = {warmup_s}, sample_ms = 1e6 }}
        tcp = {{ recovery = "{recovery}", initial_ssthresh_packets = {} }}
        links.L = {{ rate_mbps = 10000, delay_ms = {}, loss.bernoulli = {{ probability = {p} }} }}
        [[flows]]
        name = "users"
        count = {USERS}
        paths = [["L"]]
        "#,
        // No slow start into a window that is wrong by far.
        1.0 / p.sqrt(),
        1e3 * RTT_S / 2.0,
    );
    let record = run(&text, 1);
    let bytes: u64 = record.flows.delivered_bytes.iter().sum();
    let packets_per_s = (bytes / PAYLOAD) as f64 / USERS / (duration_s - warmup_s);
    (record.links.loss_probability[0], packets_per_s * RTT_S)
}

/// The constant that a model of ideal congestion avoidance predicts, and its mean square window.
///
/// Ott, Kemperman and Mathis, "The stationary behavior of ideal TCP congestion avoidance" (1996):
/// each acknowledged packet adds 1/w, each packet is lost with probability p independently, a loss
/// halves w, and recovery takes no time. Count time in RTTs and windows in 1/sqrt(p), so that p = 1
/// below. Then w' = 1 between losses, which occur at rate w, and the generator is
///
///   A f(w) = f'(w) + w (f(w/2) - f(w)).
///
/// A stationary mean of A f is 0; f(w) = w gives 0 = 1 - E[w^2] / 2: the mean square is 2 exactly.
///
/// The mean itself takes the distribution. Per packet, x = w^2 grows by 2 and a loss quarters it.
/// So just before a loss, x = 2 (T_0 + T_1 / 4 + T_2 / 16 + ...), where T_k is the number of
/// packets between two losses: exponential of mean 1. Losses are memoryless, so that is also the
/// distribution that any packet sees: a mixture of exponentials with rates r_k = 4^k / 2 and
/// weights a_k = product over j != k of 1 / (1 - r_k / r_j), and E[x^s] = sum of a_k Gamma(1 + s) /
/// r_k^s. A packet stands for 1/w of an RTT, so means over time are E_t[f(w)] = E[f / w] / E[1 /
/// w]: E_t[w] = 1 / E[x^-1/2] and E_t[w^2] = E[x^1/2] / E[x^-1/2].
fn ideal() -> (f64, f64) {
    let rate = |k: i32| 4f64.powi(k) / 2.0;
    let weight = |k: i32| -> f64 {
        (0..40)
            .filter(|&j| j != k)
            .map(|j| 1.0 / (1.0 - rate(k) / rate(j)))
            .product()
    };
    let mean =
        |gamma: f64, s: f64| -> f64 { (0..20).map(|k| weight(k) * gamma * rate(k).powf(-s)).sum() };
    let root = mean(PI.sqrt() / 2.0, 0.5);
    let inverse_root = mean(PI.sqrt(), -0.5);
    (1.0 / inverse_root, root / inverse_root)
}

/// Exponent of p, by least squares on logarithms, and C with the exponent -1/2, by the same.
fn fit(points: &[(f64, f64)]) -> (f64, f64) {
    let logs: Vec<(f64, f64)> = points.iter().map(|(p, rate)| (p.ln(), rate.ln())).collect();
    let mean = |f: fn(&(f64, f64)) -> f64| logs.iter().map(f).sum::<f64>() / logs.len() as f64;
    let (x, y) = (mean(|log| log.0), mean(|log| log.1));
    let covariance: f64 = logs.iter().map(|log| (log.0 - x) * (log.1 - y)).sum();
    let variance: f64 = logs.iter().map(|log| (log.0 - x).powi(2)).sum();
    (covariance / variance, (y + x / 2.0).exp())
}

fn check(recovery: &str) {
    let points = PROBABILITIES.map(|p| measure(p, recovery));
    let (exponent, constant) = fit(&points);
    let constants = points.map(|(p, rate)| rate * p.sqrt());
    println!("{recovery}: C = {constants:.3?}, {constant:.3} in the mean, exponent {exponent:.4}");
    assert!((exponent / -0.5 - 1.0).abs() < 0.05, "exponent {exponent}");
    assert!(1.2 < constant && constant < 1.42, "C = {constant}");
    let (ideal, _) = ideal();
    assert!(
        constant < ideal,
        "C = {constant}, more than if recovery took no time: {ideal}"
    );
}

#[test]
fn the_ideal_constant_is_that_of_ott_kemperman_and_mathis() {
    let (constant, mean_square) = ideal();
    println!("{constant} {mean_square}");
    assert!((constant - 1.31).abs() < 0.005, "{constant}");
    assert!((mean_square - 2.0).abs() < 1e-9, "{mean_square}");
}

#[test]
fn sack_follows_the_square_root_law() {
    check("sack");
}

#[test]
fn newreno_follows_the_square_root_law() {
    check("newreno");
}
