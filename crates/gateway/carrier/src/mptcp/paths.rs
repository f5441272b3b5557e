//! Paths of a tunnel as the kernel reports them.
//!
//! The kernel counts for each path that it opens. A path of the configuration may be opened several
//! times in the life of a tunnel, and its counters are the sums.

use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_control::MAX_WINDOW;
use anabranch_sockets::{Subflow, mptcp_info, tcp_info};
use socket2::Socket;

use super::endpoints::interface_of;
use super::mux::Lane;
use crate::config::{self, Role};
use crate::{Condition, PathState};

/// Number of peer addresses that `far` distinguishes; further paths count with the last.
const MOST: usize = 32;

/// Headers of IP and TCP without options, bytes.
const HEADERS_IPV4: u64 = 40;
const HEADERS_IPV6: u64 = 60;

/// Paths of a tunnel.
#[derive(Debug)]
pub struct Paths {
    rows: Vec<Row>,
    is_near: bool,
    /// Whether the connection is one of Multipath TCP; `None` until known.
    pub multipath: Option<bool>,
    has_ended: bool,
}

/// A path.
#[derive(Debug)]
pub struct Row {
    /// Configured name, or the address that `far` sees.
    pub name: String,
    /// Address by which its subflows are recognised: the own one, on `far` the peer's.
    pub address: Option<IpAddr>,
    /// Configured interface.
    pub interface: Option<String>,
    /// Configured role.
    pub role: Role,
    /// Whether the address is configured; otherwise it is one of the interface's.
    pub is_fixed: bool,
    local: Option<IpAddr>,
    /// Subflows of both connections. The second one is idle most of the time, so it does not show
    /// whether the path works.
    subflows: [Vec<Subflow>; 2],
    /// Counters of the subflows that are gone.
    past: Counters,
    condition: Condition,
    deaths: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    sent_bytes: u64,
    received_bytes: u64,
    sent_packets: u64,
    lost_packets: u64,
}

impl Counters {
    fn add(&mut self, subflow: &Subflow) {
        let headers = match subflow.local {
            Some(SocketAddr::V6(_)) => HEADERS_IPV6,
            _ => HEADERS_IPV4,
        };
        let (sent, received) = (subflow.segments_sent, subflow.segments_received);
        self.sent_bytes += subflow.bytes_sent + u64::from(sent) * headers;
        self.received_bytes += subflow.bytes_received + u64::from(received) * headers;
        self.sent_packets += u64::from(sent);
        self.lost_packets += u64::from(subflow.retransmitted);
    }
}

/// The state of a connection of plain TCP.
pub fn whole(socket: &Socket) -> io::Result<Subflow> {
    Ok(Subflow {
        local: socket.local_addr()?.as_socket(),
        remote: socket.peer_addr()?.as_socket(),
        ..tcp_info(socket)?
    })
}

/// Whether a path works: it may be open although nothing returns over it.
fn works(subflow: &Subflow) -> bool {
    /// Successive timeouts without an acknowledgement after which a path does not work.
    const TIMEOUTS: u8 = 2;
    subflow.open && subflow.backoff < TIMEOUTS
}

impl Paths {
    /// Paths of `near`, as configured.
    pub fn near(paths: &[config::Path]) -> Paths {
        let row = |path: &config::Path| Row {
            interface: path.interface.clone(),
            role: path.role,
            is_fixed: path.address.is_some(),
            ..Row::new(path.name.clone(), path.address)
        };
        Paths {
            rows: paths.iter().map(row).collect(),
            is_near: true,
            multipath: None,
            has_ended: false,
        }
    }

    /// Paths of `far`, which learns them as they open.
    pub fn far() -> Paths {
        Paths {
            rows: Vec::new(),
            is_near: false,
            multipath: None,
            has_ended: false,
        }
    }

    /// The configured paths, or those that have opened.
    pub fn rows(&mut self) -> &mut [Row] {
        &mut self.rows
    }

    /// Whether any path is open, although it may be dead.
    pub fn any_open(&self) -> bool {
        let mut present = self.rows.iter().flat_map(Row::present);
        present.any(|subflow| subflow.open)
    }

    /// Reads the kernel's state of the first connection; `express` is that of the second one.
    pub fn update(&mut self, socket: &Socket, express: Option<Subflow>) {
        let Ok(bulk) = self.subflows(socket) else {
            return; // the tunnel is about to be closed
        };
        let bulk = bulk.into_iter().map(|subflow| (Lane::Bulk, subflow));
        let express = express.into_iter().map(|subflow| (Lane::Express, subflow));
        self.take(bulk.chain(express));
    }

    fn take(&mut self, subflows: impl Iterator<Item = (Lane, Subflow)>) {
        let mut seen: Vec<[Vec<Subflow>; 2]> = vec![Default::default(); self.rows.len()];
        // One that is not bound yet has no address.
        let is_bound = |end: SocketAddr| !end.ip().is_unspecified();
        for (lane, subflow) in subflows {
            if ![subflow.local, subflow.remote]
                .iter()
                .flatten()
                .all(|end| is_bound(*end))
            {
                continue;
            }
            let index = self.index(&subflow);
            seen.resize(self.rows.len(), Default::default());
            seen[index][lane as usize].push(subflow);
        }
        let multipath = self.multipath != Some(false);
        for (row, seen) in self.rows.iter_mut().zip(seen) {
            let change = row.update(seen, multipath);
            if let Some(change) = change.filter(|_| !self.has_ended) {
                tracing::info!(path = row.name, "{change}");
            }
        }
    }

    fn subflows(&mut self, socket: &Socket) -> io::Result<Vec<Subflow>> {
        let of_multipath = mptcp_info(socket).unwrap_or(None);
        self.multipath = Some(of_multipath.is_some());
        if let Some(subflows) = of_multipath {
            return Ok(subflows);
        }
        Ok(vec![whole(socket)?])
    }

    /// Row of a subflow, which is added if there is none.
    fn index(&mut self, subflow: &Subflow) -> usize {
        let end = if self.is_near {
            subflow.local
        } else {
            subflow.remote
        };
        let address = end.map(|end| end.ip().to_canonical());
        let known = self.rows.iter().position(|row| row.address == address);
        let index = known.or_else(|| {
            // An interface's address may have changed, or not be known yet.
            let interface = address.and_then(interface_of);
            let is_it = |row: &Row| !row.is_fixed && row.interface == interface;
            interface.as_ref()?;
            self.rows.iter().position(is_it)
        });
        if let Some(index) = index {
            self.rows[index].address = address;
            return index;
        }
        if self.rows.len() < MOST {
            let name = address.map_or("unknown".to_owned(), |address| address.to_string());
            self.rows.push(Row::new(name, address));
        }
        self.rows.len() - 1
    }

    /// Records that the tunnel is closed: paths neither open nor die any more.
    pub fn end(&mut self) {
        self.has_ended = true;
        for row in self.rows.iter().filter(|row| is_used(row.condition)) {
            tracing::info!(path = row.name, "path closed: the tunnel has ended");
        }
    }

    /// States for [`Tunnel::paths`](crate::Tunnel::paths).
    pub fn states(&self) -> Vec<PathState> {
        self.rows.iter().map(Row::state).collect()
    }
}

impl Row {
    fn new(name: String, address: Option<IpAddr>) -> Row {
        Row {
            name,
            address,
            interface: None,
            role: Role::Available,
            is_fixed: false,
            local: None,
            subflows: Default::default(),
            past: Counters::default(),
            condition: Condition::Opening,
            deaths: 0,
        }
    }

    /// Whether data sent over the path is acknowledged.
    pub fn works(&self) -> bool {
        is_used(self.condition) && !self.has_timed_out()
    }

    /// Whether the data that this end sent last was not acknowledged in time.
    pub fn has_timed_out(&self) -> bool {
        let mut present = self.present().iter();
        present.any(|subflow| subflow.open && subflow.backoff > 0)
    }

    /// Endpoint of the path: address, interface, and whether it is a backup.
    pub fn endpoint(&self) -> (Option<IpAddr>, Option<String>, bool) {
        let is_backup = self.role == Role::Backup;
        (self.address, self.interface.clone(), is_backup)
    }

    /// Whether the path should be opened anew.
    pub fn is_missing(&self) -> bool {
        matches!(self.condition, Condition::Opening | Condition::Dead)
    }

    /// Subflows of the first connection.
    fn present(&self) -> &[Subflow] {
        &self.subflows[Lane::Bulk as usize]
    }

    /// Takes the kernel's report. Returns the change of the path, if it has opened or ended.
    fn update(&mut self, seen: [Vec<Subflow>; 2], multipath: bool) -> Option<&'static str> {
        for (subflows, seen) in self.subflows.iter_mut().zip(seen) {
            for before in std::mem::replace(subflows, seen) {
                let same = |now: &Subflow| (now.local, now.remote) == (before.local, before.remote);
                if !subflows.iter().any(same) {
                    self.past.add(&before);
                }
            }
        }
        if let Some(local) = self.present().first().and_then(|subflow| subflow.local) {
            self.local = Some(local.ip().to_canonical());
        }
        let works = self.present().iter().any(works);
        let was_used = is_used(self.condition);
        let condition = match self.role {
            Role::Available if works => Condition::Up,
            Role::Backup if works => Condition::Standby,
            // Plain TCP has one path only.
            _ if !multipath && self.present().is_empty() => Condition::Off,
            Role::Never => Condition::Off,
            _ if was_used || self.condition == Condition::Dead => Condition::Dead,
            _ => Condition::Opening,
        };
        let before = std::mem::replace(&mut self.condition, condition);
        let dies = was_used && condition == Condition::Dead;
        self.deaths += u64::from(dies);
        match (was_used, is_used(condition)) {
            (true, false) if dies => Some("path dead: nothing returns over it"),
            (true, false) => Some("path closed: it is off"),
            (false, true) if before == Condition::Dead => Some("path works again"),
            (false, true) => Some("path opened"),
            _ => None,
        }
    }

    fn state(&self) -> PathState {
        let mut counters = self.past;
        let all = self.subflows.iter().flatten();
        all.for_each(|subflow| counters.add(subflow));
        let measured = self
            .present()
            .iter()
            .find(|subflow| subflow.open && subflow.rtt_us > 0);
        let seconds = |us: u32| f64::from(us) * 1e-6;
        // Unknown before the first sample: the largest number.
        let base = measured.filter(|subflow| subflow.min_rtt_us < u32::MAX);
        let window = |subflow: &Subflow| f64::from(subflow.window).min(MAX_WINDOW);
        let open = self.present().iter().filter(|subflow| subflow.open);
        let mtu = open.clone().map(|subflow| subflow.path_mtu).max();
        PathState {
            name: self.name.clone(),
            condition: self.condition,
            local: self.local,
            sent_bytes: counters.sent_bytes,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            rtt_s: measured.map(|subflow| seconds(subflow.rtt_us)),
            base_rtt_s: base.map(|subflow| seconds(subflow.min_rtt_us)),
            window_packets: open.map(window).sum(),
            mtu_bytes: mtu.unwrap_or(0),
            deaths: self.deaths,
            ..PathState::default()
        }
    }
}

/// Whether a path is open, and works.
fn is_used(condition: Condition) -> bool {
    matches!(condition, Condition::Up | Condition::Standby)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subflow(local: [u8; 4], port: u16, segments_sent: u32) -> Subflow {
        Subflow {
            local: Some((local, port).into()),
            remote: Some(([10, 0, 9, 9], 443).into()),
            open: true,
            rtt_us: 20_000,
            bytes_sent: u64::from(segments_sent) * 1000,
            segments_sent,
            ..Subflow::default()
        }
    }

    #[test]
    fn counters_of_a_path_include_its_earlier_subflows() {
        let mut row = Row::new("a".to_owned(), None);
        row.update([vec![subflow([10, 0, 0, 1], 1, 5)], vec![]], true);
        row.update([vec![subflow([10, 0, 0, 1], 1, 7)], vec![]], true);
        assert_eq!((row.state().sent_packets, row.state().deaths), (7, 0));
        row.update([vec![], vec![]], true);
        assert_eq!((row.condition, row.state().deaths), (Condition::Dead, 1));
        row.update([vec![subflow([10, 0, 0, 1], 2, 1)], vec![]], true);
        assert_eq!(row.condition, Condition::Up);
        // 7 + 1 segments of 1000 bytes and 40 of headers.
        assert_eq!(
            (row.state().sent_packets, row.state().sent_bytes),
            (8, 8 * 1040)
        );
    }

    #[test]
    fn a_path_without_acknowledgements_is_dead() {
        let mut row = Row::new("a".to_owned(), None);
        let healthy = subflow([10, 0, 0, 1], 1, 5);
        row.update([vec![healthy], vec![]], true);
        row.update(
            [
                vec![Subflow {
                    backoff: 2,
                    ..healthy
                }],
                vec![],
            ],
            true,
        );
        assert_eq!((row.condition, row.deaths), (Condition::Dead, 1));
        row.update(
            [
                vec![Subflow {
                    backoff: 3,
                    ..healthy
                }],
                vec![],
            ],
            true,
        );
        assert_eq!(row.deaths, 1);
        row.update([vec![healthy], vec![]], true);
        assert_eq!(row.condition, Condition::Up);
    }

    #[test]
    fn a_subflow_that_is_not_bound_yet_is_no_path() {
        let mut paths = Paths::far();
        let bound = subflow([10, 0, 9, 9], 443, 1);
        let local = subflow([0, 0, 0, 0], 0, 0);
        let remote = Subflow {
            remote: Some(([0, 0, 0, 0], 0).into()),
            ..bound
        };
        paths.take(
            [local, bound, remote]
                .map(|it| (Lane::Bulk, it))
                .into_iter(),
        );
        let states = paths.states();
        let names: Vec<&str> = states.iter().map(|state| &*state.name).collect();
        assert_eq!(names, ["10.0.9.9"]);
    }

    #[test]
    fn each_line_of_a_path_that_opens_is_followed_by_one_of_its_end() {
        let mut row = Row::new("a".to_owned(), None);
        let healthy = subflow([10, 0, 0, 1], 1, 5);
        let dead = Subflow {
            backoff: 2,
            ..healthy
        };
        let mut lines = Vec::new();
        for seen in [healthy, healthy, dead, dead, healthy, dead] {
            lines.extend(row.update([vec![seen], vec![]], true));
        }
        let end = "path dead: nothing returns over it";
        assert_eq!(lines, ["path opened", end, "path works again", end]);
        // Plain TCP has another path.
        row.update([vec![healthy], vec![]], true);
        let off = row.update([vec![], vec![]], false);
        assert_eq!(off, Some("path closed: it is off"));
    }

    #[test]
    fn far_learns_paths_in_the_order_in_which_they_open() {
        let mut paths = Paths::far();
        let from = |last: u8| Subflow {
            remote: Some(([10, 0, 0, last], 1).into()),
            ..subflow([10, 0, 9, 9], 443, 1)
        };
        assert_eq!([5, 3, 5].map(|last| paths.index(&from(last))), [0, 1, 0]);
        for last in 6..=99 {
            paths.index(&from(last));
        }
        assert_eq!(paths.rows.len(), MOST);
    }
}
