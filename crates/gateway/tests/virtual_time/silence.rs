//! How long nothing arrives when a link dies or delivers everything late, and that a link which is
//! merely bad is not taken for such a one.

use std::fmt;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anabranch_net::{LinkConfig, MILLISECOND, Queue};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::ends::{NEAR, SERVER};
use super::gateways::{Gateways, far_config, near_with_paths};
use super::host::path_address;
use super::internet::{Fault, Internet};
use super::plan::Which;
use super::tcp::Tcp;
use super::{random, virtual_runtime};

/// When connections begin, and when a link changes.
const BEGIN: Duration = Duration::from_secs(1);
const CHANGE: Duration = Duration::from_secs(5);

/// How long the changed link is watched.
const AFTER: Duration = Duration::from_secs(9);

const LATE: Fault = Fault::Late(Duration::from_secs(3));

/// Mbit/s and round-trip time, ms.
type Links = &'static [(f64, u64)];

/// What happens.
#[derive(Clone, Copy)]
struct Case {
    links: Links,
    /// The length of queues, ms.
    queue: u64,
    /// The link that changes.
    link: usize,
    /// What it does to what near sends and receives.
    faults: [Option<Fault>; 2],
    /// Downloads and uploads without end.
    load: [usize; 2],
    seed: u64,
}

/// What follows from it.
struct Outcome {
    /// The longest time without an arrival after the change, of all connections together, of the
    /// downloads and of the uploads.
    silence: Duration,
    by_direction: [Duration; 2],
    /// How often a path was found dead.
    deaths: u64,
    /// Received after the change, Mbit/s.
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

/// When bytes arrived, and how many.
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

/// A client whose first byte says whether it downloads.
async fn connect(internet: Arc<Internet>, downloads: bool, arrivals: Arrivals) {
    sleep(BEGIN).await;
    let client = internet.connect(Ipv4Addr::LOCALHOST.into(), NEAR);
    let client = client.expect("near listens");
    if client.write(&[downloads.into()]).await.is_err() {
        return;
    }
    match downloads {
        true => receive(&internet, &client, &arrivals).await,
        false => send(&client).await,
    }
}

async fn serve(internet: Arc<Internet>, arrivals: Arrivals) {
    let mut listener = internet.listen(SERVER).expect("one server");
    while let Some(server) = listener.recv().await {
        let (internet, arrivals) = (internet.clone(), arrivals.clone());
        tokio::spawn(async move {
            let mut downloads = [0];
            match server.read(&mut downloads).await {
                Ok(1) if downloads == [1] => send(&server).await,
                _ => receive(&internet, &server, &arrivals).await,
            }
        });
    }
}

/// The longest time without an arrival after the change.
fn silence(mut arrivals: Vec<(Duration, usize)>) -> Duration {
    arrivals.retain(|(at, _)| *at < CHANGE + AFTER);
    arrivals.push((CHANGE + AFTER, 0));
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
        for downloads in [true, false] {
            for _ in 0..self.load[usize::from(!downloads)] {
                clients.spawn(connect(internet.clone(), downloads, noted[0].clone()));
            }
        }
        sleep(CHANGE - internet.time()).await;
        internet.disturb(path_address(self.link), self.faults);
        tracing::warn!("CHANGE");
        sleep(AFTER).await;
        let near = &gateways.near.as_ref().expect("it runs").gateway;
        let tunnels = near.tunnels().into_iter().map(|(_, tunnel)| tunnel.paths());
        let deaths = tunnels.flatten().map(|path| path.deaths).sum();
        gateways.end(Which::Near).await;
        gateways.end(Which::Far).await;
        deaths
    }

    fn run(self) -> Outcome {
        let noted: [Arrivals; 2] = Default::default();
        let arrivals = noted.clone();
        let deaths = random::seeded(self.seed, || {
            virtual_runtime().block_on(async {
                let start = tokio::time::Instant::now();
                START.with(|it| it.set(Some(start)));
                self.play(noted).await
            })
        });
        let arrivals = arrivals.map(|it| it.lock().expect("no panic").clone());
        let all = arrivals.concat();
        let received = all
            .iter()
            .filter(|(at, _)| (CHANGE..CHANGE + AFTER).contains(at));
        let received: usize = received.map(|(_, n)| n).sum();
        let outcome = Outcome {
            silence: silence(all),
            by_direction: arrivals.map(silence),
            deaths,
            goodput: received as f64 * 8e-6 / AFTER.as_secs_f64(),
        };
        println!(
            "{self}: silence of all {:?}, {:?}; {} deaths, {:.1} Mbit/s",
            outcome.silence, outcome.by_direction, outcome.deaths, outcome.goodput
        );
        outcome
    }
}

const BED: Links = &[(25.0, 30), (12.0, 70)];

const DEAD: [Option<Fault>; 2] = [Some(Fault::Loses); 2];

thread_local! { static START: std::cell::Cell<Option<tokio::time::Instant>> = const { std::cell::Cell::new(None) }; }
struct Clk;
impl tracing_subscriber::fmt::time::FormatTime for Clk {
    fn format_time(
        &self,
        to: &mut tracing_subscriber::fmt::format::Writer<'_>,
    ) -> std::fmt::Result {
        let at = START.with(|it| it.get()).map(|it| it.elapsed());
        write!(to, "{at:?}")
    }
}

#[test]
fn scan() {
    let log = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env());
    log.with_ansi(false).with_timer(Clk).init();
    let links: &[Links] = &[
        BED,
        &[(8.0, 20), (2.0, 60)],
        &[(100.0, 25), (100.0, 25)],
        &[(20.0, 30), (10.0, 50), (5.0, 80)],
        &[(300.0, 10), (80.0, 30)],
    ];
    let which: usize = std::env::var("LINKS").map_or(0, |it| it.parse().expect("a number"));
    let seeds: u64 = std::env::var("SEEDS").map_or(2, |it| it.parse().expect("a number"));
    let links = links[which];
    let reorders = [Some(Fault::Reorders(0.1, Duration::from_millis(20))); 2];
    for link in 0..links.len() {
        for load in [[4, 0], [0, 4], [2, 2]] {
            for faults in [
                DEAD,
                [DEAD[0], None],
                [None, DEAD[0]],
                [Some(LATE); 2],
                [None, Some(LATE)],
                [Some(LATE), None],
                reorders,
            ] {
                let filter = std::env::var("FAULTS").unwrap_or_default();
                if !format!("{faults:?} {load:?} {link}").contains(&filter) {
                    continue;
                }
                for seed in 1..=seeds {
                    let case = Case {
                        links,
                        queue: 100,
                        link,
                        faults,
                        load,
                        seed,
                    };
                    case.run();
                }
            }
        }
    }
}

#[test]
fn bad() {
    let log = tracing_subscriber::fmt()
        .with_env_filter(tracing_subscriber::EnvFilter::from_default_env());
    log.with_ansi(false).with_timer(Clk).init();
    let ms = Duration::from_millis;
    let filter = std::env::var("FAULTS").unwrap_or_default();
    let seeds: u64 = std::env::var("SEEDS").map_or(2, |it| it.parse().expect("a number"));
    for (queue, fault) in [
        (100, None),
        (2000, None),
        (20, None),
        (100, Some(Fault::Reorders(0.1, ms(20)))),
        (100, Some(Fault::Reorders(0.1, ms(200)))),
        (100, Some(Fault::Loss(0.02))),
        (100, Some(Fault::Loss(0.1))),
        (100, Some(Fault::Stalls(ms(1000), ms(100)))),
        (100, Some(Fault::Stalls(ms(2000), ms(200)))),
        (100, Some(Fault::Stalls(ms(2000), ms(300)))),
        (100, Some(Fault::Stalls(ms(3000), ms(600)))),
    ] {
        for load in [[4, 0], [0, 4], [2, 2]] {
            for seed in 1..=seeds {
                if !format!("{queue} {fault:?} {load:?}").contains(&filter) {
                    continue;
                }
                print!("queue {queue} ");
                let link = usize::from(seed % 2 == 0);
                Case {
                    links: BED,
                    queue,
                    link,
                    faults: [fault; 2],
                    load,
                    seed,
                }
                .run();
            }
        }
    }
}
