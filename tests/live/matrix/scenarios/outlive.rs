//! Scenarios in which the gateway is killed, and the next process continues with the same agent.

use std::time::Duration;

use aetheel::agent::Safety;
use aetheel::agent::descriptor::Feature;

use super::super::gateway::{Cell, Wishes};
use super::super::lives::Service;
use super::Script;
use crate::support::discord::{ANN, CHANNEL};
use crate::support::model_server::{Gate, Intent, Reply};

/// Long enough for an agent to print the rest of its answer.
const AWAY: Duration = Duration::from_secs(3);

pub(super) async fn in_text(cell: Cell) {
    let [gate, last] = [Gate::new(), Gate::new()];
    let answer = Reply::text("One, two")
        .then_pause_in_text(&gate)
        .then_piece(", three")
        .then_pause_in_text(&last)
        .then_piece(", four.");
    let script = Script::default().on("Count.", [answer]).on("Again", [Reply::text("ok")]);
    let mut service = Service::begin(&cell, script.serve().await, Wishes::default()).await;
    service.say("Count.");
    gate.reached().await;
    if cell.has(Feature::Streaming) {
        service.said("the first half", |text| text.contains("One, two")).await;
    }
    service.kill_and_restart().await;
    gate.open();
    last.reached().await;
    if cell.has(Feature::Streaming) && !cell.backend.delivers_missed_text_at_its_end() {
        service.said("more of it", |text| text.contains("One, two, three")).await;
    }
    // The rest is printed while no gateway runs.
    service.kill().await;
    last.open();
    tokio::time::sleep(AWAY).await;
    service.start_next().await;
    service.said("the whole answer", |text| text.trim() == "One, two, three, four.").await;
    assert_eq!(service.discord.texts(CHANNEL), ["One, two, three, four."]);
    assert_eq!(service.model.requests().len(), 1, "the model is asked once");
    alive(&cell, &service, "Count.").await;
}

pub(super) async fn during_an_ask(cell: Cell) {
    let gate = Gate::new();
    let work = ["one", "two"].map(|word| Intent::unboxed(&format!("echo {word} >> done")));
    let [first, second] = work;
    let second = Reply::does("call_2", second).held_by(&gate);
    let script = Script::default()
        .on("Work.", [Reply::does("call_1", first), second, Reply::text("Done.")])
        .on("Again", [Reply::text("ok")]);
    let wishes = Wishes { safety: Safety::Default, ..Wishes::default() };
    let mut service = Service::begin(&cell, script.serve().await, wishes).await;
    service.say("Work.");
    let question = service.question(None).await;
    service.kill_and_restart().await;
    assert_eq!(service.question(None).await, question, "it is the same question");
    assert_eq!(service.file("workspace/done"), "", "the turn waits for the decision");
    service.discord.press_id(question.message, ANN, &question.leave);
    gate.reached().await;
    assert_eq!(service.file("workspace/done"), "one\n");
    // The next question is asked while no gateway runs.
    service.kill().await;
    gate.open();
    tokio::time::sleep(AWAY).await;
    service.start_next().await;
    let next = service.question(Some(&question)).await;
    assert_eq!(service.file("workspace/done"), "one\n", "the turn waits for the decision");
    service.discord.press_id(next.message, ANN, &next.leave);
    service.said("the answer", |text| text.trim().ends_with("Done.")).await;
    assert_eq!(service.file("workspace/done"), "one\ntwo\n");
    let requests = service.model.requests();
    assert_eq!(requests.len(), 3, "the model is asked once with the result of each");
    assert!(requests[2].tool_results().contains_key("call_2"), "{:#}", requests[2].body);
    alive(&cell, &service, "Work.").await;
}

/// Checks that the conversation continues, with the same processes if they outlive a turn.
async fn alive(cell: &Cell, service: &Service, earlier: &str) {
    let before = service.agents();
    service.say("Again");
    service.said("the next answer", |text| text.trim() == "ok").await;
    if !cell.backend.one_shot {
        assert_eq!(service.agents(), before, "the agent is still the same");
    }
    let request = service.model.requests().pop().unwrap();
    assert!(request.mentions(earlier), "the history is complete: {:#}", request.body);
}
