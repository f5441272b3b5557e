//! Frames of a tunnel's first connection, without I/O: a kind (1 byte), 4 zero bytes, the length of
//! the body (2), the body.
//!
//! Versions up to 3 carried streams in frames, with a number instead of the zero bytes. They
//! understand the first frame and `Close`, so both ends can name both versions.

use bytes::{BufMut, Bytes, BytesMut};
use tokio_util::codec::LengthDelimitedCodec;

use crate::tunnel::printable;

/// Version of the tunnel.
const VERSION: u8 = 4;

/// First byte of `near`'s first frame, for the sake of a `far` of version 3, which then answers.
const SPOKEN_BY_OLD: u8 = 3;

/// Size of a header, bytes.
pub const HEADER: usize = 7;

/// The largest datagram, bytes.
pub const LARGEST_DATAGRAM: usize = 65_534;

/// Secret that lets a further connection join a tunnel.
pub type Token = [u8; 16];

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// The first frame.
    Hello(Hello),
    /// A datagram.
    Datagram(Bytes),
    /// A sign of life.
    Alive,
    /// The tunnel ends; the reason.
    Close(String),
    /// This connection is a further one of the tunnel with this token.
    Join(Token),
}

/// The first frame of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Number of connections, other than the first, that the sender accepts.
    pub streams: u32,
    /// Token with which they join; zero from `near`.
    pub token: Token,
}

const HELLO: u8 = 1;
const DATAGRAM: u8 = 2;
const ALIVE: u8 = 3;
const CLOSE: u8 = 4;
const JOIN: u8 = 14;

impl Frame {
    /// The bytes that `near`, or `far`, sends.
    pub fn encode(&self, is_near: bool) -> Bytes {
        let mut body = BytesMut::new();
        let kind = match self {
            Frame::Hello(hello) if is_near => {
                // Version 3 reads a version, streams, and 8 bytes of a window.
                body.put_u8(SPOKEN_BY_OLD);
                body.put_u32(hello.streams);
                body.put_u64(u64::from(VERSION) << 56);
                HELLO
            }
            Frame::Hello(hello) => {
                body.put_u8(VERSION);
                body.put_u32(hello.streams);
                body.put_slice(&hello.token);
                HELLO
            }
            Frame::Datagram(datagram) => {
                body.put_slice(datagram);
                DATAGRAM
            }
            Frame::Alive => ALIVE,
            Frame::Close(reason) => {
                body.put_slice(reason.as_bytes());
                CLOSE
            }
            Frame::Join(token) => {
                body.put_slice(token);
                JOIN
            }
        };
        let length = u16::try_from(body.len()).expect("checked before");
        let mut frame = BytesMut::with_capacity(HEADER + body.len());
        frame.put_u8(kind);
        frame.put_u32(0);
        frame.put_u16(length);
        frame.put_slice(&body);
        frame.freeze()
    }

    /// Reads a whole frame of the other end; `is_near` is whether `near` has sent it.
    ///
    /// # Errors
    /// If it is none, or the peer has another version; the text says how.
    pub fn decode(frame: &[u8], is_near: bool) -> Result<Frame, String> {
        let Some((&[kind, ..], body)) = frame.split_first_chunk::<HEADER>() else {
            return Err("a frame without a header".to_owned());
        };
        match (kind, body) {
            (HELLO, &[SPOKEN_BY_OLD, a, b, c, d, VERSION, ..]) if is_near && body.len() == 13 => {
                let token = Token::default();
                let streams = u32::from_be_bytes([a, b, c, d]);
                Ok(Frame::Hello(Hello { streams, token }))
            }
            (HELLO, &[SPOKEN_BY_OLD, _, _, _, _, version, ..]) if is_near && version > 0 => {
                Err(other_version(is_near, version))
            }
            (HELLO, &[VERSION, a, b, c, d, ref token @ ..]) if !is_near => {
                let token = token.try_into().map_err(|_| "a malformed HELLO")?;
                let streams = u32::from_be_bytes([a, b, c, d]);
                Ok(Frame::Hello(Hello { streams, token }))
            }
            (HELLO, &[version, ..]) => Err(other_version(is_near, version)),
            (DATAGRAM, body) => Ok(Frame::Datagram(Bytes::copy_from_slice(body))),
            (ALIVE, []) => Ok(Frame::Alive),
            (CLOSE, reason) => Ok(Frame::Close(printable(reason))),
            (JOIN, token) if token.len() == size_of::<Token>() => {
                Ok(Frame::Join(token.try_into().expect("its length")))
            }
            (kind, body) => Err(format!("frame of kind {kind} and {} bytes", body.len())),
        }
    }
}

/// Line for both ends of which one has another version. A peer's text is cut after 100 characters.
fn other_version(of_near: bool, version: u8) -> String {
    let [near, far] = if of_near {
        [version, VERSION]
    } else {
        [VERSION, version]
    };
    format!(
        "near has version {near} of the tunnel, far version {far}: install the same at both ends, \
         far first"
    )
}

/// Splits received bytes into whole frames.
pub fn codec() -> LengthDelimitedCodec {
    LengthDelimitedCodec::builder()
        .length_field_offset(HEADER - 2)
        .length_field_type::<u16>()
        .length_adjustment(HEADER as isize)
        .num_skip(0)
        .max_frame_length(HEADER + usize::from(u16::MAX))
        .new_codec()
}

#[cfg(test)]
mod tests {
    use tokio_util::codec::Decoder;

    use super::*;

    const OF_FAR: Hello = Hello {
        streams: 500,
        token: [7; 16],
    };

    #[test]
    fn frames_are_read_however_they_are_cut() {
        let frames = [
            Frame::Hello(OF_FAR),
            Frame::Datagram(Bytes::from(vec![9; LARGEST_DATAGRAM])),
            Frame::Datagram(Bytes::new()),
            Frame::Alive,
            Frame::Join([3; 16]),
            Frame::Close("maintenance".to_owned()),
        ];
        let bytes: Vec<u8> = frames.iter().flat_map(|it| it.encode(false)).collect();
        for size in [1, 7, 1000, bytes.len()] {
            let (mut codec, mut buffer) = (codec(), BytesMut::new());
            let mut read = Vec::new();
            for part in bytes.chunks(size) {
                buffer.extend_from_slice(part);
                while let Some(frame) = codec.decode(&mut buffer).expect("right") {
                    read.push(Frame::decode(&frame, false).expect("right"));
                }
            }
            assert_eq!(read, frames);
        }
    }

    /// The frames of version 3, by hand: kind 1, stream 0, 13 bytes: version, 4096 streams, a
    /// window of 65 536 bytes.
    #[test]
    fn both_ends_name_both_versions() {
        let old = b"\x01\0\0\0\0\0\x0d\x03\0\0\x10\0\0\0\0\0\0\x01\0\0";
        let of_old_near = Frame::decode(old, true).expect_err("version 3");
        assert!(of_old_near.starts_with("near has version 3 of the tunnel, far version 4: "));
        let of_old_far = Frame::decode(old, false).expect_err("version 3");
        assert!(of_old_far.starts_with("near has version 4 of the tunnel, far version 3: "));
        // Version 3 accepts near's first frame, as it has its length and first byte, and answers.
        let hello = Hello {
            token: [0; 16],
            ..OF_FAR
        };
        let new = Frame::Hello(hello).encode(true);
        assert_eq!(
            (new.len(), new[..8].to_vec()),
            (old.len(), old[..8].to_vec())
        );
        assert_eq!(Frame::decode(&new, true), Ok(Frame::Hello(hello)));
        // A later version of near.
        let mut later = new.to_vec();
        later[12] = 5;
        let line = Frame::decode(&later, true).expect_err("version 5");
        assert!(
            line.contains("version 5") && line.contains("version 4"),
            "{line}"
        );
        // A later version of far.
        let mut later = Frame::Hello(OF_FAR).encode(false).to_vec();
        later[7] = 5;
        let line = Frame::decode(&later, false).expect_err("version 5");
        assert!(
            line.contains("version 5") && line.contains("version 4"),
            "{line}"
        );
    }

    #[test]
    fn other_bytes_are_refused() {
        for bytes in [
            &b""[..],
            b"\x01\0\0\0\0\0",
            b"\x01\0\0\0\0\0\0",
            b"\x03\0\0\0\0\0\x01x",
            b"\x0e\0\0\0\0\0\x01x",
            b"\x09\0\0\0\0\0\0",
            b"\x01\0\0\0\0\0\x06\x04\0\0\0\0x",
        ] {
            assert!(Frame::decode(bytes, false).is_err(), "{bytes:?}");
        }
    }
}
