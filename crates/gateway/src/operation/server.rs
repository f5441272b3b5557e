//! HTTP for status and metrics: GET only, nothing is changed by a request.

use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use futures_util::stream::{self, Stream};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};

use super::monitor::{Monitor, PERIOD, PLOTS};
use super::status::{Phase, Status};
use super::{metrics, page};

/// The most pages that are live at the same time.
const LIVE: usize = 16;

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// Serves status page and JSON at this address, until the returned task is aborted.
///
/// # Errors
/// If the address cannot be bound.
pub async fn status(address: SocketAddr, monitor: Arc<Monitor>) -> anyhow::Result<Server> {
    let live = Arc::new(Semaphore::new(LIVE));
    let routes = Router::new()
        .route(
            "/",
            get(|State(monitor): State<Arc<Monitor>>| async move { Html(monitor.page()) }),
        )
        .route(
            "/page.css",
            get(|| async { ([(CONTENT_TYPE, "text/css")], page::STYLE) }),
        )
        .route(
            "/page.js",
            get(|| async { ([(CONTENT_TYPE, "text/javascript")], page::SCRIPT) }),
        )
        .route("/status.json", get(json))
        .route("/ready", get(ready))
        .route("/events", get(move |monitor| events(monitor, live.clone())))
        .with_state(monitor);
    serve(address, "operation.status", routes).await
}

/// Serves metrics at this address.
///
/// # Errors
/// As [`status`].
pub async fn metrics(address: SocketAddr, monitor: Arc<Monitor>) -> anyhow::Result<Server> {
    let routes = Router::new()
        .route("/metrics", get(prometheus))
        .with_state(monitor);
    serve(address, "operation.metrics", routes).await
}

/// A server, which ends when it is dropped.
#[derive(Debug)]
pub struct Server(tokio::task::JoinHandle<()>);

impl Drop for Server {
    fn drop(&mut self) {
        self.0.abort();
    }
}

async fn serve(address: SocketAddr, key: &str, routes: Router) -> anyhow::Result<Server> {
    let listener = TcpListener::bind(address).await;
    let listener = listener.with_context(|| format!("{key}: cannot listen at {address}"))?;
    let routes = routes.layer(middleware::from_fn(guarded));
    Ok(Server(tokio::spawn(async move {
        // It returns only after a shutdown.
        let _ = axum::serve(listener, routes).await;
    })))
}

/// Refuses names in `Host`, so that no web page can read the status by rebinding a name of its own
/// to this address; adds the security headers.
async fn guarded(request: Request, next: Next) -> Response {
    let host = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let mut response = if host.is_some_and(|host| !is_address(host)) {
        let message = "expected an IP address or localhost in the URL\n";
        (StatusCode::MISDIRECTED_REQUEST, message).into_response()
    } else {
        next.run(request).await
    };
    let headers = [
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, HeaderValue::from_static(value));
    }
    response
}

fn is_address(host: &str) -> bool {
    let without_port = || host.rsplit_once(':').map_or(host, |(host, _)| host);
    host.parse::<SocketAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || without_port().parse::<IpAddr>().is_ok()
        || without_port() == "localhost"
}

async fn json(State(monitor): State<Arc<Monitor>>) -> Response {
    let body = serde_json::to_string(&*monitor.status()).expect("a status is plain JSON");
    ([(CONTENT_TYPE, "application/json")], body + "\n").into_response()
}

/// 200 once a tunnel has been established, 503 before that and while draining.
async fn ready(State(monitor): State<Arc<Monitor>>) -> Response {
    let phase = monitor.status().phase;
    let code = match phase {
        Phase::Ready => StatusCode::OK,
        Phase::Starting | Phase::Draining => StatusCode::SERVICE_UNAVAILABLE,
    };
    (code, format!("{}\n", phase.name())).into_response()
}

async fn prometheus(State(monitor): State<Arc<Monitor>>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    match metrics::text(&monitor.status()) {
        Ok(text) => ([(CONTENT_TYPE, kind)], text).into_response(),
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

async fn events(State(monitor): State<Arc<Monitor>>, live: Arc<Semaphore>) -> Response {
    match live.try_acquire_owned() {
        Ok(permit) => Sse::new(follow(monitor, permit))
            .keep_alive(KeepAlive::default())
            .into_response(),
        Err(_) => {
            let message = format!("at most {LIVE} pages are live at the same time\n");
            (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
        }
    }
}

/// What one live page follows.
struct Follower {
    monitor: Arc<Monitor>,
    changes: watch::Receiver<Arc<Status>>,
    /// Statuses since the last plots.
    age: u64,
    _permit: OwnedSemaphorePermit,
}

fn follow(
    monitor: Arc<Monitor>,
    permit: OwnedSemaphorePermit,
) -> impl Stream<Item = Result<Event, Infallible>> {
    let follower = Follower {
        changes: monitor.subscribe(),
        monitor,
        age: 0,
        _permit: permit,
    };
    stream::unfold(follower, |mut follower| async move {
        follower.changes.changed().await.ok()?;
        follower.changes.borrow_and_update();
        follower.age += 1;
        let event = if follower.age >= PLOTS.as_secs() / PERIOD.as_secs() {
            follower.age = 0;
            Event::default()
                .event("plots")
                .data(follower.monitor.plots())
        } else {
            Event::default().event("live").data(follower.monitor.live())
        };
        Some((Ok(event), follower))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_accepted_as_host() {
        for host in [
            "127.0.0.1:9480",
            "127.0.0.1",
            "[::1]:9480",
            "[::1]",
            "localhost:9480",
        ] {
            assert!(is_address(host), "{host}");
        }
        for host in [
            "evil.example:9480",
            "evil.example",
            "localhost.evil.example",
            "",
        ] {
            assert!(!is_address(host), "{host}");
        }
    }
}
