//! Watch over the tasks and threads that the program cannot do without.
//!
//! Whatever lives as long as the program is started here, under a name. Its end before the
//! program's own is a fault: the bot would be deaf in one ear while everything else looks well.
//! `app` waits for it, says which one it was, and leaves, for the service manager to start the
//! program again. There is one watch a program, as there is one log; nobody is watched until
//! [`keep`], so that commands and tests that start such tasks need not care.
//! `tests/architecture.rs` keeps others from starting threads and endless tasks by themselves.

use std::io;
use std::sync::{Arc, LazyLock};
use std::thread;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// One that is gone and should not be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fallen {
    /// The name under which it was started.
    pub name: &'static str,
    /// The manner of its end: in words for the log.
    pub how: &'static str,
}

/// The tasks and threads that are watched, and the first one that is gone.
#[derive(Clone, Debug)]
struct Vigil(Arc<watch::Sender<State>>);

#[derive(Debug, Default)]
struct State {
    kept: bool,
    fallen: Option<Fallen>,
}

/// One that is watched; dropped when it is gone.
#[derive(Debug)]
struct Post {
    vigil: Vigil,
    name: &'static str,
    /// It may come to its end.
    finite: bool,
}

impl Drop for Post {
    fn drop(&mut self) {
        let how = if thread::panicking() {
            "panicked"
        } else if self.finite {
            return;
        } else {
            "ended"
        };
        let fallen = Fallen { name: self.name, how };
        self.vigil.0.send_if_modified(|state| {
            let first = state.kept && state.fallen.is_none();
            if first {
                state.fallen = Some(fallen);
            }
            first
        });
    }
}

impl Vigil {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    fn post(&self, name: &'static str, finite: bool) -> Post {
        Post { vigil: self.clone(), name, finite }
    }

    fn task<F>(&self, name: &'static str, finite: bool, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let post = self.post(name, finite);
        tokio::spawn(async move {
            let _post = post;
            work.await
        })
    }

    async fn fallen(&self) -> Fallen {
        let mut state = self.0.subscribe();
        let fallen = state
            .wait_for(|state| state.fallen.is_some())
            .await
            .ok()
            .and_then(|state| state.fallen);
        match fallen {
            Some(fallen) => fallen,
            None => std::future::pending().await,
        }
    }
}

static PROGRAM: LazyLock<Vigil> = LazyLock::new(Vigil::new);

/// The watch; it is over when this is dropped, and nobody's end is a fault any more.
#[derive(Debug)]
pub struct Kept(());

impl Drop for Kept {
    fn drop(&mut self) {
        PROGRAM.0.send_modify(|state| state.kept = false);
    }
}

/// Begins to watch: from now on the first end of such a task or thread counts.
#[must_use]
pub fn keep() -> Kept {
    PROGRAM.0.send_modify(|state| *state = State { kept: true, fallen: None });
    Kept(())
}

/// Starts a task that lives as long as the program. Must be called within a Tokio runtime.
pub fn task<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    PROGRAM.task(name, false, work)
}

/// Starts a task that may come to its end, but not by a panic. Must be called within a Tokio
/// runtime.
pub fn errand<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    PROGRAM.task(name, true, work)
}

/// Starts a thread that lives as long as the program, or as what it works for: only a panic of it
/// is a fault.
///
/// # Errors
/// What the system said.
pub fn thread(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let post = PROGRAM.post(name, true);
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _post = post;
        work();
    })
}

/// Returns once one is gone that should not be.
pub async fn fallen() -> Fallen {
    PROGRAM.fallen().await
}

/// The one that is gone and should not be.
#[must_use]
pub fn already_fallen() -> Option<Fallen> {
    PROGRAM.0.borrow().fallen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept() -> Vigil {
        let vigil = Vigil::new();
        vigil.0.send_modify(|state| state.kept = true);
        vigil
    }

    #[tokio::test]
    async fn whoever_ends_panics_or_is_ended_is_missed_by_name() {
        let vigil = kept();
        let _ = vigil.task("one", false, async {}).await;
        assert_eq!(vigil.fallen().await, Fallen { name: "one", how: "ended" });
        let vigil = kept();
        let _ = vigil.task("two", false, async { panic!("as it happens") }).await;
        assert_eq!(vigil.fallen().await, Fallen { name: "two", how: "panicked" });
        let vigil = kept();
        let ended = vigil.task("three", false, std::future::pending::<()>());
        ended.abort();
        let _ = ended.await;
        assert_eq!(vigil.fallen().await, Fallen { name: "three", how: "ended" });
    }

    #[tokio::test]
    async fn an_errand_may_end_but_not_panic_and_nobody_is_missed_who_is_not_watched() {
        let vigil = kept();
        let _ = vigil.task("done", true, async {}).await;
        assert_eq!(vigil.0.borrow().fallen, None);
        let _ = vigil.task("broken", true, async { panic!("as it happens") }).await;
        assert_eq!(vigil.fallen().await, Fallen { name: "broken", how: "panicked" });
        let vigil = Vigil::new();
        let _ = vigil.task("one", false, async {}).await;
        assert_eq!(vigil.0.borrow().fallen, None);
    }
}
