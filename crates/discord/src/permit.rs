//! Whether this node may be logged in: until it is stopped, and only where it has the seat.

use std::future::pending;

use tokio::sync::{oneshot, watch};

/// Why a node may not be logged in (any more).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// For good.
    Stopped,
    /// Another node is to do it.
    Unseated,
}

/// Says whether this node may be logged in.
pub(super) struct Permit {
    stop: oneshot::Receiver<()>,
    /// None: no other node could.
    seat: Option<watch::Receiver<bool>>,
}

impl Permit {
    /// One that ends when `stop` fires or its sender is gone.
    pub(super) fn new(stop: oneshot::Receiver<()>, seat: Option<watch::Receiver<bool>>) -> Self {
        Self { stop, seat }
    }

    /// Whether this node may be logged in at this moment.
    pub(super) fn is_given(&self) -> bool {
        self.seat.as_ref().is_none_or(|seat| *seat.borrow())
    }

    /// Waits until this node may log in. False: it is stopped, and nothing may be asked any more.
    pub(super) async fn given(&mut self) -> bool {
        let Some(seat) = &mut self.seat else { return true };
        tokio::select! {
            biased;
            _ = &mut self.stop => false,
            () = until(seat, true) => true,
        }
    }

    /// Waits until this node may not be logged in any more. After [`Lost::Stopped`] nothing may be
    /// asked.
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

/// Where nobody decides about it any more, it stays as it is.
async fn until(seat: &mut watch::Receiver<bool>, wanted: bool) {
    if seat.wait_for(|has| *has == wanted).await.is_err() {
        pending::<()>().await;
    }
}
