//! Places, room and rate of clients.

use std::sync::Arc;
use std::time::Duration;

use anabranch_gateway::config::Limits;
use anabranch_gateway::traffic::limits::{Limiter, Party, Permit, Purpose, Room};
use anabranch_gateway::traffic::rate::{Flow, Rate};
use futures_util::FutureExt;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::Instant;

fn limiter(lines: &str) -> Arc<Limiter<char>> {
    Limiter::new(&toml::from_str(lines).expect("limits"))
}

fn party(owner: char, part: u32) -> Party<char> {
    Party { owner, part }
}

fn admit(limiter: &Arc<Limiter<char>>, party: &Party<char>) -> Option<Permit<char>> {
    limiter.admit(Purpose::Connection, party)
}

fn all_of(limiter: &Arc<Limiter<char>>, party: &Party<char>) -> Vec<Permit<char>> {
    std::iter::from_fn(|| admit(limiter, party)).collect()
}

fn kept(permits: &[Permit<char>]) -> usize {
    let kept = permits.iter().filter(|it| !it.lost.is_cancelled());
    kept.count()
}

#[test]
fn whatever_some_clients_take_a_further_one_finds_places() {
    let limiter = limiter("connections = 100\nconnections_per_client = 50");
    let [a, b] = ['a', 'b'].map(|owner| all_of(&limiter, &party(owner, 0)));
    assert_eq!((a.len(), b.len()), (50, 50));
    // The third gets as many as both keep: 33 or 34 of 100.
    let c = all_of(&limiter, &party('c', 0));
    let all = [kept(&a), kept(&b), c.len()];
    assert!(
        all.iter().all(|&places| places == 33 || places == 34),
        "{all:?}"
    );
    assert_eq!(all.iter().sum::<usize>(), 100);
    // The latest ones are lost.
    assert!(!a[32].lost.is_cancelled() && a[49].lost.is_cancelled());
    assert_eq!(limiter.active(), 100);
    drop((a, b, c));
    assert_eq!(limiter.active(), 0);
    assert!(format!("{limiter:?}").contains("each: {}"), "{limiter:?}");
}

#[test]
fn the_places_of_a_key_are_shared_by_the_clients_behind_it() {
    let limiter = limiter("connections = 1000\nconnections_per_client = 90");
    let first = all_of(&limiter, &party('k', 1));
    assert_eq!(first.len(), 90);
    let second = all_of(&limiter, &party('k', 2));
    assert_eq!((kept(&first), second.len()), (45, 45));
    // A near that does not say who its clients are: no others at far.
    assert_eq!(all_of(&limiter, &party('l', 0)).len(), 90);
    drop(first);
    assert!(admit(&limiter, &party('k', 2)).is_some());
}

#[test]
fn bytes_that_wait_leave_room_for_others() {
    let limiter = limiter("tunnel_buffer_bytes = 4_194_304");
    let room = |owner| (limiter.clone(), party(owner, 0));
    let fill = |room: &dyn Room| (0..).take_while(|_| room.take(65_536)).count();
    // 64 pieces: a half, a half of the rest, ...
    assert_eq!(fill(&room('a')), 32);
    assert_eq!(fill(&room('b')), 16);
    assert_eq!(fill(&room('c')), 8);
    room('a').give_back(32 * 65_536);
    // 16 + 12 = 40 - 12.
    assert_eq!(fill(&room('b')), 12);
}

#[test]
fn a_client_at_its_limit_gives_up_its_oldest_query_and_what_is_stuck() {
    let limiter = limiter("connections = 64\nconnections_per_client = 2");
    let a = party('a', 0);
    // It has the least number of places for queries, 16.
    let query = |_| limiter.admit(Purpose::Query, &a).expect("a place");
    let queries: Vec<_> = (0..18).map(query).collect();
    assert_eq!(kept(&queries), 16);
    assert!(queries[..2].iter().all(|it| it.lost.is_cancelled()));
    let held = all_of(&limiter, &a);
    assert_eq!(held.len(), 2);
    held[0].set_stuck(true);
    let next = admit(&limiter, &a).expect("the place of the stuck one");
    assert!(held[0].lost.is_cancelled() && !held[1].lost.is_cancelled());
    assert!(admit(&limiter, &a).is_none());
    drop((queries, held, next));
    assert_eq!(limiter.active(), 0);
}

#[test]
fn connections_are_limited_per_client_and_in_total() {
    let mut limits = Limits {
        connections: Some(3),
        connections_per_client: Some(2),
        ..Default::default()
    };
    let limiter = Limiter::new(&limits);
    let connection = |client| admit(&limiter, &party(client, 0));
    let a = [connection('a'), connection('a')].map(|it| it.expect("within the limits"));
    assert!(connection('a').is_none());
    let b = connection('b').expect("within the limits");
    // A client without a place gets one of the client that has two.
    let c = connection('c').expect("a place of the first");
    assert!(a[1].lost.is_cancelled() && !a[0].lost.is_cancelled());
    assert!(connection('d').is_none());
    let query = limiter
        .admit(Purpose::Query, &party('a', 0))
        .expect("a place of its own");
    limits.connections = Some(4);
    limiter.replace(&limits);
    assert!(connection('d').is_some());
    assert_eq!(limiter.active(), 4);
    drop((a, b, c, query));
    assert_eq!(limiter.active(), 0);
    // No client is remembered.
    assert!(format!("{limiter:?}").contains("each: {}"), "{limiter:?}");
}

const BUFFER: usize = 64 << 10;

/// 10 Mbit/s.
fn ten_mbps() -> Arc<Rate> {
    Arc::new(Rate::new(Some(10.0)))
}

async fn time_of(taken: impl Future<Output = ()>) -> Duration {
    let start = Instant::now();
    taken.await;
    start.elapsed()
}

/// 100 downloads of one flow have each read a buffer ahead: 5.2 s at this rate.
#[tokio::test(start_paused = true)]
async fn a_flow_waits_for_one_turn_of_each_other_flow() {
    let rate = ten_mbps();
    let [bulk, other] = [1, 2].map(|number| Flow::new(rate.clone(), number));
    let mut downloads: FuturesUnordered<_> = (0..100).map(|_| bulk.take(BUFFER)).collect();
    // The first ones are within the burst.
    let _ = downloads.next().now_or_never();
    let echo = tokio::select! {
        time = async {
            tokio::time::sleep(Duration::from_millis(500)).await;
            time_of(other.take(1000)).await
        } => time,
        () = async { while downloads.next().await.is_some() {} } => unreachable!(),
    };
    // A turn of 1500 bytes takes 1.2 ms.
    assert!(echo < Duration::from_millis(5), "{echo:?}");
    // All of it together takes what the rate says.
    let rest = time_of(async { while downloads.next().await.is_some() {} }).await;
    let whole = (100 * BUFFER + 1000) as f64 * 8.0 / 10e6;
    let took = rest.as_secs_f64() + 0.5;
    assert!((whole - 0.2..=whole).contains(&took), "{took} of {whole}");
}

#[tokio::test(start_paused = true)]
async fn a_flow_that_leaves_owes_nothing() {
    let rate = ten_mbps();
    let flow = Flow::new(rate.clone(), 1);
    let downloads: FuturesUnordered<_> = (0..1000).map(|_| flow.take(BUFFER)).collect();
    let mut downloads = Box::pin(downloads.collect::<Vec<()>>());
    assert!((&mut downloads).now_or_never().is_none());
    drop(downloads);
    let again = time_of(flow.take(1000)).await;
    assert!(again <= Duration::from_millis(2), "{again:?}");
    assert!(format!("{rate:?}").contains("waiting: {}"), "{rate:?}");
}

#[tokio::test(start_paused = true)]
async fn flows_have_the_same_part_whatever_the_size_of_their_data() {
    let rate = ten_mbps();
    let count = async |number, size| {
        let flow = Flow::new(rate.clone(), number);
        let mut bytes = 0;
        let _ = tokio::time::timeout(Duration::from_secs(20), async {
            loop {
                flow.take(size).await;
                bytes += size;
            }
        })
        .await;
        bytes as f64
    };
    let (small, large) = tokio::join!(count(1, 100), count(2, 40_000));
    assert!((0.9..1.1).contains(&(small / large)), "{small} {large}");
    rate.set(None);
    let flow = Flow::new(rate.clone(), 3);
    assert!(flow.take(1 << 30).now_or_never().is_some());
}

#[tokio::test(start_paused = true)]
async fn connections_of_a_client_share_its_rate() {
    // 8 Mbit/s are 1 MB/s: 2 x 500 kB take 1 s less the burst of 0.1 s.
    let rate = Arc::new(Rate::new(Some(8.0)));
    let [one, other] = [1, 2].map(|number| Flow::new(rate.clone(), number));
    let start = Instant::now();
    let half = async {
        for _ in 0..50 {
            one.take(10_000).await;
        }
    };
    tokio::join!(half, async {
        for _ in 0..50 {
            other.take(10_000).await;
        }
    });
    let took = start.elapsed().as_secs_f64();
    assert!((0.89..1.01).contains(&took), "{took}");
}
