//! Messages of `near` to `far` about its paths: lines of JSON on a stream of their own.

use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};

use super::library::{Receiving, Sending};
use crate::config::{self, is_name};

/// Longest line, bytes.
const MAX_LINE: u64 = 4096;

/// Message: a path opens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Opens {
    /// Number of the path in the library.
    pub id: u32,
    /// Configured name.
    pub name: String,
    /// Configured role.
    pub role: config::Role,
    /// Configured weight.
    pub weight: f64,
    /// Configured rate, Mbit/s.
    pub rate_mbps: Option<f64>,
}

impl Opens {
    /// The message that this path opens with this number.
    pub fn new(id: u32, path: &config::Path) -> Opens {
        Opens {
            id,
            name: path.name.clone(),
            role: path.role,
            weight: path.weight,
            rate_mbps: path.rate_mbps,
        }
    }

    fn is_valid(&self) -> bool {
        is_name(&self.name)
            && (self.weight > 0.0 && self.weight <= 1.0)
            && self.rate_mbps.is_none_or(|rate| rate > 0.0)
    }
}

/// Writes one message; the library buffers it.
pub(super) async fn write(stream: &mut Sending, message: &Opens) -> anyhow::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await?;
    Ok(())
}

/// Reader of messages.
pub(super) struct Reader<S = Receiving>(BufReader<S>);

impl<S: AsyncRead + Unpin> Reader<S> {
    /// A reader of this stream.
    pub fn new(stream: S) -> Reader<S> {
        Reader(BufReader::new(stream))
    }

    /// The next message; `None` at the end of the stream.
    pub async fn read(&mut self) -> anyhow::Result<Option<Opens>> {
        let mut line = Vec::new();
        let read = (&mut self.0)
            .take(MAX_LINE)
            .read_until(b'\n', &mut line)
            .await?;
        if read == 0 {
            return Ok(None);
        }
        parse(&line).map(Some)
    }
}

fn parse(line: &[u8]) -> anyhow::Result<Opens> {
    let message: Opens = serde_json::from_slice(line)?;
    anyhow::ensure!(message.is_valid(), "a name, weight or rate is not valid");
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_read_as_written_and_others_are_errors() {
        let message = Opens {
            id: 3,
            name: "dsl".into(),
            role: config::Role::Backup,
            weight: 0.5,
            rate_mbps: Some(8.0),
        };
        let line = serde_json::to_vec(&message).expect("JSON");
        assert_eq!(parse(&line).expect("valid"), message);
        for wrong in ["", "{}", "[1]", "\u{0}", "{\"id\":3"] {
            assert!(parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let text = String::from_utf8(line).expect("JSON");
        assert!(parse(text.replace("0.5", "0").as_bytes()).is_err());
        assert!(parse(text.replace("8.0", "-1").as_bytes()).is_err());
        for name in ["", "a b", "a\\nb", "\u{202e}", &"a".repeat(1000)] {
            assert!(
                parse(text.replace("dsl", name).as_bytes()).is_err(),
                "{name}"
            );
        }
    }
}
