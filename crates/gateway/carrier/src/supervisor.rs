//! Supervision of a tunnel's tasks: one that panics closes the tunnel.

use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;

/// Reason of a tunnel one of whose tasks has panicked; the panic itself is on stderr.
pub(crate) const PANICKED: &str =
    "a task of the tunnel has panicked, which is a fault of anabranch";

/// Starts the tasks of a tunnel, and closes it if one panics: it would otherwise go on without
/// watching its paths, say, or without taking the peer's grants.
#[derive(Clone)]
pub(crate) struct Supervisor(Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Supervisor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Supervisor")
    }
}

impl Supervisor {
    /// A supervisor that closes its tunnel with `close`.
    pub fn new(close: impl Fn(&str) + Send + Sync + 'static) -> Supervisor {
        Supervisor(Arc::new(close))
    }

    /// Starts a task.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let close = self.0.clone();
        tokio::spawn(async move {
            // State that the task has left is not used any more, because the tunnel is closed.
            if AssertUnwindSafe(task).catch_unwind().await.is_err() {
                tracing::error!("{PANICKED}");
                close(PANICKED);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::mpsc;
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_closes_the_tunnel_and_one_that_ends_does_not() {
        let (closes, mut closed) = mpsc::unbounded_channel();
        let tasks = Supervisor::new(move |reason| closes.send(reason.to_owned()).expect("open"));
        tasks.spawn(async {});
        tasks.spawn(async { panic!("a broken task") });
        let patience = Duration::from_secs(10);
        let reason = timeout(patience, closed.recv()).await.expect("in time");
        assert_eq!(reason.as_deref(), Some(PANICKED));
        drop(tasks);
        assert_eq!(closed.recv().await, None);
    }
}
