//! Limit of the data that a connection of Multipath TCP may have unsent in the kernel.
//!
//! Linux accepts data up to its send buffer, two windows. With equal RTTs this is one window more
//! than each path needs, and new streams wait behind it. With unequal RTTs it is too little: while
//! data on the slower path is outstanding, later data delivered by the faster one stays in the
//! buffer, and the faster path idles. Therefore the send buffer is larger than needed, and this
//! module limits the unsent data.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use anabranch_sockets::Subflow;
use tokio::time::{Instant, Sleep, sleep};

use super::core::Core;
use super::mux::Lane;

/// Pause of a connection that has reached the limit.
const PAUSE: Duration = Duration::from_millis(1);

/// Time until the next look at the paths, s: `PAUSE` and the delay of its timer.
const LATE_S: f64 = 0.004;

/// Data that Linux assigns to a path at once (`MPTCP_SEND_BURST_SIZE`), bytes.
const BURST: f64 = 65_428.0;

/// Limit of one connection.
#[derive(Debug)]
pub struct Allowance {
    /// Bytes that may be written before the next look.
    bytes: u64,
    pause: Pin<Box<Sleep>>,
}

impl Allowance {
    /// An unknown limit: the first look sets it.
    pub fn new() -> Allowance {
        Allowance {
            bytes: 0,
            pause: Box::pin(sleep(Duration::ZERO)),
        }
    }

    /// Waits until something may be written.
    pub fn poll(&mut self, core: &Core, lane: Lane, cx: &mut Context<'_>) -> Poll<()> {
        while self.bytes == 0 {
            self.bytes = match core.subflows(lane) {
                Some(mut paths) => {
                    // Unsent data of a dead path is sent over another one later.
                    paths.retain(works);
                    allowed(&paths).saturating_sub(core.unsent_in_kernel(lane, &paths))
                }
                None => u64::MAX, // plain TCP, where TCP_NOTSENT_LOWAT is the limit
            };
            if self.bytes == 0 {
                ready!(self.pause.as_mut().poll(cx));
                self.pause.as_mut().reset(Instant::now() + PAUSE);
            }
        }
        Poll::Ready(())
    }

    /// Counts bytes that were written.
    pub fn take(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes as u64);
    }
}

fn works(path: &Subflow) -> bool {
    path.open && path.backoff == 0 && path.rtt_us > 0
}

/// Limit of unsent data, bytes, over the paths that work. Linux schedules data on the path that it
/// expects to have sent it first: it uses the slower path only while the faster path's queue takes
/// as long to send.
fn allowed(paths: &[Subflow]) -> u64 {
    let rtt_s = |path: &Subflow| f64::from(path.rtt_us) * 1e-6;
    let busy = paths.iter().filter(|path| path.in_flight > 0);
    let longest_s = busy.map(rtt_s).fold(0.0, f64::max);
    let unsent = paths.iter().map(|path| {
        let rate = f64::from(path.window) * f64::from(path.mss) / rtt_s(path);
        rate * ((longest_s - rtt_s(path)).max(0.0) + LATE_S)
    });
    (BURST + unsent.sum::<f64>()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(window: u32, rtt_ms: u32) -> Subflow {
        Subflow {
            open: true,
            window,
            mss: 1400,
            rtt_us: 1000 * rtt_ms,
            in_flight: 1,
            ..Subflow::default()
        }
    }

    #[test]
    fn the_faster_path_may_queue_what_it_sends_until_the_slower_one_has_sent_as_much() {
        // 1.4 and 0.14 MB/s: 4 ms of both are 6160 bytes.
        let (fast, slow) = (path(100, 100), path(30, 300));
        assert_eq!(allowed(&[fast, fast]), 65_428 + 2 * 5600);
        // 1.4 MB/s for 0.2 s.
        assert_eq!(allowed(&[fast, slow]), 65_428 + 6160 + 280_000);
        // Nothing is in flight over the slower one.
        let idle = Subflow {
            in_flight: 0,
            ..slow
        };
        assert_eq!(allowed(&[fast, idle]), 65_428 + 6160);
        // The faster one idles, as behind a loss on the other.
        let waiting = Subflow {
            in_flight: 0,
            ..fast
        };
        assert_eq!(allowed(&[waiting, slow]), 65_428 + 6160 + 280_000);
        assert_eq!(allowed(&[]), 65_428);
    }
}
