//! Tasks of a gateway, which end together.

use std::sync::Arc;

use anyhow::anyhow;
use tokio::sync::SetOnce;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::error;

use super::FAREWELL;

/// Tasks of a gateway. Clones are the same tasks.
#[derive(Clone, Debug, Default)]
pub struct Tasks {
    tracker: TaskTracker,
    closed: CancellationToken,
    failure: Arc<SetOnce<anyhow::Error>>,
}

impl Tasks {
    /// Runs a task of one client until everything ends. If it panics, this client alone loses it.
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<Option<()>> {
        let closed = self.closed.clone();
        self.tracker.spawn(closed.run_until_cancelled_owned(task))
    }

    /// Runs a task that the gateway cannot do without, until everything ends. If it panics, the
    /// gateway has failed.
    pub fn supervise(
        &self,
        name: impl Into<String>,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let closed = self.closed.clone();
        let task = tokio::spawn(closed.run_until_cancelled_owned(task));
        let (this, name) = (self.clone(), name.into());
        self.tracker.spawn(async move {
            if let Err(panic) = task.await {
                this.fail(anyhow!("{name}: {panic}"));
            }
        })
    }

    /// Ends everything, because the gateway can no longer do its work.
    pub fn fail(&self, reason: anyhow::Error) {
        error!("{reason:#}");
        // The first failure may be the cause of the others.
        let _ = self.failure.set(reason);
        self.closed.cancel();
    }

    /// Waits until the gateway can no longer do its work. Returns the reason.
    pub async fn failed(&self) -> &anyhow::Error {
        self.failure.wait().await
    }

    /// Token that is cancelled when every task is to end.
    pub fn closed(&self) -> &CancellationToken {
        &self.closed
    }

    /// Ends all tasks, and waits for them and until their farewells are sent.
    pub async fn close(&self) {
        self.closed.cancel();
        self.tracker.close();
        self.tracker.wait().await;
        sleep(FAREWELL).await;
    }
}
