//! How far every channel was handled: marked in the order of arrival, and only once what came is safe.
//!
//! A mark that overtook another would hide a message that a crash loses: catching up begins behind the last mark.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use tokio::sync::mpsc;

use super::intake::Seen;

type Safe = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Makes marks on a task of its own, which ends with the last of these.
pub(super) struct Marks(mpsc::UnboundedSender<(Safe, u64, u64)>);

impl Marks {
    pub(super) fn start(seen: Arc<dyn Seen>) -> Self {
        let (due, mut taken) = mpsc::unbounded_channel::<(Safe, u64, u64)>();
        tokio::spawn(async move {
            while let Some((safe, channel, message)) = taken.recv().await {
                safe.await;
                seen.saw(channel, message);
            }
        });
        Self(due)
    }

    /// Marks a message as handled once `safe` is over, and no earlier than those before it.
    pub(super) fn mark(&self, safe: impl Future<Output = ()> + Send + 'static, channel: u64, message: u64) {
        // Fails when the runtime is going away; then catching up finds it.
        let _ = self.0.send((Box::pin(safe), channel, message));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::sync::{oneshot, watch};

    use super::*;

    struct Book(Mutex<Vec<u64>>, watch::Sender<usize>);

    impl Seen for Book {
        fn last(&self, _: u64) -> Option<u64> {
            None
        }

        fn channels(&self) -> Vec<(u64, u64)> {
            Vec::new()
        }

        fn saw(&self, _: u64, message: u64) {
            self.0.lock().expect("no panic").push(message);
            self.1.send_modify(|count| *count += 1);
        }
    }

    #[tokio::test]
    async fn nothing_is_marked_before_what_came_earlier_is_safe() {
        let (counted, mut count) = watch::channel(0);
        let book = Arc::new(Book(Mutex::default(), counted));
        let marks = Marks::start(book.clone());
        marks.mark(std::future::ready(()), 1, 4);
        let (safe, saved) = oneshot::channel::<()>();
        marks.mark(async move { drop(saved.await) }, 1, 5);
        marks.mark(std::future::ready(()), 1, 6);
        count.wait_for(|count| *count == 1).await.expect("marked");
        assert_eq!(*book.0.lock().expect("no panic"), [4]);
        drop(safe);
        count.wait_for(|count| *count == 3).await.expect("marked");
        assert_eq!(*book.0.lock().expect("no panic"), [4, 5, 6]);
    }
}
