//! Generalised processor sharing as a fluid: files come by Poisson processes and are served at rate
//! 1, event by event and without packets.
//!
//! Each queue that has work gets its weight's share of the server, so that nothing is idle while
//! there is work; the files of one queue share what it gets equally. With one queue this is the
//! M/G/1 processor-sharing queue. It is the model of the I-TCP paper, section II.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use anabranch_net::Dice;
use anabranch_scenario::seed::element_seed;

/// A run ends at the latest after this many times as many files as it reports: a file from a heavy
/// tail can take longer than all of them.
const LIMIT_FACTOR: usize = 4;

/// Distribution of the service times of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sizes {
    /// Exponential.
    Exponential,
    /// Pareto: P(B > x) = (smallest / x)^shape. All are equal where `shape` is infinite.
    Pareto {
        /// Above 1, or the mean would be infinite.
        shape: f64,
    },
}

/// A Poisson stream of files.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Index of the queue that its files join.
    pub queue: usize,
    /// rho: mean service that arrives per second.
    pub load: f64,
    /// Mean service time at the full rate, s.
    pub mean_s: f64,
    /// How service times spread around the mean.
    pub sizes: Sizes,
}

/// A server shared by weighted queues, and its arrivals.
#[derive(Clone, Debug)]
pub struct Sharing {
    weights: Vec<f64>,
    classes: Vec<Class>,
}

/// Files in the order of their arrival, as columns.
#[derive(Clone, Debug, Default)]
pub struct Files {
    /// Index of the class.
    pub class: Vec<u32>,
    /// When the file arrived, s.
    pub arrival_s: Vec<f64>,
    /// Service time at the full rate, s.
    pub service_s: Vec<f64>,
    /// From arrival to departure, s; infinite for a file that was still there at the end of the
    /// run.
    pub sojourn_s: Vec<f64>,
    /// Work that the file found in each queue, s at the full rate: a row per file, one after the
    /// other. Poisson arrivals see time averages.
    pub workload_s: Vec<f64>,
}

impl Sharing {
    /// A server and its arrivals.
    ///
    /// # Errors
    /// If the queue is unstable or a number is out of range: the message names it.
    pub fn new(weights: Vec<f64>, classes: Vec<Class>) -> Result<Sharing, String> {
        for (number, &weight) in (1..).zip(&weights) {
            positive(weight, &format!("queue {number}: weight"))?;
        }
        for (number, class) in (1..).zip(&classes) {
            if class.queue >= weights.len() {
                let queues = weights.len();
                return Err(format!(
                    "class {number}: queue {} of {queues}; expected one from 0",
                    class.queue
                ));
            }
            positive(class.load, &format!("class {number}: load"))?;
            positive(class.mean_s, &format!("class {number}: mean_s"))?;
            if let Sizes::Pareto { shape } = class.sizes
                && (shape.is_nan() || shape <= 1.0)
            {
                return Err(format!(
                    "class {number}: shape {shape}: files have no finite mean; expected a shape above 1"
                ));
            }
        }
        let load: f64 = classes.iter().map(|class| class.load).sum();
        if classes.is_empty() || load >= 1.0 {
            return Err(format!(
                "the loads add up to {load}: the queue has no steady state; expected classes whose loads add up to less than 1"
            ));
        }
        Ok(Sharing { weights, classes })
    }

    /// Serves files from an empty start and reports the first `count`. A class's arrivals and sizes
    /// depend on the seed and its index alone, not on the other classes or the weights.
    pub fn run(&self, count: usize, seed: u64) -> Files {
        let mut sources: Vec<Source> = (0..)
            .zip(&self.classes)
            .map(|(index, class)| Source::new(class, seed, index))
            .collect();
        let mut server = Server::new(&self.weights);
        let mut files = Files {
            sojourn_s: vec![f64::INFINITY; count],
            ..Files::default()
        };
        let (mut arrived, mut waiting) = (0, count);
        while waiting > 0 && arrived < LIMIT_FACTOR * count {
            let (next, arrival) = earliest(&sources);
            while let Some((departure, queue)) = server.next_departure()
                && departure <= arrival
            {
                server.advance(departure);
                let file = server.depart(queue);
                if file < count {
                    files.sojourn_s[file] = departure - files.arrival_s[file];
                    waiting -= 1;
                }
            }
            server.advance(arrival);
            let (class, service_s) = (&self.classes[next], sources[next].take());
            if arrived < count {
                files.class.push(next as u32);
                files.arrival_s.push(arrival);
                files.service_s.push(service_s);
                files
                    .workload_s
                    .extend(server.queues.iter().map(|queue| queue.workload));
            }
            server.offer(class.queue, arrived, service_s);
            arrived += 1;
        }
        files
    }
}

fn positive(value: f64, what: &str) -> Result<(), String> {
    if value > 0.0 && value.is_finite() {
        return Ok(());
    }
    Err(format!("{what} {value}: expected a number above 0"))
}

/// The class whose file comes next, and when.
fn earliest(sources: &[Source]) -> (usize, f64) {
    let times = sources.iter().map(|source| source.next_s).enumerate();
    let by_time = |a: &(usize, f64), b: &(usize, f64)| a.1.total_cmp(&b.1);
    times
        .min_by(by_time)
        .expect("there is a class: Sharing::new")
}

/// The arrivals of one class.
struct Source {
    class: Class,
    dice: Dice,
    next_s: f64,
}

impl Source {
    fn new(class: &Class, seed: u64, index: usize) -> Source {
        let dice = Dice::new(element_seed(seed, 0, index));
        let mut source = Source {
            class: *class,
            dice,
            next_s: 0.0,
        };
        source.next_s = source.gap();
        source
    }

    fn gap(&mut self) -> f64 {
        self.dice.exponential() * self.class.mean_s / self.class.load
    }

    /// Takes the file that has arrived: its service time.
    fn take(&mut self) -> f64 {
        let service_s = match self.class.sizes {
            Sizes::Exponential => self.class.mean_s * self.dice.exponential(),
            Sizes::Pareto { shape } => self.dice.pareto(self.class.mean_s, shape),
        };
        self.next_s += self.gap();
        service_s
    }
}

/// The queues at one moment.
struct Server {
    now: f64,
    queues: Vec<Queue>,
}

/// One queue. `attained` is the service that a file has received that arrived when the queue was
/// last empty; a file departs at a fixed value of it.
struct Queue {
    weight: f64,
    attained: f64,
    workload: f64,
    files: BinaryHeap<Reverse<Departure>>,
}

#[derive(PartialEq)]
struct Departure {
    attained: f64,
    file: usize,
}

impl Eq for Departure {}

impl Ord for Departure {
    fn cmp(&self, other: &Departure) -> Ordering {
        let by_time = self.attained.total_cmp(&other.attained);
        by_time.then(self.file.cmp(&other.file))
    }
}

impl PartialOrd for Departure {
    fn partial_cmp(&self, other: &Departure) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Server {
    fn new(weights: &[f64]) -> Server {
        let queue = |&weight: &f64| Queue {
            weight,
            attained: 0.0,
            workload: 0.0,
            files: BinaryHeap::new(),
        };
        Server {
            now: 0.0,
            queues: weights.iter().map(queue).collect(),
        }
    }

    fn offer(&mut self, queue: usize, file: usize, service_s: f64) {
        let queue = &mut self.queues[queue];
        let attained = queue.attained + service_s;
        queue.files.push(Reverse(Departure { attained, file }));
        queue.workload += service_s;
    }

    /// When the next file departs if none arrives, and from which queue.
    fn next_departure(&self) -> Option<(f64, usize)> {
        let busy = self.busy();
        let departure = |(index, queue): (usize, &Queue)| {
            let Reverse(head) = queue.files.peek()?;
            let wait = (head.attained - queue.attained) * queue.files.len() as f64;
            Some((self.now + wait * busy / queue.weight, index))
        };
        let departures = self.queues.iter().enumerate().filter_map(departure);
        departures.min_by(|a, b| a.0.total_cmp(&b.0))
    }

    /// Serves until a time that is at most the next departure's.
    fn advance(&mut self, to: f64) {
        let (busy, elapsed) = (self.busy(), to - self.now);
        for queue in self
            .queues
            .iter_mut()
            .filter(|queue| !queue.files.is_empty())
        {
            let served = elapsed * queue.weight / busy;
            queue.attained += served / queue.files.len() as f64;
            queue.workload -= served;
        }
        self.now = to;
    }

    /// The file that departs from a queue now. An empty queue starts again from 0, so that rounding
    /// errors do not accumulate.
    fn depart(&mut self, queue: usize) -> usize {
        let queue = &mut self.queues[queue];
        let Reverse(head) = queue
            .files
            .pop()
            .expect("a queue with a departure has a file");
        queue.attained = head.attained;
        if queue.files.is_empty() {
            (queue.attained, queue.workload) = (0.0, 0.0);
        }
        head.file
    }

    /// The weights of the queues that have work, together.
    fn busy(&self) -> f64 {
        let busy = self.queues.iter().filter(|queue| !queue.files.is_empty());
        busy.map(|queue| queue.weight).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Serves files that are all there at time 0, (queue, service) each: when each departs.
    fn departures(weights: &[f64], files: &[(usize, f64)]) -> Vec<f64> {
        let mut server = Server::new(weights);
        for (file, &(queue, service_s)) in files.iter().enumerate() {
            server.offer(queue, file, service_s);
        }
        let mut times = vec![0.0; files.len()];
        while let Some((time, queue)) = server.next_departure() {
            server.advance(time);
            times[server.depart(queue)] = time;
        }
        times
    }

    #[test]
    fn busy_queues_share_by_weight() {
        // Rates 3/4 and 1/4: 3 and 1 s of work both take 4 s.
        assert_eq!(departures(&[3.0, 1.0], &[(0, 3.0), (1, 1.0)]), [4.0, 4.0]);
    }

    #[test]
    fn an_empty_queue_leaves_its_share_to_the_other() {
        // 3/4 and 1/4 until the first is done, at 4/3 s; the other then has 2/3 s of work left.
        let times = departures(&[3.0, 1.0], &[(0, 1.0), (1, 1.0)]);
        assert!((times[0] - 4.0 / 3.0).abs() < 1e-15, "{times:?}");
        assert!((times[1] - 2.0).abs() < 1e-15, "{times:?}");
    }

    #[test]
    fn the_files_of_a_queue_share_equally() {
        // Half each until the first is done, at 2 s; the other then has 1 s of work left.
        assert_eq!(departures(&[1.0], &[(0, 1.0), (0, 2.0)]), [2.0, 3.0]);
    }

    #[test]
    fn departures_come_in_the_order_of_their_sizes() {
        let files = [(0, 3.0), (0, 1.0), (0, 2.0)];
        // 1 s each of 3 files: 3 s; then 1 s each of 2: 5 s; then 1 s: 6 s.
        assert_eq!(departures(&[1.0], &files), [6.0, 3.0, 5.0]);
    }
}
