//! Tests of messages that were sent to a running turn when the gateway died: they end with that
//! turn, are repeated together with it, and appear in the question whether to repeat it.

use std::sync::Arc;

use aetheel_model::agent::{Action, Exit, HostCommand, Input, SteerOutcome, SteerResult};
use aetheel_model::event::NewEvent;
use tokio::sync::watch;

use super::kept::{Gateway, file, quick, with_tools};
use crate::support::scripted::{Agent, ScriptedLauncher, Understanding, message, plain};

/// Agents that work until `go` is set.
fn working_until(go: &watch::Sender<bool>) -> Arc<ScriptedLauncher> {
    let goes = go.subscribe();
    ScriptedLauncher::new(move |agent: Agent| {
        let mut goes = goes.clone();
        async move {
            agent.say(&["text working"]).await;
            goes.wait_for(|goes| *goes).await.unwrap();
            agent.say(&["done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    })
}

/// Like `plain`, and reports for every steered message that the model received it.
fn steerable() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Command(HostCommand::Steer(steer)) => Ok(vec![Action::Steered(SteerResult {
            message: steer.message,
            outcome: SteerOutcome::Injected,
        })]),
        _ => usual(state, input),
    })
}

#[test]
fn a_steered_message_is_complete_with_its_turn_and_not_before() {
    let folder = tempfile::tempdir().unwrap();
    let note = |text: &str| NewEvent { key: Some(format!("test:{text}")), ..message(7, text) };
    let (go, _) = watch::channel(false);
    let first = Gateway::begin(folder.path(), &steerable(), working_until(&go), 1);
    first.ask("one");
    first.wait_for_output();
    let steered = first.runtime.block_on(first.dispatcher.intake.steer(note("and this"))).unwrap();
    assert!(file(folder.path()).contains("and this"), "it is saved before anybody is informed");
    assert_eq!(
        first.runtime.block_on(steered.outcome()),
        aetheel_dispatch::SteeringResult::Injected
    );
    first.die();
    // Neither the prompt nor the steered message is lost.
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    assert_eq!(second.answers(2), [(1, "one".to_owned(), None), (2, "and this".to_owned(), None)]);
    second.die();

    let folder = tempfile::tempdir().unwrap();
    let first = Gateway::begin(folder.path(), &steerable(), working_until(&go), 1);
    first.ask("one");
    first.wait_for_output();
    let steered = first.runtime.block_on(first.dispatcher.intake.steer(note("and this"))).unwrap();
    assert_eq!(
        first.runtime.block_on(steered.outcome()),
        aetheel_dispatch::SteeringResult::Injected
    );
    go.send_replace(true);
    first.answers(1);
    first.wait_for_journal(folder.path(), |text| {
        text.contains("- [x] `1`") && text.contains("- [x] `2`")
    });
    first.die();
    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    second.runtime.block_on(second.dispatcher.turns.idle());
    assert_eq!(second.prompts(), Vec::<String>::new());
}

#[test]
fn a_steered_message_is_named_in_the_offer_to_repeat_its_turn_and_does_not_run_alone() {
    let folder = tempfile::tempdir().unwrap();
    let note = |text: &str| NewEvent { key: Some(format!("test:{text}")), ..message(7, text) };
    let (steers, tools) = (steerable(), with_tools());
    let both: Understanding = Arc::new(move |state, input| match input {
        Input::Command(HostCommand::Steer(_)) => steers(state, input),
        _ => tools(state, input),
    });
    let (go, _) = watch::channel(false);
    let goes = go.subscribe();
    let agent = ScriptedLauncher::new(move |agent: Agent| {
        let mut goes = goes.clone();
        async move {
            agent.say(&["text working"]).await;
            goes.wait_for(|goes| *goes).await.unwrap();
            agent.say(&["tool"]).await;
            std::future::pending::<()>().await;
        }
    });
    let first = Gateway::begin(folder.path(), &both, agent, 1);
    first.ask("one");
    first.wait_for_output();
    let steered = first.runtime.block_on(first.dispatcher.intake.steer(note("and this"))).unwrap();
    assert_eq!(
        first.runtime.block_on(steered.outcome()),
        aetheel_dispatch::SteeringResult::Injected
    );
    go.send_replace(true);
    first.wait_for_journal(folder.path(), |text| {
        text.contains("`1` used a tool") && text.contains("`2` heard by `1`")
    });
    first.die();

    let second = Gateway::begin(folder.path(), &plain(), quick(), 1);
    let told = second.answers(1).remove(0);
    assert_eq!(told.0, 2);
    assert!(
        told.2.as_ref().unwrap().contains("had received this when I was interrupted"),
        "{told:?}"
    );
    second.wait_for_journal(folder.path(), |text| {
        text.contains("`1` offered") && text.contains("- [x] `2`")
    });
    assert_eq!(second.prompts(), Vec::<String>::new());
    second.die();
    // Neither runs again.
    let third = Gateway::begin(folder.path(), &plain(), quick(), 1);
    third.ask("new");
    assert_eq!(third.answers(1).remove(0).1, "new");
    assert_eq!(third.prompts(), ["new"]);
}
