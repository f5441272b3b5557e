//! Captures the packets at each link in pcapng files.

use std::borrow::Cow;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::Path;
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

type Writer = PcapNgWriter<BufWriter<File>>;

/// Writes the packets offered to each link, with their arrival times, to a file per link; a comment
/// on a dropped packet has the cause. A separate thread writes the files.
#[derive(Debug)]
pub struct Capture {
    packets: Sender<Packet>,
    writer: JoinHandle<Result<(), PcapError>>,
}

struct Packet {
    at: Time,
    link: usize,
    fate: Fate,
    bytes: Vec<u8>,
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
            create(&file, &link.name).context(file.display())
        });
        let files = files.collect::<Result<Vec<_>, _>>()?;
        let (packets, arrivals) = channel();
        let writer = thread::spawn(move || write(files, &arrivals));
        Ok(Capture { packets, writer })
    }

    /// Waits until all packets are written.
    ///
    /// # Errors
    /// If a packet could not be written.
    pub fn finish(self) -> Result<(), Error> {
        drop(self.packets);
        match self.writer.join() {
            Ok(written) => written.context("writing the capture"),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl crate::network::emulator::Tap for Capture {
    fn offered(&mut self, at: Time, link: usize, _: Backlog, bytes: &[u8], fate: Fate) {
        // If the writer has failed, `finish` returns its error.
        let _ = self.packets.send(Packet {
            at,
            link,
            fate,
            bytes: bytes.to_vec(),
        });
    }
}

/// The link's name with only characters that every file system allows.
fn file_name(link: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    link.chars().map(plain).take(64).collect()
}

fn create(file: &Path, link: &str) -> Result<Writer, PcapError> {
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

fn write(mut files: Vec<Writer>, packets: &Receiver<Packet>) -> Result<(), PcapError> {
    let start = SystemTime::now();
    let start = start.duration_since(SystemTime::UNIX_EPOCH);
    let start = start.unwrap_or_default();
    for packet in packets {
        let mut options = Vec::new();
        if let Fate::Dropped(cause) = packet.fate {
            let comment = format!("dropped: {cause:?}").to_lowercase();
            options.push(EnhancedPacketOption::Comment(Cow::Owned(comment)));
        }
        files[packet.link].write_pcapng_block(EnhancedPacketBlock {
            interface_id: 0,
            timestamp: start + Duration::from_nanos(packet.at / 1000),
            original_len: packet.bytes.len() as u32,
            data: Cow::Owned(packet.bytes),
            options,
        })?;
    }
    for file in files {
        let mut file = file.into_inner();
        io::Write::flush(&mut file).map_err(PcapError::IoError)?;
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
