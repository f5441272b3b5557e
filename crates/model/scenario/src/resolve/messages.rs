//! Messages: one of their three forms, and those of a file.

use crate::file::key::{Fault, Key};
use crate::model::messages::{Message, Messages, first_out_of_order, parse};
use crate::origin::Files;

/// Phrase for the three forms.
const FORMS: &str = "expected size_bytes and interval_ms, or list, or file";

/// The messages as written, with those of a list or a file in `read`.
///
/// # Errors
/// If they are written in no form or in several, there is none, or they are out of order.
pub(super) fn messages(
    key: &Key,
    written: &Messages,
    files: &mut Files<'_>,
) -> Result<Messages, Fault> {
    let mut messages = written.clone();
    let periodic = [written.size_bytes.is_some(), written.interval_ms.is_some()];
    let (listed, file) = (!written.list.is_empty(), &written.file);
    match (periodic, listed, file) {
        ([true, true], false, None) => {}
        ([false, false], true, None) => {
            messages.read.clone_from(&written.list);
            if let Some(i) = first_out_of_order(&messages.read) {
                let (before, this) = (messages.read[i - 1].time_s, messages.read[i].time_s);
                let key = key.key("list").index(i).key("time_s");
                return Err(key.fault(out_of_order(before.get(), this.get())));
            }
        }
        ([false, false], false, Some(file)) => {
            messages.read = read(&key.key("file"), file, files)?;
        }
        ([false, false], false, None) => return Err(key.fault(format!("{FORMS}, got none"))),
        ([true, false], false, None) => {
            return Err(key.fault(format!("{FORMS}, got size_bytes without interval_ms")));
        }
        ([false, true], false, None) => {
            return Err(key.fault(format!("{FORMS}, got interval_ms without size_bytes")));
        }
        _ => return Err(key.fault(format!("{FORMS}, got more than one of them"))),
    }
    Ok(messages)
}

fn read(key: &Key, file: &str, files: &mut Files<'_>) -> Result<Vec<Message>, Fault> {
    let content = files
        .content(file)
        .map_err(|reason| key.fault(format!("{file}: {reason}")))?;
    let messages = parse(&String::from_utf8_lossy(&content))
        .map_err(|(line, fault)| key.fault(format!("{file}: line {line}: {fault}")))?;
    if let Some(i) = first_out_of_order(&messages) {
        let (before, this) = (messages[i - 1].time_s, messages[i].time_s);
        let fault = out_of_order(before.get(), this.get());
        return Err(key.fault(format!("{file}: message {}: {fault}", i + 1)));
    }
    if messages.is_empty() {
        return Err(key.fault(format!(
            "{file}: expected a message, got none after the header"
        )));
    }
    Ok(messages)
}

fn out_of_order(before_s: f64, this_s: f64) -> String {
    format!("expected at least {before_s}, the time_s of the message before, got {this_s}")
}
