//! Messages of an application: how large each is, and when it is submitted.

use anabranch_net::Time;
use anabranch_net::time::from_seconds;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::model::number::{Bytes, SampleMs, TimeS};

/// The messages of each user: all of one size at equal times, a list, or a file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Messages {
    /// Size of every message, bytes of payload; with `interval_ms`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<Bytes>,
    /// Time from one message to the next, ms; the first is at the user's start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_ms: Option<SampleMs>,
    /// The messages one by one, in the order of their times.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub list: Vec<Message>,
    /// A CSV file of them beside the scenario: a header `time_s,bytes`, then a line per message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The messages of `list` or `file`, once they are read.
    #[serde(skip)]
    pub(crate) read: Vec<Message>,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Message {
    /// When it is submitted, s after the user's start.
    pub time_s: TimeS,
    /// Size, bytes of payload.
    pub bytes: Bytes,
}

/// The number of a CSV line and what is wrong there.
pub(crate) type CsvFault = (usize, String);

/// The first line of a file of messages.
const HEADER: &str = "time_s,bytes";

impl Messages {
    /// The time of message `number` after the user's start; `None`: there is none.
    pub(crate) fn time(&self, number: u64) -> Option<Time> {
        match self.interval_ms {
            Some(interval_ms) => Some(number * from_seconds(interval_ms.get() * 1e-3)),
            None => self.one(number).map(|one| from_seconds(one.time_s.get())),
        }
    }

    /// The size of message `number`, bytes; 0: there is none.
    pub(crate) fn bytes(&self, number: u64) -> u64 {
        let size = self.size_bytes.or(self.one(number).map(|one| one.bytes));
        size.map_or(0, Bytes::get)
    }

    /// Messages of a user within `s` seconds of its start, and their bytes.
    pub(crate) fn within(&self, s: f64) -> (f64, f64) {
        if let (Some(size), Some(interval_ms)) = (self.size_bytes, self.interval_ms) {
            let number = (s * 1e3 / interval_ms.get()).ceil();
            return (number, number * size.get() as f64);
        }
        let sent = self.read.iter().filter(|one| one.time_s.get() < s);
        sent.fold((0.0, 0.0), |(number, bytes), one| {
            (number + 1.0, bytes + one.bytes.get() as f64)
        })
    }

    fn one(&self, number: u64) -> Option<&Message> {
        self.read.get(number as usize)
    }
}

/// The messages of a CSV text.
///
/// # Errors
/// The line, counted from 1, what was expected there and what was found.
pub(crate) fn parse(text: &str) -> Result<Vec<Message>, CsvFault> {
    let mut lines = text.lines().map(str::trim).zip(1..);
    match lines.next() {
        Some((HEADER, _)) => {}
        other => {
            let found = other.map_or("", |(line, _)| line);
            let message = format!("expected the header {HEADER:?}, found {found:?}");
            return Err((1, message));
        }
    }
    let filled = lines.filter(|(line, _)| !line.is_empty());
    filled
        .map(|(line, number)| message(line).map_err(|fault| (number, fault)))
        .collect()
}

fn message(line: &str) -> Result<Message, String> {
    let two =
        || format!("expected a time in s and a size in bytes, such as 0.02,160, found {line:?}");
    let (time, bytes) = line.split_once(',').ok_or_else(two)?;
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| two());
    Ok(Message {
        time_s: TimeS::try_from(number(time)?).map_err(|fault| format!("time_s: {fault}"))?,
        bytes: Bytes::try_from(number(bytes)?).map_err(|fault| format!("bytes: {fault}"))?,
    })
}

/// The place of the first message that is earlier than the one before it.
pub(crate) fn first_out_of_order(messages: &[Message]) -> Option<usize> {
    let earlier = |pair: &[Message]| pair[1].time_s < pair[0].time_s;
    messages
        .windows(2)
        .position(earlier)
        .map(|before| before + 1)
}
