//! Frames: a kind (1 byte), the number of a stream (4), the length of the body (2), the body.

/// Size of what comes before the body, bytes.
pub const HEADER: usize = 7;

/// What a frame says. Stream 0 is the tunnel itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first frame: version, how many streams the peer may have open (4 bytes), and up to which
    /// position it may send in each before `Credit` (8 bytes).
    Hello = 1,
    /// A datagram.
    Datagram,
    /// Nothing else was sent.
    Alive,
    /// The tunnel ends; the reason as UTF-8.
    Close,
    /// The sender opens a stream, with a number that it does not use.
    Open,
    /// Data of a stream.
    Data,
    /// The peer may send up to this position (8 bytes).
    Credit,
    /// The sender has no more data.
    End,
    /// `End` was received, and all data before it.
    Received,
    /// The sender sends no more data, although it is not complete.
    Reset,
    /// The peer need not send more data.
    Stop,
    /// The peer may use the number of the stream, which it had opened, again.
    Forgotten,
}

impl Kind {
    /// The kind, if a body may have this length.
    fn new(kind: u8, length: usize) -> Option<Kind> {
        use Kind::*;
        let all = [
            Hello, Datagram, Alive, Close, Open, Data, Credit, End, Received, Reset, Stop,
            Forgotten,
        ];
        let kind = all.into_iter().find(|known| *known as u8 == kind)?;
        let fits = match kind {
            Datagram | Data | Close => true,
            // A later version may say more.
            Hello => length >= 1,
            Credit => length == 8,
            _ => length == 0,
        };
        fits.then_some(kind)
    }
}

/// Appends a frame.
pub fn write(to: &mut Vec<u8>, kind: Kind, stream: u32, body: &[u8]) {
    let length = u16::try_from(body.len()).expect("checked before");
    write_header(to, kind, stream, length);
    to.extend_from_slice(body);
}

/// Appends what comes before a body.
pub fn write_header(to: &mut Vec<u8>, kind: Kind, stream: u32, length: u16) {
    to.push(kind as u8);
    to.extend_from_slice(&stream.to_be_bytes());
    to.extend_from_slice(&length.to_be_bytes());
}

/// What was received.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a> {
    /// Data of a stream: a frame or a part of it.
    Data(u32, &'a [u8]),
    /// Another frame.
    Whole(Kind, u32, Vec<u8>),
}

/// Finds the frames in what is received, however it is cut.
#[derive(Debug, Default)]
pub struct Decoder {
    /// The part of a header that was received.
    header: Vec<u8>,
    /// The body that is being received; what is missing of it, bytes.
    current: Option<(Kind, u32, usize)>,
    body: Vec<u8>,
}

impl Decoder {
    /// Takes the next piece from the front of these bytes; `None` if they are used up.
    ///
    /// # Errors
    /// If there is no such kind, or a body has a wrong length.
    pub fn next<'a>(&mut self, bytes: &mut &'a [u8]) -> Result<Option<Piece<'a>>, String> {
        loop {
            let Some((kind, stream, missing)) = &mut self.current else {
                let first = bytes.split_off(..bytes.len().min(HEADER - self.header.len()));
                self.header
                    .extend_from_slice(first.expect("not more than there is"));
                let Ok([kind, a, b, c, d, e, f]) = <[u8; HEADER]>::try_from(&self.header[..])
                else {
                    return Ok(None);
                };
                let length = usize::from(u16::from_be_bytes([e, f]));
                let known = Kind::new(kind, length)
                    .ok_or_else(|| format!("frame of kind {kind} and {length} bytes"))?;
                self.header.clear();
                self.current = Some((known, u32::from_be_bytes([a, b, c, d]), length));
                continue;
            };
            let (kind, stream) = (*kind, *stream);
            let part = bytes.split_off(..bytes.len().min(*missing));
            let part = part.expect("not more than there is");
            *missing -= part.len();
            let is_complete = *missing == 0;
            if is_complete {
                self.current = None;
            }
            if kind == Kind::Data {
                match part {
                    [] if is_complete => continue,
                    [] => return Ok(None),
                    _ => return Ok(Some(Piece::Data(stream, part))),
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
