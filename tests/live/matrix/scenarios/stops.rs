//! Scenarios about turns that are stopped, steered or waited for.

use std::time::{Duration, Instant};

use aetheel_dispatch::SteeringResult;
use aetheel_model::agent::descriptor::Feature;

use super::super::gateway::{Cell, Gateway};
use super::super::wait_until;
use super::{Script, open};
use crate::support::model_server::{Gate, Intent, Reply};

/// Long enough for an agent to stop in its own way, and far shorter than the host's limit for a
/// turn.
const SOON: Duration = Duration::from_secs(15);

/// Stops the turn, and checks that it ends soon as stopped, and that the conversation continues.
pub(super) async fn stop_and_go_on(gateway: &Gateway) {
    let begun = Instant::now();
    gateway.stop(1);
    gateway.answer(1).await.fails("Stopped.");
    assert!(begun.elapsed() < SOON, "it took {:?}", begun.elapsed());
    gateway.talk("Go on.").await.answers("Going on.");
}

pub(super) async fn in_text(cell: Cell) {
    let gate = Gate::new();
    let endless = Reply::text("One, two").then_pause_in_text(&gate).then_piece(", three");
    let script = Script::default().on("Count.", [endless]).on("Go on.", [Reply::text("Going on.")]);
    let gateway = open(&cell, script).await;
    gateway.prompt(1, "Count.");
    gate.reached().await;
    if cell.has(Feature::Streaming) {
        gateway.shows(1, "One, two").await;
    }
    stop_and_go_on(&gateway).await;
}

pub(super) async fn in_tool(cell: Cell) {
    let work = Reply::does("call_1", Intent::shell("touch started; sleep 1000"));
    let script = Script::default()
        .on("Work.", [work, Reply::text("never")])
        .on("Go on.", [Reply::text("Going on.")]);
    let gateway = open(&cell, script).await;
    gateway.prompt(1, "Work.");
    gateway.made("workspace/started").await;
    gateway.stop(1);
    gateway.answer(1).await.fails("Stopped.");
    wait_until("the command has ended", || {
        !super::super::super::gateway::marked(rustix::process::getpid())
            .iter()
            .any(|it| it.contains("sleep 1000"))
    })
    .await;
    gateway.talk("Go on.").await.answers("Going on.");
}

pub(super) async fn steer(cell: Cell) {
    let work = Reply::does("call_1", Intent::shell("touch started; sleep 3"));
    let script = Script::default()
        .on("Work.", [work, Reply::text("Done without a word.")])
        .on("Also say please.", [Reply::text("Done, please.")]);
    let gateway = open(&cell, script).await;
    gateway.prompt(1, "Work.");
    gateway.made("workspace/started").await;
    let steered = gateway.steer(1, "Also say please.").await;
    assert_eq!(steered, SteeringResult::Injected);
    let told = gateway.answer(1).await;
    let request = gateway.model.requests().pop().unwrap();
    assert!(request.mentions("Also say please."), "{:#}", request.body);
    assert!(request.tool_results().contains_key("call_1"), "in the same turn: {:#}", request.body);
    assert!(told.answer.failure.is_none(), "{told:?}");
}

pub(super) async fn queue(cell: Cell) {
    let gate = Gate::new();
    let script = Script::default()
        .on("First", [Reply::text("One.").held_by(&gate)])
        .on("Second", [Reply::text("Two.")]);
    let gateway = open(&cell, script).await;
    gateway.prompt(1, "First");
    gate.reached().await;
    gateway.prompt(1, "Second");
    gate.open();
    gateway.answer(1).await.answers("One.");
    gateway.answer(1).await.answers("Two.");
    let request = gateway.model.requests().pop().unwrap();
    assert!(
        request.said_by("assistant").contains(&"One."),
        "after the first, with its answer: {:?}",
        request.said_by("assistant")
    );
}
