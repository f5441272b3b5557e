//! The qlog files of a connection, one per end: JSON text sequences of draft-ietf-quic-qlog-main-
//! schema-13 with the events of draft-ietf-quic-qlog-quic-events-12, in the time of the run.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::controller::Clock;
use noq_proto::{ConnectionId, QlogConfig, QlogFactory, Side};
use serde_json::json;

/// The qlog files of a run, in one folder.
#[derive(Clone, Debug)]
pub(crate) struct Qlog {
    folder: PathBuf,
    failure: Failure,
}

impl Qlog {
    /// Files in an existing folder.
    pub fn new(folder: &Path) -> Qlog {
        Qlog {
            folder: folder.to_owned(),
            failure: Failure::default(),
        }
    }

    /// The files of a connection; `title` says whose it is.
    pub fn connection(&self, number: u32, title: String) -> ConnectionQlog {
        ConnectionQlog {
            run: self.clone(),
            number,
            title,
        }
    }

    /// The first error of any file that has been closed.
    ///
    /// # Errors
    /// If there was one.
    pub fn check(&self) -> io::Result<()> {
        let mut failure = self.failure.0.lock().expect("no holder of the lock panics");
        failure.take().map_or(Ok(()), Err)
    }
}

/// The qlog files of one connection.
#[derive(Debug)]
pub(crate) struct ConnectionQlog {
    run: Qlog,
    number: u32,
    title: String,
}

impl ConnectionQlog {
    /// For both ends.
    pub(super) fn factory(self, clock: Clock) -> Arc<dyn QlogFactory> {
        Arc::new(Factory { files: self, clock })
    }

    fn create(&self, side: Side, id: ConnectionId) -> io::Result<QlogFile> {
        let (end, vantage_point) = match side {
            Side::Client => ("sender", "client"),
            Side::Server => ("receiver", "server"),
        };
        let name = format!("connection-{}-{end}.sqlog", self.number);
        let header = json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": format!("{}, {end}", self.title),
            "trace": {
                "common_fields": {
                    "group_id": id.to_string(),
                    "time_format": "relative_to_epoch",
                    // Time 0 is the start of the run, on no calendar.
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                "vantage_point": { "name": end, "type": vantage_point },
                "event_schemas": ["urn:ietf:params:qlog:events:quic"],
            },
        });
        QlogFile::create(&self.run.folder.join(name), &header, &self.run.failure)
    }
}

struct Factory {
    files: ConnectionQlog,
    clock: Clock,
}

impl QlogFactory for Factory {
    fn for_connection(
        &self,
        side: Side,
        _: SocketAddr,
        id: ConnectionId,
        _: Instant,
    ) -> Option<QlogConfig> {
        match self.files.create(side, id) {
            Ok(file) => {
                let mut config = QlogConfig::new(Box::new(file));
                config.start_time(self.clock.instant(0));
                Some(config)
            }
            Err(error) => {
                self.files.run.failure.set(error);
                None
            }
        }
    }
}

/// The first error of a run's files.
#[derive(Clone, Debug, Default)]
struct Failure(Arc<Mutex<Option<io::Error>>>);

impl Failure {
    fn set(&self, error: io::Error) {
        let mut failure = self.0.lock().expect("no holder of the lock panics");
        failure.get_or_insert(error);
    }
}

/// A file into which the library's records are copied, with two corrections. Its header names no
/// event schema, which the draft requires, no reference time and no media type: it is replaced. Its
/// PATH_CHALLENGE and PATH_RESPONSE frames have their name in `data`, which must be hexadecimal.
/// The library ignores errors, so they are kept.
struct QlogFile {
    file: BufWriter<File>,
    /// The record that the library is writing.
    record: Vec<u8>,
    /// It is the header.
    in_header: bool,
    failure: Failure,
}

impl QlogFile {
    fn create(path: &Path, header: &serde_json::Value, failure: &Failure) -> io::Result<QlogFile> {
        let named = |error: io::Error| {
            let text = format!("{}: {error}", path.display());
            io::Error::new(error.kind(), text)
        };
        let mut file = BufWriter::new(File::create_new(path).map_err(named)?);
        writeln!(file, "\u{1e}{header}").map_err(named)?;
        Ok(QlogFile {
            file,
            record: Vec::new(),
            in_header: true,
            failure: failure.clone(),
        })
    }

    /// A record is complete.
    fn end_record(&mut self) -> io::Result<()> {
        if !self.in_header {
            for name in [&b"PATH_CHALLENGE("[..], b"PATH_RESPONSE("] {
                remove_name(&mut self.record, name);
            }
            self.file.write_all(&self.record)?;
        }
        self.in_header = false;
        self.record.clear();
        Ok(())
    }
}

/// Replaces `name` and the parenthesis at its end by the 64 bits between them, 16 digits: the
/// library omits zeros at the front.
fn remove_name(record: &mut Vec<u8>, name: &[u8]) {
    while let Some(at) = record.windows(name.len()).position(|part| part == name) {
        let digits = at + name.len();
        let length = record[digits..].iter().position(|byte| *byte == b')');
        let length = length.unwrap_or_default();
        let zeros = &b"0000000000000000"[length.min(16)..];
        let number = [zeros, &record[digits..digits + length]].concat();
        record.splice(at..=digits + length, number);
    }
}

impl Write for QlogFile {
    /// Takes bytes up to the end of the record at most.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let newline = bytes.iter().position(|byte| *byte == b'\n');
        let taken = newline.map_or(bytes.len(), |at| at + 1);
        self.record.extend_from_slice(&bytes[..taken]);
        if newline.is_some()
            && let Err(error) = self.end_record()
        {
            self.failure
                .set(io::Error::new(error.kind(), error.to_string()));
            return Err(error);
        }
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for QlogFile {
    fn drop(&mut self) {
        if let Err(error) = self.file.flush() {
            self.failure.set(error);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::remove_name;

    #[test]
    fn data_of_a_challenge_is_hexadecimal() {
        let mut record = br#"[{"data":"PATH_CHALLENGE(a1b2)"}]"#.to_vec();
        remove_name(&mut record, b"PATH_CHALLENGE(");
        assert_eq!(record, br#"[{"data":"000000000000a1b2"}]"#);
    }
}
