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

use super::days::{self, TurnRetention};
use super::line::TurnLine;
use aetheel_runtime::figures;
use aetheel_runtime::supervisor;

const MAX_WAITING_LINES: usize = 2_000;

enum TurnWriterCommand {
    Line(Box<TurnLine>),
    /// A line that is skipped if an earlier gateway process already wrote it.
    LineIfMissing(Box<TurnLine>),
    Tidy(TurnRetention, oneshot::Sender<io::Result<()>>),
    Flush(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(super) struct TurnWriter {
    orders: Sender<TurnWriterCommand>,
    state: Arc<TurnWriterState>,
}

#[derive(Debug, Default)]
struct TurnWriterState {
    /// Number of lines that wait for the thread.
    waiting: AtomicUsize,
    /// Whether lines are being dropped, which was logged.
    dropping: AtomicBool,
}

impl TurnWriterState {
    fn drop_line(&self, turn: &str, why: &dyn std::fmt::Display) {
        figures::turn_unwritten();
        if !self.dropping.swap(true, Ordering::Relaxed) {
            tracing::warn!(turn, %why, "finished turns cannot be saved, so they are missing in costs and searches; hint: free disk space or repair the folder state/turns");
        }
    }
}

impl TurnWriter {
    /// Starts the thread, which ends when all writers are dropped.
    pub(super) fn start(folder: PathBuf) -> Self {
        let ((orders, received), state) = (mpsc::channel(), Arc::<TurnWriterState>::default());
        let shared = Arc::clone(&state);
        if let Err(error) =
            supervisor::spawn_thread("turns", move || run(folder, &received, &shared))
        {
            tracing::error!(%error, "cannot start the thread that saves finished turns");
        }
        Self { orders, state }
    }

    /// Queues a line to be written. If `earlier`, it is skipped if the file already has it.
    pub(super) fn line(&self, line: TurnLine, earlier: bool) {
        if self.state.waiting.load(Ordering::Relaxed) >= MAX_WAITING_LINES {
            return self.state.drop_line(&line.turn, &"the disk is too slow");
        }
        self.state.waiting.fetch_add(1, Ordering::Relaxed);
        let line = Box::new(line);
        let order = if earlier {
            TurnWriterCommand::LineIfMissing(line)
        } else {
            TurnWriterCommand::Line(line)
        };
        if let Err(mpsc::SendError(
            TurnWriterCommand::Line(line) | TurnWriterCommand::LineIfMissing(line),
        )) = self.orders.send(order)
        {
            self.state.drop_line(&line.turn, &"its thread has ended");
        }
    }

    /// Returns once the system has all queued lines, or the thread has ended.
    pub(super) async fn flush(&self) {
        let (done_tx, done) = oneshot::channel();
        if self.orders.send(TurnWriterCommand::Flush(done_tx)).is_ok() {
            let _ = done.await;
        }
    }

    /// Removes lines and texts that are too old.
    ///
    /// # Errors
    /// Returns the error of the system, or an error if the thread has ended.
    pub(super) async fn tidy(&self, retention: TurnRetention) -> io::Result<()> {
        let (done_tx, done) = oneshot::channel();
        let gone = || io::Error::other("the thread that saves finished turns has ended");
        self.orders.send(TurnWriterCommand::Tidy(retention, done_tx)).map_err(|_| gone())?;
        done.await.map_err(|_| gone())?
    }
}

fn run(folder: PathBuf, orders: &Receiver<TurnWriterCommand>, state: &TurnWriterState) {
    // The state of the files of earlier processes is not known.
    let mut clean_until = Date::MIN;
    while let Ok(order) = orders.recv() {
        match order {
            TurnWriterCommand::Line(line) => {
                line_written(state, &line, days::append(&folder, &line));
            }
            TurnWriterCommand::LineIfMissing(line) => {
                let known = days::contains_turn(&folder, &line).unwrap_or_default();
                let done = if known { Ok(()) } else { days::append(&folder, &line) };
                line_written(state, &line, done);
            }
            TurnWriterCommand::Tidy(retention, done_tx) => {
                let tidied = days::tidy(&folder, retention, clean_until, Timestamp::now());
                let _ = done_tx.send(tidied.map(|until| clean_until = until));
            }
            TurnWriterCommand::Flush(done_tx) => {
                let _ = done_tx.send(());
            }
        }
    }
}

fn line_written(state: &TurnWriterState, line: &TurnLine, done: io::Result<()>) {
    let left = state.waiting.fetch_sub(1, Ordering::Relaxed) - 1;
    match done {
        Err(error) => state.drop_line(&line.turn, &error),
        Ok(()) if left == 0 && state.dropping.swap(false, Ordering::Relaxed) => {
            tracing::info!("finished turns are saved again");
        }
        Ok(()) => {}
    }
}
