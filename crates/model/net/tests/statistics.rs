//! Random drops against their formulas. The seeds are fixed; a bound of four standard deviations
//! would fail one time in 16 000 by chance.

use anabranch_net::{Cause, Fate, Link, LinkConfig, Loss, MILLISECOND, Queue, Red, Time};

const PACKETS: u32 = 200_000;

/// Transmission time of 1500 bytes at 10 Mbps.
const ONE_PACKET: Time = 1_200_000_000;

fn with_red(average_weight: Option<f64>) -> LinkConfig {
    let red = Red {
        average_weight,
        ..Red::scaled(10.0)
    };
    LinkConfig {
        queue: Queue::Red(red),
        ..LinkConfig::constant(10e6, 10 * MILLISECOND)
    }
}

fn with_loss(loss: Loss) -> LinkConfig {
    LinkConfig {
        loss,
        ..LinkConfig::constant(10e6, 10 * MILLISECOND)
    }
}

/// Offers a packet again and again while `waiting` packets wait: one is transmitted for each that
/// is let in. Returns the share dropped after the first `unmeasured`.
fn drop_share(config: LinkConfig, waiting: u32, unmeasured: u32, measured: u32) -> f64 {
    let mut link = Link::new(config, u64::from(waiting));
    let mut now = 0;
    while link.queue(now).packets < waiting {
        link.offer(now, 1500);
    }
    if waiting == 0 {
        link.offer(now, 1500); // in service, so that the queue is empty and the link is not
    }
    let mut drops = 0;
    for packet in 0..unmeasured + measured {
        assert_eq!(link.queue(now).packets, waiting);
        match link.offer(now, 1500) {
            Fate::Delivered { .. } => now += ONE_PACKET,
            Fate::Dropped(cause) => {
                assert_eq!(cause, Cause::Red);
                drops += u32::from(packet >= unmeasured);
            }
        }
    }
    f64::from(drops) / f64::from(measured)
}

/// Packets from each drop to the next while 50 packets wait, where the OLIA draft's probability is
/// 0.1.
fn gaps(uniform: bool, number: usize) -> Vec<u32> {
    let red = Red {
        uniform,
        ..Red::scaled(10.0)
    };
    let config = LinkConfig {
        queue: Queue::Red(red),
        ..LinkConfig::constant(10e6, 10 * MILLISECOND)
    };
    let mut link = Link::new(config, 1);
    let (mut now, mut gaps, mut gap) = (0, Vec::new(), 1);
    while gaps.len() <= number {
        let waits = link.queue(now).packets == 50;
        match link.offer(now, 1500) {
            Fate::Delivered { .. } if waits => (now, gap) = (now + ONE_PACKET, gap + 1),
            Fate::Delivered { .. } => {}
            Fate::Dropped(_) => {
                gaps.push(gap);
                gap = 1;
            }
        }
    }
    gaps.split_off(1) // the first began while the queue grew
}

/// Uniform on 1 to 10 with spacing: a mean of 5.5, so that a share 1/5.5 = 2p/(1 + p) is dropped;
/// each distance has a tenth of 20 000 gaps, with a standard deviation of sqrt(20 000 * 0.09) =
/// 42.4. Without it they are geometric: a mean of 10 with a standard error of sqrt(90) / 141 =
/// 0.067, and 0.9^10 = 0.349 of them are longer than 10.
#[test]
fn spaced_drops_of_red_are_uniformly_far_apart() {
    let spaced = gaps(true, 20_000);
    for distance in 1..=10 {
        let number = spaced.iter().filter(|&&gap| gap == distance).count() as f64;
        assert!((number - 2000.0).abs() < 4.0 * 42.4, "{distance}: {number}");
    }
    assert_eq!(spaced.iter().max(), Some(&10));
    let random = gaps(false, 20_000);
    let mean = f64::from(random.iter().sum::<u32>()) / 20_000.0;
    assert!((mean - 10.0).abs() < 4.0 * 0.067, "{mean}");
    let longer = random.iter().filter(|&&gap| gap > 10).count() as f64 / 20_000.0;
    assert!((longer - 0.349).abs() < 4.0 * 0.0034, "{longer}");
}

/// Whether the packet is dropped that finds one waiting, where the probability is 0.5, after
/// another that found one waiting passed; `pause` empties the queue between them. `None`: the first
/// was dropped.
fn second_is_dropped(seed: u64, pause: Time) -> Option<bool> {
    let red = Red {
        min_packets: 0.0,
        mid_packets: 1.0,
        max_packets: 1e9,
        mid_probability: 0.5,
        uniform: true,
        ..Red::scaled(10.0)
    };
    let config = LinkConfig {
        queue: Queue::Red(red),
        ..LinkConfig::constant(10e6, 10 * MILLISECOND)
    };
    let mut link = Link::new(config, seed);
    let mut is_dropped = |now| {
        while link.queue(now).packets == 0 {
            link.offer(now, 1500); // one is in service and one waits, which meet a probability of 0
        }
        link.offer(now, 1500) == Fate::Dropped(Cause::Red)
    };
    let first = is_dropped(0);
    (!first).then(|| is_dropped(pause))
}

/// After a packet that met 0.5 and passed the next must go, 0.5/(1 - 0.5) = 1; with an empty queue
/// between them it has 0.5 again: of about 1000 a standard deviation of 0.016.
#[test]
fn the_count_of_red_begins_again_where_the_probability_is_0() {
    let share = |pause| {
        let dropped: Vec<bool> = (0..2000)
            .filter_map(|i| second_is_dropped(i, pause))
            .collect();
        dropped.iter().filter(|&&it| it).count() as f64 / dropped.len() as f64
    };
    assert_eq!(share(0), 1.0);
    let after = share(100 * MILLISECOND);
    assert!((after - 0.5).abs() < 0.064, "{after}");
}

/// The probability at a queue of `waiting` as the OLIA draft draws it, in integers: thousandths.
fn olia_thousandths(waiting: u32) -> u32 {
    match waiting {
        0..=25 => 0,
        26..=50 => (waiting - 25) * 4,
        51..=99 => 100 + (waiting - 50) * 18,
        _ => 1000,
    }
}

fn assert_binomial(share: f64, probability: f64, trials: u32, what: &str) {
    let deviation = (probability * (1.0 - probability) / f64::from(trials)).sqrt();
    assert!(
        (share - probability).abs() <= 4.0 * deviation,
        "{what}: {share} is far from {probability}, standard deviation {deviation}"
    );
}

#[test]
fn red_drops_as_the_olia_draft_draws_it() {
    for waiting in 0..100 {
        let probability = f64::from(olia_thousandths(waiting)) / 1000.0;
        let share = drop_share(with_red(None), waiting, 0, 20_000);
        assert_binomial(
            share,
            probability,
            20_000,
            &format!("{waiting} packets wait"),
        );
    }
}

#[test]
fn red_with_an_average_drops_the_same_share_of_a_steady_queue() {
    for waiting in [20, 30, 50, 75, 90] {
        let probability = f64::from(olia_thousandths(waiting)) / 1000.0;
        // Weight 0.02: after 1500 arrivals what the average lacks is 0.98^1500 = 7e-14 of it.
        let share = drop_share(with_red(Some(0.02)), waiting, 1500, 20_000);
        assert_binomial(
            share,
            probability,
            20_000,
            &format!("{waiting} packets wait"),
        );
    }
}

#[test]
fn bernoulli_loses_its_share() {
    for (seed, probability) in [(1, 0.0), (2, 0.001), (3, 0.01), (4, 0.3), (5, 1.0)] {
        let lost = losses(Loss::Bernoulli { probability }, seed);
        let count = lost.iter().filter(|&&lost| lost).count();
        let share = count as f64 / f64::from(PACKETS);
        assert_binomial(share, probability, PACKETS, "Bernoulli");
    }
}

fn losses(loss: Loss, seed: u64) -> Vec<bool> {
    let mut link = Link::new(with_loss(loss), seed);
    let mut lost = || link.offer(0, 1500) == Fate::Dropped(Cause::Random);
    (0..PACKETS).map(|_| lost()).collect()
}

#[test]
fn gilbert_elliott_loses_its_share() {
    // Columns: good to bad, bad to good, loss when good, loss when bad.
    let table = [
        (0.01, 0.2, 0.0, 1.0),
        (0.05, 0.05, 0.01, 0.5),
        (0.3, 0.7, 0.0, 0.2),
        (0.9, 0.8, 0.1, 1.0),
    ];
    for (seed, (good_to_bad, bad_to_good, loss_good, loss_bad)) in (1..).zip(table) {
        let loss = Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good,
            loss_bad,
        };
        let count = losses(loss.clone(), seed)
            .iter()
            .filter(|&&lost| lost)
            .count();
        let share = count as f64 / f64::from(PACKETS);

        let bad = good_to_bad / (good_to_bad + bad_to_good);
        let mean = (1.0 - bad) * loss_good + bad * loss_bad;
        // The state's autocorrelation at a distance of k packets is memory^k.
        let memory = 1.0 - good_to_bad - bad_to_good;
        let correlation = (loss_bad - loss_good).powi(2) * bad * (1.0 - bad) * memory;
        let variance = mean * (1.0 - mean) + 2.0 * correlation / (1.0 - memory);
        let deviation = (variance / f64::from(PACKETS)).sqrt();
        assert!(
            (share - mean).abs() <= 4.0 * deviation,
            "{loss:?}: {share} is far from {mean}, standard deviation {deviation}"
        );
    }
}

#[test]
fn gilbert_elliott_loses_in_bursts() {
    // Every packet in the bad state is lost and no other: a burst lasts as long as the state, a
    // geometric number of packets of mean 1 / r and variance (1 - r) / r^2.
    for (seed, bad_to_good) in [(1, 0.1), (2, 0.25), (3, 0.9)] {
        let chain = Loss::GilbertElliott {
            good_to_bad: 0.02,
            bad_to_good,
            loss_good: 0.0,
            loss_bad: 1.0,
        };
        let lost = losses(chain, seed);
        let bursts = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count() as f64;
        let packets = lost.iter().filter(|&&lost| lost).count() as f64;

        let mean = packets / bursts;
        let deviation = ((1.0 - bad_to_good) / bad_to_good.powi(2) / bursts).sqrt();
        assert!(
            (mean - 1.0 / bad_to_good).abs() <= 4.0 * deviation,
            "bursts of {mean} packets, expected {}, deviation {deviation}",
            1.0 / bad_to_good
        );
    }
}

#[test]
fn nothing_is_drawn_where_the_outcome_is_certain() {
    // Below RED's first threshold, and in a chain whose next state is certain, no number is taken
    // from the generator: what is random on the link stays as it would be without them.
    let loss = Loss::Bernoulli { probability: 0.5 };
    let chain = |good_to_bad, bad_to_good| {
        with_loss(Loss::GilbertElliott {
            good_to_bad,
            bad_to_good,
            loss_good: 0.5,
            loss_bad: 0.5,
        })
    };
    let configs = [
        with_loss(loss.clone()),
        LinkConfig {
            loss: loss.clone(),
            ..with_red(None)
        },
        LinkConfig {
            loss,
            ..with_red(Some(0.002))
        },
        chain(0.0, 0.0),
        chain(1.0, 1.0),
    ];
    let fates = configs.map(|config| {
        let mut link = Link::new(config, 7);
        (0..1000)
            .map(|packet| link.offer(packet * ONE_PACKET, 1500))
            .collect::<Vec<_>>()
    });
    assert!(fates.iter().all(|other| *other == fates[0]));
}

#[test]
fn a_packet_lost_on_the_wire_has_used_capacity() {
    let mut lossless = Link::new(with_loss(Loss::None), 1);
    let mut lossy = Link::new(with_loss(Loss::Bernoulli { probability: 0.5 }), 1);
    let mut delivered = 0;
    for packet in 0..1000 {
        let now = packet * ONE_PACKET / 2;
        let expected = lossless.offer(now, 1500);
        let fate = lossy.offer(now, 1500);
        assert_eq!(lossy.queue(now), lossless.queue(now));
        if fate != Fate::Dropped(Cause::Random) {
            assert_eq!(fate, expected);
            delivered += 1;
        }
    }
    assert!((1..1000).contains(&delivered));
}
