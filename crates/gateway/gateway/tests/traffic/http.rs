//! HTTP CONNECT, at the port of SOCKS5.

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::harness::*;

/// Answer of near to a head, up to its end.
async fn answer(pair: &Pair, head: &str) -> String {
    let mut socket = pair.dial("socks").await;
    let _ = socket.write_all(head.as_bytes()).await;
    let mut answer = String::new();
    let read = tokio::time::timeout(PATIENCE, socket.read_to_string(&mut answer));
    read.await.expect("in time").expect("no reset");
    answer
}

#[test]
fn hostile_heads_are_refused_with_a_status_and_a_reason() {
    each_carrier(async |carrier| {
        let near = "rules = [{ to = \"*:9\", via = \"refused\" }]";
        let pair = Pair::near_with(carrier, near).await;
        let (listener, closed) = listen().await;
        drop(listener);
        let fields = "A: b\r\n".repeat(65);
        let long = "a".repeat(9000);
        let cases = [
            ("GET / HTTP/1.1\r\n\r\n".to_owned(), "405 "),
            (
                "GET http://a.org/ HTTP/1.1\r\nHost: a.org\r\n\r\n".to_owned(),
                "405 ",
            ),
            (
                "CONNECT a.org HTTP/1.1\r\n\r\n".to_owned(),
                "400 expected a host and a port",
            ),
            (
                "CONNECT a.org:0 HTTP/1.1\r\n\r\n".to_owned(),
                "400 expected a host and a port",
            ),
            (
                "CONNECT a.org:65536 HTTP/1.1\r\n\r\n".to_owned(),
                "400 expected a host",
            ),
            (
                "CONNECT 127.1:80 HTTP/1.1\r\n\r\n".to_owned(),
                "400 expected a host",
            ),
            (
                "CONNECT u@a.org:80 HTTP/1.1\r\n\r\n".to_owned(),
                "400 expected a host",
            ),
            ("CONNECT\r\n\r\n".to_owned(), "400 not a request"),
            ("CONNECT a.org:80\r\n\r\n".to_owned(), "400 not a request"),
            (
                "CONNECT a.org:80 HTTP/1.1\r\nA\0: b\r\n\r\n".to_owned(),
                "400 not a request",
            ),
            (
                "CONNECT a.org:80 HTTP/2.0\n\n".to_owned(),
                "400 not a request",
            ),
            (format!("CONNECT a.org:80 HTTP/1.1\r\n{fields}\r\n"), "431 "),
            (format!("CONNECT {long}:80 HTTP/1.1\r\n\r\n"), "431 "),
            (
                "CONNECT 127.0.0.1:9 HTTP/1.1\r\n\r\n".to_owned(),
                "403 a rule",
            ),
            (
                "CONNECT 8.8.8.8:53 HTTP/1.1\r\n\r\n".to_owned(),
                "403 a rule",
            ),
            (
                format!("CONNECT {closed} HTTP/1.1\r\n\r\n"),
                "502 the destination refuses",
            ),
        ];
        for (head, status) in cases {
            let answer = answer(&pair, &head).await;
            assert!(
                answer.starts_with(&format!("HTTP/1.1 {status}")),
                "{head}: {answer}"
            );
            assert!(answer.ends_with("\r\n\r\n"), "{answer}");
        }
        assert_eq!(pair.near_counters.refused_malformed.value(), 13);
        until("nothing is left", async || pair.near.active() == 0).await;
        pair.close().await;
    });
}

#[test]
fn data_after_the_head_is_the_connections() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let echo = echo().await;
        let mut socket = pair.dial("socks").await;
        let sent = format!("CONNECT {echo} HTTP/1.1\r\nHost: {echo}\r\n\r\nat once");
        socket.write_all(sent.as_bytes()).await.expect("sent");
        socket.shutdown().await.expect("ended");
        let expected = "HTTP/1.1 200 Connection established\r\n\r\nat once";
        assert_eq!(rest(&mut socket).await, expected);
        pair.close().await;
    });
}

/// A server of one page.
async fn page() -> SocketAddr {
    let (listener, address) = listen().await;
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            let _ = socket.read(&mut [0; 1000]).await;
            let page = b"HTTP/1.0 200 OK\r\nContent-Length: 4\r\n\r\npage";
            let _ = socket.write_all(page).await;
            let _ = socket.shutdown().await;
        }
    });
    address
}

#[test]
fn curl_loads_a_page_by_http_connect_and_by_socks_at_one_port() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        let (url, at) = (format!("http://{}/", page().await), pair.at("socks").await);
        for protocol in ["http", "socks5h"] {
            let proxy = format!("{protocol}://{at}");
            let mut curl = tokio::process::Command::new("curl");
            curl.args(["-sS", "--noproxy", "", "-p", "-x", &proxy, &url])
                .stdin(Stdio::null());
            let Ok(done) = curl.output().await else {
                return; // it is not installed
            };
            let error = String::from_utf8_lossy(&done.stderr);
            assert_eq!(done.stdout, b"page", "{protocol}: {error}");
        }
        pair.close().await;
    });
}
