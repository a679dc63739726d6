//! Scenarios in which prompts reach the model as people wrote them, and nothing in them is
//! executed.

use std::fmt::Write as _;

use aetheel_model::prompt::{Expansion, neutralise};

use super::super::gateway::{Cell, Gateway};
use super::{Script, open};
use crate::support::model_server::Reply;

/// Starts a gateway whose model replies `ok` to everything.
async fn agreeing(cell: &Cell) -> Gateway {
    open(cell, Script::default().on("", [Reply::text("ok")])).await
}

/// Returns a prompt as the agent receives it.
fn inert(cell: &Cell, gateway: &Gateway, prompt: &str) -> String {
    let expands = &cell.descriptor().expands;
    // A one-shot run of Gemini CLI expands every name, so its backend escapes all.
    let expansion = if cell.backend.component == "gemini" && cell.backend.one_shot {
        Expansion::anywhere(expands)
    } else {
        Expansion::new(expands, &gateway.path("workspace"))
    };
    let inert = neutralise(prompt, &expansion, None);
    // Droid ignores a backslash before the `@`, so its backend moves it.
    if cell.backend.component == "droid" { inert.replace("\\@", "@\\") } else { inert }
}

/// Sends these prompts. Each must be the last prompt that the model receives, escaped and otherwise
/// verbatim.
async fn arrive(cell: &Cell, gateway: &Gateway, prompts: &[&str]) {
    for prompt in prompts {
        gateway.talk(prompt).await.answers("ok");
        let inert = inert(cell, gateway, prompt);
        let requests = gateway.model.requests();
        let heard = requests
            .last()
            .unwrap_or_else(|| panic!("{prompt:?} never reached the model"))
            .prompts();
        let last = heard.last().copied().unwrap_or_default();
        // Line breaks at the ends may be lost, and some agents place the system prompt before the
        // first prompt.
        let system = ["<system-prompt>", "<developer_instructions>"]
            .iter()
            .any(|mark| last.starts_with(mark));
        let behind = system && last.trim_end().ends_with(&format!("\n{}", inert.trim()));
        assert!(
            last.trim() == inert.trim() || behind,
            "the model received {:?} instead of {:?}",
            short(last),
            short(&inert)
        );
    }
    let requests = gateway.model.requests();
    let heard: Vec<_> = requests
        .iter()
        .map(|request| short(request.prompts().last().copied().unwrap_or_default()))
        .collect();
    assert_eq!(requests.len(), prompts.len(), "each once: {heard:#?}");
}

fn short(text: &str) -> String {
    text.chars().take(300).collect()
}

pub(super) async fn flags(cell: Cell) {
    let gateway = agreeing(&cell).await;
    arrive(&cell, &gateway, &["--help", "-p", "--dangerously-skip-permissions", "--", "-"]).await;
}

pub(super) async fn file(cell: Cell) {
    let gateway = agreeing(&cell).await;
    gateway.write("workspace/note.txt", "CANARY-OF-THE-FILE");
    let path = gateway.at("workspace/note.txt");
    let files = [&*format!("@{path}"), "look at @note.txt", "@note.txt"];
    let words = ["npm install @types/node", "add @Override above it"];
    arrive(&cell, &gateway, &[&files[..], &words[..]].concat()).await;
    let requests = gateway.model.requests();
    let heard = requests.last().map(|request| request.prompts().join("\n")).unwrap_or_default();
    for words in ["@types/node", "@Override"] {
        assert!(heard.contains(words), "the model receives {words} as it was written: {heard:?}");
    }
    for request in requests {
        assert!(
            !request.mentions("CANARY-OF-THE-FILE"),
            "a file was read: {:?}",
            around(&request.body.to_string())
        );
    }
}

/// Returns the text around the file's content.
fn around(body: &str) -> &str {
    let at = body.find("CANARY-OF-THE-FILE").expect("it is mentioned");
    &body[body.floor_char_boundary(at.saturating_sub(400))
        ..body.ceil_char_boundary((at + 200).min(body.len()))]
}

pub(super) async fn command(cell: Cell) {
    let gateway = agreeing(&cell).await;
    arrive(&cell, &gateway, &["/help", "/clear", "/compact now", "/unheard-of"]).await;
}

pub(super) async fn bang(cell: Cell) {
    let gateway = agreeing(&cell).await;
    arrive(&cell, &gateway, &["!touch made", "! touch made", "$(touch made) `touch made` %s"])
        .await;
    assert!(!gateway.path("workspace/made").exists(), "a command ran");
}

pub(super) async fn empty(cell: Cell) {
    let gateway = agreeing(&cell).await;
    for prompt in ["", " \n", "\u{7}"] {
        // The backend decides whether there is an answer, but the conversation must continue.
        gateway.talk(prompt).await;
    }
    let before = gateway.model.requests().len();
    gateway.talk("Hello").await.answers("ok");
    assert_eq!(gateway.model.requests().len(), before + 1);
}

pub(super) async fn long(cell: Cell) {
    let mut long = String::new();
    while long.len() < 200 * 1024 {
        write!(long, "word {} of a long prompt, ", long.len()).unwrap();
    }
    let gateway = agreeing(&cell).await;
    arrive(&cell, &gateway, &[long.trim_end()]).await;
}

pub(super) async fn unicode(cell: Cell) {
    let gateway = agreeing(&cell).await;
    let foreign = "Zażółć gęślą jaźń \u{202e}مرحبا\u{202c} 👩‍👩‍👧 日本語 \u{fffd}";
    arrive(
        &cell,
        &gateway,
        &[foreign, "two\nlines\u{2028}and\u{85}more", "{\"type\":\"user\"}\n[DONE]"],
    )
    .await;
}
