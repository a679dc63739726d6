//! `state/claims.md`: the paths that conversations and people have reserved, so that they are
//! reserved after a restart, too.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::claim::{Claim, ClaimHolder, ClaimPattern, ClaimRefusal, Claims};

const HEADING: &str = "# Claims

Paths that conversations and people have reserved: id, working directory, conversation, holder (`lane` or a person), name, end, reason,
and the paths. If you remove a line, the paths are free. See docs/collisions.md.

";
/// Stands for a name or a reason that is not given.
const UNNAMED: &str = "-";
/// The holder of a claim that the agents of its conversation hold.
const LANE: &str = "lane";

/// The reason why claims were not changed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimChangeError {
    /// The request was refused.
    #[error(transparent)]
    Refused(#[from] ClaimRefusal),
    /// The file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

/// The claims. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct ClaimNotes(Arc<Mutex<LedgerFile<Claim>>>);

impl Workspace {
    /// Returns the paths that conversations and people have reserved.
    #[must_use]
    pub fn claim_notes(&self) -> &ClaimNotes {
        &self.claims
    }
}

impl ClaimNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns the claims that have not ended, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self, now: Timestamp) -> Claims {
        Claims::new(self.0.lock().entries.values().cloned(), now)
    }

    /// Changes the claims, and returns once the result is on disk. Claims that have ended are
    /// removed.
    ///
    /// # Errors
    /// [`ClaimChangeError`]; nothing was changed.
    pub async fn change<T: Send + 'static>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Claims) -> Result<T, ClaimRefusal> + Send + 'static,
    ) -> Result<T, ClaimChangeError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            let mut claims = Claims::new(ledger.entries.values().cloned(), now);
            let result = change(&mut claims)?;
            let entries = claims.all().iter().map(|claim| (claim.id.clone(), claim.clone()));
            let before = std::mem::replace(&mut ledger.entries, entries.collect());
            if let Err(error) = ledger.save() {
                // A restart would forget the claim, so it is not taken.
                ledger.entries = before;
                return Err(error.into());
            }
            Ok(result)
        })
        .await
    }
}

impl LedgerEntry for Claim {
    type Key = String;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> String {
        self.id.clone()
    }

    fn write(&self) -> String {
        let Self { id, directory, paths, lane, holder, name, until, reason } = self;
        let holder = match holder {
            ClaimHolder::Lane => LANE,
            ClaimHolder::Person(person) => person,
        };
        let mut text = format!(
            "{} in {} lane {} holder {} name {} until {} reason {} paths",
            code(id),
            code(&directory.to_string_lossy()),
            code(&lane.to_string()),
            code(holder),
            code(name.as_deref().unwrap_or(UNNAMED)),
            code(&until.to_string()),
            code(reason.as_deref().unwrap_or(UNNAMED))
        );
        for path in paths {
            text.push_str(&format!(" {}", code(path.as_str())));
        }
        text
    }
}

fn parse(tokens: &[Token]) -> Result<Claim, EntryError> {
    let parts: Vec<(bool, &str)> = tokens
        .iter()
        .map(|token| match token {
            Token::Code(text) => (true, text.as_str()),
            Token::Word(word) => (false, word.as_str()),
        })
        .collect();
    let [
        (true, id),
        (false, "in"),
        (true, directory),
        (false, "lane"),
        (true, lane),
        (false, "holder"),
        (true, holder),
        (false, "name"),
        (true, name),
        (false, "until"),
        (true, until),
        (false, "reason"),
        (true, reason),
        (false, "paths"),
        paths @ ..,
    ] = &parts[..]
    else {
        return Err(WRONG);
    };
    let given = |text: &str| Some(text.to_owned()).filter(|text| text != UNNAMED);
    let directory = Path::new(directory).to_owned();
    let path = |(is_code, text): &(bool, &str)| {
        let pattern = is_code.then(|| ClaimPattern::parse(text, &directory));
        let pattern = pattern.ok_or(WRONG)?;
        pattern.map_err(|_| EntryError::code(text, "a path below the working directory"))
    };
    Ok(Claim {
        id: (*id).to_owned(),
        paths: paths.iter().map(path).collect::<Result<_, _>>()?,
        lane: lane.parse()?,
        holder: match *holder {
            LANE => ClaimHolder::Lane,
            person => ClaimHolder::Person(person.to_owned()),
        },
        name: given(name),
        until: until.parse().map_err(EntryError::InvalidTime)?,
        reason: given(reason),
        directory,
    })
}

const WRONG: EntryError = EntryError::Parts(
    "it does not have an id, a directory, a conversation, a holder, a name, a time, a reason and paths",
);

#[cfg(test)]
mod tests {
    use aetheel_model::claim::{Claimant, NewClaim};
    use aetheel_model::event::Lane;

    use super::*;

    fn new(id: &str, path: &str, reason: Option<&str>) -> NewClaim {
        let directory = Path::new("/srv/my `site`").to_owned();
        NewClaim {
            id: id.to_owned(),
            paths: vec![ClaimPattern::parse(path, &directory).expect("valid")],
            directory,
            holder: ClaimHolder::Person("4".to_owned()),
            claimant: Claimant { lane: Lane::Console, person: Some("4".to_owned()) },
            name: Some("Ann, the `1st`".to_owned()),
            minutes: 30,
            reason: reason.map(str::to_owned),
        }
    }

    #[tokio::test]
    async fn claims_survive_a_restart_and_invalid_lines_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("claims.md");
        let notes = ClaimNotes::open(&path).expect("opened");
        let now = Timestamp::from_second(0).expect("a time");
        for new in [new("a", "src/*.rs", None), new("b", "read me", Some("a; b."))] {
            notes.change(now, move |claims| claims.take(new, now)).await.expect("saved");
        }
        let refused = notes.change(now, |claims| claims.release("c", &Lane::Console, true)).await;
        assert!(matches!(refused, Err(ClaimChangeError::Refused(ClaimRefusal::NotFound))));
        let text = std::fs::read_to_string(&path).expect("read")
            + "- `c` in `/srv` lane `console` holder `lane` name `-` until `2026-11-26T14:05:00Z` reason `-` paths `..`.\n";
        std::fs::write(&path, text).expect("written");
        let again = ClaimNotes::open(&path).expect("opened");
        assert_eq!(again.all(now).all(), notes.all(now).all());
        assert_eq!(again.all(now).all().len(), 2);
        let later = now + jiff::SignedDuration::from_mins(31);
        assert!(again.all(later).all().is_empty());
        let taken = again.change(later, move |claims| claims.take(new("d", "x", None), later));
        taken.await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("`c` in") && !text.contains("`a` in"), "{text}");
    }

    #[tokio::test]
    async fn a_claim_that_cannot_be_saved_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        std::fs::create_dir(&state).expect("created");
        let notes = ClaimNotes::open(&state.join("claims.md")).expect("opened");
        std::fs::remove_dir(&state).expect("removed");
        let now = Timestamp::now();
        let taken = notes.change(now, move |claims| claims.take(new("a", "x", None), now)).await;
        assert!(matches!(taken, Err(ClaimChangeError::File(_))), "{taken:?}");
        assert!(notes.all(now).all().is_empty());
    }
}
