//! HTTP/1.1 for a status page and metrics: GET of resources that no request changes.
//!
//! Clients are not trusted: [`CONNECTIONS`], [`HEADERS`] and [`ANSWER`] bound what they occupy, and
//! pages of other sites are refused, whether they rebind a name to this address or embed a
//! resource.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream::{Stream, StreamExt};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::Frame;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, ORIGIN,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tokio_util::task::AbortOnDropHandle;

pub use hyper::StatusCode;

/// Most connections at a time. A further one closes the oldest, so that idle connections keep
/// nobody out.
pub const CONNECTIONS: usize = 64;

/// Time limit of a client for the header of its request.
pub const HEADERS: Duration = Duration::from_secs(5);

/// Time limit of a client for its request and the answer, but for live events: each holds its
/// answer until it has read it.
pub const ANSWER: Duration = Duration::from_secs(30);

/// The longest header of a request, bytes.
const LONGEST_HEADER: usize = 16 << 10;

/// The pause after an error of accept().
const PAUSE: Duration = Duration::from_millis(100);

/// The media type of [`events`].
const EVENTS: &str = "text/event-stream";

const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// A response.
pub type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// A response with this status, media type and content.
pub fn answer(status: StatusCode, kind: &'static str, content: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(content.into()).boxed_unsync());
    *answer.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    answer.headers_mut().insert(CONTENT_TYPE, kind);
    answer
}

/// A line of plain text; [`answer`] with other media types.
pub fn line(status: StatusCode, text: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", format!("{text}\n"))
}

/// Server-sent events: the name and the data of each.
pub fn events<D: AsRef<str>>(
    events: impl Stream<Item = (&'static str, D)> + Send + 'static,
) -> Answer {
    let frames = events.map(|(name, data)| {
        let data = data.as_ref().replace('\n', "\ndata: ");
        let event = format!("event: {name}\ndata: {data}\n\n");
        Ok(Frame::data(Bytes::from(event)))
    });
    let mut answer = answer(StatusCode::OK, EVENTS, "");
    *answer.body_mut() = StreamBody::new(frames).boxed_unsync();
    answer
}

/// Answers GET of each path by `resource`, until the future is dropped.
pub async fn serve(
    listener: TcpListener,
    resource: impl Fn(&str) -> Answer + Clone + Send + 'static,
) {
    let mut open: VecDeque<AbortOnDropHandle<()>> = VecDeque::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() == CONNECTIONS {
            open.pop_front();
        }
        let connection = tokio::spawn(connection(stream, resource.clone()));
        open.push_back(AbortOnDropHandle::new(connection));
    }
}

/// One request: an idle connection is worth nothing to a client of this host.
async fn connection(stream: TcpStream, resource: impl Fn(&str) -> Answer) {
    let is_live = Arc::new(AtomicBool::new(false));
    let live = is_live.clone();
    let answered = service_fn(move |request| {
        let answer = guarded(&request, &resource);
        let kind = answer.headers().get(CONTENT_TYPE);
        live.store(kind.is_some_and(|kind| kind == EVENTS), Ordering::Relaxed);
        async { Ok::<_, Infallible>(answer) }
    });
    let serving = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS)
        .max_buf_size(LONGEST_HEADER)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answered);
    let mut serving = pin!(serving);
    // An error is the client's: it is gone, or too slow, or speaks no HTTP.
    let in_time = timeout(ANSWER, &mut serving).await.is_ok();
    if !in_time && is_live.load(Ordering::Relaxed) {
        let _ = serving.await;
    }
}

/// Refuses requests that only pages of other sites make, and adds the security headers.
fn guarded<B>(request: &Request<B>, resource: impl Fn(&str) -> Answer) -> Answer {
    let mut answer = if !names_an_address(request) {
        let message = "expected an IP address or localhost in the URL";
        line(StatusCode::MISDIRECTED_REQUEST, message)
    } else if is_embedded_elsewhere(request) {
        line(StatusCode::FORBIDDEN, "another site asks for this")
    } else if !matches!(*request.method(), Method::GET | Method::HEAD) {
        line(StatusCode::METHOD_NOT_ALLOWED, "expected GET")
    } else {
        resource(request.uri().path())
    };
    let headers = [
        (ALLOW, "GET, HEAD"),
        (CONTENT_SECURITY_POLICY, POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
        (CACHE_CONTROL, "no-store"),
    ];
    for (name, value) in headers {
        let value = HeaderValue::from_static(value);
        answer.headers_mut().insert(name, value);
    }
    answer
}

/// Whether `Host` is no name: a web page can rebind a name of its own to this address (DNS
/// rebinding), and then read the resources served here.
fn names_an_address<B>(request: &Request<B>) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    hosts.all(|host| host.to_str().is_ok_and(is_address))
}

fn is_address(host: &str) -> bool {
    let without_port = || host.rsplit_once(':').map_or(host, |(host, _)| host);
    host.parse::<SocketAddr>().is_ok()
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok()
        || without_port().parse::<IpAddr>().is_ok()
        || without_port() == "localhost"
}

/// Whether a browser asks for a page of another site, other than because a user follows a link
/// (Fetch Metadata Request Headers, W3C).
fn is_embedded_elsewhere<B>(request: &Request<B>) -> bool {
    let is = |header, value: &str| {
        let found = request.headers().get(header);
        found.is_some_and(|found| found == value)
    };
    let elsewhere = is("sec-fetch-site", "cross-site") || is("sec-fetch-site", "same-site");
    // Browsers send no such header to an address of a LAN over plain HTTP, but this one.
    let own = request
        .headers()
        .get(HOST)
        .and_then(|host| host.to_str().ok());
    let is_other = |origin: &HeaderValue| {
        let origin = origin.to_str().unwrap_or_default();
        let (_, from) = origin.split_once("://").unwrap_or_default();
        Some(from) != own
    };
    let has_other_origin = request.headers().get(ORIGIN).is_some_and(is_other);
    has_other_origin || elsewhere && !is("sec-fetch-dest", "document")
}

#[cfg(test)]
mod tests;
