//! A connection, and what a rule answers about one of its paths: `bpf/question.h`.

use anabranch_control::rules::{Vegas, Wvegas, WvegasMemory};
use anabranch_control::{Algorithm, Path, Rule, Scalar, Soft};

pub const MAX_PATHS: usize = 8;

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
}

/// `struct memory`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CMemory {
    alpha: Soft,
    equilibrium_rate: Soft,
    queue_delay: Soft,
}

/// `struct question`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Question {
    paths: [CPath; MAX_PATHS],
    memory: [CMemory; MAX_PATHS],
    parameters: [Soft; 3],
    count: u64,
    r: u64,
    increase: Soft,
    decrease: Soft,
    change: Soft,
    leaves_slow_start: u64,
}

impl Question {
    /// The question about path `r`, not yet answered.
    pub fn new(
        algorithm: &Algorithm,
        r: usize,
        paths: &[Path<Soft>],
        memory: &[WvegasMemory<Soft>],
    ) -> Question {
        let mut question = Question {
            count: paths.len() as u64,
            r: r as u64,
            ..Default::default()
        };
        for (c, path) in question.paths.iter_mut().zip(paths) {
            *c = CPath {
                window: path.window,
                rtt: path.rtt,
                base_rtt: path.base_rtt,
                round_rtt: path.round_rtt,
                queue_delay: path.queue_delay,
                since_loss: path.since_loss,
                between_losses: path.between_losses,
                loss_interval: path.loss_interval,
            };
        }
        question.set_memory(memory);
        for (c, value) in question.parameters.iter_mut().zip(algorithm.values()) {
            *c = Soft::from_f64(*value);
        }
        question
    }

    /// The bytes, for the program to read and write.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let (start, size) = ((self as *mut Question).cast(), size_of::<Question>());
        // Safety: of plain integers without padding, so every byte is initialised and any value will
        // do; the borrow is that of self.
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

/// The question with what the Rust rule answers; its memory is that after the round.
pub fn answered(
    algorithm: &Algorithm,
    r: usize,
    paths: &[Path<Soft>],
    memory: &mut [WvegasMemory<Soft>],
) -> Question {
    let mut question = Question::new(algorithm, r, paths, memory);
    let rule = algorithm.rule();
    question.increase = rule.increase(r, paths);
    question.decrease = rule.decrease(r, paths);
    match algorithm.name() {
        "vegas" => {
            let rule = Vegas::with(algorithm.values());
            question.leaves_slow_start = rule.leaves_slow_start(&paths[r]).into();
            question.change = rule.on_round(r, paths, &mut [(); MAX_PATHS]);
        }
        "wvegas" => {
            let rule = Wvegas::with(algorithm.values());
            question.leaves_slow_start = rule.leaves_slow_start(&paths[r]).into();
            question.change = rule.on_round(r, paths, memory);
        }
        _ => {}
    }
    question.set_memory(memory);
    question
}
