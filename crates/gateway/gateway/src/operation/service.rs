//! Notifications of the service manager (sd_notify), without effect where there is none.

use std::time::Duration;

use sd_notify::NotifyState;
use tracing::warn;

/// Notifies that the gateway accepts connections.
pub fn ready() {
    notify(&[NotifyState::Ready]);
}

/// Notifies that the configuration is read again; [`ready`] follows.
pub fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(error) => warn!("the service manager is not told of the reload: {error}"),
    }
}

/// Notifies that the gateway drains, for at most this time.
pub fn stopping(drain: Duration) {
    let extend = u32::try_from(drain.as_micros()).unwrap_or(u32::MAX);
    notify(&[
        NotifyState::Stopping,
        NotifyState::ExtendTimeoutUsec(extend),
    ]);
}

/// Gives one line about the present state.
pub fn status(text: &str) {
    notify(&[NotifyState::Status(text)]);
}

/// Notifies that the gateway is alive.
pub fn alive() {
    notify(&[NotifyState::Watchdog]);
}

fn notify(state: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        warn!("the service manager cannot be notified: {error}");
    }
}

/// Interval at which the service manager must be notified that the gateway is alive: half its
/// limit, so that a delay does not end the process.
pub fn watchdog() -> Option<Duration> {
    sd_notify::watchdog_enabled().map(|limit| limit / 2)
}
