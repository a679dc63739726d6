//! Claims: paths that a conversation or a person has reserved for a time.
//!
//! [`Claims`] decides who may take, renew and release them, and which claim covers a file. It has no
//! I/O and no clock. `dispatch::claims` uses it.

mod pattern;

use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};

pub use self::pattern::{ClaimPattern, MAX_PATTERN_CHARS, PatternError};
use crate::event::Lane;

/// Maximum number of paths of a claim.
pub const MAX_CLAIM_PATHS: usize = 20;
/// Maximum number of claims of a conversation.
pub const MAX_LANE_CLAIMS: usize = 10;
/// Maximum number of claims of all conversations.
pub const MAX_CLAIMS: usize = 1_000;
/// The longest time for which a claim can be taken.
pub const MAX_CLAIM_MINUTES: u32 = 24 * 60;
/// The time of a claim for which none is given.
pub const DEFAULT_CLAIM_MINUTES: u32 = 60;

/// The word that stands for every claim of a conversation when claims are released.
pub const ALL_CLAIMS: &str = "all";

/// The holder of a claim. Writes of others collide with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClaimHolder {
    /// The agents of the conversation in which the claim was taken.
    Lane,
    /// A person, by id. Turns that the person starts may write, in every conversation.
    Person(String),
}

/// Paths that a conversation or a person has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The id, for people and commands.
    pub id: String,
    /// The working directory, without links.
    pub directory: PathBuf,
    /// The paths below the directory.
    pub paths: Vec<ClaimPattern>,
    /// The conversation in which the claim was taken.
    pub lane: Lane,
    /// The holder.
    pub holder: ClaimHolder,
    /// The name of the person who took it, or who started the turn that took it.
    pub name: Option<String>,
    /// When it ends.
    pub until: Timestamp,
    /// The reason for other people, on one line.
    pub reason: Option<String>,
}

/// The conversation and the person of a request or a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claimant {
    /// The conversation.
    pub lane: Lane,
    /// The id of the person, if it is known.
    pub person: Option<String>,
}

/// Stands for the id of the person at the console, who has none.
const CONSOLE_PERSON: &str = "console";

impl Claimant {
    /// Returns the claimant for a request or a write in a conversation. Only the person at the
    /// console works there, so that no id is necessary.
    #[must_use]
    pub fn new(lane: Lane, person: Option<String>) -> Self {
        let is_console = lane == Lane::Console;
        Self { lane, person: person.or_else(|| is_console.then(|| CONSOLE_PERSON.to_owned())) }
    }
}

/// The reason why a request about claims is refused. The text is for people and models.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimRefusal {
    /// A path is not valid.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// There are no paths.
    #[error("name at least one file or folder")]
    NoPaths,
    /// There are too many paths.
    #[error("a claim has at most {MAX_CLAIM_PATHS} paths; name a folder instead of its files")]
    TooManyPaths,
    /// The time is zero or too long.
    #[error("the time of a claim is 1 minute to {MAX_CLAIM_MINUTES} minutes (24 hours)")]
    Time,
    /// The conversation has too many claims.
    #[error("this conversation has {MAX_LANE_CLAIMS} claims already; release one first")]
    TooMany,
    /// There are too many claims in total.
    #[error("there are {MAX_CLAIMS} claims already; wait until some have ended")]
    Full,
    /// Another holder has one of the paths.
    #[error("`{path}` is reserved {by}, for {left}; work on other files, ask them, or wait")]
    Held {
        /// The path of the other claim.
        path: String,
        /// The holder, for example `by Ann`.
        by: String,
        /// The remaining time.
        left: String,
    },
    /// No claim matches.
    #[error("there is no such claim here; it may have ended")]
    NotFound,
    /// The claim belongs to another conversation.
    #[error(
        "this claim was taken in another conversation; only people there and my owner can release it"
    )]
    NotYours,
}

impl Claim {
    /// Returns whether this conversation or person holds the claim.
    #[must_use]
    pub fn is_held_by(&self, claimant: &Claimant) -> bool {
        match &self.holder {
            ClaimHolder::Lane => self.lane == claimant.lane,
            ClaimHolder::Person(person) => claimant.person.as_ref() == Some(person),
        }
    }

    /// Returns whether this claim and a claim of another machine could not both be taken one after
    /// the other.
    fn excludes(&self, other: &Self) -> bool {
        let is_same_holder = match (&self.holder, &other.holder) {
            (ClaimHolder::Lane, ClaimHolder::Lane) => self.lane == other.lane,
            (ClaimHolder::Person(one), ClaimHolder::Person(two)) => one == two,
            // The agent may work for that person.
            _ => self.name == other.name,
        };
        let overlaps = |path: &ClaimPattern| other.paths.iter().any(|held| held.overlaps(path));
        self.directory == other.directory && !is_same_holder && self.paths.iter().any(overlaps)
    }

    /// Returns the path that covers a file, given with its absolute path without links.
    #[must_use]
    pub fn covering(&self, file: &Path) -> Option<&ClaimPattern> {
        let below = file.strip_prefix(&self.directory).ok()?;
        self.paths.iter().find(|path| path.covers(below))
    }

    /// Returns the holder for people, for example `by Ann` or `by an agent for Ann`.
    #[must_use]
    pub fn by(&self) -> String {
        match (&self.holder, &self.name) {
            (ClaimHolder::Lane, Some(name)) => format!("by an agent for {name}"),
            (ClaimHolder::Lane, None) => "by an agent".to_owned(),
            (ClaimHolder::Person(_), Some(name)) => format!("by {name}"),
            (ClaimHolder::Person(person), None) if person == CONSOLE_PERSON => {
                "by the person at the console".to_owned()
            }
            (ClaimHolder::Person(_), None) => "by a person".to_owned(),
        }
    }

    /// Returns the remaining time in words, for example `25 minutes`.
    #[must_use]
    pub fn left(&self, now: Timestamp) -> String {
        let seconds = self.until.duration_since(now).as_secs().max(0);
        match seconds.div_euclid(60) {
            0 => "less than a minute".to_owned(),
            1 => "1 minute".to_owned(),
            minutes @ ..120 => format!("{minutes} minutes"),
            minutes => format!("{} hours", minutes / 60),
        }
    }
}

/// A request to reserve paths.
#[derive(Clone, Debug)]
pub struct NewClaim {
    /// The id of a new claim.
    pub id: String,
    /// The working directory, without links.
    pub directory: PathBuf,
    /// The paths, each parsed and without links.
    pub paths: Vec<ClaimPattern>,
    /// The holder.
    pub holder: ClaimHolder,
    /// The conversation and the person.
    pub claimant: Claimant,
    /// The name of the person.
    pub name: Option<String>,
    /// The time.
    pub minutes: u32,
    /// The reason.
    pub reason: Option<String>,
}

/// All claims.
#[derive(Clone, Debug, Default)]
pub struct Claims(Vec<Claim>);

impl Claims {
    /// Creates the set from its claims.
    #[must_use]
    pub fn new(claims: impl IntoIterator<Item = Claim>, now: Timestamp) -> Self {
        Self(claims.into_iter().filter(|claim| claim.until > now).collect())
    }

    /// Returns the claims that have not ended.
    #[must_use]
    pub fn all(&self) -> &[Claim] {
        &self.0
    }

    /// Takes a claim. A claim of the same holder with the same paths is renewed instead, so that a
    /// repeated request has one effect. Returns the claim.
    ///
    /// # Errors
    /// [`ClaimRefusal`]
    pub fn take(&mut self, new: NewClaim, now: Timestamp) -> Result<Claim, ClaimRefusal> {
        if new.paths.is_empty() {
            return Err(ClaimRefusal::NoPaths);
        }
        if new.paths.len() > MAX_CLAIM_PATHS {
            return Err(ClaimRefusal::TooManyPaths);
        }
        let until = end(new.minutes, now)?;
        self.check_free(&new, now)?;
        let NewClaim { id, directory, mut paths, holder, claimant, name, reason, .. } = new;
        paths.sort();
        paths.dedup();
        let claim =
            Claim { id, directory, paths, lane: claimant.lane, holder, name, until, reason };
        let same = self.0.iter_mut().find(|known| {
            (&known.directory, &known.paths, &known.lane, &known.holder)
                == (&claim.directory, &claim.paths, &claim.lane, &claim.holder)
        });
        if let Some(known) = same {
            let reason = claim.reason.or_else(|| known.reason.take());
            *known = Claim { id: known.id.clone(), reason, ..claim };
            return Ok(known.clone());
        }
        if self.0.iter().filter(|known| known.lane == claim.lane).count() >= MAX_LANE_CLAIMS {
            return Err(ClaimRefusal::TooMany);
        }
        if self.0.len() >= MAX_CLAIMS {
            return Err(ClaimRefusal::Full);
        }
        self.0.push(claim.clone());
        Ok(claim)
    }

    /// Checks that no other holder has one of the paths of a new claim.
    ///
    /// # Errors
    /// [`ClaimRefusal::Held`]
    pub fn check_free(&self, new: &NewClaim, now: Timestamp) -> Result<(), ClaimRefusal> {
        let of_others = self
            .0
            .iter()
            .filter(|claim| claim.directory == new.directory && !claim.is_held_by(&new.claimant));
        for claim in of_others {
            let overlaps = |held: &&ClaimPattern| new.paths.iter().any(|path| path.overlaps(held));
            if let Some(held) = claim.paths.iter().find(overlaps) {
                let path = held.as_str().to_owned();
                return Err(ClaimRefusal::Held { path, by: claim.by(), left: claim.left(now) });
            }
        }
        Ok(())
    }

    /// Extends the claims that the agents of a conversation hold; with `paths`, only those that have
    /// one of them. Returns them.
    ///
    /// # Errors
    /// [`ClaimRefusal`]
    pub fn renew(
        &mut self,
        lane: &Lane,
        paths: &[ClaimPattern],
        minutes: u32,
        now: Timestamp,
    ) -> Result<Vec<Claim>, ClaimRefusal> {
        let until = end(minutes, now)?;
        let mut renewed = Vec::new();
        for claim in self.0.iter_mut().filter(|claim| is_of(claim, lane, paths)) {
            claim.until = until;
            renewed.push(claim.clone());
        }
        if renewed.is_empty() { Err(ClaimRefusal::NotFound) } else { Ok(renewed) }
    }

    /// Releases the claims that the agents of a conversation hold; with `paths`, only those that
    /// have one of them. Returns them.
    pub fn release_own(&mut self, lane: &Lane, paths: &[ClaimPattern]) -> Vec<Claim> {
        self.0.extract_if(.., |claim| is_of(claim, lane, paths)).collect()
    }

    /// Releases the claim with an id, for a person of the conversation in which it was taken, or for
    /// an owner. `all` releases every claim of the conversation. Returns the claims.
    ///
    /// # Errors
    /// [`ClaimRefusal::NotFound`] or [`ClaimRefusal::NotYours`]
    pub fn release(
        &mut self,
        id: &str,
        lane: &Lane,
        is_owner: bool,
    ) -> Result<Vec<Claim>, ClaimRefusal> {
        let is_meant = |claim: &Claim| match id {
            ALL_CLAIMS => claim.lane == *lane,
            id => claim.id == id,
        };
        if !is_owner && self.0.iter().any(|claim| is_meant(claim) && claim.lane != *lane) {
            return Err(ClaimRefusal::NotYours);
        }
        let released: Vec<Claim> = self.0.extract_if(.., |claim| is_meant(claim)).collect();
        if released.is_empty() { Err(ClaimRefusal::NotFound) } else { Ok(released) }
    }

    /// Releases the claims that were taken at the same time as one of `others`, which another machine
    /// keeps: of two claims to a file, the one with the smaller id stays, so that both machines
    /// decide alike. Returns each released claim with the one that stays.
    pub fn yield_to(&mut self, others: &[Claim]) -> Vec<(Claim, Claim)> {
        let mut released = Vec::new();
        self.0.retain(|own| {
            let stays = others.iter().find(|other| other.id < own.id && own.excludes(other));
            released.extend(stays.map(|other| (own.clone(), other.clone())));
            stays.is_none()
        });
        released
    }

    /// Returns the claim of another holder that covers a file.
    #[must_use]
    pub fn against(&self, file: &Path, claimant: &Claimant) -> Option<&Claim> {
        let mut others = self.0.iter().filter(|claim| !claim.is_held_by(claimant));
        others.find(|claim| claim.covering(file).is_some())
    }
}

/// Returns whether the agents of a conversation hold a claim that has one of the paths.
fn is_of(claim: &Claim, lane: &Lane, paths: &[ClaimPattern]) -> bool {
    claim.lane == *lane
        && claim.holder == ClaimHolder::Lane
        && (paths.is_empty() || claim.paths.iter().any(|path| paths.contains(path)))
}

fn end(minutes: u32, now: Timestamp) -> Result<Timestamp, ClaimRefusal> {
    if !(1..=MAX_CLAIM_MINUTES).contains(&minutes) {
        return Err(ClaimRefusal::Time);
    }
    let end = now.checked_add(SignedDuration::from_mins(minutes.into()));
    end.map_err(|_| ClaimRefusal::Time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ChannelId;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(minute * 60).expect("a time")
    }

    fn claimant(channel: u64, person: Option<&str>) -> Claimant {
        let lane = Lane::Channel(ChannelId::discord(channel));
        Claimant { lane, person: person.map(str::to_owned) }
    }

    fn new(id: &str, claimant: Claimant, paths: &[&str]) -> NewClaim {
        let directory = PathBuf::from("/srv/site");
        let paths = paths.iter().map(|path| ClaimPattern::parse(path, &directory).expect("valid"));
        let holder = claimant.person.clone().map_or(ClaimHolder::Lane, ClaimHolder::Person);
        NewClaim {
            id: id.to_owned(),
            paths: paths.collect(),
            directory,
            holder,
            claimant,
            name: Some("Ann".to_owned()),
            minutes: 30,
            reason: None,
        }
    }

    #[test]
    fn a_path_has_one_holder_who_may_write_there() {
        let mut claims = Claims::default();
        claims.take(new("a", claimant(1, None), &["src"]), at(0)).expect("taken");
        let refused = claims.take(new("b", claimant(2, None), &["src/a.rs"]), at(5));
        let by = "by an agent for Ann".to_owned();
        let left = "25 minutes".to_owned();
        assert_eq!(refused, Err(ClaimRefusal::Held { path: "src".to_owned(), by, left }));
        let file = Path::new("/srv/site/src/a.rs");
        assert!(claims.against(file, &claimant(1, None)).is_none());
        assert!(claims.against(file, &claimant(1, Some("7"))).is_none());
        assert_eq!(claims.against(file, &claimant(2, None)).map(|claim| &*claim.id), Some("a"));
        assert!(claims.against(Path::new("/srv/other/src/a.rs"), &claimant(2, None)).is_none());
        assert!(Claims::new(claims.all().to_vec(), at(30)).all().is_empty());
    }

    #[test]
    fn the_turns_of_a_person_may_write_into_the_persons_claim_everywhere() {
        let mut claims = Claims::default();
        claims.take(new("a", claimant(1, Some("7")), &["src"]), at(0)).expect("taken");
        let file = Path::new("/srv/site/src/a.rs");
        assert!(claims.against(file, &claimant(2, Some("7"))).is_none());
        assert!(claims.against(file, &claimant(1, Some("8"))).is_some());
        assert!(claims.against(file, &claimant(1, None)).is_some());
    }

    #[test]
    fn the_agent_at_the_console_writes_into_the_claim_of_its_person_but_cannot_release_it() {
        let mut claims = Claims::default();
        let console = Claimant::new(Lane::Console, None);
        claims.take(new("a", console.clone(), &["src"]), at(0)).expect("taken");
        let file = Path::new("/srv/site/src/a.rs");
        assert!(claims.against(file, &console).is_none());
        assert!(claims.against(file, &claimant(1, Some("7"))).is_some());
        assert!(claims.release_own(&Lane::Console, &[]).is_empty());
        assert_eq!(claims.all().len(), 1);
    }

    #[test]
    fn of_claims_that_two_machines_took_at_the_same_time_one_stays() {
        let left = |one: NewClaim, two: NewClaim| {
            let [mut here, mut there] = [one, two].map(|new| {
                let mut claims = Claims::default();
                claims.take(new, at(0)).expect("taken");
                claims
            });
            let before = [here.all().to_vec(), there.all().to_vec()];
            here.yield_to(&before[1]);
            there.yield_to(&before[0]);
            [here, there].map(|claims| claims.all().len())
        };
        let of = |id, channel, person, path: &str| new(id, claimant(channel, person), &[path]);
        assert_eq!(left(of("a", 1, None, "src"), of("b", 2, None, "src/a.rs")), [1, 0]);
        assert_eq!(left(of("b", 1, Some("7"), "src"), of("a", 2, Some("8"), "src/*")), [0, 1]);
        assert_eq!(left(of("a", 1, None, "src"), of("b", 2, None, "docs")), [1, 1]);
        assert_eq!(left(of("a", 1, Some("7"), "src"), of("b", 2, Some("7"), "src")), [1, 1]);
        // The agent works for the person, who has the same name.
        assert_eq!(left(of("a", 1, Some("7"), "src"), of("b", 2, None, "src")), [1, 1]);
    }

    #[test]
    fn a_repeated_claim_renews_the_first_one() {
        let mut claims = Claims::default();
        let first = claims.take(new("a", claimant(1, None), &["b", "a"]), at(0)).expect("taken");
        let again = claims.take(new("b", claimant(1, None), &["a", "b", "a"]), at(10));
        assert_eq!(again.expect("renewed"), Claim { until: at(40), ..first });
        assert_eq!(claims.all().len(), 1);
        let renewed = claims.renew(&claimant(1, None).lane, &[], 60, at(20)).expect("renewed");
        assert_eq!(renewed[0].until, at(80));
        let other = claims.renew(&claimant(2, None).lane, &[], 60, at(20));
        assert_eq!(other, Err(ClaimRefusal::NotFound));
    }

    #[test]
    fn only_people_of_the_conversation_and_owners_release_a_claim() {
        let mut claims = Claims::default();
        let (one, two) = (claimant(1, None), claimant(2, None));
        claims.take(new("a", one.clone(), &["a"]), at(0)).expect("taken");
        claims.take(new("b", one.clone(), &["b"]), at(0)).expect("taken");
        assert_eq!(claims.release("a", &two.lane, false), Err(ClaimRefusal::NotYours));
        assert_eq!(claims.release("all", &two.lane, false), Err(ClaimRefusal::NotFound));
        assert_eq!(claims.release("c", &two.lane, true), Err(ClaimRefusal::NotFound));
        assert!(claims.release_own(&two.lane, &[]).is_empty());
        assert_eq!(claims.all().len(), 2);
        assert_eq!(claims.release("a", &two.lane, true).map(|all| all.len()), Ok(1));
        assert_eq!(claims.release("all", &one.lane, false).map(|all| all.len()), Ok(1));
    }

    #[test]
    fn the_number_of_claims_and_their_times_are_limited() {
        let mut claims = Claims::default();
        for minutes in [0, MAX_CLAIM_MINUTES + 1] {
            let new = NewClaim { minutes, ..new("a", claimant(1, None), &["a"]) };
            assert_eq!(claims.take(new, at(0)), Err(ClaimRefusal::Time));
        }
        let many: Vec<String> = (0..10_000).map(|at| format!("f{at}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        let refused = claims.take(new("a", claimant(1, None), &many), at(0));
        assert_eq!(refused, Err(ClaimRefusal::TooManyPaths));
        let none = claims.take(new("a", claimant(1, None), &[]), at(0));
        assert_eq!(none, Err(ClaimRefusal::NoPaths));
        let mut accepted = 0;
        for channel in 0..MAX_CLAIMS as u64 {
            for number in 0..=MAX_LANE_CLAIMS {
                let path = format!("c{channel}n{number}");
                accepted += usize::from(
                    claims.take(new(&path, claimant(channel, None), &[&path]), at(0)).is_ok(),
                );
            }
            if channel == 0 {
                assert_eq!(accepted, MAX_LANE_CLAIMS);
            }
            if accepted == MAX_CLAIMS {
                break;
            }
        }
        let full = claims.take(new("a", claimant(5_000, None), &["a"]), at(0));
        assert_eq!(full, Err(ClaimRefusal::Full));
    }
}
