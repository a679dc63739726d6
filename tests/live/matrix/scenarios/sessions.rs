//! Scenarios about conversations and the processes that run them.

use super::super::gateway::{Cell, Wishes};
use super::super::wait_until;
use super::{Script, open};
use crate::support::model_server::{Gate, Reply};

pub(super) async fn resume(cell: Cell) {
    let script = Script::default()
        .on("Remember 42.", [Reply::text("Noted.")])
        .on("Which number?", [Reply::text("42.")]);
    let mut gateway = open(&cell, script).await;
    gateway.talk("Remember 42.").await.answers("Noted.");
    gateway.restart(Wishes::default()).await;
    gateway.talk("Which number?").await.answers("42.");
    let request = gateway.model.requests().pop().unwrap();
    let prompts = request.prompts();
    assert!(prompts.iter().any(|prompt| prompt.contains("Remember 42.")), "{prompts:?}");
    assert!(request.said_by("assistant").contains(&"Noted."), "{:?}", request.said_by("assistant"));
}

pub(super) async fn unknown(cell: Cell) {
    let script = Script::default()
        .on("One", [Reply::text("Noted.")])
        .on("Two", [Reply::text("?")])
        .on("Three", [Reply::text("Hello.")]);
    let mut gateway = open(&cell, script).await;
    gateway.talk("One").await.answers("Noted.");
    gateway.end().await;
    let sessions = gateway.read("config/state/sessions.md");
    let known = session_in(&sessions).unwrap_or_else(|| panic!("no session is saved: {sessions}"));
    let unknown = like(&known);
    gateway.write("config/state/sessions.md", &sessions.replace(&known, &unknown));
    gateway.restart(Wishes::default()).await;

    gateway.talk("Two").await.fails("no longer knows this conversation");
    wait_until("the session is forgotten", || {
        !gateway.read("config/state/sessions.md").contains(&unknown)
    })
    .await;
    gateway.talk("Three").await.answers("Hello.");
    let sessions = gateway.read("config/state/sessions.md");
    assert!(
        session_in(&sessions).is_some_and(|fresh| fresh != unknown && fresh != known),
        "{sessions}"
    );
}

/// Returns the id in the bindings file: the word after `session`.
fn session_in(sessions: &str) -> Option<String> {
    let (_, rest) = sessions
        .lines()
        .filter(|line| line.starts_with("- "))
        .find_map(|line| line.split_once(": session `"))?;
    rest.split_once('`').map(|(id, _)| id.to_owned())
}

/// Returns another id of the same form. A backend may add data of its own after the first dot.
fn like(id: &str) -> String {
    let end = id.find('.').unwrap_or(id.len());
    let keep = end - 8;
    let changed = |(index, c): (usize, char)| {
        if (keep..end).contains(&index) && c.is_ascii_alphanumeric() { '0' } else { c }
    };
    id.chars().enumerate().map(changed).collect()
}

pub(super) async fn two_at_once(cell: Cell) {
    let gates = [Gate::new(), Gate::new()];
    let script = Script::default()
        .on(
            "I am Ada.",
            [
                Reply::text("Hello ").then_pause_in_text(&gates[0]).then_piece("Ada."),
                Reply::text("You are Ada."),
            ],
        )
        .on(
            "I am Bob.",
            [
                Reply::text("Hello ").then_pause_in_text(&gates[1]).then_piece("Bob."),
                Reply::text("You are Bob."),
            ],
        )
        .on("Who am I, Ada?", [Reply::text("You are Ada.")])
        .on("Who am I, Bob?", [Reply::text("You are Bob.")]);
    let gateway = open(&cell, script).await;
    gateway.prompt(1, "I am Ada.");
    gateway.prompt(2, "I am Bob.");
    for gate in &gates {
        gate.reached().await;
    }
    // Both turns are running. The second one continues first.
    gates[1].open();
    gateway.answer(2).await.answers("Hello Bob.");
    gates[0].open();
    gateway.answer(1).await.answers("Hello Ada.");
    for (lane, name, other) in [(1, "Ada", "Bob"), (2, "Bob", "Ada")] {
        gateway.prompt(lane, &format!("Who am I, {name}?"));
        gateway.answer(lane).await.answers(&format!("You are {name}."));
        let request = gateway.model.requests().pop().unwrap();
        assert!(
            request.mentions(&format!("I am {name}."))
                && !request.mentions(&format!("I am {other}.")),
            "{:#}",
            request.body
        );
    }
}
