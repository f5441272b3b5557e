//! Packets sent again while a chain of two states loses them.

/// The share of packets lost by a chain that makes a step per transmission. `after` is the state
/// after a packet by the state before it, good or bad first.
pub(super) fn in_bursts(leaves: [f64; 2], loss: [f64; 2], retries: u32) -> f64 {
    // Probability of a step and then a loss, or none, by the states before and after.
    let step = [[1.0 - leaves[0], leaves[0]], [leaves[1], 1.0 - leaves[1]]];
    let by = |share: [f64; 2]| step.map(|row| [row[0] * share[0], row[1] * share[1]]);
    let (lost, passed) = (by(loss), by(loss.map(|p| 1.0 - p)));
    let mut all_lost = [[1.0, 0.0], [0.0, 1.0]];
    let mut after = [[0.0; 2]; 2];
    for _ in 0..=retries {
        after = sum(after, product(all_lost, passed));
        all_lost = product(all_lost, lost);
    }
    after = sum(after, all_lost);
    let leaving = after[0][1] + after[1][0];
    let bad = if leaving > 0.0 {
        after[0][1] / leaving
    } else {
        0.0
    };
    let of = |state: usize| all_lost[state][0] + all_lost[state][1];
    (1.0 - bad) * of(0) + bad * of(1)
}

type Matrix = [[f64; 2]; 2];

fn product(a: Matrix, b: Matrix) -> Matrix {
    a.map(|row| [0, 1].map(|j| row[0] * b[0][j] + row[1] * b[1][j]))
}

fn sum(a: Matrix, b: Matrix) -> Matrix {
    [0, 1].map(|i| [0, 1].map(|j| a[i][j] + b[i][j]))
}
