//! Whom a push is for, over time. Pure: whoever calls says what time it is.
//!
//! A question is told of once a person, after [`GRACE`] in which somebody who is there answers it.
//! Whoever was told of one hears of others after [`SPAN`]: what waits then is one push.

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

/// How long a question is open before anybody is told.
const GRACE: Duration = Duration::from_secs(5);
/// Between two pushes to a person.
const SPAN: Duration = Duration::from_secs(60);
/// Until it is looked again for whoever could not be told now: Discord did not say what they may,
/// or they look at the page.
const AGAIN: Duration = Duration::from_secs(10);

/// Questions that are open, and whom they were told to.
#[derive(Default)]
pub(super) struct Rounds {
    open: HashMap<String, Asked>,
    /// When somebody may be told again.
    rests: HashMap<u64, Instant>,
}

struct Asked {
    since: Instant,
    /// Those who were told of it, or may not answer it.
    settled: HashSet<u64>,
}

impl Rounds {
    /// Takes in which questions are open, by id.
    pub(super) fn look<'a>(&mut self, open: impl Iterator<Item = &'a str>, now: Instant) {
        let mut before = std::mem::take(&mut self.open);
        self.open = open
            .map(|id| {
                let new = || Asked { since: now, settled: HashSet::new() };
                (id.to_owned(), before.remove(id).unwrap_or_else(new))
            })
            .collect();
        self.rests.retain(|_, until| *until > now);
    }

    /// The questions that somebody is to be told of now, if they may answer them.
    pub(super) fn due(&self, user: u64, now: Instant) -> Vec<String> {
        if self.rests.contains_key(&user) {
            return Vec::new();
        }
        let due = |asked: &Asked| asked.since + GRACE <= now && !asked.settled.contains(&user);
        self.open.iter().filter(|(_, asked)| due(asked)).map(|(id, _)| id.clone()).collect()
    }

    /// These were told to somebody, or are not theirs to answer.
    pub(super) fn settle(&mut self, user: u64, questions: &[String]) {
        for id in questions {
            if let Some(asked) = self.open.get_mut(id) {
                asked.settled.insert(user);
            }
        }
    }

    /// Somebody was told of something.
    pub(super) fn told(&mut self, user: u64, now: Instant) {
        self.rests.insert(user, now + SPAN);
    }

    /// Somebody could not be told now.
    pub(super) fn put_off(&mut self, user: u64, now: Instant) {
        self.rests.insert(user, now + AGAIN);
    }

    /// When to look again if nothing changes before; none: only when something does.
    pub(super) fn next(&self, users: &HashSet<u64>, now: Instant) -> Option<Instant> {
        let for_one = |user: &u64| {
            let waits = self.open.values().filter(|asked| !asked.settled.contains(user));
            let first = waits.map(|asked| asked.since + GRACE).min()?;
            Some(self.rests.get(user).map_or(first, |until| first.max(*until)))
        };
        users.iter().filter_map(for_one).min().map(|at| at.max(now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANN: u64 = 1;
    const BOB: u64 = 2;

    fn after(seconds: u64, start: Instant) -> Instant {
        start + Duration::from_secs(seconds)
    }

    #[test]
    fn what_is_answered_at_once_is_told_to_nobody() {
        let (mut rounds, start) = (Rounds::default(), Instant::now());
        let users = HashSet::from([ANN]);
        rounds.look(["one"].into_iter(), start);
        assert!(rounds.due(ANN, start).is_empty());
        assert_eq!(rounds.next(&users, start), Some(after(5, start)));
        rounds.look(std::iter::empty(), after(4, start));
        assert!(rounds.due(ANN, after(9, start)).is_empty());
        assert_eq!(rounds.next(&users, after(9, start)), None);
    }

    #[test]
    fn a_person_is_told_of_a_question_once_and_of_others_after_a_minute() {
        let (mut rounds, start) = (Rounds::default(), Instant::now());
        let users = HashSet::from([ANN, BOB]);
        rounds.look(["one"].into_iter(), start);
        assert_eq!(rounds.due(ANN, after(5, start)), ["one"]);
        rounds.settle(ANN, &["one".to_owned()]);
        rounds.told(ANN, after(5, start));
        rounds.settle(BOB, &["one".to_owned()]);
        assert!(rounds.due(ANN, after(6, start)).is_empty());
        assert_eq!(rounds.next(&users, after(6, start)), None, "it is told, or not theirs");

        rounds.look(["one", "two"].into_iter(), after(10, start));
        rounds.look(["one", "two", "three"].into_iter(), after(20, start));
        assert!(rounds.due(ANN, after(30, start)).is_empty(), "a minute is not over");
        let mut bobs = rounds.due(BOB, after(30, start));
        bobs.sort();
        assert_eq!(bobs, ["three", "two"], "another's minute is not his");
        rounds.settle(BOB, &bobs);
        assert_eq!(rounds.next(&users, after(30, start)), Some(after(65, start)));
        rounds.look(["three"].into_iter(), after(65, start));
        assert_eq!(rounds.due(ANN, after(65, start)), ["three"], "what waits then");
    }

    #[test]
    fn whoever_could_not_be_told_is_looked_at_again() {
        let (mut rounds, start) = (Rounds::default(), Instant::now());
        rounds.look(["one"].into_iter(), start);
        rounds.put_off(ANN, after(5, start));
        assert!(rounds.due(ANN, after(6, start)).is_empty());
        assert_eq!(rounds.next(&HashSet::from([ANN]), after(6, start)), Some(after(15, start)));
        rounds.look(["one"].into_iter(), after(15, start));
        assert_eq!(rounds.due(ANN, after(15, start)), ["one"]);
    }
}
