//! `state/claims.md`: the paths that conversations and people have reserved, so that they are
//! reserved after a restart, too.

use std::path::Path;

use jiff::Timestamp;

use super::FileError;
use super::state_file::{EntryError, LineForm, StateEntry, StateFile, Token, code};
use aetheel_model::claim::{Claim, ClaimHolder, ClaimPattern, ClaimRefusal, Claims};

const FAULT: &str = "it does not have an id, a directory, a conversation, a holder, a name, a time, a reason and paths";
const FORM: LineForm =
    LineForm::new("{} in {} lane {} holder {} name {} until {} reason {} paths", FAULT);
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

impl StateFile<Claim> {
    /// Returns the claims that have not ended, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn valid(&self, now: Timestamp) -> Claims {
        Claims::new(self.all(), now)
    }

    /// Changes the claims, and returns once the result is on disk. Claims that have ended are
    /// removed.
    ///
    /// # Errors
    /// [`ClaimChangeError`]; nothing was changed.
    pub async fn change_valid<T: Send + 'static>(
        &self,
        now: Timestamp,
        change: impl FnOnce(&mut Claims) -> Result<T, ClaimRefusal> + Send + 'static,
    ) -> Result<T, ClaimChangeError> {
        self.try_change(move |entries| {
            let mut claims = Claims::new(entries.values().cloned(), now);
            let result = change(&mut claims)?;
            *entries = claims.all().iter().map(|claim| (claim.id.clone(), claim.clone())).collect();
            Ok(result)
        })
        .await
    }
}

impl StateEntry for Claim {
    type Key = String;
    const FILE: &str = "claims.md";
    const HEADING: &str = "# Claims

Paths that conversations and people have reserved: id, working directory, conversation, holder (`lane` or a person), name, end, reason,
and the paths. If you remove a line, the paths are free. See docs/collisions.md.

";

    fn key(&self) -> String {
        self.id.clone()
    }

    fn write(&self) -> String {
        let Self { id, directory, paths, lane, holder, name, until, reason } = self;
        let directory = directory.to_string_lossy().into_owned();
        let holder = match holder {
            ClaimHolder::Lane => LANE.to_owned(),
            ClaimHolder::Person(person) => person.clone(),
        };
        let mut text = FORM.write(&[id, &directory, lane, &holder, name, until, reason]);
        for path in paths {
            text.push_str(&format!(" {}", code(path.as_str())));
        }
        text
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let ([id, directory, lane, holder, name, until, reason], paths) = FORM.begin(tokens)?;
        let directory = Path::new(directory.text()).to_owned();
        let path = |token: &Token| {
            let Token::Code(text) = token else { return Err(EntryError::Parts(FAULT)) };
            ClaimPattern::parse(text, &directory)
                .map_err(|_| EntryError::code(text, "a path below the working directory"))
        };
        Ok(Self {
            id: id.read()?,
            paths: paths.iter().map(path).collect::<Result<_, _>>()?,
            lane: lane.read()?,
            holder: match holder.text() {
                LANE => ClaimHolder::Lane,
                person => ClaimHolder::Person(person.to_owned()),
            },
            name: name.read()?,
            until: until.read()?,
            reason: reason.read()?,
            directory,
        })
    }
}

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
        let open = || StateFile::<Claim>::open(folder.path()).expect("opened");
        let notes = open();
        let now = Timestamp::from_second(0).expect("a time");
        for new in [new("a", "src/*.rs", None), new("b", "read me", Some("a; b."))] {
            notes.change_valid(now, move |claims| claims.take(new, now)).await.expect("saved");
        }
        let refused =
            notes.change_valid(now, |claims| claims.release("c", &Lane::Console, true)).await;
        assert!(matches!(refused, Err(ClaimChangeError::Refused(ClaimRefusal::NotFound))));
        let text = std::fs::read_to_string(&path).expect("read")
            + "- `c` in `/srv` lane `console` holder `lane` name `-` until `2026-11-26T14:05:00Z` reason `-` paths `..`.\n";
        std::fs::write(&path, text).expect("written");
        let again = open();
        assert_eq!(again.valid(now).all(), notes.valid(now).all());
        assert_eq!(again.valid(now).all().len(), 2);
        let later = now + jiff::SignedDuration::from_mins(31);
        assert!(again.valid(later).all().is_empty());
        let result =
            again.change_valid(later, move |claims| claims.take(new("d", "x", None), later));
        result.await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("`c` in") && !text.contains("`a` in"), "{text}");
    }

    #[tokio::test]
    async fn a_claim_that_cannot_be_saved_is_not_taken() {
        let folder = tempfile::tempdir().expect("a folder");
        let state = folder.path().join("state");
        std::fs::create_dir(&state).expect("created");
        let notes = StateFile::<Claim>::open(&state).expect("opened");
        std::fs::remove_dir(&state).expect("removed");
        let now = Timestamp::now();
        let result =
            notes.change_valid(now, move |claims| claims.take(new("a", "x", None), now)).await;
        assert!(matches!(result, Err(ClaimChangeError::File(_))), "{result:?}");
        assert!(notes.valid(now).all().is_empty());
    }
}
