//! TCP connections by SOCKS5 and port forwards.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::harness::{Options, Pair, each_carrier, echo};

#[test]
fn socks_and_forwards_carry_connections() {
    each_carrier(async |carrier| {
        let echo = echo().await;
        let options = Options {
            near: &format!("forwards = [{{ listen = \"127.0.0.1:0\", to = \"{echo}\" }}]"),
            ..Options::default()
        };
        let pair = Pair::with(carrier, options).await;
        let by_socks = pair.connect(echo).await.expect("connected");
        let by_name = pair.connect_name("localhost", echo.port()).await;
        let by_forward = TcpStream::connect(pair.at("forwards[0]").await).await;
        // "localhost" is allowed because 127.0.0.0/8 is.
        for mut socket in [
            by_socks,
            by_name.expect("connected"),
            by_forward.expect("connected"),
        ] {
            socket.write_all(b"there and back").await.expect("sent");
            socket.shutdown().await.expect("ended");
            let mut text = String::new();
            socket.read_to_string(&mut text).await.expect("received");
            assert_eq!(text, "there and back");
        }
        assert_eq!(pair.near_counters.relayed_tunnel.value(), 3);
        assert_eq!(pair.far_counters.bytes_up.value(), 3 * 14);
        pair.close().await;
    });
}
