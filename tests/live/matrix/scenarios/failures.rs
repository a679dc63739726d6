//! Scenarios about failures of the service or the agent: they are reported by their kind, and do
//! not end the conversation.

use rustix::process::{Pid, Signal, kill_process};

use aetheel_dispatch::OfferEffect;

use super::super::gateway::{Cell, Gateway};
use super::super::stage::Answered;
use super::{Script, open};
use crate::support::model_server::{Gate, Reply};

async fn refused(cell: Cell, status: u16, words: &str) {
    let gateway = refusing(&cell, status).await;
    let told = gateway.talk("Fail.").await;
    assert_reported(&told, status, words);
    gateway.talk("Again").await.answers("ok");
}

/// Opens a gateway whose model refuses the prompt `Fail.` and answers `Again`.
async fn refusing(cell: &Cell, status: u16) -> Gateway {
    // Retry after one second. Without this header, some agents wait far longer.
    let refusal = Reply::refusing(status, "MARK-OF-THE-SERVICE").retry_after(1);
    open(cell, Script::default().on("Fail.", [refusal]).on("Again", [Reply::text("ok")])).await
}

fn assert_reported(told: &Answered, status: u16, words: &str) {
    told.fails(words);
    let detail = told.answer.detail.as_deref().unwrap_or_default();
    // Some agents replace the service's message when they have retried.
    let service = if status == 400 { "MARK-OF-THE-SERVICE" } else { "" };
    assert!(
        !detail.is_empty() && detail.contains(service),
        "the operator sees the service's message: {told:?}"
    );
}

pub(super) async fn error_400(cell: Cell) {
    refused(cell, 400, "refused the request").await;
}

pub(super) async fn error_401(cell: Cell) {
    refused(cell, 401, "not signed in").await;
}

/// The prompt fails, or waits if the agent reports the time after which it may try again.
pub(super) async fn error_429(cell: Cell) {
    let gateway = refusing(&cell, 429).await;
    gateway.prompt(1, "Fail.");
    match gateway.answer_or_notice(1, "has reached a usage limit").await {
        Ok(told) => assert_reported(&told, 429, "limiting requests"),
        Err(notice) => {
            let button = notice.offers.iter().find(|offer| offer.label == "Cancel");
            let button = &button.expect("a button").id;
            let pressed = gateway.dispatcher.wait_choices.press(button, true).await;
            assert_eq!(pressed, Some(Ok(OfferEffect::Decided("🛑 Cancelled by"))));
            gateway.forget_cancelled(1);
        }
    }
    gateway.talk("Again").await.answers("ok");
}

pub(super) async fn error_500(cell: Cell) {
    refused(cell, 500, "overloaded or failing").await;
}

/// The agent may fetch the answer again or fail, but must not present half an answer as the whole
/// one.
pub(super) async fn cut(cell: Cell) {
    let half = Reply::text("Half an").then_cut_in_text();
    let script = Script::default()
        .on("Tell.", [half, Reply::text("A whole answer.")])
        .on("Again", [Reply::text("ok")]);
    let gateway = open(&cell, script).await;
    let told = gateway.talk("Tell.").await;
    let whole = told.answer.failure.is_none() && told.answer.text.trim() == "A whole answer.";
    assert!(whole || told.answer.failure.is_some(), "{told:?}");
    gateway.talk("Again").await.answers("ok");
}

pub(super) async fn killed(cell: Cell) {
    let gate = Gate::new();
    let endless = Reply::text("One, two").then_pause_in_text(&gate).then_piece(", three");
    let script = Script::default()
        .on("Remember 42.", [Reply::text("Noted.")])
        .on("Count.", [endless])
        .on("Again", [Reply::text("ok")]);
    let gateway = open(&cell, script).await;
    gateway.talk("Remember 42.").await.answers("Noted.");
    gateway.prompt(1, "Count.");
    gate.reached().await;
    let agents = super::super::super::gateway::marked(rustix::process::getpid());
    assert!(!agents.is_empty(), "the agent is found by its mark");
    for agent in agents {
        let pid =
            agent.strip_prefix("/proc/").and_then(|rest| rest.split(' ').next()?.parse().ok());
        // A process that ended together with the previous one has ended as wanted.
        let _ = kill_process(pid.and_then(Pid::from_raw).expect("a process id"), Signal::KILL);
    }
    gateway.answer(1).await.fails("(agent failure, ");
    gateway.until_resumable().await;
    // Claude Code 2.1.197 saves a conversation a little later, so one as recent as this may be
    // lost.
    let again = gateway.talk("Again").await;
    if again.answer.failure.as_ref().is_some_and(|failure| failure.contains("no longer knows")) {
        gateway.talk("Again").await.answers("ok");
    } else {
        again.answers("ok");
        let request = gateway.model.requests().pop().unwrap();
        assert!(
            request.prompts().iter().any(|prompt| prompt.contains("Remember 42.")),
            "the conversation continues: {:?}",
            request.prompts()
        );
    }
}
