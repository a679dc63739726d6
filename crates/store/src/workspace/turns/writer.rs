//! The thread that writes turns down, so that no turn waits for the disk: lines that it cannot
//! write, or that come too fast for it, are dropped and counted.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};

use jiff::Timestamp;
use jiff::civil::Date;
use tokio::sync::oneshot;

use super::days::{self, TurnsKept};
use super::line::TurnLine;
use aetheel_model::figures;
use aetheel_model::vigil;

/// Lines that may wait for the disk.
const BACKLOG: usize = 2_000;

enum Order {
    Line(Box<TurnLine>),
    /// Unless it stands there already: an earlier life of the gateway may have written it.
    LineOfEarlier(Box<TurnLine>),
    Tidy(TurnsKept, oneshot::Sender<io::Result<()>>),
    Flush(oneshot::Sender<()>),
}

/// The way to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    orders: Sender<Order>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Lines on their way to the thread.
    waiting: AtomicUsize,
    /// Lines are being dropped, and the log says so.
    dropping: AtomicBool,
}

impl State {
    fn drop_line(&self, turn: &str, why: &dyn std::fmt::Display) {
        figures::turn_unwritten();
        if !self.dropping.swap(true, Ordering::Relaxed) {
            tracing::warn!(turn, %why, "turns are not written down, and are missing in costs and in what can be looked up; make room in state/turns or mend that folder");
        }
    }
}

impl Writer {
    /// Starts the thread. It ends with the last writer.
    pub(super) fn start(folder: PathBuf) -> Self {
        let ((orders, received), state) = (mpsc::channel(), Arc::<State>::default());
        let shared = Arc::clone(&state);
        if let Err(error) = vigil::thread("turns", move || run(folder, &received, &shared)) {
            tracing::error!(%error, "cannot start the thread that writes turns down");
        }
        Self { orders, state }
    }

    /// Has a line written; `earlier`: unless it stands there already.
    pub(super) fn line(&self, line: TurnLine, earlier: bool) {
        if self.state.waiting.load(Ordering::Relaxed) >= BACKLOG {
            return self.state.drop_line(&line.turn, &"the disk is too slow");
        }
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        let line = Box::new(line);
        let order = if earlier { Order::LineOfEarlier(line) } else { Order::Line(line) };
        if let Err(mpsc::SendError(Order::Line(line) | Order::LineOfEarlier(line))) =
            self.orders.send(order)
        {
            self.state.drop_line(&line.turn, &"its thread is gone");
        }
    }

    /// Returns once all lines so far are with the system, or the thread is gone.
    pub(super) async fn flush(&self) {
        let (done_tx, done) = oneshot::channel();
        if self.orders.send(Order::Flush(done_tx)).is_ok() {
            let _ = done.await;
        }
    }

    /// Lets go of what is too old.
    ///
    /// # Errors
    /// What is in the way.
    pub(super) async fn tidy(&self, kept: TurnsKept) -> io::Result<()> {
        let (done_tx, done) = oneshot::channel();
        let gone = || io::Error::other("the thread that writes turns down is gone");
        self.orders.send(Order::Tidy(kept, done_tx)).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }
}

fn run(folder: PathBuf, orders: &Receiver<Order>, state: &State) {
    // Nothing is known of what earlier lives left.
    let mut clean_until = Date::MIN;
    while let Ok(order) = orders.recv() {
        match order {
            Order::Line(line) => {
                written(state, &line, days::append(&folder, &line));
            }
            Order::LineOfEarlier(line) => {
                let known = days::has(&folder, &line).unwrap_or_default();
                let done = if known { Ok(()) } else { days::append(&folder, &line) };
                written(state, &line, done);
            }
            Order::Tidy(kept, done_tx) => {
                let tidied = days::tidy(&folder, kept, clean_until, Timestamp::now());
                let _ = done_tx.send(tidied.map(|until| clean_until = until));
            }
            Order::Flush(done_tx) => {
                let _ = done_tx.send(());
            }
        }
    }
}

fn written(state: &State, line: &TurnLine, done: io::Result<()>) {
    let left = state.waiting.fetch_sub(1, Ordering::Relaxed) - 1;
    match done {
        Err(error) => state.drop_line(&line.turn, &error),
        Ok(()) if left == 0 && state.dropping.swap(false, Ordering::Relaxed) => {
            tracing::info!("turns are written down again");
        }
        Ok(()) => {}
    }
}
