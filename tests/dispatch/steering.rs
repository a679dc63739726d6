//! Tests of messages to a running turn: each reaches it or becomes the next prompt, and its author
//! is informed.

use std::sync::Arc;

use aetheel_dispatch::{PromptRefusal, SteeringResult};
use aetheel_model::agent::{
    Action, Chunk, Exit, HostCommand, Input, PromptPart, SteerOutcome, SteerResult as Report, Write,
};
use aetheel_model::event::NewEvent;
use aetheel_model::id::ChannelId;
use aetheel_turn::ProcessCommand;

use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedLauncher, Understanding, message, plain,
};

/// Like `plain`, but reports this outcome for every steered message, and passes it on to the agent.
fn steerable(outcome: Option<SteerOutcome>) -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Command(HostCommand::Steer(steer)) => {
            let [PromptPart::Text(text)] = &steer.parts[..] else { panic!("{:?}", steer.parts) };
            let write = Action::Write(Write { proc: 1, body: vec![Chunk::Text(text.clone())] });
            let report =
                outcome.map(|outcome| Action::Steered(Report { message: steer.message, outcome }));
            Ok(report.into_iter().chain([write]).collect())
        }
        _ => usual(state, input),
    })
}

/// Agents that repeat the first message they receive and end. They answer prompts after the first
/// at once.
fn listening() -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(|mut agent: Agent| async move {
        if agent.prompt.contains("first") {
            agent.say(&["text working"]).await;
            if let Some(ProcessCommand::Write(bytes)) = agent.commands.recv().await {
                agent.say(&[&format!("text , heard {}", String::from_utf8(bytes).unwrap())]).await;
            }
        } else {
            agent.say(&["text next"]).await;
        }
        agent.say(&["done"]).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

async fn working(understanding: Understanding, feature: Option<&'static str>) -> Desk {
    let desk =
        Desk::new(listening(), DeskOptions { understanding, feature, ..DeskOptions::default() })
            .await;
    desk.ask(7, "first");
    let shown = || !desk.collected.shown.lock().unwrap().is_empty();
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !shown() {
        assert!(std::time::Instant::now() < deadline, "the turn shows nothing");
        tokio::task::yield_now().await;
    }
    desk
}

fn note(text: &str) -> NewEvent {
    NewEvent { author: Some("ann".to_owned()), ..message(7, text) }
}

async fn steer(desk: &Desk, text: &str) -> Result<SteeringResult, PromptRefusal> {
    Ok(desk.dispatcher.intake.steer(note(text)).await?.outcome().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_reaches_the_running_turn_escaped_and_with_its_author() {
    for (outcome, told) in [
        (SteerOutcome::Injected, SteeringResult::Injected),
        (SteerOutcome::Queued, SteeringResult::Queued),
        (SteerOutcome::Dropped, SteeringResult::Dropped),
    ] {
        let desk = working(steerable(Some(outcome)), Some("steer")).await;
        assert_eq!(steer(&desk, "/not that way").await, Ok(told));
        assert!(told.message().is_some() && !told.is_prompt());
        let answer = desk.collected.answers(1).await.remove(0).1;
        assert_eq!(answer.text, "working, heard [ann]: /not that way");
        desk.dispatcher.turns.idle().await;
        assert_eq!(desk.launcher.prompts().len(), 1, "{outcome:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_the_turn_cannot_accept_becomes_the_next_prompt() {
    for (outcome, feature, told) in [
        (Some(SteerOutcome::NotNow), Some("steer"), SteeringResult::NotNow),
        // The turn ends without an outcome for the message.
        (None, Some("steer"), SteeringResult::NotNow),
        (None, None, SteeringResult::Unsupported),
    ] {
        let desk = working(steerable(outcome), feature).await;
        assert_eq!(steer(&desk, "and then").await, Ok(told), "{outcome:?}");
        assert!(told.message().is_some() && told.is_prompt());
        if feature.is_none() {
            assert!(
                desk.dispatcher
                    .turns
                    .stop(&aetheel_model::event::Lane::Channel(ChannelId::discord(7)))
            );
            continue;
        }
        let answers = desk.collected.answers(2).await;
        assert_eq!(
            (answers[1].0.prompt.as_str(), answers[1].1.text.as_str()),
            ("and then", "next")
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_running_turn_a_message_is_a_prompt() {
    let desk =
        Desk::new(listening(), DeskOptions { feature: Some("steer"), ..DeskOptions::default() })
            .await;
    assert_eq!(steer(&desk, "hello").await, Ok(SteeringResult::Prompt));
    assert_eq!(SteeringResult::Prompt.message(), None);
    assert_eq!(desk.collected.answers(1).await[0].1.text, "next");
    let long = steer(&desk, &"x".repeat(300 << 10)).await.unwrap_err().to_string();
    assert!(long.contains("too long"), "{long}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_stopped_with_its_turn_is_refused_and_does_not_become_a_prompt() {
    // Its backend reports nothing about the message while the turn runs.
    let deaf: Understanding = {
        let usual = plain();
        Arc::new(move |state, input| {
            if matches!(input, Input::Command(HostCommand::Steer(_))) {
                Ok(Vec::new())
            } else {
                usual(state, input)
            }
        })
    };
    let desk = working(deaf, Some("steer")).await;
    let underway = desk.dispatcher.intake.steer(note("and then")).await.unwrap();
    assert!(
        desk.dispatcher.turns.stop(&aetheel_model::event::Lane::Channel(ChannelId::discord(7)))
    );
    assert_eq!(underway.outcome().await, SteeringResult::Stopped);
    let answers = desk.collected.answers(2).await;
    let refused =
        answers.iter().find(|(event, _)| event.prompt == "and then").expect("it is refused");
    assert!(refused.1.failure.as_ref().unwrap().starts_with("Stopped"), "{:?}", refused.1);
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.launcher.prompts().len(), 1);
}
