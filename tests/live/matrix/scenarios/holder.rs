//! Scenarios in which the holder ends, or an agent is killed from outside, and the conversation
//! continues.

use rustix::process::Signal;

use super::super::gateway::{Cell, Wishes};
use super::super::lives::Lives;
use super::Script;
use crate::support::discord::CHANNEL;
use crate::support::model_server::{Gate, Intent, Reply};

pub(super) async fn stopped(cell: Cell) {
    replaced(cell, Signal::TERM).await;
}

pub(super) async fn killed(cell: Cell) {
    replaced(cell, Signal::KILL).await;
}

/// Ends the holder between two turns, and then during one.
async fn replaced(cell: Cell, signal: Signal) {
    let gate = Gate::new();
    let work = Intent::shell("echo one >> done");
    let torn = Reply::text("One, two").then_pause_in_text(&gate).then_piece(", three.");
    let script = Script::default()
        .on("Hello", [Reply::text("Hi.")])
        .on("Work.", [Reply::does("call_1", work), Reply::text("Done.")])
        .on("Count.", [torn, Reply::text("One, two, three.")]);
    let lives = Lives::begin(&cell, script.serve().await, Wishes::default()).await;
    lives.say("Hello");
    lives.said("the first answer", |text| text.trim() == "Hi.").await;
    lives.until_resumable(&cell).await;
    lives.replace_holder(signal).await;
    lives.say("Work.");
    lives.said("an answer after a tool", |text| text.trim().ends_with("Done.")).await;
    assert_eq!(lives.file("workspace/done"), "one\n");

    lives.until_resumable(&cell).await;
    lives.say("Count.");
    gate.reached().await;
    lives.replace_holder(signal).await;
    lives.said("the whole answer", |text| text.trim() == "One, two, three.").await;
    let texts = lives.discord.texts(CHANNEL);
    assert_eq!(texts.len(), 3, "one message for each prompt: {texts:?}");
    let requests = lives.model.requests();
    assert_eq!(requests.len(), 5, "only the interrupted prompt is sent twice");
    assert!(requests[4].mentions("Hello"), "the history is complete: {:#}", requests[4].body);
    lives.lost_no_reply();
}

/// Replaces the holder, and then the gateway during two answers: once with `kill -9`, once with
/// `aetheel upgrade`.
pub(super) async fn then_the_gateway(cell: Cell) {
    let [first, second] = [Gate::new(), Gate::new()];
    let script = Script::default()
        .on("Hello", [Reply::text("Hi.")])
        .on("Count.", [Reply::text("One").then_pause_in_text(&first).then_piece(", two.")])
        .on("Name.", [Reply::text("Red").then_pause_in_text(&second).then_piece(", blue.")]);
    let mut lives = Lives::begin(&cell, script.serve().await, Wishes::default()).await;
    lives.say("Hello");
    lives.said("the first answer", |text| text.trim() == "Hi.").await;
    lives.until_resumable(&cell).await;
    lives.replace_holder(Signal::KILL).await;
    lives.say("Count.");
    first.reached().await;
    lives.kill().await;
    first.open();
    lives.said("the answer after a kill", |text| text.trim() == "One, two.").await;
    lives.until_resumable(&cell).await;
    lives.say("Name.");
    second.reached().await;
    lives.upgrade().await;
    second.open();
    lives.said("the answer after an upgrade", |text| text.trim() == "Red, blue.").await;
    assert_eq!(lives.discord.texts(CHANNEL), ["Hi.", "One, two.", "Red, blue."]);
    assert_eq!(lives.model.requests().len(), 3, "the model is asked once for each prompt");
    lives.lost_no_reply();
}

/// Ends the agent's processes with SIGTERM before the first word of an answer, as the kernel's OOM
/// killer or an operator may.
pub(super) async fn agent_terminated(cell: Cell) {
    let gate = Gate::new();
    let silent = Reply::text("One.").held_by(&gate);
    let script = Script::default()
        .on("Hello", [Reply::text("Hi.")])
        .on("Count.", [silent, Reply::text("One.")])
        .on("Again", [Reply::text("ok")]);
    let lives = Lives::begin(&cell, script.serve().await, Wishes::default()).await;
    lives.say("Hello");
    lives.said("the first answer", |text| text.trim() == "Hi.").await;
    lives.until_resumable(&cell).await;
    lives.say("Count.");
    gate.reached().await;
    lives.end_agents(Signal::TERM);
    // claude-agent-acp 0.49.0 reports a turn that was ended by SIGTERM as cancelled.
    let ended = |text: &str| {
        text.contains("(agent failure, ") || text.contains("Stopped.") || text.trim() == "One."
    };
    lives.said("a failure or the answer", ended).await;
    lives.lost_no_reply();
    lives.until_resumable(&cell).await;
    lives.say("Again");
    lives.said("the next answer", |text| text.trim() == "ok").await;
}
