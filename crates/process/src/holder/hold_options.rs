//! The options of a holder.

use std::path::PathBuf;
use std::time::Duration;

use super::spool::HoldLimits;
use crate::{Means, Sandbox};

/// The options of a holder.
#[derive(Clone, Debug)]
pub struct HoldOptions {
    /// The gateway's state folder.
    pub state: PathBuf,
    /// The sandbox of all agents. No request can change it.
    pub sandbox: Sandbox,
    /// How long agents may run without a gateway.
    pub claim_within: Duration,
    /// Whether to exit when there is neither a gateway nor an agent.
    pub leave_when_empty: bool,
    /// How much output is buffered.
    pub limits: HoldLimits,
    /// How the processes of runs are found.
    pub means: Means,
    /// Whether nothing else in this process starts programs: see [`Custody::as_sole_spawner`](crate::Custody::as_sole_spawner).
    pub sole_spawner: bool,
    /// Called once gateways can connect.
    pub ready: fn(),
}

impl HoldOptions {
    /// Returns the options of a holder that a service manager runs.
    #[must_use]
    pub fn new(state: PathBuf, sandbox: Sandbox) -> Self {
        Self {
            state,
            sandbox,
            claim_within: Duration::from_secs(600),
            leave_when_empty: false,
            limits: HoldLimits::default(),
            means: Means::Best,
            sole_spawner: false,
            ready: || {},
        }
    }
}
