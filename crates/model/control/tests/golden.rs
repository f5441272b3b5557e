//! Increase and decrease of every rule that has them in a handful of states, pinned as a table; and
//! the page that lists the rules.
//!
//! To regenerate `golden.txt` and `docs/reference/rules.md` after a new rule or an intended change:
//!
//! ```text
//! UPDATE_GOLDEN=1 cargo test -p anabranch-control golden
//! ```

use std::fmt::Write;
use std::{env, fs};

use crate::common::{all_rules, path, rule};
use anabranch_control::Path;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.txt");

const UPDATE: &str = "If that is intended: UPDATE_GOLDEN=1 cargo test -p anabranch-control";

const HEADER: &str = "\
# I_r (packets per acknowledged packet), D_r (packets) and phi_r = I_r / D_r of every rule at its
# defaults. Delay-based rules have I = 0. The states are those of golden.rs; to write this file anew:
# UPDATE_GOLDEN=1 cargo test -p anabranch-control golden
";

fn states() -> Vec<(&'static str, Vec<Path<f64>>)> {
    let unequal = vec![
        Path {
            queue_delay: 0.02,
            since_loss: 30.0,
            between_losses: 400.0,
            loss_interval: 40.0,
            peak: 12.0,
            prior_peak: 14.0,
            epoch_window: 8.0,
            age: 0.1,
            rounds: 2.0,
            ..path(10.0, 0.05)
        },
        Path {
            queue_delay: 0.08,
            since_loss: 90.0,
            between_losses: 2000.0,
            loss_interval: 100.0,
            peak: 24.0,
            prior_peak: 20.0,
            epoch_window: 16.0,
            age: 0.8,
            rounds: 4.0,
            ..path(20.0, 0.2)
        },
    ];
    let concave = Path {
        peak: 100.6,
        epoch_window: 75.0,
        age: 1.9,
        rounds: 19.0,
        loss_interval: 1000.0,
        ..path(90.0, 0.1)
    };
    let losses = |window, since_loss, between_losses| Path {
        since_loss,
        between_losses,
        ..path(window, 0.1)
    };
    let three = vec![
        losses(4.0, 100.0, 9.0),
        losses(8.0, 9.0, 100.0),
        losses(16.0, 50.0, 9.0),
    ];
    vec![
        ("one", vec![path(10.0, 0.1)]),
        ("equal", vec![path(10.0, 0.1); 2]),
        ("unequal", unequal),
        ("three", three),
        ("concave", vec![concave]),
    ]
}

fn table() -> String {
    let mut text = String::from(HEADER);
    let header = ["rule", "state", "path", "I", "D", "phi"];
    let [rule, state, r, i, d, phi] = header;
    writeln!(
        text,
        "{rule:<12} {state:<8} {r:>4} {i:>17} {d:>17} {phi:>17}"
    )
    .unwrap();
    for (info, rule) in all_rules().filter(|(info, _)| !info.by_rate) {
        for (state, paths) in states() {
            for r in 0..paths.len() {
                let (name, phi) = (info.name, rule.phi(r, &paths));
                let (i, d) = (rule.increase(r, &paths), rule.decrease(r, &paths));
                let row =
                    format!("{name:<12} {state:<8} {r:>4} {i:>17.9e} {d:>17.9e} {phi:>17.9e}");
                writeln!(text, "{row}").unwrap();
            }
        }
    }
    text
}

/// Fails at the first line that differs; with `UPDATE_GOLDEN` writes the file first.
fn is_up_to_date(file: &str, text: &str) {
    if env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file, text).unwrap();
    }
    let pinned = fs::read_to_string(file).unwrap();
    for (now, before) in text.lines().zip(pinned.lines()) {
        assert_eq!(
            now, before,
            "now (left) and in {file} (right) differ. {UPDATE}"
        );
    }
    let (now, before) = (text.lines().count(), pinned.lines().count());
    assert_eq!(
        now, before,
        "lines now (left) and in {file} (right). {UPDATE}"
    );
}

#[test]
fn the_table_is_pinned() {
    is_up_to_date(FILE, &table());
}

#[test]
fn the_page_of_rules_is_up_to_date() {
    is_up_to_date(crate::page::FILE, &crate::page::page());
}

/// The state `unequal`, by hand: w = (10, 20), tau = (1/20, 1/5), so x = (200, 100), y = 300 and
/// a = (1, 2).
#[test]
fn rows_derived_by_hand() {
    let rows: [(&str, [f64; 2], [f64; 2]); 15] = [
        ("reno", [1.0 / 10.0, 1.0 / 20.0], [5.0, 10.0]),
        ("ewtcp", [1.0 / 10.0, 1.0 / 20.0], [5.0, 10.0]),
        // w / 30^2
        ("coupled", [1.0 / 90.0, 1.0 / 45.0], [5.0, 10.0]),
        ("semicoupled", [1.0 / 30.0, 1.0 / 30.0], [5.0, 10.0]),
        // w/tau^2 = (4000, 500): 4000/300^2 = 2/45, below 1/10 and 1/20
        ("lia", [2.0 / 45.0, 2.0 / 45.0], [5.0, 10.0]),
        // first terms 4000/300^2 = 2/45 and 500/300^2 = 1/180. l/tau^2 = (160000, 50000): B = {0},
        // M = {1}, so alpha = (1/2, -1/2): 2/45 + 1/20 = 17/180 and 1/180 - 1/40 = -7/360
        ("olia", [17.0 / 180.0, -7.0 / 360.0], [5.0, 10.0]),
        // the first terms alone
        ("olia:alpha=0", [2.0 / 45.0, 1.0 / 180.0], [5.0, 10.0]),
        // l^2/tau = (3.2e6, 2e7): B = M = {1}, so alpha = 0
        ("olia-printed", [2.0 / 45.0, 1.0 / 180.0], [5.0, 10.0]),
        // w/30^2, and 1/30
        ("linked:phi=0", [1.0 / 90.0, 1.0 / 45.0], [5.0, 10.0]),
        ("linked", [1.0 / 30.0, 1.0 / 30.0], [5.0, 10.0]),
        // as three connections: 3/w and w/6
        (
            "multcp:kappa=3",
            [3.0 / 10.0, 3.0 / 20.0],
            [10.0 / 6.0, 20.0 / 6.0],
        ),
        // x/(tau y^2) = (2/45, 1/180), times 1 and 3/2 * 6/5; D = 5 and 10 * min(2, 1.5)
        ("balia", [2.0 / 45.0, 1.0 / 100.0], [5.0, 15.0]),
        // phi_1 = 2 (0.8 * 100 + 0.2 * 200) / (0.2^2 * 100 * 300^2) = 1/1500, D_1 = 10 (1 + 0.5)
        ("generalized", [2.0 / 45.0, 1.0 / 100.0], [5.0, 15.0]),
        // q = 20 ms is below d/2; q = 80 ms gives (100 - 80)/80 = 1/4 of 1/20
        ("rsf-db", [1.0 / 10.0, 1.0 / 80.0], [5.0, 10.0]),
        // x p = (200/40, 100/100) losses/s: (4 - 5)/5 of 1/10, and 1 of 1/20
        ("rsf-lb", [-1.0 / 50.0, 1.0 / 20.0], [5.0, 10.0]),
    ];
    let (_, paths) = states().swap_remove(2);
    for (name, increase, decrease) in rows {
        for r in 0..2 {
            let phi = increase[r] / decrease[r];
            for (is, expected) in [
                (rule(name).increase(r, &paths), increase[r]),
                (rule(name).decrease(r, &paths), decrease[r]),
                (rule(name).phi(r, &paths), phi),
            ] {
                let error: f64 = is - expected;
                assert!(
                    error.abs() <= 1e-12 * expected.abs(),
                    "{name} {r}: {is} {expected}"
                );
            }
        }
    }
}

/// The state `three`, by hand, at equal RTTs: windows 4, 8, 16, of 28 in all; l = (100, 100, 50),
/// some of it since the last loss, some between the last two, so B = {0, 1}, M = {2} and
/// alpha = (1/6, 1/6, -1/3).
#[test]
fn olia_shares_among_several_best_paths() {
    let (_, paths) = states().swap_remove(3);
    let expected: [f64; 3] = [
        4.0 / 784.0 + 1.0 / 24.0,
        8.0 / 784.0 + 1.0 / 48.0,
        16.0 / 784.0 - 1.0 / 48.0,
    ];
    for (r, expected) in expected.into_iter().enumerate() {
        assert!((rule("olia").increase(r, &paths) - expected).abs() < 1e-12);
    }
}
