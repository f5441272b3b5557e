//! Decoder of what was received.

use super::frame::{HEADER, Kind, Token, header_size};

/// A piece of what was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Data of a stream from a position on: a frame or a part of it.
    Data(u32, u64, &'a [u8]),
    /// Another frame.
    Whole(Kind, u32, Vec<u8>),
}

/// Splits received bytes into frames, however they are cut.
#[derive(Debug, Default)]
pub struct Decoder {
    /// Part of a header that was received.
    header: Vec<u8>,
    current: Option<Current>,
    body: Vec<u8>,
}

/// Frame whose body is being received.
#[derive(Clone, Copy, Debug)]
struct Current {
    kind: Kind,
    stream: u32,
    /// Missing bytes of the body.
    missing: usize,
    /// Position of the next data.
    position: u64,
}

impl Current {
    /// Reads a header that is complete.
    fn read(header: &[u8]) -> Result<Current, String> {
        let (first, position) = header.split_at(HEADER);
        let [kind, a, b, c, d, e, f] = first.try_into().expect("the length of a header");
        let length = usize::from(u16::from_be_bytes([e, f]));
        let known = Kind::new(kind, length)
            .ok_or_else(|| format!("frame of kind {kind} and {length} bytes"))?;
        Ok(Current {
            kind: known,
            stream: u32::from_be_bytes([a, b, c, d]),
            missing: length,
            position: position.try_into().map_or(0, u64::from_be_bytes),
        })
    }
}

impl Decoder {
    /// Takes the next piece from the front of these bytes; `None` if they are used up.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, String> {
        loop {
            let Some(current) = &mut self.current else {
                let missing = header_size(&self.header) - self.header.len();
                let part = take(bytes, missing);
                self.header.extend_from_slice(part);
                if part.len() < missing {
                    return Ok(None);
                }
                if self.header.len() == header_size(&self.header) {
                    self.current = Some(Current::read(&self.header)?);
                    self.header.clear();
                }
                continue;
            };
            let part = take(bytes, current.missing);
            current.missing -= part.len();
            let Current {
                kind,
                stream,
                missing,
                position,
            } = *current;
            current.position = position.wrapping_add(part.len() as u64);
            let is_complete = missing == 0;
            if is_complete {
                self.current = None;
            }
            if kind == Kind::Data {
                match part {
                    [] if is_complete => continue,
                    [] => return Ok(None),
                    _ => return Ok(Some(Piece::Data(stream, position, part))),
                }
            }
            self.body.extend_from_slice(part);
            if !is_complete {
                return Ok(None);
            }
            let body = std::mem::take(&mut self.body);
            return Ok(Some(Piece::Whole(kind, stream, body)));
        }
    }
}

/// The token, if this frame joins a tunnel.
pub fn token_of(frame: &[u8]) -> Option<Token> {
    match Decoder::default().next(&mut &*frame) {
        Ok(Some(Piece::Whole(Kind::Join, _, token))) => token.try_into().ok(),
        _ => None,
    }
}

/// Takes the first bytes, at most `most`.
fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let part = bytes.split_off(..bytes.len().min(most));
    part.expect("not more than there is")
}
