//! Clients and servers, and the ledger of the data that each of them has sent and seen.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{sleep, sleep_until};

use super::internet::Internet;
use super::plan::Connection;
use super::tcp::Tcp;

/// Address on which near listens.
pub const NEAR: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1080);

/// Address on which servers listen.
pub const SERVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(203, 0, 113, 1)), 80);

/// End of a side's reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Seen {
    End,
    Reset,
}

/// Actions and observations of one side.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Account {
    /// Bytes that its socket has taken.
    pub written: u64,
    /// Whether it has ended its direction.
    pub ended: bool,
    /// Whether it has reset the connection.
    pub has_reset: bool,
    /// Bytes that it has read.
    pub read: u64,
    pub seen: Option<Seen>,
    /// First position at which it read another byte than the peer's.
    pub wrong_at: Option<u64>,
}

/// A connection's record.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Record {
    /// Time at which the server accepted it.
    pub opened: Option<Duration>,
    /// Times at which the sides were done with it.
    pub closed: [Option<Duration>; 2],
    pub sides: [Account; 2],
}

/// The records of all connections.
#[derive(Debug)]
pub struct Ledger {
    internet: Arc<Internet>,
    plans: Vec<Connection>,
    records: Mutex<Vec<Record>>,
}

/// The byte of a side's data at an offset.
fn byte(connection: usize, side: usize, offset: u64) -> u8 {
    let mixed = offset.wrapping_mul(0x9e37_79b9) ^ (offset >> 8);
    (mixed as u8) ^ (31 * connection + 7 * side) as u8
}

impl Ledger {
    /// A ledger of these connections, all of which are to come.
    pub fn new(internet: &Arc<Internet>, plans: Vec<Connection>) -> Arc<Ledger> {
        Arc::new(Ledger {
            internet: internet.clone(),
            records: Mutex::new(vec![Record::default(); plans.len()]),
            plans,
        })
    }

    fn records_mut(&self) -> MutexGuard<'_, Vec<Record>> {
        self.records.lock().expect("no holder panics")
    }

    /// Records so far.
    pub fn records(&self) -> Vec<Record> {
        self.records_mut().clone()
    }

    fn note<T>(&self, connection: usize, side: usize, change: impl FnOnce(&mut Account) -> T) -> T {
        let account = &mut self.records_mut()[connection].sides[side];
        let result = change(account);
        self.internet.note((connection, side, &*account));
        result
    }

    fn closed(&self, connection: usize, side: usize) {
        self.records_mut()[connection].closed[side] = Some(self.internet.time());
    }

    /// Runs the client of a connection.
    pub async fn client(self: Arc<Ledger>, connection: usize) {
        let start = tokio::time::Instant::now() - self.internet.time();
        sleep_until(start + self.plans[connection].start).await;
        let opened = self.internet.connect(Ipv4Addr::LOCALHOST.into(), NEAR);
        match opened {
            Some(tcp) => {
                // Names the connection to the server. The buffer is empty.
                let id = (connection as u32).to_be_bytes();
                if tcp.write(&id).await.is_ok() {
                    self.run(&tcp, connection, 0).await;
                }
            }
            None => self.note(connection, 0, |account| account.seen = Some(Seen::Reset)),
        }
        self.closed(connection, 0);
    }

    /// Serves connections.
    pub async fn serve(self: Arc<Ledger>) {
        let mut listener = self.internet.listen(SERVER).expect("one server");
        while let Some(tcp) = listener.recv().await {
            tokio::spawn(self.clone().server(tcp));
        }
    }

    async fn server(self: Arc<Ledger>, tcp: Tcp) {
        let mut id = [0; 4];
        let mut n = 0;
        while n < id.len() {
            match tcp.read(&mut id[n..]).await {
                Ok(read @ 1..) => n += read,
                _ => return,
            }
        }
        let connection = u32::from_be_bytes(id) as usize;
        let now = self.internet.time();
        let earlier = self.records_mut()[connection].opened.replace(now);
        assert!(earlier.is_none(), "connection {connection} arrives twice");
        self.run(&tcp, connection, 1).await;
        self.closed(connection, 1);
    }

    async fn run(&self, tcp: &Tcp, connection: usize, side: usize) {
        let (finished, finish) = watch::channel(None);
        let read = async {
            let seen = self.read(tcp, connection, side).await;
            self.note(connection, side, |account| account.seen = Some(seen));
            finished.send_replace(Some(seen));
        };
        tokio::join!(read, self.write(tcp, connection, side, finish));
    }

    async fn read(&self, tcp: &Tcp, connection: usize, side: usize) -> Seen {
        let mut stalls = self.plans[connection].sides[side].stalls;
        let mut buffer = vec![0; 16 << 10];
        loop {
            let read = match tcp.read(&mut buffer).await {
                Ok(0) => return Seen::End,
                Ok(n) => &buffer[..n],
                Err(_) => return Seen::Reset,
            };
            let total = self.note(connection, side, |account| {
                for &received in read {
                    if received != byte(connection, 1 - side, account.read) {
                        account.wrong_at.get_or_insert(account.read);
                    }
                    account.read += 1;
                }
                account.read
            });
            if let Some((_, pause)) = stalls.take_if(|(after, _)| total > *after) {
                sleep(pause).await;
            }
        }
    }

    /// Writes until all is written or the reader has seen a reset.
    async fn write(
        &self,
        tcp: &Tcp,
        connection: usize,
        side: usize,
        mut reader: watch::Receiver<Option<Seen>>,
    ) {
        let mut reset = reader.clone();
        let write = async {
            if side == 1 && self.plans[connection].answers {
                let _ = reader.wait_for(|seen| *seen == Some(Seen::End)).await;
            }
            self.write_all(tcp, connection, side).await;
        };
        tokio::select! {
            biased;
            () = write => {}
            _ = reset.wait_for(|seen| *seen == Some(Seen::Reset)) => {}
        }
    }

    async fn write_all(&self, tcp: &Tcp, connection: usize, side: usize) {
        let plan = &self.plans[connection].sides[side];
        let mut written = 0;
        while written < plan.resets_after.unwrap_or(plan.bytes) {
            let end = plan
                .resets_after
                .unwrap_or(plan.bytes)
                .min(written + plan.chunk);
            let chunk: Vec<u8> = (written..end).map(|i| byte(connection, side, i)).collect();
            let Ok(n) = tcp.write(&chunk).await else {
                return;
            };
            written += n as u64;
            self.note(connection, side, |account| account.written = written);
            if !plan.pause.is_zero() {
                sleep(plan.pause).await;
            }
        }
        if plan.resets_after.is_some() {
            self.note(connection, side, |account| account.has_reset = true);
            tcp.reset();
        } else if tcp.end().is_ok() {
            self.note(connection, side, |account| account.ended = true);
        }
    }
}
