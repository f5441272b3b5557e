//! Random numbers of the system, from a seed: keys of hash maps, packet numbers that are skipped,
//! what libraries draw. Without it a run depends on more than its seed.

use std::cell::Cell;
use std::ffi::{c_uint, c_void};

use anabranch_net::Dice;

thread_local! {
    /// State of the generator of a thread that has a seed.
    static STATE: Cell<Option<u64>> = const { Cell::new(None) };
}

/// Runs this in a thread of its own, whose random numbers follow from the seed.
pub fn seeded<T: Send>(seed: u64, run: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let seeded = scope.spawn(|| {
            STATE.set(Some(seed));
            run()
        });
        seeded
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

/// Takes the place of the C library's function in this program.
///
/// # Safety
/// `buffer` has room for `length` bytes, as for getrandom(2).
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut c_void, length: usize, flags: c_uint) -> isize {
    let Some(mut state) = STATE.get() else {
        // SAFETY: the arguments are those of the system call.
        return unsafe { libc::syscall(libc::SYS_getrandom, buffer, length, flags) as isize };
    };
    for i in 0..length {
        // SplitMix64 (Steele, Lea, Flood 2014), a byte per step.
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        // SAFETY: `i` is less than `length`.
        unsafe { buffer.cast::<u8>().add(i).write((z ^ (z >> 31)) as u8) };
    }
    STATE.set(Some(state));
    length as isize
}

/// Choices of a story.
pub trait Choices {
    /// A number of this range.
    fn within(&mut self, range: std::ops::Range<u64>) -> u64;
}

impl Choices for Dice {
    fn within(&mut self, range: std::ops::Range<u64>) -> u64 {
        range.start + (self.uniform() * (range.end - range.start) as f64) as u64
    }
}
