//! The tasks of a gateway, and what their panics end.

use std::future::pending;
use std::time::Duration;

use anabranch_gateway::traffic::tasks::Tasks;
use tokio::time::timeout;

const SOON: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_supervised_task_fails_the_gateway_and_ends_its_tasks() {
    let tasks = Tasks::default();
    let other = tasks.spawn(pending());
    drop(tasks.supervise("listener", async { panic!("a bug") }));
    let failure = timeout(SOON, tasks.failed()).await;
    let failure = failure.expect("it has failed").to_string();
    assert!(failure.starts_with("listener: "), "{failure}");
    assert!(failure.contains("a bug"), "{failure}");
    let ended = timeout(SOON, other).await.expect("soon");
    assert_eq!(ended.expect("no panic"), None);
    tasks.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_panic_of_a_client_s_task_ends_nothing_else() {
    let tasks = Tasks::default();
    assert!(tasks.spawn(async { panic!("a bug") }).await.is_err());
    let supervised = tasks.supervise("listener", pending());
    assert!(timeout(SOON, tasks.failed()).await.is_err());
    assert!(!tasks.closed().is_cancelled());
    tasks.close().await;
    supervised.await.expect("it has ended");
}
