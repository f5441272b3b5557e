//! The time of tokio's clock, which tests may pause.

use std::time::Instant;

/// Present time.
pub(super) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
