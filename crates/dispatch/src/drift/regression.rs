//! Detects that a backend reads its agent's output worse since a new generation took over. Pure.
//! `docs/drift.md` has the thresholds.
//!
//! The first turns of the new generation are compared with the last turns of the previous one, as
//! long as the version of the agent is the same: a new version of the agent is not the parser's
//! fault. Two fractions are compared. One is that of misread turns, in which nothing was readable
//! or the backend failed. The other is that of abnormal turns, which were misread or had unknown
//! output. In turns of the new generation, only output that the previous one did not have counts as
//! unknown.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use aetheel_recording::Generation;

/// The number of turns on a new generation that are judged, and of turns on the previous one that
/// they are compared with.
const WINDOW: usize = 20;
/// The minimum number of turns on the previous generation for a comparison.
const BASELINE_MIN: usize = 3;
/// The minimum number of bad turns for a [`Regression`]. Fewer may be a coincidence.
const BAD_MIN: usize = 3;
/// A fraction of bad turns is worse if it is at least this many times the previous one.
const WORSE_FACTOR: usize = 2;

/// How well the parser read a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ParseMark {
    misread: bool,
    /// Whether the turn was misread or had unknown output.
    abnormal: bool,
}

/// A number of bad turns, among all turns that were counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadTurns {
    pub(super) bad: usize,
    pub(super) of: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Regression {
    pub(super) generation: Generation,
    pub(super) agent_version: String,
    /// The bad turns of this generation.
    pub(super) now: BadTurns,
    /// The bad turns among the last ones of the previous generation.
    pub(super) before: BadTurns,
    /// Whether only misread turns were counted.
    pub(super) misread: bool,
}

/// The facts about a finished turn that the comparison needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct EndedTurn<'a> {
    pub(super) backend: &'a str,
    pub(super) generation: &'a Generation,
    pub(super) agent_version: &'a str,
    /// Whether nothing was readable, or the backend failed.
    pub(super) misread: bool,
    /// The kinds of output that the backend did not recognise.
    pub(super) unknown: &'a [String],
}

/// The last turns on one generation, each with the version of the agent.
#[derive(Debug)]
struct RecentTurns {
    generation: Generation,
    last: VecDeque<(String, ParseMark)>,
}

impl RecentTurns {
    fn new(generation: &Generation) -> Self {
        Self { generation: generation.clone(), last: VecDeque::new() }
    }

    fn add(&mut self, ended: &EndedTurn<'_>) {
        if self.last.len() == WINDOW {
            self.last.pop_front();
        }
        let mark = ParseMark {
            misread: ended.misread,
            abnormal: ended.misread || !ended.unknown.is_empty(),
        };
        self.last.push_back((ended.agent_version.to_owned(), mark));
    }

    fn marks_with(&self, agent_version: &str) -> Vec<ParseMark> {
        self.last
            .iter()
            .filter(|(version, _)| version == agent_version)
            .map(|(_, mark)| *mark)
            .collect()
    }
}

/// The comparison of the current generation of a backend with the previous one.
#[derive(Debug)]
struct GenerationTrial {
    now: RecentTurns,
    before: Option<RecentTurns>,
    /// The turns judged so far; `None` if the comparison has ended.
    judged: Option<Vec<ParseMark>>,
    /// The version of the agent in the first turn of this generation.
    agent_version: String,
}

/// The comparisons for all backends, and the components that are not judged.
#[derive(Debug, Default)]
pub(super) struct GenerationTrials {
    backends: BTreeMap<String, GenerationTrial>,
    /// Digests of components that were found worse once, and of the components that replaced them.
    /// They are not judged.
    exempt: BTreeSet<String>,
}

impl GenerationTrials {
    /// Records a finished turn. Returns a [`Regression`] if the generation is now found worse.
    /// `met` returns whether a generation has had a kind of output with the same version of the
    /// agent.
    pub(super) fn record_turn(
        &mut self,
        ended: &EndedTurn<'_>,
        met: impl Fn(&Generation, &str) -> bool,
    ) -> Option<Regression> {
        let EndedTurn { generation, agent_version, .. } = *ended;
        let trial =
            self.backends.entry(ended.backend.to_owned()).or_insert_with(|| GenerationTrial {
                now: RecentTurns::new(generation),
                before: None,
                judged: None,
                agent_version: String::new(),
            });
        if *generation != trial.now.generation {
            if generation.number < trial.now.generation.number {
                // The turn started on the previous generation.
                if let Some(before) =
                    trial.before.as_mut().filter(|before| before.generation == *generation)
                {
                    before.add(ended);
                }
                return None;
            }
            trial.before = Some(std::mem::replace(&mut trial.now, RecentTurns::new(generation)));
            trial.judged = (!self.exempt.contains(&generation.digest)).then(Vec::new);
            agent_version.clone_into(&mut trial.agent_version);
        }
        trial.now.add(ended);
        let (before, judged) = (trial.before.as_ref()?, trial.judged.as_mut()?);
        if trial.agent_version != agent_version {
            trial.judged = None;
            return None;
        }
        let news = ended.unknown.iter().any(|what| !met(&before.generation, what));
        judged.push(ParseMark { misread: ended.misread, abnormal: ended.misread || news });
        let found = find_regression(judged, &before.marks_with(agent_version));
        if found.is_some() || judged.len() == WINDOW {
            trial.judged = None;
        }
        let (now, before, misread) = found?;
        self.exempt.insert(generation.digest.clone());
        Some(Regression {
            generation: generation.clone(),
            agent_version: agent_version.to_owned(),
            now,
            before,
            misread,
        })
    }

    /// Exempts a generation that replaced a worse one.
    pub(super) fn exempt_restored(&mut self, generation: &Generation) {
        self.exempt.insert(generation.digest.clone());
        for trial in self.backends.values_mut().filter(|trial| trial.now.generation == *generation)
        {
            trial.judged = None;
        }
    }
}

/// Returns the counts that show that `now` is worse than `before`, and whether they only count
/// misread turns.
fn find_regression(now: &[ParseMark], before: &[ParseMark]) -> Option<(BadTurns, BadTurns, bool)> {
    if before.len() < BASELINE_MIN {
        return None;
    }
    let share = |marks: &[ParseMark], misread: bool| {
        let bad =
            marks.iter().filter(|mark| if misread { mark.misread } else { mark.abnormal }).count();
        BadTurns { bad, of: marks.len() }
    };
    [true, false].into_iter().find_map(|misread| {
        let (now, before) = (share(now, misread), share(before, misread));
        (now.bad >= BAD_MIN && now.bad * before.of >= WORSE_FACTOR * before.bad * now.of)
            .then_some((now, before, misread))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn generation(number: u32, digest: &str) -> Generation {
        Generation { number, digest: digest.to_owned() }
    }

    /// Each character of `turns` is a turn: `.` was well read, `m` misread, `k` had unknown output
    /// that the previous generation had too, `n` had new unknown output.
    fn play(
        trials: &mut GenerationTrials,
        generation: &Generation,
        version: &str,
        turns: &str,
    ) -> Vec<(usize, Regression)> {
        let turns = turns.chars().enumerate();
        let verdicts = turns.filter_map(|(at, turn)| {
            let unknown: Vec<String> =
                if ".m".contains(turn) { vec![] } else { vec![turn.to_string()] };
            let ended = EndedTurn {
                backend: "b",
                generation,
                agent_version: version,
                misread: turn == 'm',
                unknown: &unknown,
            };
            Some((at, trials.record_turn(&ended, |_, what| what == "k")?))
        });
        verdicts.collect()
    }

    #[test]
    fn a_worse_generation_is_detected_at_the_deciding_turn() {
        let cases = [
            // previous turns, turns after the reload, the index of the turn that shows it
            ("....................", "mmm", Some(2)),
            ("...", ".m.m...............m", Some(19)),
            ("...", ".m.m................m", None),
            ("..", "mmmmmm", None),
            ("", "mmmmmm", None),
            ("...", "nnn", Some(2)),
            ("...", "kkkkkkkkkk", None),
            ("nnn", "nnn", None),
            // Half of the turns were misread before, so only a run of misread turns is twice as
            // bad.
            ("m.m.", "mmm", Some(2)),
            ("m.m.", ".mmmm", None),
            ("mm.", "mmmmmmmm", None),
            // Every previous turn had unknown output, and then nothing was readable.
            ("kkkk", "mmm", Some(2)),
            ("kkkk", "mn.m.nmnnn", Some(6)),
        ];
        for (before, after, expected) in cases {
            let mut trials = GenerationTrials::default();
            assert_eq!(play(&mut trials, &generation(1, "a"), "1.0", before), []);
            let found = play(&mut trials, &generation(2, "b"), "1.0", after);
            assert_eq!(
                found.iter().map(|(at, _)| *at).collect::<Vec<_>>(),
                expected.into_iter().collect::<Vec<_>>(),
                "{before} {after}"
            );
            assert!(found.iter().all(|(_, verdict)| verdict.generation == generation(2, "b")));
        }
    }

    #[test]
    fn a_verdict_has_the_counts() {
        let mut trials = GenerationTrials::default();
        play(&mut trials, &generation(1, "a"), "1.0", "..........");
        let found = play(&mut trials, &generation(2, "b"), "1.0", ".mm.m");
        let verdict = &found[0].1;
        assert_eq!(
            (verdict.now, verdict.before, verdict.misread),
            (BadTurns { bad: 3, of: 5 }, BadTurns { bad: 0, of: 10 }, true)
        );
        assert_eq!(verdict.agent_version, "1.0");
    }

    #[test]
    fn a_new_version_of_the_agent_ends_the_comparison() {
        let mut trials = GenerationTrials::default();
        play(&mut trials, &generation(1, "a"), "1.0", "......");
        assert_eq!(
            play(&mut trials, &generation(2, "b"), "2.0", "mmmmmm"),
            [],
            "the version changed with the reload"
        );
        let mut trials = GenerationTrials::default();
        play(&mut trials, &generation(1, "a"), "1.0", "......");
        assert_eq!(play(&mut trials, &generation(2, "b"), "1.0", "mm"), []);
        assert_eq!(
            play(&mut trials, &generation(2, "b"), "2.0", "mmm"),
            [],
            "the version changed later"
        );
        assert_eq!(
            play(&mut trials, &generation(2, "b"), "1.0", "mmm"),
            [],
            "the comparison has ended"
        );
    }

    #[test]
    fn turns_from_before_the_reload_count_for_their_own_generation() {
        let mut trials = GenerationTrials::default();
        play(&mut trials, &generation(1, "a"), "1.0", "...");
        play(&mut trials, &generation(2, "b"), "1.0", "..");
        assert_eq!(play(&mut trials, &generation(1, "a"), "1.0", "mmm"), []);
        // Three of six turns were misread before.
        assert_eq!(play(&mut trials, &generation(2, "b"), "1.0", "mmm"), []);
    }

    #[test]
    fn restored_and_rejected_components_are_not_judged_again() {
        let mut trials = GenerationTrials::default();
        play(&mut trials, &generation(1, "a"), "1.0", "...");
        assert_eq!(play(&mut trials, &generation(2, "b"), "1.0", "mmm").len(), 1);
        trials.exempt_restored(&generation(3, "a"));
        assert_eq!(play(&mut trials, &generation(3, "a"), "1.0", "mmmmmmmm"), []);
        assert_eq!(play(&mut trials, &generation(4, "b"), "1.0", "mmmm"), []);
        assert_eq!(play(&mut trials, &generation(5, "c"), "1.0", "..."), []);
        assert_eq!(
            play(&mut trials, &generation(6, "d"), "1.0", "mmm").len(),
            1,
            "another component is judged"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

        /// For any sequence of reloads, only components that read worse are found worse, each at
        /// most once, and a restored component never.
        #[test]
        fn rollbacks_never_alternate(reloads in proptest::collection::vec((0..4u8, "[.mkn]{0,30}", 0..2u8), 1..12)) {
            let (mut trials, mut number, mut serving) = (GenerationTrials::default(), 0, None);
            let (mut found, mut put_back) = (BTreeSet::new(), BTreeSet::new());
            for (component, turns, version) in reloads {
                number += 1;
                let mut now = generation(number, &format!("digest {component}"));
                for turn in turns.chars() {
                    let verdicts = play(&mut trials, &now, &version.to_string(), &turn.to_string());
                    for (_, verdict) in verdicts {
                        prop_assert_eq!(&verdict.generation, &now);
                        prop_assert!(verdict.now.bad >= BAD_MIN && verdict.now.of <= WINDOW && verdict.before.of >= BASELINE_MIN);
                        prop_assert!(verdict.now.bad * verdict.before.of >= 2 * verdict.before.bad * verdict.now.of);
                        prop_assert!(found.insert(now.digest.clone()), "judged twice");
                        prop_assert!(!put_back.contains(&now.digest), "a restored component was judged");
                        let before: &Generation = serving.as_ref().expect("something served before");
                        number += 1;
                        now = generation(number, &before.digest);
                        put_back.insert(before.digest.clone());
                        trials.exempt_restored(&now);
                    }
                }
                serving = Some(now);
            }
        }
    }
}
