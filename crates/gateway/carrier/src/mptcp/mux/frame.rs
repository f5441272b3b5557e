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
    pub fn new(kind: u8, length: usize) -> Option<Kind> {
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

/// Size of the header that begins with these bytes.
pub fn header_size(header: &[u8]) -> usize {
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
