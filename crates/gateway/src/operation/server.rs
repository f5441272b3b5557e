//! The resources of status and metrics.

use std::net::SocketAddr;
use std::sync::Arc;

use anabranch_http::{Answer, StatusCode, answer, events, line};
use anyhow::Context;
use futures_util::stream::{self, Stream};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;

use super::monitor::{Monitor, PERIOD, PLOTS};
use super::status::Phase;
use super::{metrics, page};

/// A running server, which ends when it is dropped.
pub type Server = AbortOnDropHandle<()>;

/// Serves status page, JSON, readiness and metrics at this address.
///
/// # Errors
/// If the address cannot be bound.
pub async fn start(address: SocketAddr, monitor: Arc<Monitor>) -> anyhow::Result<Server> {
    let listener = TcpListener::bind(address).await;
    let listener =
        listener.with_context(|| format!("operation.status: cannot listen at {address}"))?;
    let resource = move |path: &str| resource(&monitor, path);
    let serving = anabranch_http::serve(listener, resource);
    Ok(AbortOnDropHandle::new(tokio::spawn(serving)))
}

fn resource(monitor: &Arc<Monitor>, path: &str) -> Answer {
    let ok = |kind, content: String| answer(StatusCode::OK, kind, content);
    match path {
        "/" => ok("text/html; charset=utf-8", monitor.page()),
        "/page.css" => ok("text/css", page::STYLE.to_owned()),
        "/page.js" => ok("text/javascript", page::SCRIPT.to_owned()),
        "/events" => events(follow(monitor.clone())),
        "/status.json" => {
            let json = serde_json::to_string(&*monitor.status()).expect("a status is plain JSON");
            ok("application/json", json + "\n")
        }
        "/metrics" => ok(metrics::KIND, metrics::text(&monitor.status())),
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
    line(code, phase.name())
}

/// The parts of the page that change, as events.
fn follow(monitor: Arc<Monitor>) -> impl Stream<Item = (&'static str, Arc<str>)> {
    let statuses = monitor.subscribe();
    let ages = 1u64..;
    stream::unfold(
        (monitor, statuses, ages),
        |(monitor, mut statuses, mut ages)| async move {
            statuses.changed().await.ok()?;
            let plots = ages.next()? % (PLOTS.as_secs() / PERIOD.as_secs()) == 0;
            let event = if plots {
                ("plots", monitor.plots())
            } else {
                ("live", monitor.live().into())
            };
            Some((event, (monitor, statuses, ages)))
        },
    )
}
