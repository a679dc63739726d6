//! Scenarios in which the holder ends, or an agent is killed from outside, and the conversation
//! continues.

use rustix::process::Signal;

use super::super::gateway::{Cell, Wishes};
use super::super::lives::Service;
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
    let service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    service.say("Hello");
    service.said("the first answer", |text| text.trim() == "Hi.").await;
    service.until_resumable(&cell, "Hi.").await;
    service.replace_holder(signal).await;
    service.say("Work.");
    service.said("an answer after a tool", |text| text.trim().ends_with("Done.")).await;
    assert_eq!(service.file("workspace/done"), "one\n");

    service.until_resumable(&cell, "Hi.").await;
    service.say("Count.");
    gate.reached().await;
    service.replace_holder(signal).await;
    service.said("the whole answer", |text| text.trim() == "One, two, three.").await;
    let texts = service.discord.texts(CHANNEL);
    assert_eq!(texts.len(), 3, "one message for each prompt: {texts:?}");
    let requests = service.model.requests();
    assert_eq!(requests.len(), 5, "only the interrupted prompt is sent twice");
    assert!(requests[4].mentions("Hello"), "the history is complete: {:#}", requests[4].body);
    service.assert_no_lost_reply();
}

/// Replaces the holder, and then the gateway during two answers: once with `kill -9`, once with
/// `aetheel upgrade`.
pub(super) async fn then_the_gateway(cell: Cell) {
    let [first, second] = [Gate::new(), Gate::new()];
    let script = Script::default()
        .on("Hello", [Reply::text("Hi.")])
        .on("Count.", [Reply::text("One").then_pause_in_text(&first).then_piece(", two.")])
        .on("Name.", [Reply::text("Red").then_pause_in_text(&second).then_piece(", blue.")]);
    let mut service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    service.say("Hello");
    service.said("the first answer", |text| text.trim() == "Hi.").await;
    service.until_resumable(&cell, "Hi.").await;
    service.replace_holder(Signal::KILL).await;
    service.say("Count.");
    first.reached().await;
    service.kill_and_restart().await;
    first.open();
    service.said("the answer after a kill", |text| text.trim() == "One, two.").await;
    service.until_resumable(&cell, "Hi.").await;
    service.say("Name.");
    second.reached().await;
    service.upgrade().await;
    second.open();
    service.said("the answer after an upgrade", |text| text.trim() == "Red, blue.").await;
    assert_eq!(service.discord.texts(CHANNEL), ["Hi.", "One, two.", "Red, blue."]);
    assert_eq!(service.model.requests().len(), 3, "the model is asked once for each prompt");
    service.assert_no_lost_reply();
}

/// Ends the agent's processes with SIGTERM before the first word of an answer, as the kernel's OOM
/// killer or an operator may.
pub(super) async fn agent_terminated(cell: Cell) {
    terminated(cell, true).await;
}

/// Does the same in the first turn of a conversation, whose session may not be saved yet.
pub(super) async fn agent_terminated_at_first(cell: Cell) {
    terminated(cell, false).await;
}

/// Returns whether a text ends a turn whose agent was ended. claude-agent-acp 0.49.0 reports such a
/// turn as cancelled.
fn ended(text: &str) -> bool {
    ["(agent failure, ", "Stopped.", "One.", "Done."].iter().any(|end| text.contains(end))
}

async fn terminated(cell: Cell, has_session: bool) {
    let gate = Gate::new();
    let silent = Reply::text("One.").held_by(&gate);
    let script = Script::default()
        .on("Hello", [Reply::text("Hi.")])
        .on("Count.", [silent, Reply::text("One.")])
        .on("Again", [Reply::text("ok")]);
    let service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    if has_session {
        service.say("Hello");
        service.said("the first answer", |text| text.trim() == "Hi.").await;
        service.until_resumable(&cell, "Hi.").await;
    }
    service.say("Count.");
    gate.reached().await;
    service.end_agents(Signal::TERM);
    service.said("a failure or the answer", ended).await;
    service.assert_no_lost_reply();
    if has_session {
        service.until_resumable(&cell, "Hi.").await;
    }
    service.say("Again");
    // A note may follow: an agent that was ended in its first turn may have saved no conversation.
    service.said("the next answer", |text| text.lines().next() == Some("ok")).await;
}

/// Ends the agent's processes with SIGTERM while a tool runs. The next prompt is sent as soon as
/// people see the failure.
pub(super) async fn agent_terminated_in_a_tool(cell: Cell) {
    let work = Reply::does("call_1", Intent::shell("touch begun; sleep 20"));
    let script = Script::default()
        .on("Work.", [work, Reply::text("Done.")])
        .on("Again", [Reply::text("ok")]);
    let service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    service.say("Work.");
    super::super::wait_until("the tool runs", || service.exists("workspace/begun")).await;
    service.until_resumable(&cell, "Work.").await;
    service.end_agents(Signal::TERM);
    service.said("a failure or the answer", ended).await;
    service.say("Again");
    service.said("the next answer", |text| text.trim() == "ok").await;
    service.assert_no_lost_reply();
}
