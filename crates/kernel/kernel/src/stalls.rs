//! Causes that hold up the Multipath TCP connections of this network namespace, seen at the sender:
//! the path that the others wait for, a buffer that is the limit, paths that a program holds back.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

use anyhow::Result;

use crate::causes::{Cause, fill, words};
use crate::inet_diag::{Path, Sample, Whole};

/// Number of samples, and the time between them: together longer than most RTTs.
const SAMPLES: usize = 8;
const PERIOD: Duration = Duration::from_millis(50);

/// Least number of samples that show a cause: one alone may be a moment between two ACKs.
const SHOWN_IN: usize = 2;

/// Ratio of two RTTs above which the slower path holds up the other. Below it the sum needs at most
/// four windows of the faster path, which the buffers of a distribution have at home's rates.
const SLOWER: u32 = 4;

/// The causes found at each Multipath TCP connection, by its token. Waits for 0.35 s if there is a
/// connection. The kernel's counters are read without privileges.
///
/// # Errors
///
/// If the kernel was built without INET_DIAG.
pub fn causes() -> Result<BTreeMap<u32, Vec<Cause>>> {
    Ok(causes_by_token(&samples()?))
}

fn causes_by_token(samples: &[Sample]) -> BTreeMap<u32, Vec<Cause>> {
    let Some(last) = samples.last() else {
        return BTreeMap::new();
    };
    let largest_send_buffer = largest("/proc/sys/net/ipv4/tcp_wmem");
    let tokens = last.wholes.iter().map(|whole| whole.token);
    tokens
        .map(|token| {
            let moments: Vec<Moment> = samples.iter().filter_map(|all| all.of(token)).collect();
            (token, causes_of(&moments, largest_send_buffer))
        })
        .collect()
}

/// Sums over the open Multipath TCP connections, and the causes found at all of them.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Demand {
    /// Connections.
    pub connections: usize,
    /// Size of a buffer that is enough for each of them at its present rate, bytes; 0 if none moves
    /// data.
    pub buffer: u64,
    /// Sum of the rates, bytes per second, and largest delay, s, of the connection that needs it.
    pub rate: f64,
    pub delay_s: f64,
    /// Bytes of all subflows.
    pub sent: u64,
    pub received: u64,
    pub causes: Vec<Cause>,
}

/// The demand of the open Multipath TCP connections for buffers.
pub(crate) fn demand() -> Result<Demand> {
    let samples = samples()?;
    let causes = causes_by_token(&samples).into_values().flatten();
    Ok(Demand {
        causes: causes.collect(),
        ..demand_of(&samples)
    })
}

fn samples() -> Result<Vec<Sample>> {
    let first = Sample::now()?;
    if first.wholes.is_empty() {
        return Ok(vec![]);
    }
    let mut samples = vec![first];
    while samples.len() < SAMPLES {
        thread::sleep(PERIOD);
        samples.push(Sample::now()?);
    }
    Ok(samples)
}

/// The third number of a file such as `tcp_wmem`, bytes.
pub(crate) fn largest(path: &str) -> Option<u64> {
    let sizes = fs::read_to_string(path).ok()?;
    sizes.split_whitespace().nth(2)?.parse().ok()
}

/// A connection in one sample.
struct Moment {
    whole: Whole,
    paths: Vec<Path>,
}

impl Sample {
    fn of(&self, token: u32) -> Option<Moment> {
        let whole = *self.wholes.iter().find(|whole| whole.token == token)?;
        let of_it = |path: &&Path| path.token == Some(token);
        let paths = self.paths.iter().filter(of_it).copied().collect();
        Some(Moment { whole, paths })
    }
}

impl Path {
    fn is_held_back(&self) -> bool {
        self.max_pacing_rate == 0
    }

    /// Whether it could send half a window at once and has nothing to send.
    fn is_idle(&self) -> bool {
        self.unsent == 0 && self.in_flight * 2 <= self.window
    }

    /// Bytes per second that it could send: a window in each RTT.
    fn rate(&self) -> f64 {
        let window = f64::from(self.window) * f64::from(self.mss);
        match self.srtt_us {
            0 => 0.0,
            us => window / (f64::from(us) * 1e-6),
        }
    }

    /// Time until data that is given to it now is acknowledged, s.
    fn delay_s(&self) -> f64 {
        let rate = self.rate();
        let waiting = if rate > 0.0 {
            f64::from(self.unsent) / rate
        } else {
            0.0
        };
        f64::from(self.srtt_us) * 1e-6 + waiting
    }
}

/// Size of a buffer that is enough for a connection with this sum of rates, bytes per second, and
/// largest delay: a window of all paths, twice, as the kernel gives about half of a buffer to data.
fn enough(rate: f64, delay_s: f64) -> u64 {
    (2.0 * rate * delay_s).ceil() as u64
}

fn largest_delay_s<'a>(paths: impl Iterator<Item = &'a Path>) -> f64 {
    paths.map(Path::delay_s).fold(0.0, f64::max)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Resource that is used up while a path is idle.
#[derive(Clone, Copy, PartialEq)]
enum Full {
    Window,
    SendBuffer,
}

/// One moment at which an idle path waits.
struct Wait {
    full: Full,
    idle: Path,
    busy: Path,
}

impl Moment {
    fn usable(&self) -> impl Iterator<Item = &Path> {
        let usable = |path: &&Path| path.usable && !path.is_held_back();
        self.paths.iter().filter(usable)
    }

    /// Bytes per second that its paths could send.
    fn rate(&self) -> f64 {
        self.usable().map(Path::rate).sum()
    }

    /// The receive window, which all subflows share, bytes.
    fn window(&self) -> u64 {
        let windows = self.paths.iter().map(|path| path.send_window);
        windows.max().unwrap_or(0).into()
    }

    /// Finds the fastest path that is idle, the slowest that has data in flight, and what is full.
    fn wait(&self) -> Option<Wait> {
        let (window, whole) = (self.window(), &self.whole);
        let full = if window > 0 && whole.outstanding * 10 >= window * 9 {
            Full::Window
        } else if u64::from(whole.queued) * 3 >= u64::from(whole.send_buffer) * 2 {
            // The kernel wakes the writer when a third is free.
            Full::SendBuffer
        } else {
            return None;
        };
        let idle = self.usable().filter(|path| path.is_idle());
        let busy = self
            .usable()
            .filter(|path| !path.is_idle() || path.in_flight > 0);
        let idle = *idle.min_by_key(|path| path.min_rtt_us)?;
        let busy = busy.filter(|path| path.local != idle.local || path.remote != idle.remote);
        let busy = *busy.max_by_key(|path| path.srtt_us)?;
        (busy.in_flight > 0).then_some(Wait { full, idle, busy })
    }
}

fn causes_of(moments: &[Moment], largest_send_buffer: Option<u64>) -> Vec<Cause> {
    let mut causes = Vec::new();
    let waits: Vec<Wait> = moments.iter().filter_map(Moment::wait).collect();
    if let (Some(last), Some(moment)) = (waits.last(), moments.last())
        && waits.len() >= SHOWN_IN
    {
        let in_samples = format!("in {} of {} samples", waits.len(), moments.len());
        causes.extend(blocking_path(&waits, &in_samples));
        let rate = median(moments.iter().map(Moment::rate));
        let delays = moments
            .iter()
            .map(|moment| largest_delay_s(moment.usable()));
        let delay_s = median(delays);
        let (id, size, shown) = match last.full {
            // The kernel announces about half of a receive buffer.
            Full::Window => ("receive-buffer", 2 * moment.window(), moment.window()),
            Full::SendBuffer => {
                let sizes = moment.usable().map(|path| u64::from(path.send_buffer));
                let size = sizes.max().unwrap_or(0);
                // A smaller one is the program's choice, or grows.
                if largest_send_buffer.is_none_or(|largest| size < largest) {
                    return causes;
                }
                ("send-buffer", size, size)
            }
        };
        // A buffer of several times what the rates need is full because of a path that repeats
        // what was lost, not because of its size. The rate of a path that waits for it is too low.
        let needed = enough(rate, delay_s);
        if needed * 2 > size {
            let needed = needed.max(2 * size);
            let (buffer, fast) = (megabytes(shown), between(&last.idle));
            let values = [("buffer", &*buffer), ("fast", &fast)];
            causes.push(Cause {
                id,
                sentence: format!(
                    "{} {in_samples}: {} would be enough for {:.0} Mbps over {:.0} ms",
                    fill(&words(id).sentence, &values),
                    megabytes(needed),
                    rate * 8e-6,
                    delay_s * 1e3
                ),
                remedy: fill(&words(id).remedy, &[("needed", &needed.to_string())]),
            });
        }
    }
    causes.extend(held_back(moments));
    causes
}

/// The path that the others wait for, if one is much slower than an idle one. An idle path has no
/// queue of its own, so its RTT would be its smallest.
fn blocking_path(waits: &[Wait], in_samples: &str) -> Option<Cause> {
    let slower = |wait: &&Wait| wait.busy.srtt_us >= SLOWER.saturating_mul(wait.idle.min_rtt_us);
    let slower: Vec<&Wait> = waits.iter().filter(slower).collect();
    let wait = slower.last().filter(|_| slower.len() >= SHOWN_IN)?;
    let milliseconds = |us: u32| format!("{:.0} ms", f64::from(us) * 1e-3);
    let id = "slow-path-blocks";
    let values = [
        ("slow", &*between(&wait.busy)),
        ("slow_ms", &milliseconds(wait.busy.srtt_us)),
        ("fast", &between(&wait.idle)),
        ("fast_ms", &milliseconds(wait.idle.min_rtt_us)),
    ];
    let remedy = match wait.busy.id {
        0 => "make it a backup at the end that has its endpoint, or larger buffers".to_owned(),
        endpoint => fill(&words(id).remedy, &[("id", &endpoint.to_string())]),
    };
    Some(Cause {
        id,
        sentence: format!("{} ({in_samples})", fill(&words(id).sentence, &values)),
        remedy,
    })
}

/// Paths that a program holds back in any sample.
fn held_back(moments: &[Moment]) -> Vec<Cause> {
    let mut held: BTreeMap<(SocketAddr, SocketAddr), usize> = BTreeMap::new();
    for path in moments.iter().flat_map(|moment| &moment.paths) {
        if path.usable && path.is_held_back() {
            *held.entry((path.local, path.remote)).or_default() += 1;
        }
    }
    let words = words("held-back");
    let cause = |((local, remote), times): ((SocketAddr, SocketAddr), usize)| {
        let path = format!("{local} -> {remote}");
        Cause {
            id: "held-back",
            sentence: format!(
                "{} (in {times} of {} samples)",
                fill(&words.sentence, &[("path", &path)]),
                moments.len()
            ),
            remedy: words.remedy.clone(),
        }
    };
    held.into_iter().map(cause).collect()
}

fn demand_of(samples: &[Sample]) -> Demand {
    let mut demand = Demand::default();
    let (Some(first), Some(last)) = (samples.first(), samples.last()) else {
        return demand;
    };
    let time_s = PERIOD.as_secs_f64() * (samples.len() - 1) as f64;
    for whole in &last.wholes {
        let (Some(before), Some(now)) = (first.of(whole.token), last.of(whole.token)) else {
            continue;
        };
        demand.connections += 1;
        demand.sent += now.paths.iter().map(|path| path.bytes_acked).sum::<u64>();
        demand.received += now
            .paths
            .iter()
            .map(|path| path.bytes_received)
            .sum::<u64>();
        let grown = |now: &Path| {
            let same = |path: &&Path| path.local == now.local && path.remote == now.remote;
            let before = before.paths.iter().find(same)?;
            Some(now.bytes_received.saturating_sub(before.bytes_received) as f64 / time_s)
        };
        let received: f64 = now.usable().filter_map(grown).sum();
        let (rate, delay_s) = if now.whole.outstanding > 0 {
            (now.rate(), largest_delay_s(now.usable()))
        } else {
            // A receiver sends too little to know the RTT by its own data.
            let rtts = now
                .usable()
                .map(|path| path.srtt_us.max(path.receiver_rtt_us));
            (received, f64::from(rtts.max().unwrap_or(0)) * 1e-6)
        };
        if enough(rate, delay_s) > demand.buffer {
            demand.buffer = enough(rate, delay_s);
            (demand.rate, demand.delay_s) = (rate, delay_s);
        }
    }
    demand
}

fn between(path: &Path) -> String {
    format!("{} -> {}", path.local, path.remote)
}

/// A size in MB of 10^6 bytes, with one digit.
pub(crate) fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 * 1e-6)
}

#[cfg(test)]
mod tests;
