//! Attempts with several addresses.

use std::net::SocketAddr;
use std::time::Duration;

use anabranch_gateway::names::race;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn an_address_without_an_answer_delays_the_next_by_a_quarter_of_a_second() {
    let addresses = [1, 2, 3, 4, 5].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
    let start = Instant::now();
    // The first never answers, the second refuses at once, the third accepts.
    let attempt = async |address: SocketAddr| match address.port() {
        1 => std::future::pending().await,
        2 => Err("refused"),
        port => Ok(port),
    };
    assert_eq!(race(&addresses, attempt).await, Ok(3));
    // The Connection Attempt Delay of RFC 8305, section 5.
    assert_eq!(start.elapsed(), Duration::from_millis(250));
    let refuses = async |address: SocketAddr| Err::<(), _>(address.port());
    assert_eq!(race(&addresses, refuses).await, Err(Some(4)));
    assert_eq!(race(&[], refuses).await, Err(None));
}
