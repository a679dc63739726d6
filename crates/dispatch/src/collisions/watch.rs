//! The task that finds collisions among the files that agents use, and warns people.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::checkouts::is_shared;
use super::concurrent_claims;
use super::messages::{self, CollisionTime, FileInterest, FilePlace};
use super::news::{self, FileNews, MAX_SHARED_USES, SharedUse};
use super::{
    FileNode, FileReport, PlannedWrite, ReportedUse, ResolvedFile, TurnPlace, mode_of, mutes,
    resolve,
};
use crate::Shared;
use crate::outlet::Notice;
use aetheel_model::choice::CollisionMode;
use aetheel_model::claim::{Claimant, Claims};
use aetheel_model::event::Lane;
use aetheel_model::file_use::{Collision, FileAccess, FileUses, LaneFileUse};
use aetheel_model::id::ChannelId;
use aetheel_runtime::figures;

/// How long the use of a file counts, in milliseconds.
const WINDOW_MS: u64 = 15 * 60 * 1_000;
/// Collisions within this time share one notice per lane.
const NOTICE_DELAY: Duration = Duration::from_millis(800);
/// The number of warnings that may wait until they are posted. Further ones are dropped and logged.
const WAITING_WARNINGS: usize = 1_000;
/// How often lanes that use no files any more are forgotten, in milliseconds.
const FORGET_INTERVAL_MS: u64 = 60_000;
/// Maximum number of writes into claims that are remembered.
const MAX_BREACHES: usize = 10_000;

/// A warning for one lane.
type LaneWarning = (Lane, Option<ChannelId>, Vec<FilePlace>);

/// Finds collisions among the reported uses and warns people, until the dispatcher is dropped.
pub(crate) async fn warn_people(shared: Weak<Shared>, reported: mpsc::Receiver<FileReport>) {
    let (found_tx, found) = mpsc::channel(WAITING_WARNINGS);
    // A warning that cannot be posted at once must not delay the checks.
    tokio::join!(find_all(shared.clone(), reported, found_tx), post_all(shared, found));
}

async fn find_all(
    shared: Weak<Shared>,
    mut reported: mpsc::Receiver<FileReport>,
    found_tx: mpsc::Sender<LaneWarning>,
) {
    let mut found = FoundCollisions::new();
    if let Some(shared) = shared.upgrade() {
        news::send_claims(&shared, true);
    }
    while let Some(first) = reported.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        found.handle(&shared, first).await;
        let until = Instant::now() + NOTICE_DELAY;
        while !(found.by_lane.is_empty() && found.news.is_empty())
            && found.news.len() < MAX_SHARED_USES
            && let Ok(Some(next)) = timeout_at(until, reported.recv()).await
        {
            found.handle(&shared, next).await;
        }
        if !found.news.is_empty() {
            let uses = std::mem::take(&mut found.news);
            news::send(&shared, FileNews { uses, ..FileNews::default() });
        }
        for (lane, (channel, places)) in std::mem::take(&mut found.by_lane) {
            if found_tx.try_send((lane.clone(), channel, places)).is_err() {
                tracing::warn!(%lane, "cannot post the warning about files that two conversations use: too many are waiting");
            }
        }
    }
}

async fn post_all(shared: Weak<Shared>, mut found: mpsc::Receiver<LaneWarning>) {
    while let Some((lane, channel, places)) = found.recv().await {
        let Some(shared) = shared.upgrade() else { return };
        warn_lane(&shared, &lane, channel, places).await;
    }
}

/// The place of a lane of this machine.
#[derive(Clone)]
struct LanePlace {
    /// The identity of its working directory.
    directory: PathBuf,
    channel: Option<ChannelId>,
}

/// The uses of files, and the collisions that people are not warned about yet.
struct FoundCollisions {
    uses: FileUses,
    /// The warnings, by the lane that is to be warned.
    by_lane: BTreeMap<Lane, (Option<ChannelId>, Vec<FilePlace>)>,
    /// The first name under which each file was used, and the time of its last use.
    names: HashMap<FileNode, (PathBuf, u64)>,
    /// The place of the latest turn in each lane that used a file, and the time of the use.
    places: BTreeMap<Lane, (LanePlace, u64)>,
    /// The writes into claims: the id of the claim, the lane that wrote, and the file.
    breaches: HashSet<(String, Lane, PathBuf)>,
    forgot_ms: u64,
    /// The uses of files in shared directories that other machines do not know yet.
    news: Vec<SharedUse>,
}

impl FoundCollisions {
    fn new() -> Self {
        Self {
            uses: FileUses::new(WINDOW_MS),
            names: HashMap::new(),
            by_lane: BTreeMap::new(),
            places: BTreeMap::new(),
            breaches: HashSet::new(),
            forgot_ms: 0,
            news: Vec::new(),
        }
    }

    async fn handle(&mut self, shared: &Arc<Shared>, report: FileReport) {
        match report {
            FileReport::Used(reported) => self.find(shared, reported).await,
            FileReport::Planned(planned) => self.check(shared, planned).await,
            FileReport::News(news) => self.receive(shared, news).await,
        }
    }

    /// Records a use, and keeps the collisions that it causes.
    async fn find(&mut self, shared: &Arc<Shared>, reported: ReportedUse) {
        let ReportedUse { used, person, path, place, repeated } = reported;
        let TurnPlace { checkout, channel } = place;
        let resolved = tokio::task::spawn_blocking(move || resolve(&checkout, &path)).await;
        let Some(file) = resolved.ok().flatten() else { return };
        let ResolvedFile { directory, path, node } = file;
        if is_shared(&path) && !repeated {
            self.news.extend(SharedUse::of(&path, &used, person.clone(), shared.now()));
        }
        let place = LanePlace { directory, channel };
        self.places.insert(used.lane.clone(), (place, used.at_ms));
        let first = node.map_or(path.clone(), |node| self.first_name(node, &path, used.at_ms));
        self.record(shared, &path, &first, used, person, repeated);
    }

    /// Returns the first name under which a file was used.
    fn first_name(&mut self, node: FileNode, path: &Path, at_ms: u64) -> PathBuf {
        let (first, last) = self.names.entry(node).or_insert_with(|| (path.to_owned(), at_ms));
        *last = at_ms.max(*last);
        first.clone()
    }

    /// Takes the news of another machine, and keeps the collisions with lanes of this machine.
    async fn receive(&mut self, shared: &Arc<Shared>, news: FileNews) {
        let CollisionTime { now, boot_ms } = CollisionTime::of(&shared.deps.clock);
        if let Some(claims) = news.claims {
            shared.neighbours.set(&news.machine, claims);
            concurrent_claims::settle(shared).await;
        }
        if news.asks {
            news::send_claims(shared, false);
        }
        if !news.releases.is_empty() {
            let (shared, releases) = (Arc::clone(shared), news.releases);
            tokio::spawn(async move { news::release(&shared, releases).await });
        }
        for used in news.uses.into_iter().take(MAX_SHARED_USES) {
            let path = PathBuf::from(&used.path);
            if is_shared(&path) {
                let here = used.here(now, boot_ms);
                self.record(shared, &path, &path, here, used.person, false);
            }
        }
    }

    /// Records a use of this machine or of another one, and keeps the collisions that it causes.
    /// `first` is the name under which the file was used first.
    fn record(
        &mut self,
        shared: &Shared,
        path: &Path,
        first: &Path,
        used: LaneFileUse,
        person: Option<String>,
        repeated: bool,
    ) {
        let claims = news::all_claims(shared, shared.now());
        self.forget(used.at_ms, &claims);
        let claimed = match used.access {
            FileAccess::Write => {
                let breached =
                    claims.against(path, &Claimant::new(used.lane.clone(), person.clone()));
                let name = if breached.is_some() { path } else { first };
                self.breach(shared, &claims, name, &used, person, repeated)
            }
            FileAccess::Read => None,
        };
        let is_claimed = |lane: &Lane| claimed.as_ref() == Some(lane);
        for Collision { path, earlier, later } in self.uses.record(first, used) {
            // The warning about the claim says as much.
            if repeated || is_claimed(&earlier.lane) || is_claimed(&later.lane) {
                continue;
            }
            figures::count_collision();
            tracing::info!(path = %path.display(), lane = %later.lane, other = %earlier.lane, "two conversations use the same file");
            let [later, earlier] = [later, earlier].map(FileInterest::Used);
            self.add(FilePlace::new(&path, later.clone(), earlier.clone()));
            self.add(FilePlace::new(&path, earlier, later));
        }
    }

    /// Keeps the collision of a write with the claim of another holder. Returns the lane of the
    /// claim if people are to be warned.
    fn breach(
        &mut self,
        shared: &Shared,
        claims: &Claims,
        path: &Path,
        used: &LaneFileUse,
        person: Option<String>,
        repeated: bool,
    ) -> Option<Lane> {
        let claim = claims.against(path, &Claimant::new(used.lane.clone(), person))?;
        let key = (claim.id.clone(), used.lane.clone(), path.to_owned());
        if self.breaches.len() >= MAX_BREACHES || !self.breaches.insert(key) || repeated {
            return None;
        }
        figures::count_collision();
        tracing::info!(path = %path.display(), lane = %used.lane, claim = claim.id, other = %claim.lane, "an agent wrote a file that is reserved");
        let (write, held) =
            (FileInterest::Used(used.clone()), FileInterest::Claimed(claim.clone()));
        self.add(FilePlace::new(path, write.clone(), held.clone()));
        // Another machine warns about its own claims.
        if claim.lane != used.lane && !shared.neighbours.has(&claim.id) {
            self.add(FilePlace::new(path, held, write));
        }
        Some(claim.lane.clone())
    }

    /// Answers whether people must be asked before an agent writes files.
    async fn check(&self, shared: &Arc<Shared>, planned: PlannedWrite) {
        let PlannedWrite { lane, person, paths, checkout, reply_tx } = planned;
        let resolved = tokio::task::spawn_blocking(move || {
            paths.iter().filter_map(|path| resolve(&checkout, path)).collect::<Vec<_>>()
        });
        let resolved = resolved.await.unwrap_or_default();
        let time = CollisionTime::of(&shared.deps.clock);
        let claims = news::all_claims(shared, time.now);
        let author = None;
        let access = FileAccess::Write;
        let here = LaneFileUse { lane: lane.clone(), author, access, at_ms: time.boot_ms };
        let claimant = Claimant::new(lane.clone(), person);
        let mut places = Vec::new();
        for ResolvedFile { directory: cwd, path, node } in resolved {
            let first =
                node.and_then(|node| self.names.get(&node)).map_or(&path, |(first, _)| first);
            let mut others: Vec<FileInterest> = claims
                .against(&path, &claimant)
                .or_else(|| claims.against(first, &claimant))
                .filter(|claim| {
                    !self.breaches.contains(&(claim.id.clone(), lane.clone(), path.clone()))
                })
                .map(|claim| FileInterest::Claimed(claim.clone()))
                .into_iter()
                .collect();
            if others.is_empty() {
                let latest = self.uses.in_the_way(first, &lane, time.boot_ms).pop();
                others.extend(latest.map(FileInterest::Used));
            }
            places.extend(others.into_iter().map(|there| {
                FilePlace::new(&path, FileInterest::Used(here.clone()), there).below(&cwd)
            }));
        }
        let reason = (!places.is_empty()).then(|| messages::reason(&places, time));
        if reason.is_some() {
            tracing::info!(%lane, files = places.len(), "people are asked before an agent writes files of another conversation");
        }
        // The turn may have ended.
        let _ = reply_tx.send(reason);
    }

    fn add(&mut self, place: FilePlace) {
        let lane = place.here.lane();
        let known = self.places.get(lane);
        let (directory, channel) = match (known, &place.here) {
            (Some((known, _)), _) => (known.directory.clone(), known.channel),
            // A claim was taken there, but no agent has used a file.
            (None, FileInterest::Claimed(claim)) => (claim.directory.clone(), lane.channel()),
            // Another machine serves the lane, and warns it.
            (None, FileInterest::Used(_)) => return,
        };
        let (lane, place) = (lane.clone(), place.below(&directory));
        self.by_lane.entry(lane).or_insert((channel, Vec::new())).1.push(place);
    }

    /// Forgets the places of lanes whose uses are forgotten, and writes into claims that have ended.
    fn forget(&mut self, now_ms: u64, claims: &Claims) {
        if now_ms.saturating_sub(self.forgot_ms) < FORGET_INTERVAL_MS {
            return;
        }
        self.forgot_ms = now_ms;
        let since = now_ms.saturating_sub(WINDOW_MS);
        self.places.retain(|_, (_, at_ms)| *at_ms >= since);
        self.names.retain(|_, (_, at_ms)| *at_ms >= since);
        self.breaches.retain(|(id, ..)| claims.all().iter().any(|claim| claim.id == *id));
    }
}

/// Posts a notice in a lane, unless warnings are off or muted there.
async fn warn_lane(
    shared: &Shared,
    lane: &Lane,
    channel: Option<ChannelId>,
    mut places: Vec<FilePlace>,
) {
    let (_, settings) = shared.channels.backend_of(lane).await;
    if mode_of(shared, &settings) == CollisionMode::Off {
        return;
    }
    // A lane without a channel is that of the console, or its people read no notices.
    if channel.is_none() && *lane != Lane::Console {
        return;
    }
    let muted = &shared.deps.workspace.state.collision_mutes;
    places.retain(|place| !muted.is_muted(lane, &place.mark()));
    if places.is_empty() {
        return;
    }
    let time = CollisionTime::of(&shared.deps.clock);
    let text = shared.deps.redactor.redact(messages::warning(&places, time));
    let offers = mutes::buttons(lane, channel, &places, &shared.deps.redactor);
    let notice = Notice { channel, about: None, text, offers };
    if let Err(error) = shared.deps.outlet.notify(notice).await {
        tracing::warn!(%lane, %error, "cannot post the warning about files that two conversations use");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_model::claim::Claim;
    use jiff::Timestamp;

    #[test]
    fn lanes_that_use_no_files_any_more_are_forgotten() {
        let mut found = FoundCollisions::new();
        let place = LanePlace { directory: PathBuf::from("/srv"), channel: None };
        for number in 0..10_000_u64 {
            let at_ms = number * FORGET_INTERVAL_MS;
            found.forget(at_ms, &Claims::new(Vec::<Claim>::new(), Timestamp::UNIX_EPOCH));
            found.places.insert(Lane::Cron(number.to_string()), (place.clone(), at_ms));
            found.breaches.insert((number.to_string(), Lane::Console, PathBuf::new()));
        }
        let kept = usize::try_from(WINDOW_MS / FORGET_INTERVAL_MS).expect("small") + 2;
        assert!(found.places.len() <= kept, "{}", found.places.len());
        assert_eq!(found.breaches.len(), 1);
    }
}
