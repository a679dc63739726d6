//! Scenarios about text and attached data.

use aetheel_model::agent::descriptor::Feature;

use super::super::gateway::{Cell, Wishes};
use super::{Script, open};
use crate::support::model_server::{Gate, Reply, TOKENS_IN, TOKENS_OUT};

pub(super) async fn hello_twice(cell: Cell) {
    let script = Script::default()
        .on("Say hello.", [Reply::text("Hello there.")])
        .on("Once more.", [Reply::text("Hello again.")]);
    let gateway = open(&cell, script).await;
    for (prompt, answer) in [("Say hello.", "Hello there."), ("Once more.", "Hello again.")] {
        let told = gateway.talk(prompt).await;
        told.answers(answer);
        let resumed_silently =
            prompt == "Once more." && cell.backend.reports_no_tokens_when_resumed();
        if cell.has(Feature::Usage) && !resumed_silently {
            assert_eq!(
                told.tokens(),
                (TOKENS_IN, TOKENS_OUT),
                "only the usage of this turn: {told:?}"
            );
        }
    }
    let requests = gateway.model.requests();
    assert_eq!(requests.len(), 2, "besides: {:?}", gateway.model.others());
    let prompts = requests[1].prompts();
    assert!(
        prompts.iter().any(|prompt| prompt.contains("Say hello.")),
        "the history is complete: {prompts:?}"
    );
    assert!(
        requests[1].said_by("assistant").contains(&"Hello there."),
        "{:?}",
        requests[1].said_by("assistant")
    );
}

pub(super) async fn deltas(cell: Cell) {
    let gate = Gate::new();
    let script = Script::default()
        .on("Count.", [Reply::text("One, ").then_pause_in_text(&gate).then_piece("two.")]);
    let gateway = open(&cell, script).await;
    gateway.prompt(1, "Count.");
    gateway.shows(1, "One,").await;
    gate.open();
    gateway.answer(1).await.answers("One, two.");
}

pub(super) async fn thinking(cell: Cell) {
    let script = Script::default()
        .on("Think.", [Reply::thinking("**Numbers**\nA number, then.").then_text("42.")]);
    let gateway = open(&cell, script).await;
    let told = gateway.talk("Think.").await;
    told.answers("42.");
    assert!(told.transcript.thinking().contains("A number, then."), "{told:?}");
}

pub(super) async fn system_prompt(cell: Cell) {
    let gateway = open(&cell, Script::default().on("Hello", [Reply::text("ok")])).await;
    for mark in ["MARK-OF-THE-FIRST-SOUL", "MARK-OF-THE-SECOND-SOUL"] {
        gateway.write("config/soul.md", &format!("{mark}\n"));
        gateway.talk("Hello").await.answers("ok");
        let request = gateway.model.requests().pop().unwrap();
        assert!(request.mentions(mark), "{mark} did not reach the model: {:#}", request.body);
    }
}

pub(super) async fn model(cell: Cell) {
    let script = Script::default()
        .on("Remember 42.", [Reply::text("Noted.")])
        .on("Which number?", [Reply::text("42.")]);
    let mut gateway = open(&cell, script).await;
    let (other, heard) = gateway.home.other_model.expect("the fixture names another model");
    gateway.talk("Remember 42.").await.answers("Noted.");
    gateway.restart(Wishes { model: Some(other.to_owned()), ..Wishes::default() }).await;
    gateway.talk("Which number?").await.answers("42.");
    let [first, second] = &gateway.model.requests()[..] else {
        panic!("two requests: {:#?}", gateway.model.requests())
    };
    // The agent's release decides which model a short name means.
    assert!(!first.model().contains(heard), "{}", first.model());
    assert!(second.model().contains(heard), "{}", second.model());
    assert!(
        second.prompts().iter().any(|prompt| prompt.contains("Remember 42.")),
        "{:?}",
        second.prompts()
    );
}
