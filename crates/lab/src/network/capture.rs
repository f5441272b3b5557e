//! Captures the packets at each link in pcapng files.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use std::{io, thread};

use anabranch_net::{Backlog, Fate, Time};
use anabranch_scenario::Scenario;
use pcap_file::pcapng::PcapNgWriter;
use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::{DataLink, PcapError};

use crate::error::{Context, Error};
use crate::network::packet::Packet;

/// A file and its name.
type Writer = (PathBuf, PcapNgWriter<BufWriter<File>>);

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
            let writer = create(&file, &link.name).map_err(cause);
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

/// The system's error, which the text of a `PcapError` does not have.
fn cause(error: PcapError) -> io::Error {
    match error {
        PcapError::IoError(error) => error,
        other => io::Error::other(other),
    }
}

/// The link's name with only characters that every file system allows.
fn file_name(link: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    link.chars().map(plain).take(64).collect()
}

fn create(file: &Path, link: &str) -> Result<PcapNgWriter<BufWriter<File>>, PcapError> {
    let file = File::create(file).map_err(PcapError::IoError)?;
    let mut writer = PcapNgWriter::new(BufWriter::new(file))?;
    let mut interface = InterfaceDescriptionBlock::new(DataLink::RAW, 0);
    interface.options = vec![
        InterfaceDescriptionOption::IfName(Cow::Owned(link.to_owned())),
        InterfaceDescriptionOption::IfTsResol(9),
    ];
    writer.write_pcapng_block(interface)?;
    Ok(writer)
}

fn write(mut files: Vec<Writer>, packets: &Receiver<Captured>) -> Result<(), Error> {
    let start = SystemTime::now();
    let start = start.duration_since(SystemTime::UNIX_EPOCH);
    let start = start.unwrap_or_default();
    for captured in packets {
        let mut options = Vec::new();
        if let Fate::Dropped(cause) = captured.fate {
            let comment = format!("dropped: {cause:?}").to_lowercase();
            options.push(EnhancedPacketOption::Comment(Cow::Owned(comment)));
        }
        let bytes = captured.packet.complete();
        let (name, writer) = &mut files[captured.link];
        let block = EnhancedPacketBlock {
            interface_id: 0,
            timestamp: start + Duration::from_nanos(captured.at / 1000),
            original_len: bytes.len() as u32,
            data: Cow::Owned(bytes),
            options,
        };
        let written = writer.write_pcapng_block(block);
        written.map_err(cause).context(name.display())?;
    }
    for (name, writer) in files {
        io::Write::flush(&mut writer.into_inner()).context(name.display())?;
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
