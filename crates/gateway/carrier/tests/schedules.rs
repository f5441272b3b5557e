//! The turns of writers under schedules that shuttle chooses: the source file of the turns with a
//! stream of a library that has one window for the tunnel and one for each stream.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use shuttle::future::{block_on, spawn, yield_now};

#[path = "../src/quic/turns.rs"]
mod turns;

use turns::Outlet;

type Turn = turns::Turn<Sending>;
type Turns = turns::Turns<Sending>;

/// A library's windows and the tasks that they block.
#[derive(Default)]
struct Windows {
    tunnel: usize,
    blocked: BTreeMap<usize, Waker>,
    /// Writers that wait, and how often each other one has written meanwhile.
    waiting: BTreeMap<usize, BTreeMap<usize, usize>>,
}

/// A stream of the library.
struct Sending {
    id: usize,
    own_window: usize,
    windows: Arc<Mutex<Windows>>,
}

impl Outlet for Sending {
    /// Takes a byte of both windows.
    fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let mut windows = self.windows.lock().expect("no panic");
        let bytes = buf.len().min(1);
        if windows.tunnel == 0 || self.own_window < bytes {
            windows.blocked.insert(self.id, cx.waker().clone());
            return Poll::Pending;
        }
        windows.tunnel -= bytes;
        self.own_window -= bytes;
        Poll::Ready(Ok(bytes))
    }
}

/// A tunnel whose window is used up.
struct Tunnel {
    windows: Arc<Mutex<Windows>>,
    turns: Arc<Turns>,
}

impl Tunnel {
    fn new() -> Arc<Tunnel> {
        let windows = Arc::new(Mutex::new(Windows::default()));
        let probe = Sending {
            id: usize::MAX,
            own_window: 0,
            windows: windows.clone(),
        };
        let turns = Arc::new(Turns::new(probe));
        Arc::new(Tunnel { windows, turns })
    }

    fn writer(&self, id: usize, own_window: usize) -> (Turn, Sending) {
        let windows = self.windows.clone();
        let stream = Sending {
            id,
            own_window,
            windows,
        };
        (Turn::new(self.turns.clone()), stream)
    }

    /// The peer lets the tunnel send a byte more, again and again.
    async fn grant(self: Arc<Self>, bytes: usize) {
        for _ in 0..bytes {
            yield_now().await;
            let blocked = {
                let mut windows = self.windows.lock().expect("no panic");
                windows.tunnel += 1;
                std::mem::take(&mut windows.blocked)
            };
            blocked.into_values().rev().for_each(Waker::wake);
        }
    }

    /// Writes, and counts how often others write while this writer waits.
    async fn write(self: Arc<Self>, id: usize, bytes: usize) {
        let (mut turn, mut stream) = self.writer(id, bytes);
        for _ in 0..bytes {
            let write = std::future::poll_fn(|cx| {
                let written = turn.poll_write(&mut stream, cx, &[7]);
                let mut windows = self.windows.lock().expect("no panic");
                if written.is_pending() {
                    windows.waiting.entry(id).or_default();
                } else {
                    windows.waiting.remove(&id);
                    for turns in windows.waiting.values_mut() {
                        *turns.entry(id).or_default() += 1;
                        assert_eq!(turns[&id], 1, "{id} has had two turns");
                    }
                }
                written
            });
            assert_eq!(write.await.expect("written"), 1);
            yield_now().await;
        }
    }
}

/// Runs a model in random schedules, and in those of few preemptions (PCT). A schedule in which
/// somebody waits for ever fails.
fn explore(model: impl Fn() + Send + Sync + Clone + 'static) {
    shuttle::check_random(model.clone(), schedules());
    shuttle::check_pct(model, schedules(), 3);
}

#[test]
fn every_writer_has_its_turn_and_no_other_has_two_meanwhile() {
    explore(|| {
        let tunnel = Tunnel::new();
        let writers: Vec<_> = (0..4)
            .map(|id| spawn(tunnel.clone().write(id, 3)))
            .collect();
        spawn(tunnel.grant(4 * 3));
        for writer in writers {
            block_on(writer).expect("ran");
        }
    });
}

/// The first of three more writers is stopped by its own window, and another is dropped while it
/// waits or has its turn.
#[test]
fn a_writer_that_stops_or_is_dropped_gives_its_turn_on() {
    explore(|| {
        let tunnel = Tunnel::new();
        let (mut stopped, mut stopped_stream) = tunnel.writer(10, 0);
        let dropped = {
            let (mut turn, mut stream) = tunnel.writer(11, 1);
            async move {
                let poll =
                    |cx: &mut Context<'_>| Poll::Ready(turn.poll_write(&mut stream, cx, &[7]));
                let _ = std::future::poll_fn(poll).await;
                yield_now().await;
            }
        };
        spawn(dropped);
        let mut writers: Vec<_> = (0..2)
            .map(|id| Box::pin(spawn(tunnel.clone().write(id, 2))))
            .collect();
        spawn(tunnel.clone().grant(2 * 2 + 1));
        block_on(std::future::poll_fn(|cx| {
            let _ = stopped.poll_write(&mut stopped_stream, cx, &[7]);
            writers.retain_mut(|writer| writer.as_mut().poll(cx).is_pending());
            match writers.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            }
        }));
    });
}

/// Schedules of each kind: as many as random inputs of proptest, of which `make test-all` has more.
fn schedules() -> usize {
    let cases = std::env::var("PROPTEST_CASES");
    cases.map_or(200, |cases| cases.parse().expect("a number"))
}
