//! One path with random loss: the rate is C / (RTT sqrt(p)), and C is the one theory predicts.

mod common;

use std::f64::consts::PI;

use common::run;

const PROBABILITIES: [f64; 5] = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2];
const RTT_S: f64 = 0.1;
const USERS: f64 = 20.0;
/// Bytes of payload in a packet of 1500.
const PAYLOAD: f64 = 1448.0;

/// C = goodput RTT sqrt(p), goodput in packets/s, of 20 independent NewReno users on a link so fast
/// that nothing ever waits. In 250 s they count 650 losses where p is 1e-4, ten times as many where
/// it is 1e-2: C is known to about 2 % and 0.7 %.
fn constant(p: f64, recovery: &str) -> f64 {
    let (warmup_s, duration_s) = (50.0, 300.0);
    let text = format!(
        r#"
        algorithm = "reno"
        measure = {{ duration_s = {duration_s}, warmup_s = {warmup_s}, sample_ms = 1e6 }}
        tcp.recovery = "{recovery}"
        links.L = {{ rate_mbps = 10000, delay_ms = {}, loss.bernoulli = {{ probability = {p} }} }}
        [[flows]]
        name = "users"
        count = {USERS}
        paths = [["L"]]
        "#,
        1e3 * RTT_S / 2.0,
    );
    let bytes: u64 = run(&text, seed()).flows.delivered_bytes.iter().sum();
    let packets_per_s = bytes as f64 / PAYLOAD / USERS / (duration_s - warmup_s);
    packets_per_s * RTT_S * p.sqrt()
}
fn seed() -> u64 { std::env::var("SEED").map_or(1, |s| s.parse().unwrap()) }

/// The constant that a model of ideal congestion avoidance predicts, and its mean square window.
///
/// Ott, Kemperman and Mathis, "The stationary behavior of ideal TCP congestion avoidance" (1996):
/// each acknowledged packet adds 1/w, each packet is lost with probability p independently, a loss
/// halves w, and recovery takes no time. Count time in RTTs and windows in 1/sqrt(p), so that p = 1
/// below. Then w' = 1 between losses, which strike at rate w, and the generator is
///
///   A f(w) = f'(w) + w (f(w/2) - f(w)).
///
/// A stationary mean of A f is 0; f(w) = w gives 0 = 1 - E[w^2] / 2: the mean square is 2 exactly.
///
/// The mean itself takes the distribution. Per packet, x = w^2 grows by 2 and a loss quarters it. So
/// just before a loss, x = 2 (T_0 + T_1 / 4 + T_2 / 16 + ...), where T_k is the number of packets
/// between two losses: exponential of mean 1. Losses are memoryless, so that is also the
/// distribution that any packet sees: a mixture of exponentials with rates r_k = 4^k / 2 and weights
/// a_k = product over j != k of 1 / (1 - r_k / r_j), and E[x^s] = sum of a_k Gamma(1 + s) / r_k^s.
/// A packet stands for 1/w of an RTT, so means over time are E_t[f(w)] = E[f / w] / E[1 / w]:
/// E_t[w] = 1 / E[x^-1/2] and E_t[w^2] = E[x^1/2] / E[x^-1/2].
fn ideal() -> (f64, f64) {
    let rate = |k: i32| 4f64.powi(k) / 2.0;
    let weight = |k: i32| -> f64 {
        (0..40).filter(|&j| j != k).map(|j| 1.0 / (1.0 - rate(k) / rate(j))).product()
    };
    let mean = |gamma: f64, s: f64| -> f64 {
        (0..20).map(|k| weight(k) * gamma * rate(k).powf(-s)).sum()
    };
    let root = mean(PI.sqrt() / 2.0, 0.5);
    let inverse_root = mean(PI.sqrt(), -0.5);
    (1.0 / inverse_root, root / inverse_root)
}

/// Exponent of p, by least squares on logarithms, and geometric mean of the constants.
fn fit(constants: &[f64]) -> (f64, f64) {
    let points: Vec<(f64, f64)> =
        PROBABILITIES.iter().zip(constants).map(|(p, c)| (p.ln(), (c / p.sqrt()).ln())).collect();
    let n = points.len() as f64;
    let mean_x = points.iter().map(|(x, _)| x).sum::<f64>() / n;
    let covariance: f64 = points.iter().map(|(x, y)| (x - mean_x) * y).sum();
    let variance: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let log_mean = constants.iter().map(|c| c.ln()).sum::<f64>() / n;
    (covariance / variance, log_mean.exp())
}

fn check(recovery: &str) {
    let constants = PROBABILITIES.map(|p| constant(p, recovery));
    let (exponent, fitted) = fit(&constants);
    println!("{recovery}: C = {constants:.3?}, {fitted:.3} in the mean, exponent {exponent:.4}");
    assert!((exponent / -0.5 - 1.0).abs() < 0.05, "exponent {exponent}");
    assert!(1.2 < fitted && fitted < 1.42, "C = {fitted}");
    let (ideal, _) = ideal();
    assert!(fitted < ideal, "C = {fitted}, more than recovery without delay allows: {ideal}");
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
