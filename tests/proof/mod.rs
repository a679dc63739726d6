//! Tests that no answer is lost silently: every recording of every shipped backend is replayed with
//! each key of the agent's output renamed, nested, retyped or its line split, as a new version of
//! the agent might do. Either the answers are the same, or the gateway reports the loss and can
//! recover the answer once a backend knows the new format.
//!
//! Each test takes a sample. `make proof` (`MUTANTS=all`) takes every change of every recording.

pub mod backends;
mod mutants;
#[path = "../../guest-backends/sdk/src/mutation/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the guests' tests use more of it")]
mod mutation;
mod reports;
mod short;

use std::collections::BTreeMap;

use aetheel_model::agent::TurnKey;
use aetheel_recording::replay::{Batches, ReplayResult, endings, replay};
use aetheel_recording::reread::reread;
use aetheel_recording::{Ending, RecordingEntry};
use serde_json::Value;

use self::backends::{Knowing, Mute, shipped};
use self::mutants::{Original, recordings};
use self::mutation::{Change, Loss, reports, silent_loss};
use crate::support::recordings::name as case_name;

/// Many inputs in one call, which is fast. Where the gateway's detector works alone, inputs are
/// passed one by one instead: as in the gateway, no answer arrives before its prompt was sent.
const FAST: Batches = Batches::Of(64);

/// Recordings that the backend cannot read, since it never starts the agent with this output
/// format.
const UNREADABLE: [(&str, &str); 1] = [("claude", "text-plain")];

/// Changes of one field of one recording that make the backend show other text of the agent as the
/// answer. Without the mark of a synthetic message, Claude Code's explanation of a refusal looks
/// like the next attempt of the model, which replaces the previous one.
const REPLACED: (&str, &str, &str) = ("claude", "refusal", "model");

/// Fields with the output of a tool. An agent leaves them out for a tool without output, so a backend
/// cannot report their absence.
const OPTIONAL: [(&str, &str); 6] = [
    (
        "acp",
        "{session/update}.params{}.update{tool_call_update}._meta{}.terminal_output_delta{}.data",
    ),
    ("claude", "{user}.message{}.content[]{tool_result}.content"),
    ("codex", "{item/completed}.params{}.item{dynamicToolCall}.contentItems[]{inputText}.text"),
    ("droid", "{tool_result}.error{tool_error}.message"),
    ("gemini", "{tool_result}.output"),
    ("opencode", "{}.payload{message.part.updated}.properties{}.part{tool}.state{}.output"),
];

/// Changes that make the backend send other requests than in the recording, so that a recorded
/// response answers another request: without its modes, the agent is not asked to change the mode.
const OTHER_REQUESTS: ((&str, &str), &str) =
    (("acp", "codex-permission-reject-once"), ".modes{}.availableModes");

/// The result of a replayed recording: the output that people see, and the gateway's decisions
/// about it.
struct Outcome {
    actions: Vec<Value>,
    endings: BTreeMap<TurnKey, Ending>,
    replayed: ReplayResult,
}

impl Outcome {
    async fn of(
        backend: &dyn aetheel_recording::Backend,
        entries: &[RecordingEntry],
        batches: Batches,
    ) -> Self {
        let replayed = replay(backend, entries, batches).await.unwrap();
        let actions = replayed.actions().map(|action| serde_json::to_value(action).unwrap());
        Self { actions: actions.collect(), endings: endings(entries, &replayed), replayed }
    }

    /// Returns the answer of a turn that succeeded with one.
    fn answer(&self, turn: TurnKey) -> Option<String> {
        let text = self.replayed.turns.get(&turn)?.text();
        let succeeded = matches!(self.endings.get(&turn), Some(Ending::Completed));
        (succeeded && !text.trim().is_empty()).then_some(text)
    }

    fn unread(&self) -> Vec<TurnKey> {
        let lost = self.endings.iter().filter(|(_, ending)| matches!(ending, Ending::Unread(_)));
        lost.map(|(turn, _)| *turn).collect()
    }
}

/// Figures of one backend.
#[derive(Debug, Default)]
struct Tally {
    recordings: usize,
    mutants: usize,
    /// Mutants with which people see less or something else.
    changed: usize,
    reported_by_backend: usize,
    unread: usize,
    recovered: usize,
    /// Mutants that change something other than an answer without a report.
    details: usize,
    /// Lost answers that the detector does not promise to find.
    exempt: usize,
    losses: Vec<String>,
}

/// Returns whether people lose the output of a tool, or the next turn the id of its session.
fn is_output_or_session(loss: &Loss) -> bool {
    let field = loss.field.as_str();
    (field.contains(".tools[") && (field.ends_with(".output") || field.ends_with(".said")))
        || field.ends_with("session-ready.native-id")
        || (field.starts_with("rest[") && loss.before.contains("session-ready"))
}

async fn no_answer_is_lost(name: &str) {
    let backend = shipped(name).await;
    let (mut tally, originals) = (Tally::default(), recordings(name));
    for Original { case, recording, changes } in &originals {
        tally.recordings += 1;
        let file = case_name(name, case);
        let before = Outcome::of(&*backend, &case.tape.entries, FAST).await;
        assert_eq!(!before.unread().is_empty(), UNREADABLE.contains(&(name, &file)), "{file}");
        for (position, change) in changes {
            let Some(mutant) = recording.mutant(position, *change) else { continue };
            tally.mutants += 1;
            let entries = mutants::entries(&mutant);
            let after = Outcome::of(&*backend, &entries, FAST).await;
            let loss = silent_loss(&before.actions, &after.actions);
            let unread = after.unread();
            tally.reported_by_backend +=
                usize::from(reports(&after.actions) > reports(&before.actions));
            tally.unread += usize::from(!unread.is_empty());
            tally.changed += usize::from(loss.is_some());
            if let (Some(loss), true) = (loss, unread.is_empty()) {
                let key = position.path.rsplit('.').next().unwrap_or_default();
                let is_optional = OPTIONAL.contains(&(name, position.name.as_str()));
                let is_needed = is_output_or_session(&loss) && !is_optional;
                let is_lost = is_needed && *change == Change::Renamed;
                if (loss.of_answer || is_lost) && (name, file.as_str(), key) != REPLACED {
                    tally.losses.push(format!("{file}: {} {change}: {loss}", position.name));
                } else {
                    tally.details += 1;
                }
            }
            let knowing = Knowing::new(backend.clone(), &case.tape.entries, &entries);
            for turn in unread {
                // If the agent also failed in the original recording, there is nothing to recover.
                let Some(text) = before.answer(turn) else { continue };
                let file = mutants::recording_file(case, &entries, turn);
                match reread(&knowing, file.path(), mutants::TURN).await {
                    Ok(read) if read.text == text => tally.recovered += 1,
                    read => tally.losses.push(format!(
                        "{}: {} {change}: recovered {read:?} instead of {text:?}",
                        case.path.display(),
                        position.name
                    )),
                }
            }
        }
    }
    println!("{name}: {tally:#?}");
    assert!(tally.losses.is_empty(), "{} losses", tally.losses.len());
    assert!(tally.unread > 0 && tally.recovered > 0, "nothing was lost, so nothing is proven");
}

/// Checks that the gateway's own detector finds a missing answer although the component reports
/// nothing.
async fn the_host_finds_lost_answers_alone(name: &str) {
    let backend = Mute(shipped(name).await);
    let (mut tally, originals) = (Tally::default(), recordings(name));
    for Original { case, recording, changes } in &originals {
        let file = case_name(name, case);
        let before = Outcome::of(&backend, &case.tape.entries, Batches::Single).await;
        assert_eq!(!before.unread().is_empty(), UNREADABLE.contains(&(name, &file)), "{file}");
        for (position, change) in changes {
            let Some(mutant) = recording.mutant(position, *change) else { continue };
            tally.mutants += 1;
            let after = Outcome::of(&backend, &mutants::entries(&mutant), Batches::Single).await;
            for (turn, before) in &before.replayed.turns {
                let text = before.text();
                let gone = after.replayed.turns.get(turn).is_none_or(|after| {
                    after.transcript.text().trim().is_empty() && after.text().trim().is_empty()
                });
                if !gone || !mutants::is_prose(&text) {
                    continue;
                }
                let seen = mutants::sent_and_shown(&case.tape.entries, &after.actions);
                let is_repeated = mutants::unseen(&text, &seen) <= mutants::SEQUENCE;
                let (of, key) = OTHER_REQUESTS;
                if is_repeated || ((name, file.as_str()) == of && position.name.contains(key)) {
                    tally.exempt += 1;
                    continue;
                }
                tally.changed += 1;
                match after.endings.get(turn) {
                    Some(Ending::Completed) => {
                        tally.losses.push(format!("{file}: {} {change}: {text:?}", position.name));
                    }
                    Some(Ending::Unread(_)) => tally.unread += 1,
                    _ => tally.details += 1,
                }
            }
        }
    }
    println!("{name}: {tally:#?}");
    assert!(tally.losses.is_empty(), "{} losses", tally.losses.len());
}

macro_rules! proof {
    ($($name:ident)*) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread")]
            async fn no_changed_field_loses_an_answer_silently() {
                super::no_answer_is_lost(stringify!($name)).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn the_host_finds_a_lost_answer_that_the_component_does_not_report() {
                super::the_host_finds_lost_answers_alone(stringify!($name)).await;
            }
        }
    )* };
}
proof! { acp claude codex droid gemini opencode }

#[test]
fn every_kind_of_change_is_in_the_sample() {
    let originals = recordings("claude");
    let all = || originals.iter().flat_map(|original| &original.changes);
    for change in [Change::Renamed, Change::Nested, Change::Retyped, Change::Split] {
        assert!(all().any(|(_, made)| *made == change), "{change}");
    }
}
