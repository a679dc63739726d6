//! The thread that writes turns, so that no turn waits for the disk. Lines that cannot be written,
//! or arrive faster than the disk can write, are dropped and counted.

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

/// Most lines that wait for the disk.
const BACKLOG: usize = 2_000;

enum Order {
    Line(Box<TurnLine>),
    /// A line that is skipped if an earlier gateway process already wrote it.
    LineOfEarlier(Box<TurnLine>),
    Tidy(TurnsKept, oneshot::Sender<io::Result<()>>),
    Flush(oneshot::Sender<()>),
}

/// Sends orders to the thread.
#[derive(Debug)]
pub(super) struct Writer {
    orders: Sender<Order>,
    state: Arc<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Number of lines that wait for the thread.
    waiting: AtomicUsize,
    /// Whether lines are being dropped, which was logged.
    dropping: AtomicBool,
}

impl State {
    fn drop_line(&self, turn: &str, why: &dyn std::fmt::Display) {
        figures::turn_unwritten();
        if !self.dropping.swap(true, Ordering::Relaxed) {
            tracing::warn!(turn, %why, "finished turns cannot be saved, so they are missing in costs and searches; hint: free disk space or repair the folder state/turns");
        }
    }
}

impl Writer {
    /// Starts the thread, which ends when all writers are dropped.
    pub(super) fn start(folder: PathBuf) -> Self {
        let ((orders, received), state) = (mpsc::channel(), Arc::<State>::default());
        let shared = Arc::clone(&state);
        if let Err(error) = vigil::thread("turns", move || run(folder, &received, &shared)) {
            tracing::error!(%error, "cannot start the thread that saves finished turns");
        }
        Self { orders, state }
    }

    /// Queues a line to be written. If `earlier`, it is skipped if the file already has it.
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
            self.state.drop_line(&line.turn, &"its thread has ended");
        }
    }

    /// Returns once the system has all queued lines, or the thread has ended.
    pub(super) async fn flush(&self) {
        let (done_tx, done) = oneshot::channel();
        if self.orders.send(Order::Flush(done_tx)).is_ok() {
            let _ = done.await;
        }
    }

    /// Removes what is too old.
    ///
    /// # Errors
    /// Returns the error of the system, or an error if the thread has ended.
    pub(super) async fn tidy(&self, kept: TurnsKept) -> io::Result<()> {
        let (done_tx, done) = oneshot::channel();
        let gone = || io::Error::other("the thread that saves finished turns has ended");
        self.orders.send(Order::Tidy(kept, done_tx)).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }
}

fn run(folder: PathBuf, orders: &Receiver<Order>, state: &State) {
    // Nothing is known about the files of earlier processes.
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
            tracing::info!("finished turns are saved again");
        }
        Ok(()) => {}
    }
}
