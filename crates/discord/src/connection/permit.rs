//! The permission of this node to be logged in: until it is stopped, and only while it is the
//! leader.

use std::future::pending;

use tokio::sync::{oneshot, watch};

/// The reason why a node may not be logged in any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PermitLoss {
    Stopped,
    NotLeader,
}

pub(crate) struct Permit {
    stop: oneshot::Receiver<()>,
    /// Whether this node is the leader. `None` if nodes do not share the bot.
    leader: Option<watch::Receiver<bool>>,
}

impl Permit {
    /// Creates a permit that ends when `stop` fires or its sender is dropped.
    pub(crate) fn new(stop: oneshot::Receiver<()>, leader: Option<watch::Receiver<bool>>) -> Self {
        Self { stop, leader }
    }

    /// Returns whether this node may be logged in now.
    pub(crate) fn is_given(&self) -> bool {
        self.leader.as_ref().is_none_or(|leader| *leader.borrow())
    }

    /// Waits until this node may log in. Returns `false` if the bot was stopped; then no method may
    /// be called any more.
    pub(crate) async fn wait_until_given(&mut self) -> bool {
        let Some(leader) = &mut self.leader else { return true };
        tokio::select! {
            biased;
            _ = &mut self.stop => false,
            () = until(leader, true) => true,
        }
    }

    /// Waits until this node may not be logged in any more. After [`PermitLoss::Stopped`], no
    /// method may be called any more.
    pub(crate) async fn wait_until_lost(&mut self) -> PermitLoss {
        let lost_leadership = async {
            match &mut self.leader {
                Some(leader) => until(leader, false).await,
                None => pending().await,
            }
        };
        tokio::select! {
            biased;
            _ = &mut self.stop => PermitLoss::Stopped,
            () = lost_leadership => PermitLoss::NotLeader,
        }
    }
}

/// Waits until the value is `wanted`. Never returns if the sender is dropped before.
async fn until(leader: &mut watch::Receiver<bool>, wanted: bool) {
    if leader.wait_for(|has| *has == wanted).await.is_err() {
        pending::<()>().await;
    }
}
