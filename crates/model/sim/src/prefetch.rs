//! Memory that will be needed soon.

/// Asks the processor to load a value into its cache, and does not wait for it.
#[inline]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let start = std::ptr::from_ref(value).cast::<i8>();
        for line in (0..size_of::<T>()).step_by(64) {
            // SAFETY: every x86_64 has the instruction, which is a hint: it changes nothing that
            // the program can read, and does not fault, whatever the address.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(line)) };
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}
