//! Captures the packets at each link in pcapng files.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use std::{fs, io, thread};

use anabranch_net::{Backlog, Fate, Time};
use anabranch_scenario::Scenario;

use crate::error::{Context, Error};
use crate::network::packet::Packet;

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

// Files of captured packets: pcapng with one interface (draft-ietf-opsawg-pcapng).

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

/// Readers learn the order of bytes from it.
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// LINKTYPE_RAW: a packet begins with its IPv4 or IPv6 header.
const RAW_IP: u16 = 101;

const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;

/// Writes packets of one interface.
#[derive(Debug)]
pub struct PcapNg<W>(W);

impl<W: Write> PcapNg<W> {
    /// Writes the head of the file. Times are in nanoseconds.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn new(to: W, interface: &str) -> io::Result<PcapNg<W>> {
        let mut file = PcapNg(to);
        // Version 1.0, and a section of unknown length.
        let mut section = BYTE_ORDER_MAGIC.to_le_bytes().to_vec();
        section.extend([1, 0, 0, 0]);
        section.extend([0xff; 8]);
        file.block(SECTION_HEADER, &section)?;
        let mut description = RAW_IP.to_le_bytes().to_vec();
        // Two reserved bytes, and no limit of a packet's captured length.
        description.extend([0; 6]);
        option(
            &mut description,
            OPTION_INTERFACE_NAME,
            interface.as_bytes(),
        );
        option(&mut description, OPTION_TIME_RESOLUTION, &[9]);
        option(&mut description, 0, &[]);
        file.block(INTERFACE_DESCRIPTION, &description)?;
        Ok(file)
    }

    /// Writes a packet with its time since 1970.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn packet(&mut self, at: Duration, bytes: &[u8], comment: Option<&str>) -> io::Result<()> {
        let nanoseconds = at.as_nanos() as u64;
        let length = bytes.len() as u32;
        let words = [
            0,
            (nanoseconds >> 32) as u32,
            nanoseconds as u32,
            length,
            length,
        ];
        let mut packet: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        padded(&mut packet, bytes);
        if let Some(comment) = comment {
            option(&mut packet, OPTION_COMMENT, comment.as_bytes());
            option(&mut packet, 0, &[]);
        }
        self.block(ENHANCED_PACKET, &packet)
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    /// If it can't be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }

    /// A block has its length before and after its body.
    fn block(&mut self, kind: u32, body: &[u8]) -> io::Result<()> {
        let length = (body.len() as u32 + 12).to_le_bytes();
        self.0.write_all(&kind.to_le_bytes())?;
        self.0.write_all(&length)?;
        self.0.write_all(body)?;
        self.0.write_all(&length)
    }
}

/// Appends an option; the one with code 0 ends the list.
fn option(body: &mut Vec<u8>, code: u16, value: &[u8]) {
    body.extend(code.to_le_bytes());
    body.extend((value.len() as u16).to_le_bytes());
    padded(body, value);
}

/// Appends bytes and zeros up to a multiple of 4 bytes.
fn padded(body: &mut Vec<u8>, bytes: &[u8]) {
    body.extend(bytes);
    body.resize(body.len().next_multiple_of(4), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_name_is_made_a_file_name() {
        assert_eq!(file_name("../R 1"), "___R_1");
    }

    /// The example is by hand from sections 4.1 to 4.3 of the draft.
    #[test]
    fn a_file_has_the_bytes_of_the_draft() {
        let mut file = PcapNg::new(Vec::new(), "L").unwrap();
        file.packet(Duration::new(4, 294_967_297), &[0x45], Some("lost"))
            .unwrap();
        let section = [
            0x0a0d_0d0a,
            28,
            0x1a2b_3c4d,
            1,
            0xffff_ffff,
            0xffff_ffff,
            28,
        ];
        // Link type, no limit, options of 1 byte with the codes 2 and 9, the end of options: 28
        // bytes.
        let interface = [1, 40, 101, 0, 0x0001_0002, 0x4c, 0x0001_0009, 9, 0, 40];
        // 4 294 967 297 ns are 2^32 + 1. "lost" is 0x74736f6c.
        let packet = [6, 48, 0, 1, 1, 1, 1, 0x45, 0x0004_0001, 0x7473_6f6c, 0, 48];
        let words: Vec<u32> = [&section[..], &interface, &packet].concat();
        let expected: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        assert_eq!(file.0, expected);
    }
}
