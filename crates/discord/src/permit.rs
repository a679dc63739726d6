//! The permission of this node to be logged in: until it is stopped, and only while it is the
//! leader.

use std::future::pending;

use tokio::sync::{oneshot, watch};

/// Why a node may not be logged in any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// The bot is stopped.
    Stopped,
    /// Another node is the leader.
    Unseated,
}

/// The permission of this node to be logged in.
pub(super) struct Permit {
    stop: oneshot::Receiver<()>,
    /// Whether this node is the leader. `None` if nodes do not share the bot.
    seat: Option<watch::Receiver<bool>>,
}

impl Permit {
    /// Creates a permit that ends when `stop` fires or its sender is dropped.
    pub(super) fn new(stop: oneshot::Receiver<()>, seat: Option<watch::Receiver<bool>>) -> Self {
        Self { stop, seat }
    }

    /// Returns whether this node may be logged in now.
    pub(super) fn is_given(&self) -> bool {
        self.seat.as_ref().is_none_or(|seat| *seat.borrow())
    }

    /// Waits until this node may log in. Returns `false` if the bot was stopped; then no method may
    /// be called any more.
    pub(super) async fn given(&mut self) -> bool {
        let Some(seat) = &mut self.seat else { return true };
        tokio::select! {
            biased;
            _ = &mut self.stop => false,
            () = until(seat, true) => true,
        }
    }

    /// Waits until this node may not be logged in any more. After [`Lost::Stopped`], no method may
    /// be called any more.
    pub(super) async fn lost(&mut self) -> Lost {
        let unseated = async {
            match &mut self.seat {
                Some(seat) => until(seat, false).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = &mut self.stop => Lost::Stopped,
            () = unseated => Lost::Unseated,
        }
    }
}

/// If the sender is gone, the value never changes.
async fn until(seat: &mut watch::Receiver<bool>, wanted: bool) {
    if seat.wait_for(|has| *has == wanted).await.is_err() {
        pending::<()>().await;
    }
}
