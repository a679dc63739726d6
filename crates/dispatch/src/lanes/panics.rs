//! Containment of panics in the gateway's own tasks.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::Poll;

/// Runs `work` to its end.
///
/// # Errors
/// The payload of a panic. `work` is not polled again after it.
pub async fn catch_panic<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(panicked) => Poll::Ready(Err(panicked)),
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_is_caught_and_ends_only_the_work() {
        let mut seen = 0;
        assert_eq!(catch_panic(async { 1 }).await.ok(), Some(1));
        let panics = async {
            seen += 1;
            tokio::task::yield_now().await;
            assert!(seen == 0, "on purpose");
        };
        assert!(catch_panic(panics).await.is_err());
        assert_eq!(seen, 1);
    }
}
