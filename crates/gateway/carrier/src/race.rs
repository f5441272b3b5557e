//! Attempts with several addresses (Happy Eyeballs, RFC 8305).

use std::future::Future;
use std::net::SocketAddr;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use tokio::time::timeout;

/// Connection Attempt Delay of RFC 8305, section 5.
const DELAY: Duration = Duration::from_millis(250);

/// Most addresses that are tried.
const MAX_ADDRESSES: usize = 4;

/// Returns the first success of attempts with these addresses. The next attempt starts when one
/// fails, or beside those that have not finished after the Connection Attempt Delay.
///
/// # Errors
/// The error of the attempt that failed last; `None` without addresses.
pub async fn race<T, E, Attempt: Future<Output = Result<T, E>>>(
    addresses: &[SocketAddr],
    attempt: impl Fn(SocketAddr) -> Attempt,
) -> Result<T, Option<E>> {
    let mut untried = addresses.iter().take(MAX_ADDRESSES);
    let mut attempts = FuturesUnordered::new();
    let mut failure = None;
    loop {
        attempts.extend(untried.next().map(|address| attempt(*address)));
        let finished = async {
            match untried.len() {
                0 => Ok(attempts.next().await),
                _ => timeout(DELAY, attempts.next()).await,
            }
        };
        match finished.await {
            Ok(Some(Ok(success))) => return Ok(success),
            Ok(Some(Err(error))) => failure = Some(error),
            Ok(None) => return Err(failure),
            Err(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_address_without_an_answer_delays_the_next_by_a_quarter_of_a_second() {
        let addresses = [1, 2, 3, 4, 5].map(|port| SocketAddr::from(([192, 0, 2, 1], port)));
        let start = tokio::time::Instant::now();
        // The first never answers, the second refuses at once, the third accepts.
        let attempt = async |address: SocketAddr| match address.port() {
            1 => std::future::pending().await,
            2 => Err("refused"),
            port => Ok(port),
        };
        assert_eq!(race(&addresses, attempt).await, Ok(3));
        assert_eq!(start.elapsed(), DELAY);
        let refuses = async |address: SocketAddr| Err::<(), _>(address.port());
        assert_eq!(race(&addresses, refuses).await, Err(Some(4)));
        assert_eq!(race(&[], refuses).await, Err(None));
    }
}
