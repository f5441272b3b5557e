//! Reactions of a multiplexer to the peer's frames.
//!
//! The peer has proved its key, and may still be hostile. It fills at most the windows of the
//! streams that it may open, and the queue of datagrams; frames that answer it are counted.

use tokio::time::Instant;

use super::frame::{Kind, Piece};
use super::{Lane, Mux, Peer, Stream, VERSION, half};
use crate::printable;

/// Most bytes of frames about a stream that wait while the peer reads nothing: more than one of
/// each kind, and the credits of a window.
const UNREAD: usize = 300;

/// Most bytes of frames about the tunnel that wait while the peer reads nothing.
const UNREAD_OF_TUNNEL: usize = 8 << 10;

impl Mux {
    /// Takes bytes from the peer that arrived over this connection.
    ///
    /// # Errors
    /// The reason of the tunnel's end: the peer's own, or its violation of the protocol.
    pub fn receive(&mut self, lane: Lane, bytes: &[u8], now: Instant) -> Result<(), String> {
        match lane {
            Lane::Bulk => self.receive_frames(lane, bytes, now),
            Lane::Express if self.is_joined() => {
                let complete = self.express.complete(bytes);
                self.confirm(false);
                self.receive_frames(lane, &complete, now)
            }
            Lane::Express => Ok(()), // the peer sends it again
        }
    }

    fn receive_frames(&mut self, lane: Lane, mut bytes: &[u8], now: Instant) -> Result<(), String> {
        while let Some(piece) = self.ends[lane as usize].decoder.next(&mut bytes)? {
            match piece {
                Piece::Whole(Kind::Hello, _, hello) => self.establish(&hello)?,
                _ if self.peer.is_none() => return Err(other_version("an unknown")),
                Piece::Data(id, position, data) => self.data(id, position, data)?,
                Piece::Whole(Kind::Open, id, _) => self.opened(lane, id, now)?,
                Piece::Whole(Kind::Heard, _, body) if lane == Lane::Express => {
                    self.heard(position(&body))?;
                }
                Piece::Whole(kind, id, body) => self.frame(kind, id, body)?,
            }
        }
        let limit = UNREAD.saturating_mul(self.limits.streams) + UNREAD_OF_TUNNEL;
        if self.ends.iter().map(|end| end.first.len()).sum::<usize>() > limit {
            return Err("the peer sends, and reads nothing".to_owned());
        }
        Ok(())
    }

    fn establish(&mut self, hello: &[u8]) -> Result<(), String> {
        self.peer = match *hello {
            _ if self.peer.is_some() => return Err("the peer has said HELLO twice".to_owned()),
            [VERSION, a, b, c, d, e, f, g, h, i, j, k, l] => Some(Peer {
                streams: u32::from_be_bytes([a, b, c, d]) as usize,
                window: u64::from_be_bytes([e, f, g, h, i, j, k, l]),
            }),
            [VERSION, ..] | [] => return Err("the peer has sent a malformed HELLO".to_owned()),
            [version, ..] => return Err(other_version(version)),
        };
        self.events.can_open = true;
        Ok(())
    }

    fn data(&mut self, id: u32, position: u64, data: &[u8]) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(()); // stopped and forgotten
        };
        stream.is_known = true;
        let incoming = &mut stream.incoming;
        if incoming.state == half::ReceiveState::Open {
            incoming.receive(position, data)?;
            self.events.woken.extend(incoming.reader.take());
            self.complete(id);
        }
        Ok(())
    }

    /// Confirms the end of a stream that was received completely.
    fn complete(&mut self, id: u32) {
        let Some(Stream { incoming, .. }) = self.streams.get_mut(&id) else {
            return;
        };
        if incoming.state == half::ReceiveState::Open && incoming.is_complete() {
            incoming.end(half::ReceiveState::Ended);
            self.events.woken.extend(incoming.reader.take());
            self.say_of(id, Kind::Received, &[]);
            self.forget(id);
        }
    }

    fn frame(&mut self, kind: Kind, id: u32, body: Vec<u8>) -> Result<(), String> {
        match kind {
            Kind::Datagram => {
                self.received.push(body.into());
                self.events.datagram = true;
            }
            Kind::Alive => {}
            Kind::Close => return Err(format!("by the peer: {}", printable(&body))),
            Kind::Invite => self.invitation = body.try_into().ok(),
            Kind::Heard => {} // sent again, of a connection that was left
            Kind::Left => self.left(position(&body))?,
            Kind::Join => return Err("the peer joins the tunnel in the tunnel".to_owned()),
            _ => self.of_stream(kind, id, &body)?,
        }
        Ok(())
    }

    /// Adds a stream that the peer opens.
    fn opened(&mut self, lane: Lane, id: u32, now: Instant) -> Result<(), String> {
        if id == 0 || self.is_own(id) || self.streams.contains_key(&id) {
            return Err(format!(
                "the peer has opened stream {id}, which it must not"
            ));
        }
        if self.of_peer == self.limits.streams {
            return Err("the peer has opened more streams than it may".to_owned());
        }
        self.insert(id, lane, now);
        self.of_peer += 1;
        self.opened.push_back(id);
        self.events.opened = true;
        Ok(())
    }

    pub(super) fn is_own(&self, id: u32) -> bool {
        id % 2 == self.role.first() % 2
    }

    fn of_stream(&mut self, kind: Kind, id: u32, body: &[u8]) -> Result<(), String> {
        let Some(stream) = self.streams.get_mut(&id) else {
            return Ok(()); // forgotten
        };
        stream.is_known = true;
        let is_over = stream.is_over();
        let Stream {
            outgoing, incoming, ..
        } = stream;
        let is_open = incoming.state == half::ReceiveState::Open;
        match kind {
            Kind::Credit => outgoing.raise(position(body)),
            Kind::End if is_open => {
                if !incoming.ends_at(position(body)) {
                    return Err("the peer has ended a stream elsewhere than it may".to_owned());
                }
                self.complete(id);
            }
            Kind::Reset if is_open => {
                incoming.end(half::ReceiveState::Reset);
                self.windows.close(id.into());
                self.events.woken.extend(incoming.reader.take());
            }
            Kind::Received if outgoing.state == half::SendState::Ended => {
                outgoing.state = half::SendState::Received;
                self.events.woken.extend(outgoing.take_writer());
            }
            Kind::Stop if !outgoing.is_over() => {
                let lost = outgoing.discard(half::SendState::Stopped, &mut self.room);
                self.unsent_bytes -= lost as u64;
                self.events.woken.extend(outgoing.take_writer());
            }
            Kind::Forgotten if is_over => stream.is_forgotten = true,
            Kind::Forgotten => return Err("the peer has forgotten an open stream".to_owned()),
            _ => {}
        }
        self.line_up(id);
        self.forget(id);
        Ok(())
    }

    /// Forgets a stream that neither the peer nor a user needs.
    pub(super) fn forget(&mut self, id: u32) {
        let Some(stream) = self.streams.get(&id) else {
            return;
        };
        let is_own = self.is_own(id);
        if !stream.is_over() || (is_own && !stream.is_forgotten) {
            return;
        }
        if stream.has_reader || stream.has_writer {
            // Nobody will accept a stream that the peer itself has given up.
            let gave_up = stream.outgoing.state == half::SendState::Stopped
                && stream.incoming.state == half::ReceiveState::Reset;
            let waits = self.opened.iter().position(|waiting| *waiting == id);
            let Some(waiting) = waits.filter(|_| gave_up) else {
                return;
            };
            self.opened.remove(waiting);
        }
        let lane = stream.lane;
        self.streams.remove(&id);
        if is_own {
            self.events.can_open = true;
        } else {
            self.of_peer -= 1;
            self.say_over(lane, Kind::Forgotten, id, &[]);
        }
    }
}

/// The position in a frame that has one.
fn position(body: &[u8]) -> u64 {
    body.try_into().map_or(0, u64::from_be_bytes)
}

fn other_version(version: impl std::fmt::Display) -> String {
    format!("the peer has protocol version {version}, and this gateway {VERSION}")
}
