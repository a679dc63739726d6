//! The thread that starts programs.
//!
//! A program may ask the kernel to kill it when its parent ends, as bubblewrap does
//! (`--die-with-parent`). For the kernel, the parent is the thread that started it. A thread of
//! Tokio's blocking pool ends after ten idle seconds, which would kill its programs. This thread
//! runs until the process ends.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use aetheel_runtime::supervisor;

type StarterJob = Box<dyn FnOnce() + Send>;

static STARTER: Mutex<Option<mpsc::Sender<StarterJob>>> = Mutex::new(None);

/// Runs `work` on the starter thread, which may block, and returns its result. If the future is
/// dropped, the work is done anyway, and the thread drops the result.
///
/// # Errors
/// The thread cannot be started, or has ended.
pub(super) async fn run_on_starter<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, done) = oneshot::channel();
    let work = move || {
        // A panic is passed to the caller. It must not end this thread, because that would kill
        // programs that were started before.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    enqueue(Box::new(work))?;
    match done.await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(io::Error::other("the thread that starts programs has ended")),
    }
}

fn enqueue(work: StarterJob) -> io::Result<()> {
    let mut starter = STARTER.lock();
    let sender = match &*starter {
        Some(sender) => sender,
        None => {
            let (sender, given) = mpsc::channel::<StarterJob>();
            supervisor::spawn_thread("starter", move || given.into_iter().for_each(|work| work()))?;
            starter.insert(sender)
        }
    };
    sender.send(work).map_err(|_| io::Error::other("the thread that starts programs has ended"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_is_done_on_one_thread_that_survives_a_panic() {
        let name = || std::thread::current().id();
        let first = run_on_starter(name).await.expect("done");
        let panicked = tokio::spawn(run_on_starter::<()>(|| panic!("intended"))).await;
        assert!(panicked.is_err_and(|error| error.is_panic()));
        assert_eq!(run_on_starter(name).await.expect("done"), first);
        assert_ne!(first, std::thread::current().id());
    }

    #[tokio::test]
    async fn the_result_of_work_that_nobody_waits_for_is_dropped() {
        let (held, dropped) = oneshot::channel::<()>();
        let work = run_on_starter(move || held);
        // The first poll passes the work to the thread.
        drop(tokio::time::timeout(std::time::Duration::ZERO, work).await);
        assert!(dropped.await.is_err());
    }
}
