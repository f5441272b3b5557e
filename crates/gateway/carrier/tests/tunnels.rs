//! Laws of tunnels over either carrier.

use std::io::{self, ErrorKind};
use std::time::Duration;

use anabranch_carrier::Carrier::{Mptcp, Quic};
use anabranch_carrier::{Carrier, Limits, Listener, Stream, Tunnel, connect};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::support::{configs, identities, tunnel};

/// Longer than anything takes on a busy machine, and shorter than the silence that ends a tunnel.
pub const PATIENCE: Duration = Duration::from_secs(10);

pub fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| ((i * 31 + seed * 7) % 251) as u8)
        .collect()
}

pub async fn pair_of_streams(near: &Tunnel, far: &Tunnel) -> (Stream, Stream) {
    let mut opened = near.open().await.expect("open");
    opened.write_all(b"!").await.expect("open");
    let mut accepted = far.accept().await.expect("open");
    assert_eq!(accepted.read_u8().await.expect("data"), b'!');
    (opened, accepted)
}

pub fn is_reset(result: io::Result<usize>) -> bool {
    result.is_err_and(|error| error.kind() == ErrorKind::ConnectionReset)
}

/// A test of each carrier for each of these.
macro_rules! over_either {
    ($($law:ident)*) => {$(
        mod $law {
            #[tokio::test]
            async fn quic() {
                super::super::$law(super::super::Quic).await;
            }

            #[tokio::test]
            async fn mptcp() {
                super::super::$law(super::super::Mptcp).await;
            }
        }
    )*};
}

mod over {
    over_either! {
        a_stream_dropped_before_it_is_shut_down_is_reset_and_not_ended
        unknown_keys_are_refused_on_both_sides
    }
}

async fn a_stream_dropped_before_it_is_shut_down_is_reset_and_not_ended(carrier: Carrier) {
    let (near, far, _listener) = tunnel(carrier, Limits::default()).await;
    // Either end is dropped, after data, or before any.
    let (mut opened, accepted) = pair_of_streams(&near, &far).await;
    drop(accepted);
    assert!(is_reset(opened.read(&mut [0; 9]).await));
    let (mut opened, mut accepted) = pair_of_streams(&near, &far).await;
    opened.write_all(b"some").await.expect("open");
    accepted.read_exact(&mut [0; 4]).await.expect("data");
    drop(opened);
    assert!(is_reset(accepted.read(&mut [0; 9]).await));
    // The writer fails too, because nobody reads.
    let endless = async { while accepted.write_all(&[0; 1000]).await.is_ok() {} };
    timeout(PATIENCE, endless).await.expect("an error");
    // The peer has ended, and waits for an answer that will not come.
    let (mut opened, mut accepted) = pair_of_streams(&near, &far).await;
    opened.shutdown().await.expect("open");
    assert_eq!(accepted.read(&mut [0; 9]).await.expect("the end"), 0);
    drop(accepted);
    assert!(is_reset(opened.read(&mut [0; 9]).await));
    // The receiver is gone: the sender is not left waiting.
    let (mut opened, accepted) = pair_of_streams(&near, &far).await;
    drop(accepted);
    let endless = async { while opened.write_all(&[0; 9999]).await.is_ok() {} };
    timeout(PATIENCE, endless).await.expect("an error");
}

async fn unknown_keys_are_refused_on_both_sides(carrier: Carrier) {
    let (near, far, _) = identities();
    let (stranger, impostor, _) = identities();
    for (near, far) in [(stranger, far), (near, impostor)] {
        let (near_config, far_config) = configs(carrier);
        let listener = Listener::bind(&far_config, &far).await.expect("bound");
        let refused = connect(&near_config, &near).await;
        let error = format!("{:#}", refused.expect_err("an unknown key"));
        let address = far_config.listen;
        assert!(error.starts_with(&format!("far = {address}:")), "{error}");
        assert!(error.contains("tunnel.peers of near"), "{error}");
        let accepted = timeout(Duration::from_millis(100), listener.accept()).await;
        assert!(accepted.is_err(), "{accepted:?}");
        assert!(listener.refused() > 0);
    }
}
