//! Captures the packets at each link in pcapng files.

use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use anabranch_net::{Backlog, Fate, Time};
use anabranch_scenario::Scenario;

use crate::error::{Context, Error};
use crate::network::packet::Packet;
use crate::network::pcapng::PcapNg;

/// A file and its name.
type Writer = (PathBuf, PcapNg<BufWriter<File>>);

/// Writes the packets offered to each link, with their arrival times, to a file per link; a comment
/// on a dropped packet has the cause. A separate thread writes the files.
#[derive(Debug)]
pub struct Capture {
    packets: Sender<Captured>,
    /// `None` after its error has been returned.
    writer: Option<JoinHandle<Result<(), Error>>>,
}

struct Captured {
    at: Time,
    link: usize,
    fate: Fate,
    packet: Packet,
}

impl Capture {
    /// Creates `<number>-<link>.pcapng` in `directory` for every link.
    ///
    /// # Errors
    /// If a file can't be created.
    pub fn new(scenario: &Scenario, directory: &Path) -> Result<Capture, Error> {
        fs::create_dir_all(directory).context(directory.display())?;
        let links = scenario.links.iter().enumerate();
        let files = links.map(|(number, link)| {
            let file = directory.join(format!("{number}-{}.pcapng", file_name(&link.name)));
            let created = File::create(&file).context(file.display())?;
            let writer = PcapNg::new(BufWriter::new(created), &link.name);
            let writer = writer.context(file.display())?;
            Ok((file, writer))
        });
        let files = files.collect::<Result<Vec<_>, Error>>()?;
        let (packets, arrivals) = channel();
        let writer = Some(thread::spawn(move || write(files, &arrivals)));
        Ok(Capture { packets, writer })
    }

    /// Waits until all packets are written.
    ///
    /// # Errors
    /// If a packet could not be written.
    pub fn finish(self) -> Result<(), Error> {
        drop(self.packets);
        self.writer.map_or(Ok(()), result)
    }
}

fn result(writer: JoinHandle<Result<(), Error>>) -> Result<(), Error> {
    match writer.join() {
        Ok(written) => written,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

impl crate::network::emulator::Tap for Capture {
    fn offered(&mut self, at: Time, link: usize, _: Backlog, packet: &Packet, fate: Fate) {
        // If the writer has failed, `check` returns its error.
        let _ = self.packets.send(Captured {
            at,
            link,
            fate,
            packet: packet.clone(),
        });
    }

    /// The writer ends before `finish` only by an error, such as a full disk.
    fn check(&mut self) -> Result<(), Error> {
        let failed = self.writer.take_if(|writer| writer.is_finished());
        failed.map_or(Ok(()), result)
    }
}

/// The link's name with only characters that every file system allows.
fn file_name(link: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    link.chars().map(plain).take(64).collect()
}

fn write(mut files: Vec<Writer>, packets: &Receiver<Captured>) -> Result<(), Error> {
    let start = SystemTime::now();
    let start = start.duration_since(SystemTime::UNIX_EPOCH);
    let start = start.unwrap_or_default();
    for captured in packets {
        let comment = match captured.fate {
            Fate::Dropped(cause) => Some(format!("dropped: {cause:?}").to_lowercase()),
            _ => None,
        };
        let at = start + Duration::from_nanos(captured.at / 1000);
        let bytes = captured.packet.complete();
        let (name, writer) = &mut files[captured.link];
        let written = writer.packet(at, &bytes, comment.as_deref());
        written.context(name.display())?;
    }
    for (name, mut writer) in files {
        writer.flush().context(name.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_name_is_made_a_file_name() {
        assert_eq!(file_name("../R 1"), "___R_1");
    }
}
