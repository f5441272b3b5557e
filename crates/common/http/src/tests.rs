use std::io::ErrorKind;

use futures_util::stream;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// Serves a page, live events and nothing else.
async fn served() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("bound");
    tokio::spawn(serve(listener, |path| match path {
        "/" => answer(StatusCode::OK, "text/html", "<p>page"),
        "/events" => events(stream::iter([("live", "one\ntwo"), ("plots", "three")])),
        _ => line(StatusCode::NOT_FOUND, "not here"),
    }));
    address
}

async fn connect(at: SocketAddr) -> TcpStream {
    TcpStream::connect(at).await.expect("it listens")
}

/// The whole answer to this request, without its end.
async fn ask(at: SocketAddr, request: &str) -> String {
    let mut stream = connect(at).await;
    let request = format!("{request}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.expect("sent");
    let mut all = String::new();
    let _ = stream.read_to_string(&mut all).await;
    all
}

#[tokio::test]
async fn idle_connections_keep_nobody_out_and_are_closed_above_the_limit() {
    let at = served().await;
    let mut idle = Vec::new();
    for i in 0..5 * CONNECTIONS {
        idle.push(connect(at).await);
        if i % CONNECTIONS == 0 {
            let answer = ask(at, "GET / HTTP/1.1\r\nHost: localhost").await;
            assert!(answer.ends_with("<p>page"), "{answer}");
        }
    }
    let is_open = |stream: &&TcpStream| {
        let read = stream.try_read(&mut [0]);
        read.is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let bounded = async {
        while idle.iter().filter(is_open).count() > CONNECTIONS {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let waited = timeout(HEADERS / 2, bounded).await;
    waited.expect("not only the header's timeout closes them");
}

/// A reader that takes nothing holds its answer for a while; one of live events stays.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_its_answer_is_closed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let at = listener.local_addr().expect("bound");
    tokio::spawn(serve(listener, |path| match path {
        "/events" => events(stream::pending::<(&str, String)>()),
        _ => answer(StatusCode::OK, "text/html", vec![b'x'; 50 << 20]),
    }));
    let open = async |path: &str| {
        let mut stream = connect(at).await;
        let request = format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("sent");
        stream
    };
    let (mut large, mut live) = (open("/").await, open("/events").await);
    sleep(2 * ANSWER).await;
    let mut all = Vec::new();
    let _ = large.read_to_end(&mut all).await;
    assert!(all.len() < 50 << 20, "{} bytes", all.len());
    live.read_exact(&mut [0; 12]).await.expect("a head");
    let more = timeout(ANSWER, live.read_to_end(&mut Vec::new())).await;
    assert!(more.is_err(), "it goes on");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_its_header_slowly_is_closed() {
    let at = served().await;
    let mut stream = connect(at).await;
    let (mut read, mut write) = stream.split();
    let slow = async {
        loop {
            sleep(HEADERS / 10).await;
            let _ = write.write_all(b"x").await;
        }
    };
    let mut end = Vec::new();
    tokio::select! {
        () = slow => {}
        _ = read.read_to_end(&mut end) => {}
        () = sleep(2 * HEADERS) => panic!("it is still open"),
    }
}

#[tokio::test]
async fn a_header_without_end_is_refused() {
    let at = served().await;
    let long = "x".repeat(2 * LONGEST_HEADER);
    let answer = ask(
        at,
        &format!("GET / HTTP/1.1\r\nHost: localhost\r\nA: {long}"),
    )
    .await;
    assert!(!answer.contains("200 OK"), "{answer}");
}

#[tokio::test]
async fn what_only_other_sites_ask_for_is_refused() {
    let at = served().await;
    for (request, status) in [
        ("GET / HTTP/1.0", "200"),
        ("HEAD / HTTP/1.1\r\nHost: [::1]:9480", "200"),
        ("GET /other HTTP/1.1\r\nHost: localhost", "404"),
        ("POST / HTTP/1.1\r\nHost: localhost", "405"),
        ("GET / HTTP/1.1\r\nHost: rebound.example", "421"),
        (
            "GET / HTTP/1.1\r\nHost: localhost\r\nHost: rebound.example",
            "421",
        ),
        ("GET / HTTP/1.0\r\nSec-Fetch-Site: cross-site", "403"),
        ("GET / HTTP/1.0\r\nSec-Fetch-Site: same-site", "403"),
        (
            "GET / HTTP/1.0\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: iframe",
            "403",
        ),
        (
            "GET / HTTP/1.0\r\nSec-Fetch-Site: cross-site\r\nSec-Fetch-Dest: document",
            "200",
        ),
        ("GET / HTTP/1.0\r\nSec-Fetch-Site: same-origin", "200"),
        ("GET / HTTP/1.0\r\nSec-Fetch-Site: none", "200"),
        (
            "GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\nOrigin: http://evil.example",
            "403",
        ),
        ("GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\nOrigin: null", "403"),
        (
            "GET / HTTP/1.1\r\nHost: 10.0.0.1:80\r\nOrigin: http://10.0.0.1:80",
            "200",
        ),
    ] {
        let answer = ask(at, request).await;
        assert_eq!(
            answer.split(' ').nth(1),
            Some(status),
            "{request}: {answer}"
        );
        assert!(
            answer.contains("content-security-policy: default-src 'none'"),
            "{answer}"
        );
    }
}

#[tokio::test]
async fn each_line_of_an_event_is_a_line_of_data() {
    let at = served().await;
    let answer = ask(at, "GET /events HTTP/1.0").await;
    let (head, body) = answer.split_once("\r\n\r\n").expect("a header");
    assert!(head.contains("content-type: text/event-stream"), "{head}");
    let expected = "event: live\ndata: one\ndata: two\n\nevent: plots\ndata: three\n\n";
    assert_eq!(body, expected);
}

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
