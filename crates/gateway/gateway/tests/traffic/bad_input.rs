//! Garbage, truncated requests and slow clients: refused, counted, and nothing is left of them.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_gateway::carrier;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::harness::*;

/// Answer of near until it ends or resets the connection.
async fn answer(pair: &Pair, bytes: &[u8], ends: bool) -> Vec<u8> {
    let mut socket = pair.dial("socks").await;
    socket.write_all(bytes).await.expect("sent");
    if ends {
        socket.shutdown().await.expect("ended");
    }
    let mut answer = Vec::new();
    let mut buffer = [0; 100];
    while let Ok(n @ 1..) = socket.read(&mut buffer).await {
        answer.extend(&buffer[..n]);
    }
    answer
}

#[test]
fn garbage_and_truncated_requests_are_refused_and_counted() {
    each_carrier(async |carrier| {
        let pair = Pair::start(carrier).await;
        // A host that cannot be a name: host unreachable (RFC 1928, section 6).
        let bad_name = [5, 0, 5, 4, 0, 1, 0, 0, 0, 0, 0, 0];
        let malformed: [(&[u8], &[u8]); 10] = [
            (b"", b""),
            (b"GET / HTTP/1.1\r\n", b""),
            (&[4, 1, 0, 80, 127, 0, 0, 1, 0], b""),
            (&[5], b""),
            (&[5, 0], &[5, 0xff]),
            (&[5, 2, 1, 2], &[5, 0xff]),
            (&[5, 1, 0, 4, 1, 0, 1, 127, 0, 0, 1, 0, 80], &[5, 0]),
            (&[5, 1, 0, 5, 1, 0, 3, 2, b' ', b'x', 0, 80], &bad_name),
            (&[5, 1, 0, 5, 1, 0, 3, 2, 0xc3, 0xa4, 0, 80], &bad_name),
            (
                &[5, 1, 0, 5, 1, 0, 3, 5, 49, 50, 55, 46, 49, 0, 80],
                &bad_name,
            ),
        ];
        for (i, (bytes, expected)) in malformed.iter().enumerate() {
            assert_eq!(answer(&pair, bytes, true).await, *expected, "{bytes:?}");
            assert_eq!(
                pair.near_counters.refused_malformed.value(),
                i as u64 + 1,
                "{bytes:?}"
            );
        }
        // Every truncated request.
        let whole = [
            5, 1, 0, 5, 1, 0, 3, 9, 108, 111, 99, 97, 108, 104, 111, 115, 116, 0, 80,
        ];
        for end in 0..whole.len() {
            let expected: &[u8] = if end < 3 { &[] } else { &[5, 0] };
            assert_eq!(answer(&pair, &whole[..end], true).await, expected);
        }
        let counted = pair.near_counters.refused_malformed.value();
        assert_eq!(counted, (malformed.len() + whole.len()) as u64);
        // BIND, an unknown command, an unknown type of address.
        for (bytes, code) in [
            ([5, 1, 0, 5, 2, 0, 1, 127, 0, 0, 1, 0, 80], 7),
            ([5, 1, 0, 5, 9, 0, 1, 127, 0, 0, 1, 0, 80], 7),
            ([5, 1, 0, 5, 1, 0, 2, 127, 0, 0, 1, 0, 80], 8),
        ] {
            let answer = answer(&pair, &bytes, true).await;
            assert_eq!(answer, [5, 0, 5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(pair.near_counters.refused_command.value(), 3);
        until("nothing is left", async || pair.near.active() == 0).await;
        pair.close().await;
    });
}

#[test]
fn slow_clients_are_reset() {
    each_carrier(async |carrier| {
        let near = "limits.handshake_s = 0.3";
        let pair = Pair::near_with(carrier, near).await;
        let at = pair.at("socks").await;
        let mut sockets = Vec::new();
        for bytes in [&[][..], &[5], &[5, 1, 0], &[5, 1, 0, 5, 1, 0, 3, 200, b'a']] {
            let mut socket = TcpStream::connect(at).await.expect("near listens");
            socket.write_all(bytes).await.expect("sent");
            sockets.push(socket);
        }
        // One that sends a byte now and then has no more time.
        let mut slow = TcpStream::connect(at).await.expect("near listens");
        let mut sent = 0;
        while slow.write_all(&[5]).await.is_ok() && sent < 20 {
            sent += 1;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        assert!(sent < 20);
        until("all are gone", async || pair.near.active() == 0).await;
        let counters = &pair.near_counters;
        assert_eq!(
            counters.refused_timeout.value() + counters.refused_malformed.value(),
            5
        );
        assert!(counters.refused_timeout.value() >= 4);
        pair.echoes(echo().await, "well").await;
        pair.close().await;
    });
}

/// Data that a near which is not ours could send in a tunnel.
#[test]
fn garbage_in_a_tunnel_ends_its_stream_only() {
    each_carrier(async |carrier| {
        let pair = Pair::far_with(carrier, "limits.handshake_s = 0.3").await;
        let config = &pair.near_config;
        let far: SocketAddr = config.far.parse().expect("an address");
        let hostile = carrier::Near {
            far: far.into(),
            paths: config.paths.clone(),
            settings: config.settings(),
        };
        let tunnel = carrier::connect(&hostile, &pair.near_identity).await;
        let tunnel = tunnel.expect("a tunnel");
        let heads: [&[u8]; 8] = [
            &[0, 1],
            &[1, 9],
            &[1, 1, 7, 0],
            &[1, 1, 3, 1, b'/', 0, 80],
            &[1, 1, 1, 127, 0],
            &[1],
            &[],
            &[1, 2, 0],
        ];
        for head in heads {
            let mut stream = tunnel.open().await.expect("the tunnel works");
            let _ = stream.writer.write_all(head).await;
            let _ = stream.writer.shutdown().await;
            let mut answer = Vec::new();
            let read = stream.reader.read_to_end(&mut answer).await;
            assert!(read.is_err() || answer.is_empty(), "{head:?}: {answer:?}");
        }
        // A head that does not end, until the time is over.
        let mut slow = tunnel.open().await.expect("the tunnel works");
        slow.writer.write_all(&[1, 1]).await.expect("sent");
        slow.writer.flush().await.expect("sent");
        assert!(slow.reader.read_u8().await.is_err());
        for datagram in [
            &b""[..],
            b"x",
            b"\0\0\0\x07",
            b"\0\0\0\x07\x01\x7f\0\0\x01\0\x50data",
        ] {
            let _ = tunnel.send_datagram(0, datagram.to_vec().into());
        }
        let counters = &pair.far_counters;
        until("counted", async || counters.refused_malformed.value() >= 7).await;
        reaches(&counters.refused_timeout, 1).await;
        reaches(&counters.dropped_malformed, 2).await;
        reaches(&counters.dropped_unknown, 2).await;
        until("nothing is left", async || pair.far().active() == 0).await;
        pair.echoes(echo().await, "well").await;
        tunnel.close("done");
        pair.close().await;
    });
}
