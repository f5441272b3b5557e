//! Paths of a tunnel as the kernel reports them.
//!
//! The kernel counts for each path that it opens. A path of the configuration may be opened several
//! times in the life of a tunnel, and its counters are the sums.

use std::collections::{HashMap, HashSet};
use std::io;
use std::net::{IpAddr, SocketAddr};

use anabranch_control::MAX_WINDOW;
use anabranch_sockets::{Subflow, mptcp_info, tcp_info};
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::endpoints::interface_of;
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
    pub is_near: bool,
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
    /// Reason for which it is off, or for which nothing returned when it was tried last.
    pub fault: Option<String>,
    local: Option<IpAddr>,
    /// Interface of the own address.
    device: Option<String>,
    /// Subflows of all connections.
    subflows: HashMap<Ends, Subflow>,
    /// Counters of the subflows that are gone.
    past: Counters,
    condition: Condition,
    deaths: u64,
    /// Time of the last death.
    died: Option<Instant>,
}

/// Addresses and ports of a subflow, which tell it from all others.
type Ends = (Option<SocketAddr>, Option<SocketAddr>);

fn ends(subflow: &Subflow) -> Ends {
    (subflow.local, subflow.remote)
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

/// Whether a connection uses Multipath TCP, and the state of its subflows; one of plain TCP is one.
pub fn subflows(socket: &TcpStream) -> io::Result<(bool, Vec<Subflow>)> {
    if let Some(subflows) = mptcp_info(socket).unwrap_or(None) {
        return Ok((true, subflows));
    }
    let whole = Subflow {
        local: Some(socket.local_addr()?),
        remote: Some(socket.peer_addr()?),
        ..tcp_info(socket)?
    };
    Ok((false, vec![whole]))
}

impl Paths {
    /// Paths of `near`, as configured. One of another family than the tunnel's connections, or that
    /// has used up its cap, is off.
    pub fn near(near: &config::Near, is_ipv4: bool) -> Paths {
        let row = |path: &config::Path| {
            let fault = off(near, path, is_ipv4);
            Row {
                interface: path.interface.clone(),
                role: fault.as_ref().map_or(path.role, |_| Role::Never),
                is_fixed: path.address.is_some(),
                fault,
                ..Row::new(path.name.clone(), path.address)
            }
        };
        Paths {
            rows: near.paths.iter().map(row).collect(),
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

    /// Addresses of the paths that work.
    pub fn working(&self) -> HashSet<IpAddr> {
        let working = self.rows.iter().filter(|row| row.works());
        working.filter_map(|row| row.address).collect()
    }

    /// Whether any path is open, although it may be dead.
    pub fn any_open(&self) -> bool {
        let mut present = self.rows.iter().flat_map(Row::present);
        present.any(|subflow| subflow.open)
    }

    /// Takes the kernel's state of the first connection; the other ones have these subflows, and
    /// those that have ended had these.
    pub fn update(
        &mut self,
        first: Option<(bool, Vec<Subflow>)>,
        mut others: Vec<Subflow>,
        retired: &[Subflow],
    ) {
        for last in retired.iter().filter(|last| is_bound(last)) {
            let index = self.index(last);
            self.rows[index].retire(last);
        }
        if let Some((multipath, of_first)) = first {
            self.multipath = Some(multipath);
            others.extend(of_first);
        }
        self.take(others.into_iter());
    }

    fn take(&mut self, subflows: impl Iterator<Item = Subflow>) {
        let mut seen: Vec<HashMap<Ends, Subflow>> = vec![HashMap::new(); self.rows.len()];
        for subflow in subflows.filter(is_bound) {
            let index = self.index(&subflow);
            seen.resize(self.rows.len(), HashMap::new());
            seen[index].insert(ends(&subflow), subflow);
        }
        let multipath = self.multipath != Some(false);
        for (row, seen) in self.rows.iter_mut().zip(seen) {
            let change = row.update(seen, multipath);
            if let Some(change) = change.filter(|_| !self.has_ended) {
                tracing::info!(path = row.name, "{change}");
            }
        }
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
            fault: None,
            local: None,
            device: None,
            subflows: Default::default(),
            past: Counters::default(),
            condition: Condition::Opening,
            deaths: 0,
            died: None,
        }
    }

    /// Whether data sent over the path is acknowledged.
    pub fn works(&self) -> bool {
        is_used(self.condition) && !self.has_timed_out()
    }

    /// Whether data that this end has sent was not acknowledged in time, and no other since.
    pub fn has_timed_out(&self) -> bool {
        self.is_silent(1)
    }

    /// Whether nothing has returned over the path for a while, although a connection has waited for
    /// so many timeouts in a row. Others that are idle do not show that it works.
    fn is_silent(&self, timeouts: u8) -> bool {
        const QUIET_MS: u32 = 150;
        let open = || self.present().filter(|subflow| subflow.open);
        let last_ms = open()
            .map(|subflow| subflow.since_ack_ms.saturating_sub(subflow.rtt_us / 1000))
            .min();
        open().any(|it| it.backoff >= timeouts) && last_ms > Some(QUIET_MS)
    }

    /// Whether a connection has the path open, and has heard something over it since it died.
    fn has_heard(&self) -> bool {
        let died = self.died.filter(|_| self.condition == Condition::Dead);
        let dead_ms = died.map_or(u128::MAX, |died| died.elapsed().as_millis());
        let mut open = self.present().filter(|subflow| subflow.open);
        open.any(|subflow| u128::from(subflow.since_ack_ms) <= dead_ms)
    }

    /// Takes the last state of a subflow of a connection that has ended.
    fn retire(&mut self, last: &Subflow) {
        self.subflows.remove(&ends(last));
        self.past.add(last);
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

    /// Subflows of all connections.
    fn present(&self) -> impl Iterator<Item = &Subflow> {
        self.subflows.values()
    }

    /// Takes the kernel's report. Returns the change of the path, if it has opened or ended.
    fn update(&mut self, seen: HashMap<Ends, Subflow>, multipath: bool) -> Option<&'static str> {
        /// Successive timeouts without an acknowledgement after which a path does not work.
        const TIMEOUTS: u8 = 2;
        for (ends, before) in std::mem::replace(&mut self.subflows, seen) {
            if !self.subflows.contains_key(&ends) {
                self.past.add(&before);
            }
        }
        let local = self.present().next().and_then(|subflow| subflow.local);
        let local = local.map(|local| local.ip().to_canonical());
        if let Some(local) = local.filter(|local| Some(*local) != self.local) {
            (self.local, self.device) = (Some(local), interface_of(local));
        }
        // It may be open although nothing returns over it.
        let works = self.has_heard() && !self.is_silent(TIMEOUTS);
        let was_used = is_used(self.condition);
        let condition = match self.role {
            Role::Available if works => Condition::Up,
            Role::Backup if works => Condition::Standby,
            // Plain TCP has one path only.
            _ if !multipath && self.subflows.is_empty() => Condition::Off,
            Role::Never => Condition::Off,
            _ if was_used || self.condition == Condition::Dead => Condition::Dead,
            _ => Condition::Opening,
        };
        let before = std::mem::replace(&mut self.condition, condition);
        if is_used(condition) {
            self.fault = None;
        }
        let dies = was_used && condition == Condition::Dead;
        self.deaths += u64::from(dies);
        if dies {
            self.died = Some(Instant::now());
        }
        match (was_used, is_used(condition)) {
            (true, false) if dies => Some("path dead: nothing returns over it"),
            (true, false) => Some("path closed: it is off"),
            (false, true) if before == Condition::Dead => Some("path works again"),
            (false, true) => Some("path opened"),
            _ => None,
        }
    }

    /// Reason for which the path carries nothing.
    fn reason(&self) -> Option<String> {
        let words = match self.condition {
            Condition::Standby => "its role is backup",
            Condition::Off if self.role != Role::Never => {
                "the tunnel is plain TCP, which has one path: a middlebox strips Multipath TCP, or \
                 a kernel lacks it"
            }
            Condition::Up => return None,
            _ => return self.fault.clone(),
        };
        Some(words.to_owned())
    }

    fn state(&self) -> PathState {
        let mut counters = self.past;
        self.present().for_each(|subflow| counters.add(subflow));
        let open = || self.present().filter(|subflow| subflow.open);
        let measured = || open().filter(|subflow| subflow.rtt_us > 0);
        let seconds = |us: u32| f64::from(us) * 1e-6;
        // The latest is that of the connection which has heard last.
        let latest = measured().min_by_key(|subflow| subflow.since_ack_ms);
        // Unknown before the first sample: the largest number.
        let base = measured().map(|subflow| subflow.min_rtt_us);
        let base = base.min().filter(|base| *base < u32::MAX);
        let window = |subflow: &Subflow| f64::from(subflow.window).min(MAX_WINDOW);
        let carrying = open().filter(|subflow| subflow.in_flight > 0).map(window);
        let carrying = carrying.reduce(|a, b| a + b);
        let mtu = open().map(|subflow| subflow.path_mtu).max();
        PathState {
            name: self.name.clone(),
            condition: self.condition,
            reason: self.reason(),
            local: self.local,
            interface: self.interface.clone().or(self.device.clone()),
            sent_bytes: counters.sent_bytes,
            received_bytes: counters.received_bytes,
            sent_packets: counters.sent_packets,
            lost_packets: counters.lost_packets,
            rtt_s: latest.map(|subflow| seconds(subflow.rtt_us)),
            base_rtt_s: base.map(seconds),
            window_packets: carrying.or(latest.map(window)).unwrap_or(0.0),
            mtu_bytes: mtu.unwrap_or(0),
            deaths: self.deaths,
        }
    }
}

/// Reason for which a path of `near` is off; `None` if it is not.
fn off(near: &config::Near, path: &config::Path, is_ipv4: bool) -> Option<String> {
    let is_other = path.address.is_some_and(|own| own.is_ipv4() != is_ipv4);
    let mut fars = near.far.addresses.iter();
    let words = if is_other && fars.all(|far| far.is_ipv4() == is_ipv4) {
        "far has no address of its family"
    } else if is_other {
        "the other paths reach far over the other family of addresses: give it one of that family"
    } else if path.cap_bytes == Some(0) {
        "its cap_bytes are used up"
    } else if path.role == Role::Never {
        "its role is never"
    } else {
        return None;
    };
    Some(words.to_owned())
}

/// Whether a subflow is bound: one that is not yet has no address.
fn is_bound(subflow: &Subflow) -> bool {
    let mut ends = [subflow.local, subflow.remote].into_iter().flatten();
    ends.all(|end| !end.ip().is_unspecified())
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

    fn all(subflows: &[Subflow]) -> HashMap<Ends, Subflow> {
        subflows
            .iter()
            .map(|subflow| (ends(subflow), *subflow))
            .collect()
    }

    #[test]
    fn counters_of_a_path_include_its_earlier_subflows() {
        let mut row = Row::new("a".to_owned(), None);
        row.update(all(&[subflow([10, 0, 0, 1], 1, 5)]), true);
        row.update(all(&[subflow([10, 0, 0, 1], 1, 7)]), true);
        assert_eq!((row.state().sent_packets, row.state().deaths), (7, 0));
        row.update(all(&[]), true);
        assert_eq!((row.condition, row.state().deaths), (Condition::Dead, 1));
        row.update(all(&[subflow([10, 0, 0, 1], 2, 1)]), true);
        assert_eq!(row.condition, Condition::Up);
        // The last state of a connection that has ended.
        row.retire(&subflow([10, 0, 0, 1], 2, 3));
        row.update(all(&[subflow([10, 0, 0, 1], 3, 1)]), true);
        // 7 + 3 + 1 segments of 1000 bytes and 40 of headers.
        assert_eq!(
            (row.state().sent_packets, row.state().sent_bytes),
            (11, 11 * 1040)
        );
    }

    #[test]
    fn a_path_without_acknowledgements_is_dead_whatever_is_idle() {
        let mut row = Row::new("a".to_owned(), None);
        let healthy = subflow([10, 0, 0, 1], 1, 5);
        let silent = |backoff| Subflow {
            backoff,
            since_ack_ms: 700,
            ..healthy
        };
        let idle = Subflow {
            since_ack_ms: 9000,
            ..subflow([10, 0, 0, 1], 2, 1)
        };
        row.update(all(&[healthy, idle]), true);
        assert!(row.works());
        row.update(all(&[silent(1), idle]), true);
        assert!(row.has_timed_out() && row.condition == Condition::Up);
        row.update(all(&[silent(2), idle]), true);
        assert_eq!((row.condition, row.deaths), (Condition::Dead, 1));
        row.update(all(&[silent(3), idle]), true);
        assert_eq!(row.deaths, 1);
        // Another connection hears something: this one has lost segments.
        row.update(all(&[silent(3), subflow([10, 0, 0, 1], 3, 5)]), true);
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
        paths.take([local, bound, remote].into_iter());
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
            since_ack_ms: 700,
            ..healthy
        };
        let mut lines = Vec::new();
        for seen in [healthy, healthy, dead, dead, healthy, dead] {
            lines.extend(row.update(all(&[seen]), true));
        }
        let end = "path dead: nothing returns over it";
        assert_eq!(lines, ["path opened", end, "path works again", end]);
        // Plain TCP has another path.
        row.update(all(&[healthy]), true);
        let off = row.update(all(&[]), false);
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
