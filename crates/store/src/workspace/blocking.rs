//! Work on files.

/// Runs work on files on the blocking pool.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only work that has not begun is cancelled, when the runtime drops all tasks,
            // including this one.
            Err(_) => std::future::pending().await,
        },
    }
}
