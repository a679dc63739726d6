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

use aetheel_model::supervisor;

type StarterJob = Box<dyn FnOnce() + Send>;

static STARTER: Mutex<Option<mpsc::Sender<StarterJob>>> = Mutex::new(None);

/// Runs `work` on the starter thread, and blocks until it is done.
///
/// # Errors
/// The thread cannot be started, or has ended.
pub(super) fn run_on_starter<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, done) = mpsc::channel();
    let work = move || {
        // A panic is passed to the caller. It must not end this thread, because that would kill
        // programs that were started before.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    enqueue(Box::new(work))?;
    match done.recv() {
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
