//! Tests of the parts of turns: each can be removed alone, and a new one needs no change of the
//! dispatcher.

mod monday;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::TurnPart;
use aetheel_model::agent::{AllowedTools, Exit};
use aetheel_runtime::clock::Clock;
use jiff::tz::TimeZone;

use self::monday::MondayGreeting;
use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher};

fn answering() -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(|agent: Agent| async move {
        let answer = format!("text {}", agent.prompt);
        agent.say(&[&answer, "done"]).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

/// Returns the list of parts without one of them.
fn without(name: &str) -> Vec<Arc<dyn TurnPart>> {
    let mut parts = turn_parts();
    parts.retain(|part| part.name() != name);
    parts
}

#[test]
fn each_part_has_a_name_of_its_own() {
    let parts = turn_parts();
    let names: BTreeSet<&str> = parts.iter().map(|part| part.name()).collect();
    assert_eq!(names.len(), parts.len());
}

#[tokio::test]
async fn turns_are_answered_without_any_one_of_the_parts() {
    for part in turn_parts() {
        let parts = without(part.name());
        assert_eq!(parts.len() + 1, turn_parts().len());
        let desk = Desk::new(answering(), DeskOptions { parts, ..DeskOptions::default() }).await;
        desk.ask(7, "one");
        desk.ask(7, "two");
        let answers = desk.collected.answers(2).await;
        let texts: Vec<&str> = answers.iter().map(|(_, answer)| answer.text.as_str()).collect();
        assert_eq!(texts, ["one", "two"], "without {}", part.name());
        assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()), "{}", part.name());
        desk.dispatcher.shutdown(Duration::from_secs(60)).await;
    }
}

#[tokio::test]
async fn turns_are_answered_without_parts() {
    let desk =
        Desk::new(answering(), DeskOptions { parts: vec![], ..DeskOptions::default() }).await;
    desk.ask(7, "one");
    assert_eq!(desk.collected.answers(1).await[0].1.text, "one");
}

/// The backend of the desk cannot enforce this setting.
fn no_tools(parts: Vec<Arc<dyn TurnPart>>) -> DeskOptions {
    let allowed_tools = AllowedTools::Only(vec![]);
    DeskOptions { parts, allowed_tools, ..DeskOptions::default() }
}

#[tokio::test]
async fn only_the_removed_part_is_missing() {
    let desk = Desk::new(answering(), no_tools(turn_parts())).await;
    desk.ask(7, "one");
    let failure = desk.collected.answers(1).await[0].1.failure.clone().unwrap();
    assert!(failure.contains("No tools are allowed here"), "{failure}");
    for part in turn_parts() {
        let desk = Desk::new(answering(), no_tools(without(part.name()))).await;
        desk.ask(7, "one");
        let has_failed = desk.collected.answers(1).await[0].1.failure.is_some();
        assert_eq!(has_failed, part.name() != "allowed-tools", "without {}", part.name());
    }
}

/// The example in `CONTRIBUTING.md`.
#[tokio::test]
async fn a_new_part_greets_on_mondays() {
    for (day, is_monday) in [("2026-11-30T08:00:00Z", true), ("2026-12-01T08:00:00Z", false)] {
        let mut parts = turn_parts();
        parts.push(Arc::new(MondayGreeting { zone: TimeZone::UTC }));
        let (clock, _control) = Clock::manual(day.parse().unwrap());
        let options = DeskOptions { parts, clock, ..DeskOptions::default() };
        let desk = Desk::new(answering(), options).await;
        desk.ask(7, "hello");
        let (event, answer) = desk.collected.answers(1).await.remove(0);
        let name = event.author.as_deref().unwrap_or("everybody");
        let greeting = format!("Have a good week, {name}!");
        assert_eq!(answer.notices.contains(&greeting), is_monday, "{:?}", answer.notices);
    }
}

#[test]
fn the_example_in_the_guide_for_contributors_is_this_part() {
    let guide = include_str!("../../../CONTRIBUTING.md");
    let code = include_str!("monday.rs");
    assert!(
        guide.contains(code),
        "CONTRIBUTING.md does not contain tests/dispatch/parts/monday.rs"
    );
}
