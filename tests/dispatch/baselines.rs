//! Tests of baselines of an agent's usual output: text beside its answers does not count as a lost
//! answer, and a success without an answer is reported if all earlier turns had one.

use std::sync::Arc;

use aetheel_model::agent::{HostCommand, Input, TurnOutcome};
use aetheel_turn::InstalledAgent as KnownAgent;
use serde_json::Value;
use tempfile::TempDir;

use super::drift::{Scene, one};
use crate::support::scripted::{ScriptedBackend, done, event, spawn, text_event};

/// Returns the lines that an agent prints for a word of the prompt.
fn lines(word: &str) -> String {
    match word {
        "tip" => r#"{"type":"tip","text":"Press a key to go on."}"#,
        "said" => r#"{"type":"said","text":"Two files are in it."}"#,
        "renamed" => r#"{"type":"said","body":"Three folders stand beside them."}"#,
        "short" => r#"{"type":"said","text":"ok"}"#,
        "done" => r#"{"type":"done"}"#,
        other => panic!("{other}?"),
    }
    .to_owned()
}

/// Shows the text of lines of the type `shows`, and ignores all other lines.
fn reader(number: u32, digest: &str, shows: &'static str) -> Arc<ScriptedBackend> {
    let understanding = Arc::new(move |_: &mut _, input: &Input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => vec![spawn(start, &[])],
            Input::Line(line) => {
                let line: Value = serde_json::from_str(&line.text).unwrap();
                match (line["type"].as_str().unwrap(), line["text"].as_str()) {
                    (kind, Some(text)) if kind == shows => vec![event(text_event(text))],
                    ("done", _) => vec![done(TurnOutcome::Completed)],
                    _ => vec![],
                }
            }
            _ => vec![],
        })
    });
    ScriptedBackend::new(understanding).of_generation(number, digest)
}

fn state(folder: &TempDir, file: &str) -> String {
    std::fs::read_to_string(folder.path().join("config/state").join(file)).unwrap_or_default()
}

async fn is_unread(scene: &mut Scene, prompt: &str) -> bool {
    let (text, failure) = scene.answer(prompt).await;
    assert!(text.is_empty(), "{text}");
    failure.inspect(|failure| assert!(failure.contains("(unread, "), "{failure}")).is_some()
}

#[tokio::test]
async fn text_beside_readable_answers_is_learned_and_survives_a_restart() {
    let folder = TempDir::new().unwrap();
    let good = || one(reader(1, "a", "said"));
    let mut scene = Scene::with_lines(folder.path(), good(), false, lines).await;
    for _ in 0..3 {
        assert!(is_unread(&mut scene, "tip;done").await, "it occurred in too few readable turns");
        assert_eq!(scene.answer("tip;said;done").await.0, "Two files are in it.");
    }
    assert!(!is_unread(&mut scene, "tip;done").await);
    scene.shut_down().await;
    let saved = state(&folder, "baselines.md");
    assert!(
        saved.contains("`scripted` agent `1.4.2`: 3 answered, 0 silent")
            && saved.contains(", `<said>.text` answer 3, `<tip>.text` beside 3."),
        "{saved}"
    );

    let mut scene = Scene::with_lines(folder.path(), good(), false, lines).await;
    assert!(!is_unread(&mut scene, "tip;done").await);
    assert!(is_unread(&mut scene, "tip;renamed;done").await, "other positions count as before");
    let other = KnownAgent { version: Some("1.5.0".to_owned()), ..KnownAgent::default() };
    scene.agents.set("scripted", other);
    assert!(is_unread(&mut scene, "tip;done").await, "nothing is known of this version");
    let unknown = KnownAgent::default();
    scene.agents.set("scripted", unknown);
    for _ in 0..4 {
        scene.answer("tip;said;done").await;
    }
    assert!(is_unread(&mut scene, "tip;done").await, "it may be another version in each turn");
    scene.shut_down().await;
}

#[tokio::test]
async fn the_position_of_lost_answers_is_never_learned() {
    let folder = TempDir::new().unwrap();
    let blind = one(reader(1, "a", "nothing"));
    let mut scene = Scene::with_lines(folder.path(), blind, false, lines).await;
    // Turns without any readable output.
    for _ in 0..4 {
        assert!(is_unread(&mut scene, "said;done").await);
    }
    scene.backends.load(reader(2, "b", "said"));
    // A turn of which people could read a part.
    assert_eq!(scene.answer("renamed;said;done").await.0, "Two files are in it.");
    assert!(is_unread(&mut scene, "renamed;done").await);
    // Turns of a component that shows other text instead of the answers.
    scene.backends.load(reader(3, "c", "tip"));
    for _ in 0..4 {
        assert_eq!(scene.answer("said;tip;done").await.0, "Press a key to go on.");
    }
    assert!(is_unread(&mut scene, "said;done").await, "answers were shown from there");
    scene.shut_down().await;
}

#[tokio::test]
async fn a_success_without_an_answer_is_reported_where_all_turns_before_had_one() {
    let folder = TempDir::new().unwrap();
    let good = || one(reader(1, "a", "said"));
    let mut scene = Scene::with_lines(folder.path(), good(), true, lines).await;
    for _ in 0..20 {
        assert_eq!(scene.answer("short;done").await.0, "ok");
    }
    scene.shut_down().await;
    assert!(state(&folder, "baselines.md").contains(": 20 answered, 0 silent"));

    let mut scene = Scene::with_lines(folder.path(), good(), true, lines).await;
    assert_eq!(scene.answer("done").await, (String::new(), None), "no failure is shown");
    let notice = scene.notice(1).await;
    assert!(notice.contains("a success without an answer, unlike all before"), "{notice}");
    let id = notice.split("recording `").nth(1).unwrap().split('`').next().unwrap();
    let lost = state(&folder, "lost.md");
    assert!(lost.contains(id) && lost.contains("`scripted`"), "{lost}");
    // Another answer follows, so silence is usual for this agent.
    assert_eq!(scene.answer("short;done").await.0, "ok");
    assert_eq!(scene.answer("done").await, (String::new(), None));
    scene.shut_down().await;
    let saved = state(&folder, "baselines.md");
    assert!(saved.contains(": 21 answered, 1 silent"), "{saved}");
    let counted = state(&folder, "drift.md");
    assert!(counted.contains("unlike all before` 1 times"), "{counted}");
}

#[tokio::test]
async fn a_lost_short_answer_and_a_lost_part_are_reported_where_answers_were_learned() {
    let folder = TempDir::new().unwrap();
    let good = one(reader(1, "a", "said"));
    let mut scene = Scene::with_lines(folder.path(), good, true, lines).await;
    for _ in 0..3 {
        assert_eq!(scene.answer("said;done").await.0, "Two files are in it.");
    }
    assert_eq!(scene.answer("said;renamed;done").await.0, "Two files are in it.");
    let notice = scene.notice(1).await;
    let what = "a part of an answer, at 'text', that reached nobody";
    assert!(notice.contains(what), "{notice}");
    let id = notice.split("recording `").nth(1).unwrap().split('`').next().unwrap();
    let lost = state(&folder, "lost.md");
    assert!(lost.contains(id), "{lost}");
    scene.backends.load(reader(2, "b", "nothing"));
    assert!(is_unread(&mut scene, "short;done").await, "its position is known");
    // A new version of the agent answers where the previous one did.
    let other = KnownAgent { version: Some("1.5.0".to_owned()), ..KnownAgent::default() };
    scene.agents.set("scripted", other);
    assert!(is_unread(&mut scene, "short;done").await);
    scene.shut_down().await;
}

#[tokio::test]
async fn a_heartbeat_without_an_answer_is_neither_reported_nor_learned() {
    let folder = TempDir::new().unwrap();
    let good = one(reader(1, "a", "said"));
    let mut scene = Scene::with_lines(folder.path(), good, true, lines).await;
    for _ in 0..20 {
        assert_eq!(scene.answer("short;done").await.0, "ok");
    }
    scene.heartbeat("done").await;
    assert_eq!(scene.answer("short;done").await.0, "ok");
    scene.shut_down().await;
    assert_eq!(state(&folder, "drift.md").matches("unlike all before").count(), 0);
    assert!(!state(&folder, "lost.md").contains("`scripted`"));
    let saved = state(&folder, "baselines.md");
    assert!(saved.contains(": 21 answered, 0 silent"), "{saved}");
}

#[tokio::test]
async fn a_component_that_drops_answers_too_short_for_the_detector_is_rolled_back() {
    let folder = TempDir::new().unwrap();
    let good = one(reader(1, "a", "said"));
    let mut scene = Scene::with_lines(folder.path(), good, true, lines).await;
    for _ in 0..20 {
        assert_eq!(scene.answer("short;done").await.0, "ok");
    }
    scene.backends.load(reader(2, "b", "nothing"));
    for _ in 0..3 {
        assert_eq!(scene.answer("short;done").await, (String::new(), None));
    }
    let backends = scene.backends.clone();
    backends.rolled_back.subscribe().wait_for(|all| all.len() == 1).await.unwrap();
    assert_eq!(scene.answer("short;done").await.0, "ok");
    scene.shut_down().await;
    let saved = state(&folder, "baselines.md");
    assert!(saved.contains(": 21 answered, 0 silent"), "lost answers are not learned: {saved}");
}
