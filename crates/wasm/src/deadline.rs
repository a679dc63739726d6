//! The run-time limit of one call into a guest.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::{Duration, Instant};

/// The call used up its time.
#[derive(Debug, thiserror::Error)]
pub(super) enum OutOfTime {
    /// It kept running for its whole time, given here.
    #[error("a call ran for more than {} ms", .0.as_millis())]
    Running(Duration),
    /// It waited for something that did not come.
    #[error("a call did not end within {} ms", .0.as_millis())]
    Waiting(Duration),
}

/// Drives a call until it is done or has used up `limit`.
///
/// Only time in which the guest really runs counts, so that a busy machine does not fail good
/// guests: a running guest comes back here at every epoch tick. Because a guest may also wait (WASI
/// can sleep) or starve, half as much again by the clock ends the call as well. Dropping the future
/// abandons the call.
///
/// # Errors
/// [`OutOfTime`]; the call has been abandoned.
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
