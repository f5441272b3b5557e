//! Resources of status and metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_http::{Answer, StatusCode, answer, events, line};
use anyhow::Context;
use futures_util::stream::{self, Stream};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::metrics;
use super::monitor::{Monitor, json};
use super::status::Phase;

/// A running server, which ends when it is dropped.
pub type Server = AbortOnDropHandle<()>;

/// Serves status page, JSON, readiness and metrics at this address.
pub async fn start(address: SocketAddr, monitor: Arc<Monitor>) -> anyhow::Result<Server> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("operation.status: cannot listen at {address}"))?;
    let resource = move |path: &str| resource(&monitor, path);
    let serving = anabranch_http::serve(listener, resource);
    Ok(AbortOnDropHandle::new(tokio::spawn(serving)))
}

fn resource(monitor: &Arc<Monitor>, path: &str) -> Answer {
    let file = |kind, content: &'static str| answer(StatusCode::OK, kind, content);
    let made = |kind, content: String| answer(StatusCode::OK, kind, content);
    match path {
        "/" => file("text/html; charset=utf-8", include_str!("page.html")),
        "/page.css" => file("text/css; charset=utf-8", include_str!("page.css")),
        "/page.js" => file("text/javascript; charset=utf-8", include_str!("page.js")),
        "/events" => events(follow(monitor.clone())),
        "/status.json" => made("application/json", json(&*monitor.status()) + "\n"),
        "/history.json" => made("application/json", monitor.history() + "\n"),
        "/metrics" => made(metrics::KIND, metrics::text(&monitor.status())),
        "/ready" => ready(monitor.status().phase),
        _ => line(StatusCode::NOT_FOUND, "not found; the status is at /"),
    }
}

/// 200 once a tunnel has been established, 503 before that and while draining.
fn ready(phase: Phase) -> Answer {
    let code = match phase {
        Phase::Ready => StatusCode::OK,
        Phase::Starting | Phase::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    line(code, &phase.to_string())
}

/// Events: the status and the last hour, then the news of each second.
fn follow(monitor: Arc<Monitor>) -> impl Stream<Item = (&'static str, String)> {
    let mut statuses = monitor.subscribe();
    statuses.mark_changed();
    stream::unfold(
        (monitor, statuses, 0),
        |(monitor, mut statuses, since)| async move {
            statuses.changed().await.ok()?;
            let (update, second) = monitor.update(since);
            Some((("update", update), (monitor, statuses, second)))
        },
    )
}
