//! Limits the run time of one call into a guest.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

#[derive(Debug, thiserror::Error)]
pub(super) enum OutOfTime {
    /// The guest ran for longer than this.
    #[error("a call ran for more than {} ms", .0.as_millis())]
    Running(Duration),
    /// The guest waited for longer than this.
    #[error("a call waited for more than {} ms", .0.as_millis())]
    Waiting(Duration),
}

/// Polls a call until it completes or exceeds `limit`.
///
/// The processor time of the guest counts, so that calls do not fail on a busy machine. A running
/// guest returns here at every epoch tick. A guest can also wait (WASI can sleep), so a call also
/// fails after it waited for one and a half times `limit`. Dropping the future abandons the call.
///
/// # Errors
/// [`OutOfTime`] if the call was abandoned at a limit.
pub(super) async fn limited<F: Future>(limit: Duration, call: F) -> Result<F::Output, OutOfTime> {
    let patience = limit.saturating_mul(3) / 2;
    let mut call = pin!(call);
    let mut clock = pin!(tokio::time::sleep(patience));
    let mut ran = Duration::ZERO;
    let mut flag: Option<Arc<WakeFlag>> = None;
    let mut waits_since: Option<Instant> = None;
    let mut patience_left = patience;
    poll_fn(|context| {
        let is_first = flag.is_none();
        let flag = flag.get_or_insert_with(|| WakeFlag::new(context));
        if let Some(since) = waits_since {
            if !flag.woken.load(Ordering::Acquire) {
                return clock.as_mut().poll(context).map(|()| Err(OutOfTime::Waiting(patience)));
            }
            patience_left = patience_left.saturating_sub(since.elapsed());
            waits_since = None;
        }
        flag.woken.store(false, Ordering::Release);
        let time = if is_first { RunTime::first(limit / 4) } else { RunTime::later() };
        let polled = call.as_mut().poll(&mut Context::from_waker(&Waker::from(Arc::clone(flag))));
        if let Poll::Ready(output) = polled {
            return Poll::Ready(Ok(output));
        }
        ran += time.elapsed();
        if ran >= limit {
            return Poll::Ready(Err(OutOfTime::Running(limit)));
        }
        // A guest that is interrupted by a tick wakes the task at once. Others wait.
        if flag.woken.load(Ordering::Acquire) {
            return Poll::Pending;
        }
        waits_since = Some(Instant::now());
        clock.as_mut().reset(tokio::time::Instant::now() + patience_left);
        clock.as_mut().poll(context).map(|()| Err(OutOfTime::Waiting(patience)))
    })
    .await
}

/// Records whether a call wants to be polled again.
struct WakeFlag {
    woken: AtomicBool,
    task: Waker,
}

impl WakeFlag {
    fn new(context: &Context<'_>) -> Arc<Self> {
        Arc::new(Self { woken: AtomicBool::new(false), task: context.waker().clone() })
    }
}

impl Wake for WakeFlag {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.task.wake_by_ref();
    }
}

/// Measures the run time of a guest in one poll.
enum RunTime {
    /// Real time, up to a maximum. Most calls complete in the first poll, and reading the processor
    /// time is a system call, which can take as long as they do.
    First { start: Instant, max: Duration },
    /// The processor time of this thread.
    Later { start: Duration },
}

impl RunTime {
    fn first(max: Duration) -> Self {
        Self::First { start: Instant::now(), max }
    }

    fn later() -> Self {
        Self::Later { start: thread_time() }
    }

    fn elapsed(&self) -> Duration {
        match *self {
            Self::First { start, max } => start.elapsed().min(max),
            Self::Later { start } => thread_time().saturating_sub(start),
        }
    }
}

fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    const LIMIT: Duration = Duration::from_millis(200);

    /// Returns a call that yields to the runtime after each of `polls` uses of the thread.
    async fn call(polls: usize, mut work: impl FnMut()) {
        for _ in 0..polls {
            work();
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn time_in_which_other_programs_run_does_not_count() {
        // The thread is blocked, as if the machine ran other programs meanwhile.
        let (_sender, receiver) = channel::<()>();
        let preempted = || assert!(receiver.recv_timeout(LIMIT).is_err());
        limited(LIMIT, call(5, preempted)).await.expect("it used no processor time");
    }

    #[tokio::test]
    async fn a_guest_that_runs_too_long_is_cut_off() {
        let endless = call(usize::MAX, || drop(std::hint::black_box(vec![1_u8; 100_000])));
        assert!(matches!(limited(LIMIT, endless).await, Err(OutOfTime::Running(LIMIT))));
    }

    #[tokio::test]
    async fn a_guest_that_waits_too_long_is_cut_off() {
        let waits = std::future::pending::<()>();
        assert!(matches!(limited(LIMIT, waits).await, Err(OutOfTime::Waiting(_))));
    }
}
