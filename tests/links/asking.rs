//! Tests of the agent's questions and of people's messages during a turn.

use std::time::Duration;

use aetheel_model::agent::{AskDecision, Exit, PromptPart, SteerOutcome};
use aetheel_recording::Ending;
use aetheel_turn::{AskCloseReason, Steering, StopReason};
use tokio::sync::oneshot;

use super::{ALLOW, Bench, LIMIT, Seen};
use crate::support::lasting::{AgentCommand, LastingAgent};
use crate::support::scripted::Agent;

/// An agent that asks about every prompt and answers with the decision.
async fn asking(agent: Agent, opened: std::sync::Arc<std::sync::Mutex<Vec<String>>>) {
    let mut lasting = LastingAgent::new(agent, &opened);
    let mut open = None;
    while let Some(command) = lasting.next_command().await {
        match (command, open.take()) {
            (AgentCommand::Prompt { session, turn, text }, _) => {
                lasting.agent.say(&[&format!("{session} {turn} ask {text}")]).await;
                if text == "never-mind" {
                    lasting
                        .agent
                        .say(&[
                            &format!("{session} {turn} withdraw ."),
                            &format!("{session} {turn} done ."),
                        ])
                        .await;
                }
                open = Some((session, turn));
            }
            (AgentCommand::Other(said), Some((session, turn))) => {
                if said.starts_with("steer") {
                    open = Some((session.clone(), turn.clone()));
                    lasting.agent.say(&[&format!("{session} {turn} text {said}")]).await;
                } else {
                    lasting.answer(&session, &turn, &said).await;
                }
            }
            (AgentCommand::Other(_), None) => {}
        }
    }
    lasting.agent.exit(Exit::Code(0), "").await;
}

#[tokio::test]
async fn a_decision_reaches_the_agent_once() {
    let bench = Bench::new("session", |_| {}, asking);
    let mut turn = bench.begin(7, None, "may-i");
    let Seen::Ask(ask, answer) = turn.sees().await else { panic!("no question") };
    assert_eq!(ask.title, "may-i");
    assert!(answer.decide(ALLOW));
    let result = turn.end().await;
    assert_eq!(
        (result.ending, result.text.as_str()),
        (Ending::Completed, "answer 7 AllowOnce (by 1)")
    );
}

#[tokio::test]
async fn a_question_that_cannot_be_shown_is_dismissed() {
    let bench = Bench::new("session", |_| {}, asking);
    let mut turn = bench.begin(7, None, "may-i");
    let Seen::Ask(_, answer) = turn.sees().await else { panic!("no question") };
    drop(answer);
    assert_eq!(turn.end().await.text, "answer 7 Dismissed (by 1)");
}

#[tokio::test]
async fn a_question_with_a_key_of_the_host_reaches_nobody_and_is_dismissed() {
    let bench = Bench::new("session", |_| {}, asking);
    let mut turn = bench.begin(7, None, "reserved");
    let result = tokio::time::timeout(LIMIT, &mut turn.running).await.unwrap().unwrap();
    assert_eq!(result.text, "answer 2147483655 Dismissed (by 1)");
    while let Ok(seen) = turn.seen.try_recv() {
        assert!(!matches!(seen, Seen::Ask(..)), "people are asked");
    }
}

#[tokio::test]
async fn the_time_limit_is_paused_while_a_question_is_open_and_the_question_expires() {
    let short = |host: &mut aetheel_turn::Host| {
        host.limits.query_timeout = Duration::from_millis(300);
        host.limits.idle_timeout = Some(Duration::from_millis(200));
        host.limits.ask_timeout = Duration::from_millis(900);
    };
    let bench = Bench::new("session", short, asking);
    let mut turn = bench.begin(7, None, "may-i");
    let Seen::Ask(_, answer) = turn.sees().await else { panic!("no question") };
    assert!(matches!(turn.sees().await, Seen::Settled(7, AskCloseReason::Expired)));
    answer.decide(ALLOW);
    let result = turn.end().await;
    assert_eq!(
        (&result.ending, result.text.as_str()),
        (&Ending::Completed, "answer 7 Dismissed (by 1)")
    );
    assert!(result.took >= Duration::from_millis(900), "{:?}", result.took);
}

#[tokio::test]
async fn a_withdrawn_question_is_settled_and_a_late_answer_is_harmless() {
    let bench = Bench::new("session", |_| {}, asking);
    let mut turn = bench.begin(7, None, "never-mind");
    let Seen::Ask(_, answer) = turn.sees().await else { panic!("no question") };
    assert!(matches!(turn.sees().await, Seen::Settled(7, AskCloseReason::Withdrawn)));
    assert_eq!(turn.end().await.ending, Ending::Completed);
    assert!(!answer.decide(AskDecision::DenyAndStop), "nobody waits for the answer any more");
}

#[tokio::test]
async fn a_stopped_turn_withdraws_its_question() {
    let bench = Bench::new("session", |_| {}, asking);
    let mut turn = bench.begin(7, None, "may-i");
    let Seen::Ask(_, _answer) = turn.sees().await else { panic!("no question") };
    turn.stop.send(Some(StopReason::User)).unwrap();
    loop {
        match turn.sees().await {
            Seen::Settled(7, AskCloseReason::TurnEnded) => break,
            Seen::Event => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(
        turn.end().await.ending,
        Ending::Completed,
        "this agent answered the interrupt with an answer"
    );
}

#[tokio::test]
async fn a_message_reaches_the_agent_during_its_turn() {
    let bench = Bench::new("session", |_| {}, asking);
    let mut turn = bench.begin(7, None, "may-i");
    let Seen::Ask(_, answer) = turn.sees().await else { panic!("no question") };
    let (reply_tx, outcome) = oneshot::channel();
    turn.steer
        .send(Steering { parts: vec![PromptPart::Text("to the left".into())], reply_tx })
        .unwrap();
    assert_eq!(outcome.await.unwrap(), SteerOutcome::Injected);
    assert!(matches!(turn.sees().await, Seen::Event));
    answer.decide(ALLOW);
    let text = turn.end().await.text;
    assert!(text.starts_with("steer") && text.contains("to the left"), "{text}");
}
