//! Frames: a kind (1 byte), the number of a stream (4), the length of the body (2), the position of
//! the body in the stream if it is data (8), the body.

/// Size of a header, bytes.
pub const HEADER: usize = 7;

/// Size of the header of data, bytes.
pub const DATA_HEADER: usize = HEADER + 8;

/// Kind of a frame. Stream 0 is the tunnel itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first frame: version, number of streams that the peer may have open (4 bytes), position
    /// up to which it may send in each before `Credit` (8 bytes).
    Hello = 1,
    /// A datagram.
    Datagram,
    /// A sign of life, sent if nothing else was.
    Alive,
    /// The tunnel ends; the reason as UTF-8.
    Close,
    /// The sender opens a stream, with a number that it does not use.
    Open,
    /// Data of a stream.
    Data,
    /// The peer may send up to this position (8 bytes).
    Credit,
    /// The sender has no more data than up to this position (8 bytes).
    End,
    /// `End` was received, and all data.
    Received,
    /// The sender sends no more data, although it is not complete.
    Reset,
    /// The peer need not send more data.
    Stop,
    /// The peer may use the number of the stream, which it had opened, again.
    Forgotten,
    /// Another connection of this tunnel may begin with `Join` and this token (16 bytes).
    Invite,
    /// This connection is another one of the tunnel with this token (16 bytes).
    Join,
    /// Number of bytes that were received over the second connection (8 bytes).
    Heard,
    /// The same number, and the sender does not use this connection any more.
    Left,
}

/// Secret that lets another connection join a tunnel.
pub type Token = [u8; 16];

impl Kind {
    /// The kind with this number, if a body may have this length.
    fn new(kind: u8, length: usize) -> Option<Kind> {
        use Kind::*;
        let all = [
            Hello, Datagram, Alive, Close, Open, Data, Credit, End, Received, Reset, Stop,
            Forgotten, Invite, Join, Heard, Left,
        ];
        let kind = all.into_iter().find(|known| *known as u8 == kind)?;
        let fits = match kind {
            Datagram | Data | Close => true,
            // A later version may say more.
            Hello => length >= 1,
            Credit | End | Heard | Left => length == 8,
            Invite | Join => length == size_of::<Token>(),
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

/// Appends the header of data.
pub fn write_data_header(to: &mut Vec<u8>, stream: u32, length: u16, position: u64) {
    write_header(to, Kind::Data, stream, length);
    to.extend_from_slice(&position.to_be_bytes());
}

/// Appends the header of another body.
fn write_header(to: &mut Vec<u8>, kind: Kind, stream: u32, length: u16) {
    to.push(kind as u8);
    to.extend_from_slice(&stream.to_be_bytes());
    to.extend_from_slice(&length.to_be_bytes());
}

/// The frame with which another connection of a tunnel begins.
pub fn join(token: &Token) -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame, Kind::Join, 0, token);
    frame
}

/// The frame that accepts such a connection, and the one that confirms it.
pub fn alive() -> Vec<u8> {
    let mut frame = Vec::new();
    write(&mut frame, Kind::Alive, 0, &[]);
    frame
}

/// Size of the body that this header announces, bytes.
pub fn body_size(header: &[u8; HEADER]) -> usize {
    usize::from(u16::from_be_bytes([header[5], header[6]]))
}

/// The token, if this frame joins a tunnel.
pub fn token_of(frame: &[u8]) -> Option<Token> {
    match Decoder::default().next(&mut &*frame) {
        Ok(Some(Piece::Whole(Kind::Join, _, token))) => token.try_into().ok(),
        _ => None,
    }
}

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
    ///
    /// # Errors
    /// If there is no such kind, or a body has a wrong length.
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

/// Size of the header that begins with these bytes.
fn header_size(header: &[u8]) -> usize {
    match header.first() {
        None => 1,
        Some(kind) if *kind == Kind::Data as u8 => DATA_HEADER,
        Some(_) => HEADER,
    }
}

/// Size of the complete frames at the front, bytes.
pub fn complete(bytes: &[u8]) -> usize {
    let mut complete = 0;
    while let Some(header) = bytes[complete..].first_chunk()
        && let end = complete + header_size(header) + body_size(header)
        && end <= bytes.len()
    {
        complete = end;
    }
    complete
}

/// Takes the first bytes, at most `most`.
fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let part = bytes.split_off(..bytes.len().min(most));
    part.expect("not more than there is")
}
