//! Tests of conversations that wait at a cap: answers and resets still work, and time counts.

use aetheel_model::agent::AskDecision;
use aetheel_model::event::NewEvent;
use aetheel_model::id::UserId;

use super::asks::{ANN, asking_agents, desk_options, user};
use super::budgets::{RAISED, agent, button, lane, press, spending};
use crate::support::scripted::{Desk, DeskOptions, message};

const ONE_TURN: &str = "## all\n- cap: 1 turns a day\n";

fn limit(desk: &Desk, budgets: &str) {
    std::fs::write(desk.folder.path().join("config/budgets.md"), budgets).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_are_answered_in_a_lane_whose_further_prompts_wait_at_a_cap() {
    let desk = Desk::new(asking_agents(), DeskOptions { slots: 2, ..desk_options() }).await;
    limit(&desk, ONE_TURN);
    let asker = Some(UserId::discord(ANN));
    desk.dispatcher.intake.submit(NewEvent { asker, ..message(7, "ls") }).unwrap();
    let question = desk.collected.questions(1).await.remove(0);
    // The cap is reached: another conversation waits.
    desk.ask(8, "make");
    let notices = desk.collected.notices(2).await;
    assert!(notices.iter().any(|notice| notice.text.contains("Your message waits")));
    let answered =
        desk.dispatcher.questions.answer(&question.id, &user(ANN), AskDecision::AllowOnce);
    assert_eq!(answered, Ok(()));
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!(answer.failure, None, "a cap of turns stops no running turn");
    assert!(answer.text.starts_with("before "), "{}", answer.text);
    assert_eq!(desk.launcher.prompts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reset_works_in_a_lane_that_waits_and_its_prompt_keeps_waiting() {
    let options = DeskOptions { understanding: spending(), ..DeskOptions::default() };
    let desk = Desk::new(agent(&[]), options).await;
    limit(&desk, ONE_TURN);
    desk.ask(7, "one");
    desk.dispatcher.turns.idle().await;
    desk.ask(7, "two");
    let notices = desk.collected.notices(2).await;
    let reset = async || desk.dispatcher.conversations.reset(&lane(7)).await.unwrap();
    assert!(reset().await, "the conversation is forgotten at once");
    assert!(!reset().await);
    assert!(desk.dispatcher.turns.is_busy(&lane(7)), "the prompt waits");
    assert_eq!(desk.launcher.prompts().len(), 1);
    let raise = button(&notices, "Raise to 2 turns");
    assert_eq!(press(&desk.dispatcher, &raise, true).await, RAISED);
    desk.collected.answers(2).await;
    assert_eq!(desk.launcher.prompts().len(), 2);
    // The answer of the last turn began a conversation of its own.
    desk.dispatcher.turns.idle().await;
    assert!(reset().await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_works_for_the_minutes_of_a_cap_is_stopped_and_continues() {
    let options = DeskOptions { understanding: spending(), ..DeskOptions::default() };
    // The agent reports no usage and does not end by itself.
    let desk = Desk::new(agent(&[&["text half", "tool t1"]]), options).await;
    limit(&desk, "## all\n- cap: 0.002 minutes a day\n");
    desk.ask(7, "build it");
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!(answer.text, "half");
    let failure = answer.failure.unwrap();
    assert!(failure.contains("minutes of 0.0 minutes a day. This is not finished."), "{failure}");
    let raise = button(&desk.collected.notices(2).await, "Raise to ");
    assert_eq!(press(&desk.dispatcher, &raise, true).await, RAISED);
    let answers = desk.collected.answers(2).await;
    assert!(answers[1].1.text.contains("Continue the work"), "{}", answers[1].1.text);
    assert_eq!(desk.launcher.prompts().len(), 2);
}
