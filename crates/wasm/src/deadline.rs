//! Limits the run time of one call into a guest.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// A call exceeded its time limit.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutOfTime {
    /// The guest ran for longer than this.
    #[error("a call ran for more than {} ms", .0.as_millis())]
    Running(Duration),
    /// The call did not end within this time, although the guest did not run all of it.
    #[error("a call did not end within {} ms", .0.as_millis())]
    Waiting(Duration),
}

/// Polls a call until it completes or exceeds `limit`.
///
/// Only the time in which the guest runs counts, so that calls do not fail on a busy machine. A
/// running guest returns here at every epoch tick. A guest can also wait (WASI can sleep) or
/// starve, so a call also fails after one and a half times `limit` of real time. Dropping the
/// future abandons the call.
///
/// # Errors
/// [`OutOfTime`] if the call was abandoned at a limit.
pub(super) async fn limited<F: Future>(limit: Duration, call: F) -> Result<F::Output, OutOfTime> {
    let patience = limit.saturating_mul(3) / 2;
    let mut call = pin!(call);
    let mut clock = pin!(tokio::time::sleep(patience));
    let mut ran = Duration::ZERO;
    poll_fn(|context| {
        let begun = Instant::now();
        let polled = call.as_mut().poll(context);
        ran += begun.elapsed();
        match polled {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending if ran >= limit => Poll::Ready(Err(OutOfTime::Running(limit))),
            Poll::Pending => {
                clock.as_mut().poll(context).map(|()| Err(OutOfTime::Waiting(patience)))
            }
        }
    })
    .await
}
