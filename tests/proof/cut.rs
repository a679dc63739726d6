//! Tests that an agent that something outside ended, with exit code 0 and in the middle of its
//! output, is not taken for one whose answer nobody could read.

use aetheel_model::agent::{Exit, Exited, Input};
use aetheel_turn::recording::{EntryKind, RecordingEntry};
use aetheel_turn::replay::Batches;

use super::backends::shipped;
use super::{Outcome, UNREADABLE};
use crate::support::recordings::{cases, name as case_name};

/// Returns the beginning of a recording up to the entry `last`, after which the agent's processes
/// exit.
fn cut(entries: &[RecordingEntry], last: usize) -> Vec<RecordingEntry> {
    let mut entries = entries[..=last].to_vec();
    let t = entries[last].t;
    let mut running = Vec::new();
    for entry in &entries {
        match entry.input() {
            Some(Input::Spawned(spawned)) => running.push(spawned.proc),
            Some(Input::Exited(exited)) => running.retain(|proc| *proc != exited.proc),
            _ => {}
        }
    }
    entries.extend(running.into_iter().map(|proc| {
        let exited = Exited { proc, how: Exit::Code(0), stderr_tail: String::new() };
        RecordingEntry { t, kind: EntryKind::In(Input::Exited(exited)) }
    }));
    entries
}

async fn nothing_is_unreadable(name: &str) {
    let backend = shipped(name).await;
    let (mut tried, mut wrong) = (0, Vec::new());
    for case in cases(name) {
        let file = case_name(name, &case);
        if UNREADABLE.contains(&(name, &file)) {
            continue;
        }
        let entries = &case.tape.entries;
        for last in 0..entries.len() {
            let output = matches!(
                entries[last].input(),
                Some(Input::Line(_) | Input::HttpResponse(_) | Input::StreamEvent(_))
            );
            if !output {
                continue;
            }
            tried += 1;
            let outcome = Outcome::of(&*backend, &cut(entries, last), Batches::Single).await;
            if !outcome.unread().is_empty() {
                wrong.push(format!("{file} after entry {last}: {:?}", outcome.endings));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried}:\n{}", wrong.len(), wrong.join("\n"));
}

macro_rules! cut {
    ($($name:ident)*) => { $(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            nothing_is_unreadable(stringify!($name)).await;
        }
    )* };
}
cut! { acp claude codex droid gemini opencode }
