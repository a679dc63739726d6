//! The thread that starts programs.
//!
//! A program may have the kernel end it with whoever started it, as bubblewrap does
//! (`--die-with-parent`), and to the kernel that is the thread. One that comes and goes, as those
//! for blocking work do after ten idle seconds, would take its programs with it; this one lives as
//! long as this process.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::mpsc;

use parking_lot::Mutex;

use aetheel_model::vigil;

type Work = Box<dyn FnOnce() + Send>;

static STARTER: Mutex<Option<mpsc::Sender<Work>>> = Mutex::new(None);

/// Does this on the thread that lasts, and waits for it; for a thread that may block.
///
/// # Errors
/// There can be no such thread.
pub(super) fn lastingly<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<T> {
    let (sender, done) = mpsc::channel();
    let work = move || {
        // Whoever waits has it: what fails here must not end what others started.
        let _ = sender.send(catch_unwind(AssertUnwindSafe(work)));
    };
    hand_over(Box::new(work))?;
    match done.recv() {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(io::Error::other("the thread that starts programs has ended")),
    }
}

fn hand_over(work: Work) -> io::Result<()> {
    let mut starter = STARTER.lock();
    let sender = match &*starter {
        Some(sender) => sender,
        None => {
            let (sender, given) = mpsc::channel::<Work>();
            vigil::thread("starter", move || given.into_iter().for_each(|work| work()))?;
            starter.insert(sender)
        }
    };
    sender.send(work).map_err(|_| io::Error::other("the thread that starts programs has ended"))
}
