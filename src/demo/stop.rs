use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// A request to end the turn.
#[derive(Clone, Default)]
pub(super) struct DemoStop {
    wanted: Arc<(Mutex<bool>, Condvar)>,
    stubborn: Arc<AtomicBool>,
}

impl DemoStop {
    /// Makes a request that SIGINT and SIGTERM trigger. The signals are handled when this function
    /// returns.
    pub(super) fn on_signals() -> io::Result<Self> {
        let stop = Self::default();
        let (ready, listening) = mpsc::channel();
        let trigger = stop.clone();
        std::thread::spawn(move || trigger.listen(&ready));
        listening.recv().map_err(io::Error::other)??;
        Ok(stop)
    }

    /// Handles signals until the program ends.
    fn listen(&self, ready: &mpsc::Sender<io::Result<()>>) {
        use tokio::signal::unix::{SignalKind, signal};
        let listening =
            tokio::runtime::Builder::new_current_thread().enable_io().build().and_then(|runtime| {
                let _entered = runtime.enter();
                let signals = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
                Ok((signals, runtime))
            });
        let ((mut interrupt, mut terminate), runtime) = match listening {
            Ok(listening) => listening,
            Err(error) => {
                let _ = ready.send(Err(error));
                return;
            }
        };
        let _ = ready.send(Ok(()));
        runtime.block_on(async {
            loop {
                tokio::select! {
                    _ = interrupt.recv() => {}
                    _ = terminate.recv() => {}
                }
                if !self.stubborn.load(Ordering::Relaxed) {
                    self.request();
                }
            }
        });
    }

    /// Ignores signals from now on.
    pub(super) fn ignore_signals(&self) {
        self.stubborn.store(true, Ordering::Relaxed);
    }

    /// Requests the end of the turn.
    pub(super) fn request(&self) {
        *self.wanted.0.lock() = true;
        self.wanted.1.notify_all();
    }

    /// Waits for the request for at most `time`, and returns whether it was made.
    pub(super) fn wait(&self, time: Duration) -> bool {
        let mut wanted = self.wanted.0.lock();
        self.wanted.1.wait_while_for(&mut wanted, |wanted| !*wanted, time);
        *wanted
    }
}
