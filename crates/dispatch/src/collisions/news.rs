//! News about the files of shared directories, between the machines of a cluster.
//!
//! Each machine sends the uses of its agents and its claims to the others, and warns the people of
//! its own conversations. Claims of another machine are kept in memory: a machine that starts asks
//! for them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::Timestamp;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::checkouts::is_shared;
use super::{CollisionMonitor, FileReport};
use crate::Shared;
use aetheel_model::claim::{Claim, ClaimHolder, ClaimPattern, Claims, MAX_CLAIMS};
use aetheel_model::event::Lane;
use aetheel_model::file_use::{FileAccess, LaneFileUse};

/// Maximum number of uses in one message.
pub(super) const MAX_SHARED_USES: usize = 500;
/// Maximum number of other machines whose claims are kept.
const MAX_MACHINES: usize = 100;

/// News of one machine.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub(crate) struct FileNews {
    /// The name of the machine.
    pub(super) machine: String,
    /// Whether the machine has started and needs the claims of the others.
    pub(super) asks: bool,
    /// Uses of files.
    pub(super) uses: Vec<SharedUse>,
    /// All claims of the machine in shared directories, if they may have changed.
    pub(super) claims: Option<Vec<SharedClaim>>,
}

/// The use of a file in a shared directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct SharedUse {
    /// The path below the identity of the directory.
    pub(super) path: String,
    lane: Lane,
    author: Option<String>,
    pub(super) person: Option<String>,
    writes: bool,
    /// Unix time of the use, in milliseconds.
    at_ms: i64,
}

impl SharedUse {
    /// Returns the use of a file for other machines. Returns `None` if the path is not UTF-8.
    pub(super) fn of(path: &Path, used: &LaneFileUse, person: Option<String>) -> Option<Self> {
        Some(Self {
            path: path.to_str()?.to_owned(),
            lane: used.lane.clone(),
            author: used.author.clone(),
            person,
            writes: used.access == FileAccess::Write,
            at_ms: Timestamp::now().as_millisecond(),
        })
    }

    /// Returns the use with its time on the clock of this machine.
    pub(super) fn here(&self, now: Timestamp, boot_ms: u64) -> LaneFileUse {
        // The clocks of two machines differ a little.
        let age = u64::try_from(now.as_millisecond().saturating_sub(self.at_ms)).unwrap_or(0);
        LaneFileUse {
            lane: self.lane.clone(),
            author: self.author.clone(),
            access: if self.writes { FileAccess::Write } else { FileAccess::Read },
            at_ms: boot_ms.saturating_sub(age),
        }
    }
}

/// A claim in a shared directory.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) struct SharedClaim {
    id: String,
    directory: String,
    paths: Vec<String>,
    lane: Lane,
    person: Option<String>,
    name: Option<String>,
    /// Unix time of its end, in milliseconds.
    until_ms: i64,
    reason: Option<String>,
}

impl SharedClaim {
    fn of(claim: &Claim) -> Option<Self> {
        let person = match &claim.holder {
            ClaimHolder::Lane => None,
            ClaimHolder::Person(person) => Some(person.clone()),
        };
        is_shared(&claim.directory).then(|| Self {
            id: claim.id.clone(),
            directory: claim.directory.to_string_lossy().into_owned(),
            paths: claim.paths.iter().map(|path| path.as_str().to_owned()).collect(),
            lane: claim.lane.clone(),
            person,
            name: claim.name.clone(),
            until_ms: claim.until.as_millisecond(),
            reason: claim.reason.clone(),
        })
    }

    fn claim(self) -> Option<Claim> {
        let directory = PathBuf::from(self.directory);
        let paths = self.paths.iter().map(|path| ClaimPattern::parse(path, &directory).ok());
        let claim = Claim {
            id: self.id,
            paths: paths.collect::<Option<_>>()?,
            directory,
            lane: self.lane,
            holder: self.person.map_or(ClaimHolder::Lane, ClaimHolder::Person),
            name: self.name,
            until: Timestamp::from_millisecond(self.until_ms).ok()?,
            reason: self.reason,
        };
        is_shared(&claim.directory).then_some(claim)
    }
}

/// The claims of other machines in shared directories.
#[derive(Default)]
pub(crate) struct NeighbourClaims {
    by_machine: Mutex<BTreeMap<String, Vec<Claim>>>,
    /// Whether this machine has sent claims, so that their end must be sent, too.
    sent: AtomicBool,
}

impl NeighbourClaims {
    /// Returns the claims of other machines.
    pub(crate) fn all(&self) -> Vec<Claim> {
        self.by_machine.lock().values().flatten().cloned().collect()
    }

    /// Returns whether another machine has the claim with an id.
    pub(super) fn has(&self, id: &str) -> bool {
        self.by_machine.lock().values().flatten().any(|claim| claim.id == id)
    }

    pub(super) fn set(&self, machine: &str, claims: Vec<SharedClaim>) {
        let claims = claims.into_iter().take(MAX_CLAIMS).filter_map(SharedClaim::claim).collect();
        let mut by_machine = self.by_machine.lock();
        if by_machine.len() < MAX_MACHINES || by_machine.contains_key(machine) {
            by_machine.insert(machine.to_owned(), claims);
        }
    }
}

/// Returns the claims of this machine and of the others.
pub(crate) fn all_claims(shared: &Shared, now: Timestamp) -> Claims {
    let own = shared.deps.workspace.claim_notes().all(now);
    Claims::new(own.all().iter().cloned().chain(shared.neighbours.all()), now)
}

/// Sends news to the other machines, if there are some.
pub(super) fn send(shared: &Shared, mut news: FileNews) {
    let (Some(router), Some(machine)) = (&shared.deps.router, &shared.deps.machine) else { return };
    news.machine.clone_from(machine);
    match serde_json::to_string(&news) {
        Ok(body) => router.share_file_news(body),
        Err(error) => {
            tracing::error!(%error, "cannot write the news about files for other machines");
        }
    }
}

/// Sends all claims of this machine to the others. `asks` is whether theirs are needed.
pub(crate) fn send_claims(shared: &Shared, asks: bool) {
    let own = shared.deps.workspace.claim_notes().all(Timestamp::now());
    let claims: Vec<SharedClaim> = own.all().iter().filter_map(SharedClaim::of).collect();
    let sent = shared.neighbours.sent.swap(!claims.is_empty(), Ordering::Relaxed);
    if asks || sent || !claims.is_empty() {
        send(shared, FileNews { asks, claims: Some(claims), ..FileNews::default() });
    }
}

/// Receives the news of other machines. Cheap to clone.
#[derive(Clone)]
pub struct FileNeighbours {
    shared: Arc<Shared>,
}

impl FileNeighbours {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Takes news that a machine sent with
    /// [`Router::share_file_news`](crate::Router::share_file_news). Returns `false` if this version
    /// cannot read them.
    #[must_use]
    pub fn receive(&self, body: &str) -> bool {
        let Ok(news) = serde_json::from_str::<FileNews>(body) else { return false };
        if Some(&news.machine) == self.shared.deps.machine.as_ref() {
            return true;
        }
        let CollisionMonitor(reports) = &self.shared.collisions;
        if reports.try_send(FileReport::News(news)).is_err() {
            tracing::warn!("news about files of another machine are lost: too many are waiting");
        }
        true
    }
}
