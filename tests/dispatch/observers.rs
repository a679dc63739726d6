//! Tests of the events that observers get: complete, in order, bounded, and without secrets.

use std::sync::Arc;

use aetheel_model::agent::AskDecision;
use aetheel_model::event::NewEvent;
use aetheel_model::id::UserId;
use aetheel_model::observed::ObservedKind;
use aetheel_model::policy::{PolicyEffect, PolicyRequest};

use super::planning::{agent, ann, asking};
use crate::support::observers::CollectingObserver;
use crate::support::policies::ScriptedPolicy;
use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher, message};

const CANARY: &str = "sk-canary-0123456789";

#[tokio::test(flavor = "multi_thread")]
async fn observers_see_turns_questions_and_decisions_without_secrets() {
    let seen = Arc::new(CollectingObserver::default());
    let policies =
        Arc::new(ScriptedPolicy(|request: &PolicyRequest| match request.command.as_deref() {
            Some("rm") => (PolicyEffect::Deny, "sk-canary-0123456789 is not removed"),
            _ => (PolicyEffect::Pass, ""),
        }));
    let options = DeskOptions {
        understanding: asking(),
        observers: seen.clone(),
        policies,
        secret: Some(CANARY.into()),
        ..DeskOptions::default()
    };
    let desk = Desk::new(agent(&["bash rm", "bash echo sk-canary-0123456789"]), options).await;
    let asked = NewEvent { asker: Some(UserId::discord(4)), ..message(7, "go") };
    desk.dispatcher.intake.submit(asked).unwrap();
    let question = desk.collected.questions(1).await.remove(0);
    desk.dispatcher.questions.answer(&question.id, &ann(), AskDecision::AllowOnce).unwrap();
    desk.collected.answers(1).await;
    desk.dispatcher.turns.idle().await;
    let events = seen.events.lock().unwrap().clone();
    let kinds: Vec<String> = events.iter().map(|event| word(&event.kind)).collect();
    assert_eq!(
        kinds,
        [
            "begun message by 4",
            "policy deny rm: denied by the policy `guard`: *** is not removed",
            "policy ask echo ***: ",
            "question permission: May I?",
            "closed allow once by 4",
            "ended completed",
        ]
    );
    assert!(!format!("{events:?}").contains("canary"));
    let turn = &events[0].turn;
    assert!(events.iter().all(|event| event.turn == *turn && event.at_ms > 0));
    assert_eq!((turn.lane.as_str(), turn.backend.as_str()), ("channel:7", "scripted"));
}

fn word(kind: &ObservedKind) -> String {
    match kind {
        ObservedKind::TurnBegun { trigger, person, .. } => {
            format!("begun {trigger} by {}", person.as_deref().unwrap_or("nobody"))
        }
        ObservedKind::ToolBegun { tool, target, .. } => format!("tool {tool} {target:?}"),
        ObservedKind::ToolEnded { status, .. } => format!("tool ended {status}"),
        ObservedKind::QuestionOpened { about, title, .. } => format!("question {about}: {title}"),
        ObservedKind::QuestionClosed { result, person, .. } => {
            format!("closed {result} by {}", person.as_deref().unwrap_or("nobody"))
        }
        ObservedKind::PolicyDecided { target, effect, reason, .. } => format!(
            "policy {effect} {}: {}",
            target.as_deref().unwrap_or_default(),
            reason.as_deref().unwrap_or_default()
        ),
        ObservedKind::TurnEnded { ending, .. } => format!("ended {ending}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_ends_with_its_reason() {
    let seen = Arc::new(CollectingObserver::default());
    let launcher = ScriptedLauncher::new(|agent: Agent| async move {
        agent.exit(aetheel_model::agent::Exit::Code(3), "sk-canary-0123456789 is wrong").await;
    });
    let (observers, secret) = (seen.clone(), Some(CANARY.into()));
    let desk =
        Desk::new(launcher, DeskOptions { observers, secret, ..DeskOptions::default() }).await;
    desk.ask(7, "go");
    desk.collected.answers(1).await;
    desk.dispatcher.turns.idle().await;
    let events = seen.events.lock().unwrap().clone();
    let Some(ObservedKind::TurnEnded { failure: Some(failure), .. }) =
        events.last().map(|event| event.kind.clone())
    else {
        panic!("{events:?}")
    };
    assert!(!failure.contains("canary"), "{failure}");
}
