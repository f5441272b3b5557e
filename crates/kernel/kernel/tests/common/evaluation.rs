//! A connection, and a rule's results for one of its paths: `bpf/evaluation.h`.

use anabranch_control::rules::{Vegas, Wvegas, WvegasMemory};
use anabranch_control::{Algorithm, Path, RULES, Rule, Scalar, Soft};

pub const MAX_PATHS: usize = 8;

/// As `build.rs` computes it for `bpf/path.h`.
const MAX_PARAMETERS: usize = {
    let (mut largest, mut i) = (0, 0);
    while i < RULES.len() {
        if RULES[i].parameters.len() > largest {
            largest = RULES[i].parameters.len();
        }
        i += 1;
    }
    largest
};

/// `struct path`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CPath {
    window: Soft,
    rtt: Soft,
    base_rtt: Soft,
    round_rtt: Soft,
    queue_delay: Soft,
    since_loss: Soft,
    between_losses: Soft,
    loss_interval: Soft,
    peak: Soft,
}

/// `struct memory`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CMemory {
    alpha: Soft,
    equilibrium_rate: Soft,
    queue_delay: Soft,
}

/// `struct epoch`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CEpoch {
    window: Soft,
    peak: Soft,
    prior_peak: Soft,
}

/// `struct evaluation`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Evaluation {
    paths: [CPath; MAX_PATHS],
    memory: [CMemory; MAX_PATHS],
    epoch: CEpoch,
    age: Soft,
    rounds: Soft,
    parameters: [Soft; MAX_PARAMETERS],
    count: u64,
    r: u64,
    increase: Soft,
    decrease: Soft,
    change: Soft,
    /// 0 where the rule stays in slow start.
    leaves_slow_start: Soft,
}

impl Evaluation {
    /// An evaluation of path `r`, without results.
    pub fn new(
        algorithm: &Algorithm,
        r: usize,
        paths: &[Path<Soft>],
        memory: &[WvegasMemory<Soft>],
    ) -> Evaluation {
        let mut evaluation = Evaluation {
            count: paths.len() as u64,
            r: r as u64,
            epoch: CEpoch {
                window: paths[r].epoch_window,
                peak: paths[r].peak,
                prior_peak: paths[r].prior_peak,
            },
            age: paths[r].age,
            rounds: paths[r].rounds,
            ..Default::default()
        };
        for (c, path) in evaluation.paths.iter_mut().zip(paths) {
            *c = CPath {
                window: path.window,
                rtt: path.rtt,
                base_rtt: path.base_rtt,
                round_rtt: path.round_rtt,
                queue_delay: path.queue_delay,
                since_loss: path.since_loss,
                between_losses: path.between_losses,
                loss_interval: path.loss_interval,
                peak: path.peak,
            };
        }
        evaluation.set_memory(memory);
        for (c, value) in evaluation.parameters.iter_mut().zip(algorithm.values()) {
            *c = Soft::from_f64(*value);
        }
        evaluation
    }

    /// The bytes, for the program to read and write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, size) = ((self as *mut Evaluation).cast(), size_of::<Evaluation>());
        // Safety: Evaluation consists of integers without padding, so every byte is initialised and
        // any value is valid; the slice borrows self.
        unsafe { std::slice::from_raw_parts_mut(start, size) }
    }

    fn set_memory(&mut self, memory: &[WvegasMemory<Soft>]) {
        for (c, memory) in self.memory.iter_mut().zip(memory) {
            *c = CMemory {
                alpha: memory.alpha,
                equilibrium_rate: memory.equilibrium_rate,
                queue_delay: memory.queue_delay,
            };
        }
    }
}

/// The results of the Rust rule; the memory is that after the round.
pub fn expected(
    algorithm: &Algorithm,
    r: usize,
    paths: &[Path<Soft>],
    memory: &mut [WvegasMemory<Soft>],
) -> Evaluation {
    let mut evaluation = Evaluation::new(algorithm, r, paths, memory);
    let rule = algorithm.rule();
    evaluation.increase = rule.increase(r, paths);
    evaluation.decrease = rule.decrease(r, paths);
    match algorithm.name() {
        "vegas" => {
            let rule = Vegas::with(algorithm.values());
            evaluation.leaves_slow_start = rule.leaves_slow_start(&paths[r]).unwrap_or_default();
            evaluation.change = rule.on_round(r, paths, &mut [(); MAX_PATHS]);
        }
        "wvegas" => {
            let rule = Wvegas::with(algorithm.values());
            evaluation.leaves_slow_start = rule.leaves_slow_start(&paths[r]).unwrap_or_default();
            evaluation.change = rule.on_round(r, paths, memory);
        }
        name => assert!(
            !algorithm.info().delay_based,
            "{name} acts once per round trip: add it to `expected` in {}",
            file!()
        ),
    }
    evaluation.set_memory(memory);
    evaluation
}
