//! Supervises the tasks and threads that the program cannot work without.
//!
//! Tasks that run as long as the program are started here, each with a name. If one of them ends
//! earlier, that is a fault: the program would not do part of its work while everything else
//! appears to work. The program waits for such a fault, logs the name and exits, so that the
//! service manager restarts it. There is one supervisor for the whole program. It reports nothing
//! before [`supervise`] is called, so that commands and tests can start such tasks without it.
//! `tests/architecture.rs` checks that other modules do not start threads or endless tasks
//! themselves.

use std::io;
use std::sync::{Arc, LazyLock};
use std::thread;

use tokio::sync::watch;
use tokio::task::JoinHandle;

/// A task or thread that ended but should not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskFailure {
    /// The name with which it was started.
    pub name: &'static str,
    /// How it ended, as a word for the log.
    pub how: &'static str,
}

/// The supervised tasks and threads, and the first one that ended.
#[derive(Clone, Debug)]
struct Supervisor(Arc<watch::Sender<SupervisorState>>);

#[derive(Debug, Default)]
struct SupervisorState {
    supervising: bool,
    failure: Option<TaskFailure>,
}

/// Reports the end of the task or thread when it is dropped.
#[derive(Debug)]
struct WatchGuard {
    supervisor: Supervisor,
    name: &'static str,
    /// Whether it may end without a fault.
    finite: bool,
}

impl Drop for WatchGuard {
    fn drop(&mut self) {
        let how = if thread::panicking() {
            "panicked"
        } else if self.finite {
            return;
        } else {
            "ended"
        };
        let failure = TaskFailure { name: self.name, how };
        self.supervisor.0.send_if_modified(|state| {
            let first = state.supervising && state.failure.is_none();
            if first {
                state.failure = Some(failure);
            }
            first
        });
    }
}

impl Supervisor {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::default()))
    }

    fn guard(&self, name: &'static str, finite: bool) -> WatchGuard {
        WatchGuard { supervisor: self.clone(), name, finite }
    }

    fn spawn<F>(&self, name: &'static str, finite: bool, work: F) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send + 'static> + Send + 'static,
    {
        let post = self.guard(name, finite);
        tokio::spawn(async move {
            let _post = post;
            work.await
        })
    }

    async fn first_failure(&self) -> TaskFailure {
        let mut state = self.0.subscribe();
        let fallen = state
            .wait_for(|state| state.failure.is_some())
            .await
            .ok()
            .and_then(|state| state.failure);
        match fallen {
            Some(fallen) => fallen,
            None => std::future::pending().await,
        }
    }
}

static PROGRAM: LazyLock<Supervisor> = LazyLock::new(Supervisor::new);

/// Keeps the supervision active. When it is dropped, no end is a fault any more.
#[derive(Debug)]
pub struct SupervisionGuard(());

impl Drop for SupervisionGuard {
    fn drop(&mut self) {
        PROGRAM.0.send_modify(|state| state.supervising = false);
    }
}

/// Activates the supervision: from now on, the first end of such a task or thread is reported.
#[must_use]
pub fn supervise() -> SupervisionGuard {
    PROGRAM.0.send_modify(|state| *state = SupervisorState { supervising: true, failure: None });
    SupervisionGuard(())
}

/// Starts a task that runs as long as the program. Must be called within a Tokio runtime.
pub fn spawn<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    PROGRAM.spawn(name, false, work)
}

/// Starts a task that may end, but must not panic. Must be called within a Tokio runtime.
pub fn spawn_finite<F>(name: &'static str, work: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send + 'static> + Send + 'static,
{
    PROGRAM.spawn(name, true, work)
}

/// Starts a thread that runs as long as the program or its owner. Only a panic of it is a fault.
///
/// # Errors
/// The system cannot start the thread.
pub fn spawn_thread(
    name: &'static str,
    work: impl FnOnce() + Send + 'static,
) -> io::Result<thread::JoinHandle<()>> {
    let post = PROGRAM.guard(name, true);
    thread::Builder::new().name(name.to_owned()).spawn(move || {
        let _post = post;
        work();
    })
}

/// Waits until a supervised task or thread has ended that should not have.
pub async fn first_failure() -> TaskFailure {
    PROGRAM.first_failure().await
}

/// Returns the task or thread that has ended but should not have, if there is one.
#[must_use]
pub fn current_failure() -> Option<TaskFailure> {
    PROGRAM.0.borrow().failure
}

#[cfg(test)]
mod tests {
    use super::*;

    fn supervising() -> Supervisor {
        let supervisor = Supervisor::new();
        supervisor.0.send_modify(|state| state.supervising = true);
        supervisor
    }

    #[tokio::test]
    async fn a_task_that_ends_panics_or_is_aborted_is_reported_by_name() {
        let supervisor = supervising();
        let _ = supervisor.spawn("one", false, async {}).await;
        assert_eq!(supervisor.first_failure().await, TaskFailure { name: "one", how: "ended" });
        let supervisor = supervising();
        let _ = supervisor.spawn("two", false, async { panic!("as it happens") }).await;
        assert_eq!(supervisor.first_failure().await, TaskFailure { name: "two", how: "panicked" });
        let supervisor = supervising();
        let ended = supervisor.spawn("three", false, std::future::pending::<()>());
        ended.abort();
        let _ = ended.await;
        assert_eq!(supervisor.first_failure().await, TaskFailure { name: "three", how: "ended" });
    }

    #[tokio::test]
    async fn a_finite_task_may_end_but_not_panic_and_nothing_is_reported_without_supervision() {
        let supervisor = supervising();
        let _ = supervisor.spawn("done", true, async {}).await;
        assert_eq!(supervisor.0.borrow().failure, None);
        let _ = supervisor.spawn("broken", true, async { panic!("as it happens") }).await;
        assert_eq!(
            supervisor.first_failure().await,
            TaskFailure { name: "broken", how: "panicked" }
        );
        let supervisor = Supervisor::new();
        let _ = supervisor.spawn("one", false, async {}).await;
        assert_eq!(supervisor.0.borrow().failure, None);
    }
}
