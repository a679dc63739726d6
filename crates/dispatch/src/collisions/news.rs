//! News about the files of shared directories, between the machines of a cluster.
//!
//! Each machine sends the uses of its agents and its claims to the others, and warns the people of
//! its own conversations. Claims of another machine are kept in memory: a machine that starts asks
//! for them. Claims in directories that are not shared are only shown there, and can be released from
//! there.

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
use aetheel_model::claim::{
    ALL_CLAIMS, Claim, ClaimHolder, ClaimPattern, Claims, MAX_CLAIMS, MAX_LANE_CLAIMS,
};
use aetheel_model::event::Lane;
use aetheel_model::file_use::{FileAccess, LaneFileUse};
use aetheel_model::plain::with_causes;
use aetheel_store::workspace::ClaimChangeError;

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
    /// All claims of the machine, if they may have changed. Earlier versions send and read only those
    /// in shared directories.
    pub(super) claims: Option<Vec<SharedClaim>>,
    /// Claims of other machines that a person released on this one.
    pub(super) releases: Vec<ClaimRelease>,
}

/// The release of a claim by a person whose permission was checked.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct ClaimRelease {
    /// The id of the claim.
    pub(crate) id: String,
    /// The conversation in which the person may use the bot.
    pub(crate) lane: Lane,
    /// Whether the person is an owner.
    pub(crate) is_owner: bool,
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
    pub(super) fn of(
        path: &Path,
        used: &LaneFileUse,
        person: Option<String>,
        now: Timestamp,
    ) -> Option<Self> {
        Some(Self {
            path: path.to_str()?.to_owned(),
            lane: used.lane.clone(),
            author: used.author.clone(),
            person,
            writes: used.access == FileAccess::Write,
            at_ms: now.as_millisecond(),
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

/// A claim, for other machines.
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
    fn of(claim: &Claim) -> Self {
        let person = match &claim.holder {
            ClaimHolder::Lane => None,
            ClaimHolder::Person(person) => Some(person.clone()),
        };
        Self {
            id: claim.id.clone(),
            directory: claim.directory.to_string_lossy().into_owned(),
            paths: claim.paths.iter().map(|path| path.as_str().to_owned()).collect(),
            lane: claim.lane.clone(),
            person,
            name: claim.name.clone(),
            until_ms: claim.until.as_millisecond(),
            reason: claim.reason.clone(),
        }
    }

    fn claim(self) -> Option<Claim> {
        let directory = PathBuf::from(self.directory);
        let paths = self.paths.iter().map(|path| ClaimPattern::parse(path, &directory).ok());
        Some(Claim {
            id: self.id,
            paths: paths.collect::<Option<_>>()?,
            directory,
            lane: self.lane,
            holder: self.person.map_or(ClaimHolder::Lane, ClaimHolder::Person),
            name: self.name,
            until: Timestamp::from_millisecond(self.until_ms).ok()?,
            reason: self.reason,
        })
    }
}

/// The claims of other machines.
#[derive(Default)]
pub(crate) struct NeighbourClaims {
    by_machine: Mutex<BTreeMap<String, Vec<Claim>>>,
    /// Whether this machine has sent claims, so that their end must be sent, too.
    sent: AtomicBool,
}

impl NeighbourClaims {
    /// Returns the claims of other machines in shared directories.
    pub(crate) fn shared(&self) -> Vec<Claim> {
        let by_machine = self.by_machine.lock();
        let shared = by_machine.values().flatten().filter(|claim| is_shared(&claim.directory));
        shared.cloned().collect()
    }

    /// Returns the claims of other machines that are wanted and have not ended, each with its
    /// machine.
    pub(crate) fn find(
        &self,
        now: Timestamp,
        is_wanted: impl Fn(&Claim) -> bool,
    ) -> Vec<(String, Claim)> {
        let by_machine = self.by_machine.lock();
        let all =
            by_machine.iter().flat_map(|(name, claims)| claims.iter().map(move |it| (name, it)));
        let wanted = all.filter(|(_, claim)| claim.until > now && is_wanted(claim));
        wanted.map(|(name, claim)| (name.clone(), claim.clone())).collect()
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
    let own = shared.deps.workspace.state.claims.valid(now);
    Claims::new(own.all().iter().cloned().chain(shared.neighbours.shared()), now)
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
    let own = shared.deps.workspace.state.claims.valid(shared.now());
    let claims: Vec<SharedClaim> = own.all().iter().map(SharedClaim::of).collect();
    let sent = shared.neighbours.sent.swap(!claims.is_empty(), Ordering::Relaxed);
    if asks || sent || !claims.is_empty() {
        send(shared, FileNews { asks, claims: Some(claims), ..FileNews::default() });
    }
}

/// Asks the other machines to release claims.
pub(crate) fn send_releases(shared: &Shared, releases: Vec<ClaimRelease>) {
    send(shared, FileNews { releases, ..FileNews::default() });
}

/// Releases claims of this machine that people released on another one.
pub(super) async fn release(shared: &Shared, releases: Vec<ClaimRelease>) {
    for ClaimRelease { id, lane, is_owner } in releases.into_iter().take(MAX_LANE_CLAIMS) {
        // This word stands for several claims, and the other machine has named each of them.
        if id == ALL_CLAIMS {
            continue;
        }
        let (notes, claim) = (&shared.deps.workspace.state.claims, id.clone());
        let change = move |claims: &mut Claims| claims.release(&claim, &lane, is_owner);
        match notes.change_valid(shared.now(), change).await {
            Ok(_) => tracing::info!(claim = id, "reserved files were released on another machine"),
            // Another machine has the claim, or it has ended.
            Err(ClaimChangeError::Refused(refusal)) => {
                tracing::debug!(claim = id, %refusal, "a claim is not released for another machine");
            }
            Err(ClaimChangeError::File(error)) => {
                tracing::error!(error = %with_causes(&error), "cannot save state/claims.md; no claim was changed");
            }
        }
    }
    send_claims(shared, false);
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
