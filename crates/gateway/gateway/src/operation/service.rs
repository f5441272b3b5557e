//! What the service manager is told (sd_notify); without one, nothing happens.

use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

/// The gateway accepts connections.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// The configuration is read again; [`ready`] follows.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => warn!("the service manager is not told of the reload: {error}"),
    }
}

/// The gateway drains, for this long at most.
pub fn stopping(drain: Duration) {
    let extend = u32::try_from(drain.as_micros()).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(extend),
    ]);
}

/// One line about the present state.
pub fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// The gateway is alive.
pub fn alive() {
    notify(&[NotifyState::Watchdog]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!("the service manager cannot be notified: {error}");
    }
}

/// How often the service manager expects to hear that the gateway is alive: half its limit, so that
/// a delay does not end the process.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
