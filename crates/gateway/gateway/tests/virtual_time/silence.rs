//! Time without arrivals when a link dies or delivers everything late; a link that is merely bad is
//! not taken for such a one.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_gateway::carrier::{self, Carrier, Path, Settings};
use anabranch_gateway::keys::KeyPair;
use anabranch_gateway::network::Network;
use anabranch_gateway::tls::Identity;
use anabranch_net::{LinkConfig, MILLISECOND, Queue};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use super::ends::{NEAR, SERVER};
use super::gateways::{FAR, Gateways, far_config, near_with_paths};
use super::host::{Process, path_address};
use super::internet::{Fault, Internet};
use super::plan::Which;
use super::tcp::Tcp;
use super::{random, virtual_runtime};

/// Time at which connections begin.
const BEGIN: Duration = Duration::from_secs(1);

/// Time at which a link changes.
const CHANGE: Duration = Duration::from_secs(5);

/// Time for which arrivals are watched then: until a link that is late delivers again, and is
/// tried.
const LONG: Duration = Duration::from_secs(9);

/// Time for which arrivals are watched until a dead link is closed.
const SHORT: Duration = Duration::from_secs(2);

/// The longest silence. Until a path is left: 1.5 loaded round trips (RTT and a queue of 100 ms; at
/// most 180 ms), or a gap of 50 ms and 1.5 empty ones; and two looks of 25 ms. Then a PING and its
/// acknowledgement pass another path, and what was lost passes it: a round trip and a half, with a
/// full queue in each. At most 1.5 * 180 + 2 * 25 + 1.5 * 80 + 2 * 100 = 640 ms. The same without
/// this: up to 4.4 s.
const LONGEST: Duration = Duration::from_millis(640);

const DEAD: Fault = Fault::Loses;
const LATE: Fault = Fault::Late(Duration::from_secs(3));

/// Mbit/s and round-trip time, ms.
type Links = &'static [(f64, u64)];

/// A situation.
#[derive(Clone, Copy)]
struct Case {
    links: Links,
    /// Length of queues, ms.
    queue: u64,
    /// Link that changes.
    link: usize,
    /// Faults of the link for datagrams that near sends and receives.
    faults: [Option<Fault>; 2],
    /// Numbers of downloads and uploads without end; without any, somebody types.
    load: [usize; 2],
    /// Time for which arrivals are watched after the change.
    watched: Duration,
    seed: u64,
}

/// Outcome of a situation.
struct Outcome {
    /// Longest time without an arrival after the change, of all connections together, of the
    /// downloads and of the uploads.
    silence: Duration,
    by_direction: [Duration; 2],
    /// Number of times that a path was found dead.
    deaths: u64,
    /// Data received after the change, Mbit/s.
    goodput: f64,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Case {
            links,
            link,
            faults,
            load: [down, up],
            seed,
            ..
        } = self;
        write!(
            f,
            "{links:?} link {link} {faults:?} {down} downloads {up} uploads seed {seed}"
        )
    }
}

/// Times of arrivals, with their sizes, bytes.
type Arrivals = Arc<Mutex<Vec<(Duration, usize)>>>;

async fn receive(internet: &Internet, from: &Tcp, arrivals: &Arrivals) {
    let mut buffer = vec![0; 64 << 10];
    while let Ok(n @ 1..) = from.read(&mut buffer).await {
        arrivals
            .lock()
            .expect("no panic")
            .push((internet.time(), n));
    }
}

async fn send(to: &Tcp) {
    while to.write(&[7; 8192]).await.is_ok() {}
}

/// Sends a little every 50 ms.
async fn type_to(to: &Tcp) {
    while to.write(&[7; 100]).await.is_ok() {
        sleep(Duration::from_millis(50)).await;
    }
}

async fn echo(to: &Tcp) {
    let mut buffer = [0; 4096];
    while let Ok(n @ 1..) = to.read(&mut buffer).await {
        if to.write(&buffer[..n]).await.is_err() {
            return;
        }
    }
}

/// Action of a client, given by its first byte.
#[derive(Clone, Copy, PartialEq)]
enum Does {
    Upload,
    Download,
    Type,
}

async fn connect(internet: Arc<Internet>, does: Does, arrivals: Arrivals) {
    sleep(BEGIN).await;
    let client = internet.connect(Ipv4Addr::LOCALHOST.into(), NEAR);
    let client = client.expect("near listens");
    if client.write(&[does as u8]).await.is_err() {
        return;
    }
    match does {
        Does::Upload => send(&client).await,
        Does::Download => receive(&internet, &client, &arrivals).await,
        Does::Type => {
            tokio::join!(type_to(&client), receive(&internet, &client, &arrivals));
        }
    }
}

async fn serve(internet: Arc<Internet>, arrivals: Arrivals) {
    let mut listener = internet.listen(SERVER).expect("one server");
    while let Some(server) = listener.recv().await {
        let (internet, arrivals) = (internet.clone(), arrivals.clone());
        tokio::spawn(async move {
            let mut does = [0];
            match server.read(&mut does).await {
                Ok(1) if does == [Does::Download as u8] => send(&server).await,
                Ok(1) if does == [Does::Type as u8] => echo(&server).await,
                _ => receive(&internet, &server, &arrivals).await,
            }
        });
    }
}

/// Longest time without an arrival after the change.
fn silence(mut arrivals: Vec<(Duration, usize)>, end: Duration) -> Duration {
    arrivals.retain(|(at, _)| *at < end);
    arrivals.push((end, 0));
    arrivals.sort();
    let after = arrivals.windows(2).filter(|pair| pair[1].0 > CHANGE);
    let gaps = after.map(|pair| pair[1].0 - pair[0].0);
    gaps.max().unwrap_or_default()
}

impl Case {
    fn link(&self, (mbps, rtt): (f64, u64)) -> LinkConfig {
        let bytes = mbps * 1e6 / 8.0 * self.queue as f64 / 1e3;
        LinkConfig {
            queue: Queue::DropTail {
                packets: None,
                bytes: Some(bytes.max(15_000.0) as _),
            },
            ..LinkConfig::constant(mbps * 1e6, rtt * MILLISECOND / 2)
        }
    }

    async fn play(self, noted: [Arrivals; 2]) -> u64 {
        let links = self.links.iter().enumerate();
        let links = links.map(|(i, &link)| (path_address(i), self.link(link)));
        let internet = Internet::new(links.collect(), self.seed);
        let near = near_with_paths(self.links.len(), "");
        let mut gateways = Gateways::with(&internet, near, far_config("")).await;
        tokio::spawn(serve(internet.clone(), noted[1].clone()));
        let mut clients = JoinSet::new();
        let [downloads, uploads] = self.load;
        let downloads = std::iter::repeat_n(Does::Download, downloads);
        let all = downloads.chain(std::iter::repeat_n(Does::Upload, uploads));
        let all: Vec<Does> = all.collect();
        for &does in if all.is_empty() {
            &[Does::Type][..]
        } else {
            &all
        } {
            clients.spawn(connect(internet.clone(), does, noted[0].clone()));
        }
        sleep(CHANGE - internet.time()).await;
        internet.disturb(path_address(self.link), self.faults);
        sleep(self.watched).await;
        let near = &gateways.near.as_ref().expect("it runs").gateway;
        let tunnels = near.tunnels().into_iter().map(|(_, tunnel)| tunnel.paths());
        let deaths = tunnels.flatten().map(|path| path.deaths).sum();
        gateways.end(Which::Near).await;
        gateways.end(Which::Far).await;
        deaths
    }

    fn run(self) -> Outcome {
        let end = CHANGE + self.watched;
        let noted: [Arrivals; 2] = Default::default();
        let arrivals = noted.clone();
        let deaths = random::seeded(self.seed, || virtual_runtime().block_on(self.play(noted)));
        let arrivals = arrivals.map(|it| it.lock().expect("no panic").clone());
        let all = arrivals.concat();
        let received = all.iter().filter(|(at, _)| (CHANGE..end).contains(at));
        let received: usize = received.map(|(_, n)| n).sum();
        let outcome = Outcome {
            silence: silence(all, end),
            by_direction: arrivals.map(|it| silence(it, end)),
            deaths,
            goodput: received as f64 * 8e-6 / self.watched.as_secs_f64(),
        };
        println!(
            "{self}: silence of all {:?}, {:?}; {} deaths, {:.1} Mbit/s",
            outcome.silence, outcome.by_direction, outcome.deaths, outcome.goodput
        );
        outcome
    }
}

/// Fast and cheap to simulate.
const SLOW_LINKS: Links = &[(8.0, 20), (2.0, 60)];

fn check(cases: impl IntoIterator<Item = Case>) {
    let outcomes = cases.into_iter().map(|case| (case, case.run()));
    let failed = outcomes.filter(|(_, it)| it.by_direction.iter().any(|&it| it > LONGEST));
    let failed: Vec<String> = failed.map(|(case, _)| case.to_string()).collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Each link of these, at each load, with these faults.
fn cases(links: Links, faults: &[[Option<Fault>; 2]], seed: u64, watched: Duration) -> Vec<Case> {
    let loads = [[4, 0], [0, 4], [2, 2]];
    let mut cases = Vec::new();
    for link in 0..links.len() {
        for load in loads {
            cases.extend(faults.iter().map(|&faults| Case {
                links,
                queue: 100,
                link,
                faults,
                load,
                watched,
                seed,
            }));
        }
    }
    cases
}

#[test]
fn a_link_that_dies_does_not_hold_up_what_another_can_carry() {
    let dies = [Some(DEAD); 2];
    let of_each = cases(SLOW_LINKS, &[dies], 1, SHORT);
    check(of_each.into_iter().filter(|case| case.load != [0, 4]));
}

#[test]
fn a_link_that_is_seconds_late_does_not_hold_up_what_another_can_carry() {
    let late = [[None, Some(LATE)]];
    let of_each = cases(SLOW_LINKS, &late, 1, LONG);
    check(
        of_each
            .into_iter()
            .filter(|case| case.load == [4, 0] && case.link == 0),
    );
}

#[test]
#[ignore = "slow: make test-all"]
fn no_link_of_many_that_dies_or_is_late_holds_up_what_others_can_carry() {
    let links: [Links; 3] = [
        SLOW_LINKS,
        &[(25.0, 30), (12.0, 70)],
        &[(20.0, 30), (10.0, 50), (5.0, 80)],
    ];
    let dies = Some(DEAD);
    for links in links {
        check(cases(
            links,
            &[[dies; 2], [dies, None], [None, dies]],
            2,
            SHORT,
        ));
        check(cases(links, &[[Some(LATE); 2]], 2, LONG));
    }
    let links: [Links; 2] = [&[(100.0, 25), (100.0, 25)], &[(300.0, 10), (80.0, 30)]];
    for links in links {
        let of_each = cases(links, &[[dies; 2]], 2, SHORT);
        check(of_each.into_iter().filter(|case| case.load == [2, 2]));
    }
}

/// Little is in flight, so probes alone show it: after 150 ms, for 1.5 round trips.
#[test]
fn a_link_that_dies_does_not_hold_up_keystrokes() {
    let dies = Some(DEAD);
    check([[dies; 2], [dies, None], [None, dies]].map(|faults| Case {
        links: SLOW_LINKS,
        queue: 100,
        link: 0,
        faults,
        load: [0, 0],
        watched: SHORT,
        seed: 1,
    }));
}

/// Links that are merely bad: a queue of 2 s, or a tenth of the datagrams overtaken by others. Of
/// the 10 Mbit/s 1414 in 1480 bytes are payload, 9.55 Mbit/s; a path that is opened anew has to
/// fill its link again.
#[test]
fn a_bad_link_is_not_taken_for_a_dead_one() {
    let reorders = Fault::Reorders(0.1, Duration::from_millis(20));
    for (queue, fault) in [(2000, None), (100, Some(reorders))] {
        let outcome = Case {
            links: SLOW_LINKS,
            queue,
            link: 0,
            faults: [fault; 2],
            load: [4, 0],
            watched: 2 * SHORT,
            seed: 1,
        }
        .run();
        assert_eq!(outcome.deaths, 0);
        assert!(outcome.goodput > 9.3, "{}", outcome.goodput);
    }
}

/// Probes for 1 s, then a handshake of 4 s, over all paths at once.
const MOST: Duration = Duration::from_millis(5100);

#[test]
fn near_says_within_5_s_that_nothing_returns_over_any_of_its_paths() {
    let (error, took) = virtual_runtime().block_on(async {
        let link = LinkConfig::constant(8e6, 10 * MILLISECOND);
        let links = (0..2).map(|i| (path_address(i), link.clone()));
        let internet = Internet::new(links.collect(), 1);
        let far: std::net::SocketAddr = FAR.parse().expect("an address");
        let path = |i| Path {
            address: Some(path_address(i)),
            ..Path::new(&format!("path{i}"))
        };
        let near = carrier::Near {
            far: far.into(),
            paths: vec![path(0), path(1)],
            settings: Settings::new(Carrier::Quic, "olia"),
        };
        let key = || KeyPair::generate().expect("random numbers");
        let identity = Identity::new(&key(), vec![key().public().clone()]);
        let start = Instant::now();
        let udp = Process::new(&internet).udp();
        let connected = carrier::connect_over(&udp, &near, &identity).await;
        let error = connected.expect_err("nobody is there").to_string();
        (error, start.elapsed())
    });
    let words = format!("far = {FAR}: no answer from {FAR} over UDP in 5s: ");
    assert!(error.starts_with(&words), "{error}");
    assert!(took <= MOST, "{took:?}");
}
