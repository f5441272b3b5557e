//! DNS: passes queries on to the configured resolver.

use std::io;

use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::{Shared, refuse};
use crate::carrier::Stream;
use crate::names::ask;
use crate::names::dns::{TIMEOUT, parse_query};
use crate::wire::{Reply, encode_frame, read_frame};

/// Answers one query.
pub async fn serve(shared: &Shared, mut stream: Stream) -> io::Result<()> {
    let counters = &shared.counters;
    let Some(resolver) = shared.config().resolver else {
        counters.dns_failed.increment();
        return refuse(stream, Reply::NotAllowed).await;
    };
    let query = timeout(TIMEOUT, read_frame(&mut stream.reader)).await??;
    let query = query.unwrap_or_default();
    let Some(parsed) = parse_query(&query) else {
        counters.refused_malformed.increment();
        return refuse(stream, Reply::GeneralFailure).await;
    };
    let answer = async {
        let answer = ask(resolver, &query, &parsed).await?;
        encode_frame(&[&answer]).ok_or(io::ErrorKind::InvalidData.into())
    };
    match timeout(TIMEOUT, answer)
        .await
        .unwrap_or_else(|late| Err(late.into()))
    {
        Ok(frame) => {
            counters.dns_answered.increment();
            stream.writer.write_all(&[Reply::Succeeded as u8]).await?;
            stream.writer.write_all(&frame).await?;
            stream.writer.shutdown().await
        }
        Err(error) => {
            counters.dns_failed.increment();
            refuse(stream, Reply::from_error(&error)).await
        }
    }
}
