//! Claims: people and agents reserve files of a working directory for a time.
//!
//! A claim excludes no write: it makes a write of others a collision, about which both conversations
//! are warned, or people are asked ([`collisions`](crate::collisions)). `model::claim` has the
//! rules, and `state/claims.md` the claims. `docs/collisions.md` describes all of it. Tested by
//! `tests/dispatch/claims.rs`.

mod messages;
mod paths;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::{Instant, sleep};

use self::paths::{ResolvedPaths, identity, resolve};
use crate::Shared;
use crate::collisions::checkouts::CheckoutPlace;
use crate::collisions::news::{self, ClaimRelease};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::claim::{
    ALL_CLAIMS, Claim, ClaimHolder, ClaimRefusal, Claimant, Claims, DEFAULT_CLAIM_MINUTES, NewClaim,
};
use aetheel_model::event::Lane;
use aetheel_model::id::UserId;
use aetheel_model::plain::{short_line, with_causes};
use aetheel_store::workspace::ClaimChangeError;
use aetheel_turn::{ClaimAction, ClaimCall};

/// The maximum length of a person's name and of a reason, in characters.
const MAX_NAME: usize = 80;
const MAX_REASON: usize = 200;
/// The number of claims that `/status` shows.
const STATUS_CLAIMS: usize = 5;
/// The length of an id.
const ID_CHARS: usize = 6;
/// How long to wait until another machine has released a claim, and how often that is checked.
const OTHERS_TIMEOUT: Duration = Duration::from_secs(5);
const OTHERS_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The reason why a request about claims failed. `Display` is worded for people and models.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// The request was refused.
    #[error("Nothing was changed: {0}.")]
    Refused(#[from] ClaimRefusal),
    /// The time of the claim cannot be parsed.
    #[error("{0:?} is not a time; write minutes, or a number with a unit, such as `30m` or `2h`.")]
    Time(String),
    /// The working directory of the lane cannot be used.
    #[error("The working directory of this channel cannot be used, so nothing can be reserved.")]
    Directory,
    /// The claims cannot be saved. The log has the reason.
    #[error("This could not be saved, so nothing was changed. Please try again later. (storage)")]
    NotSaved,
}

/// The person who asks for a claim, or for whom an agent does.
#[derive(Clone, Debug)]
pub struct ClaimAuthor {
    /// The conversation.
    pub lane: Lane,
    /// The id of the person; `None` at the console.
    pub person: Option<UserId>,
    /// The name of the person.
    pub name: Option<String>,
}

/// A request to reserve files.
#[derive(Clone, Debug, Default)]
pub struct ClaimOrder {
    /// The paths, separated by commas or blanks.
    pub paths: String,
    /// The time, such as `30m`.
    pub time: Option<String>,
    /// The reason.
    pub reason: Option<String>,
}

/// A claim of a machine of the cluster.
#[derive(Clone, Debug)]
pub struct MachineClaim {
    /// The name of the machine, or `None` for this one.
    pub machine: Option<String>,
    /// The claim.
    pub claim: Claim,
}

/// Takes, lists and releases claims. Cheap to clone.
#[derive(Clone)]
pub struct ClaimDesk {
    shared: Arc<Shared>,
}

impl ClaimDesk {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Reserves files for a person. Returns a text about the claim.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing was changed.
    pub async fn take(&self, author: ClaimAuthor, order: ClaimOrder) -> Result<String, ClaimError> {
        let time = messages::minutes(order.time.as_deref());
        let minutes = time.ok_or_else(|| ClaimError::Time(order.time.unwrap_or_default()))?;
        let checkout = self.checkout(&author.lane).await?;
        let resolved = resolve(checkout, paths::split(&order.paths)).await?;
        let person = author.person.map(|person| person.to_string());
        let holder = Claimant::new(author.lane.clone(), person).person;
        let holder = holder.map_or(ClaimHolder::Lane, ClaimHolder::Person);
        let reason = order.reason.as_deref();
        let (claim, now) = self.save(author.clone(), holder, resolved, minutes, reason).await?;
        note_claims(AuditKind::FilesReserved, &author, "person", std::slice::from_ref(&claim));
        Ok(messages::taken(&claim, now))
    }

    async fn save(
        &self,
        author: ClaimAuthor,
        holder: ClaimHolder,
        ResolvedPaths { directory, paths }: ResolvedPaths,
        minutes: u32,
        reason: Option<&str>,
    ) -> Result<(Claim, Timestamp), ClaimError> {
        let now = self.shared.now();
        let redactor = &self.shared.deps.redactor;
        let clean = |text: &str, most| {
            // Backticks would end the code span around a path.
            let text = short_line(&redactor.redact(text.to_owned()).replace('`', "'"), most);
            Some(text).filter(|text| !text.is_empty())
        };
        let ClaimAuthor { lane, person, name } = author;
        let mut id = uuid::Uuid::new_v4().simple().to_string();
        id.truncate(ID_CHARS);
        let new = NewClaim {
            id,
            directory,
            paths,
            holder,
            claimant: Claimant::new(lane, person.map(|person| person.to_string())),
            name: name.and_then(|name| clean(&name, MAX_NAME)),
            minutes,
            reason: reason.and_then(|reason| clean(reason, MAX_REASON)),
        };
        let others = Claims::new(self.shared.neighbours.shared(), now);
        let take = move |claims: &mut Claims| {
            others.check_free(&new, now)?;
            claims.take(new, now)
        };
        let claim = self.change(now, take).await?;
        tracing::info!(claim = claim.id, lane = %claim.lane, by = claim.by(), until = %claim.until, paths = claim.paths.len(), "files were reserved");
        Ok((claim, now))
    }

    /// Releases the claim with an id, or with `all` every claim of the conversation, for a person
    /// who may use the bot in the lane. Owners may release every claim. Claims of other machines are
    /// released there. Returns a text.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing was changed.
    pub async fn release(
        &self,
        author: &ClaimAuthor,
        id: &str,
        is_owner: bool,
    ) -> Result<String, ClaimError> {
        let lane = &author.lane;
        let (own, id) = (lane.clone(), id.trim().to_owned());
        let wanted = id.clone();
        let released =
            self.change(self.shared.now(), move |claims| claims.release(&id, &own, is_owner));
        let elsewhere = self.elsewhere(lane, &wanted);
        let is_allowed = is_owner || elsewhere.iter().all(|(_, claim)| claim.lane == *lane);
        let released = match released.await {
            Err(ClaimError::Refused(ClaimRefusal::NotFound)) if !elsewhere.is_empty() => {
                if !is_allowed {
                    tracing::warn!(%lane, "refused to release a claim of another conversation");
                    return Err(ClaimRefusal::NotYours.into());
                }
                return Ok(self.release_elsewhere(author, elsewhere, is_owner).await);
            }
            released => released.inspect_err(|error| {
                if matches!(error, ClaimError::Refused(ClaimRefusal::NotYours)) {
                    tracing::warn!(%lane, "refused to release a claim of another conversation");
                }
            })?,
        };
        log_released(&released, lane);
        note_claims(AuditKind::FilesReleased, author, "person", &released);
        if wanted == ALL_CLAIMS && !elsewhere.is_empty() {
            let there = self.release_elsewhere(author, elsewhere, is_owner).await;
            return Ok(format!("{} {there}", messages::released(&released)));
        }
        Ok(messages::released(&released))
    }

    /// Returns the claims of other machines that a release means, each with its machine.
    fn elsewhere(&self, lane: &Lane, id: &str) -> Vec<(String, Claim)> {
        let is_meant = |claim: &Claim| match id {
            ALL_CLAIMS => claim.lane == *lane,
            id => claim.id == id,
        };
        self.shared.neighbours.find(self.shared.now(), is_meant)
    }

    /// Has other machines release their claims, and waits a moment for them. Returns a text.
    async fn release_elsewhere(
        &self,
        author: &ClaimAuthor,
        claims: Vec<(String, Claim)>,
        is_owner: bool,
    ) -> String {
        let release = |(_, claim): &(String, Claim)| ClaimRelease {
            id: claim.id.clone(),
            lane: author.lane.clone(),
            is_owner,
        };
        news::send_releases(&self.shared, claims.iter().map(release).collect());
        let until = Instant::now() + OTHERS_TIMEOUT;
        let is_meant = |known: &Claim| claims.iter().any(|(_, claim)| claim.id == known.id);
        while !self.shared.neighbours.find(self.shared.now(), is_meant).is_empty() {
            if Instant::now() >= until {
                let machines: BTreeSet<&str> =
                    claims.iter().map(|(machine, _)| machine.as_str()).collect();
                return messages::asked(&machines.into_iter().collect::<Vec<_>>().join(", "));
            }
            sleep(OTHERS_POLL_INTERVAL).await;
        }
        let claims: Vec<Claim> = claims.into_iter().map(|(_, claim)| claim).collect();
        log_released(&claims, &author.lane);
        note_claims(AuditKind::FilesReleased, author, "person", &claims);
        messages::released(&claims)
    }

    /// Carries out a call of an agent's tool in its working directory. A repeated call has no further
    /// effect, because the agents of a conversation hold their claims together.
    ///
    /// # Errors
    /// [`ClaimError`]; nothing was changed.
    pub(crate) async fn agent_call(
        &self,
        author: ClaimAuthor,
        checkout: CheckoutPlace,
        call: ClaimCall,
    ) -> Result<String, ClaimError> {
        let ClaimCall { action, paths, minutes, reason } = call;
        let minutes = minutes.unwrap_or(DEFAULT_CLAIM_MINUTES);
        let resolved = resolve(checkout, paths).await?;
        let (lane, now) = (author.lane.clone(), self.shared.now());
        match action {
            ClaimAction::Take => {
                let (holder, reason) = (ClaimHolder::Lane, reason.as_deref());
                let (claim, now) =
                    self.save(author.clone(), holder, resolved, minutes, reason).await?;
                let claims = std::slice::from_ref(&claim);
                note_claims(AuditKind::FilesReserved, &author, "agent", claims);
                Ok(messages::taken(&claim, now))
            }
            ClaimAction::Renew => {
                let renewed = self
                    .change(now, move |claims| claims.renew(&lane, &resolved.paths, minutes, now));
                let lines = renewed.await?;
                note_claims(AuditKind::FilesReserved, &author, "agent", &lines);
                let lines = lines.iter().map(|claim| messages::taken(claim, now));
                Ok(lines.collect::<Vec<_>>().join("\n"))
            }
            ClaimAction::Release => {
                let own = lane.clone();
                let released =
                    self.change(now, move |claims| Ok(claims.release_own(&own, &resolved.paths)));
                let released = released.await?;
                log_released(&released, &lane);
                note_claims(AuditKind::FilesReleased, &author, "agent", &released);
                if released.is_empty() {
                    return Ok("You hold no such claim, so nothing is reserved for you.".to_owned());
                }
                Ok(messages::released(&released))
            }
            ClaimAction::List => {
                Ok(messages::list(&self.claims_in(&resolved.directory, now), &lane, now))
            }
        }
    }

    /// Returns the list of the claims in the working directory of a lane.
    ///
    /// # Errors
    /// [`ClaimError::Directory`]
    pub async fn list(&self, lane: &Lane) -> Result<String, ClaimError> {
        let directory = identity(self.checkout(lane).await?).await?;
        let now = self.shared.now();
        Ok(messages::list(&self.claims_of(lane, &directory, now), lane, now))
    }

    /// Returns lines about the claims in the working directory of a lane, for `/status`.
    pub(crate) async fn status(&self, lane: &Lane, checkout: CheckoutPlace) -> Vec<String> {
        let Ok(directory) = identity(checkout).await else { return Vec::new() };
        let now = self.shared.now();
        let claims = self.claims_of(lane, &directory, now);
        let shown = claims.iter().take(STATUS_CLAIMS).map(|claim| messages::line(claim, lane, now));
        let mut lines: Vec<String> = shown.collect();
        if claims.len() > STATUS_CLAIMS {
            lines.push(format!("and {} more; `/claim` lists them", claims.len() - STATUS_CLAIMS));
        }
        lines
    }

    /// Returns all claims of this machine.
    #[must_use]
    pub fn all(&self) -> Vec<Claim> {
        self.shared.deps.workspace.state.claims.valid(self.shared.now()).all().to_vec()
    }

    /// Returns the claims of all machines, those of this one first.
    #[must_use]
    pub fn everywhere(&self) -> Vec<MachineClaim> {
        let own = self.all().into_iter().map(|claim| MachineClaim { machine: None, claim });
        let others = self.shared.neighbours.find(self.shared.now(), |_| true).into_iter();
        let others = others.map(|(machine, claim)| MachineClaim { machine: Some(machine), claim });
        own.chain(others).collect()
    }

    /// Returns the claims in a directory, and those of a lane that another machine has.
    fn claims_of(&self, lane: &Lane, directory: &Path, now: Timestamp) -> Vec<Claim> {
        let mut claims = self.claims_in(directory, now);
        let moved = |claim: &Claim| claim.lane == *lane && claim.directory != *directory;
        let moved = self.shared.neighbours.find(now, moved);
        claims.extend(moved.into_iter().map(|(_, claim)| claim));
        claims
    }

    fn claims_in(&self, directory: &Path, now: Timestamp) -> Vec<Claim> {
        let claims = news::all_claims(&self.shared, now);
        claims.all().iter().filter(|claim| claim.directory == *directory).cloned().collect()
    }

    async fn checkout(&self, lane: &Lane) -> Result<CheckoutPlace, ClaimError> {
        let (_, settings) = self.shared.channels.backend_of(lane).await;
        let directory = self.shared.channels.directory_of(&settings).await;
        let directory = directory.map_err(|_| ClaimError::Directory)?;
        Ok(CheckoutPlace::of(&directory, &settings, self.shared.deps.machine.is_some()))
    }

    async fn change<T: Send + 'static>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Claims) -> Result<T, ClaimRefusal> + Send + 'static,
    ) -> Result<T, ClaimError> {
        let notes = &self.shared.deps.workspace.state.claims;
        let changed = notes.change_valid(now, change).await;
        news::send_claims(&self.shared, false);
        changed.map_err(|error| match error {
            ClaimChangeError::Refused(refusal) => ClaimError::Refused(refusal),
            ClaimChangeError::File(error) => {
                tracing::error!(error = %with_causes(&error), "cannot save state/claims.md; no claim was changed");
                ClaimError::NotSaved
            }
        })
    }
}

fn log_released(claims: &[Claim], by: &Lane) {
    for claim in claims {
        tracing::info!(claim = claim.id, lane = %claim.lane, %by, "reserved files were released");
    }
}

/// Adds claims to the audit log, without their paths. `by` is `person` or `agent`.
fn note_claims(kind: AuditKind, author: &ClaimAuthor, by: &'static str, claims: &[Claim]) {
    for claim in claims {
        AuditEntry::new(kind)
            .by(author.person, author.name.as_deref())
            .in_lane(&claim.lane)
            .with("by", by)
            .with("claim", &claim.id)
            .with("paths", claim.paths.len())
            .with("until", claim.until)
            .note();
    }
}
