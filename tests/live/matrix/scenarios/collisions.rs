//! Scenarios about two conversations whose agents write the same file with their own tools.

use aetheel_dispatch::Subject;
use aetheel_model::agent::{AskDecision, Safety};

use super::super::gateway::{Cell, Gateway, Wishes};
use crate::support::model_server::{Intent, ModelServer, Reply};

/// The words of a warning.
const WARNS: &str = "Another conversation uses the same files";

/// Starts a gateway in whose two conversations the agent changes `shared.txt`.
async fn two(cell: &Cell, safety: Safety, channels: &str) -> Gateway {
    let path = std::sync::Arc::new(std::sync::OnceLock::<String>::new());
    let told = path.clone();
    let model = ModelServer::answering(move |request| {
        let path = told.get().expect("set before the first prompt");
        let prompts = request.prompts();
        let last = prompts.last().copied().unwrap_or_default();
        let (read, call, old, new) = match last {
            last if last.contains("Again") => ("call_5", "call_6", "one", "two"),
            last if last.contains("Second") => ("call_3", "call_4", "one", "two"),
            _ => ("call_1", "call_2", "zero", "one"),
        };
        let results = request.tool_results();
        // Claude Code changes only files that it has read.
        match (results.contains_key(read), results.contains_key(call)) {
            (false, _) => Reply::does(read, Intent::read(path)),
            (true, false) => Reply::does(call, Intent::edit(path, old, new)),
            (true, true) => Reply::text("Done."),
        }
    });
    let gateway = cell.open(model.await, Wishes { safety, ..Wishes::default() }).await;
    gateway.write("config/channels.md", channels);
    gateway.write("workspace/shared.txt", "zero\n");
    path.set(gateway.at("workspace/shared.txt")).unwrap();
    gateway
}

/// Agents that do not ask: both conversations are warned after the second write.
pub(super) async fn warned(cell: Cell) {
    let gateway = two(&cell, Safety::Danger, "").await;
    for (lane, prompt, text) in [(1, "First", "one\n"), (2, "Second", "two\n")] {
        gateway.prompt(lane, prompt);
        gateway.answer(lane).await.answers("Done.");
        assert_eq!(gateway.read("workspace/shared.txt"), text);
    }
    for lane in [1, 2] {
        let notice = gateway.notice(lane, WARNS).await;
        assert!(notice.text.contains("`shared.txt`"), "{}", notice.text);
    }
}

/// Agents that ask before changes, with `collisions: ask`: people are asked before the second write
/// with the reason, and the file stays as it is if they decline.
pub(super) async fn asked(cell: Cell) {
    let channels = "## channel 1\n- collisions: ask\n\n## channel 2\n- collisions: ask\n";
    let gateway = two(&cell, Safety::Default, channels).await;
    gateway.prompt(1, "First");
    let question = gateway.question(1).await;
    assert!(question.collision.is_none(), "nobody else uses the file: {question:?}");
    gateway.decide(&question, AskDecision::AllowOnce);
    gateway.answer(1).await.answers("Done.");
    assert_eq!(gateway.read("workspace/shared.txt"), "one\n");

    gateway.prompt(2, "Second");
    let question = gateway.question(2).await;
    let note = question.collision_note().unwrap_or_else(|| panic!("no reason: {question:?}"));
    assert!(matches!(question.subject, Subject::Permission { .. }), "{question:?}");
    assert!(note.contains("shared.txt"), "{note}");
    gateway.decide(&question, AskDecision::Deny(None));
    let _ = gateway.answer(2).await;
    assert_eq!(gateway.read("workspace/shared.txt"), "one\n", "it was declined");

    gateway.prompt(2, "Again");
    let question = gateway.question(2).await;
    assert!(question.collision.is_some(), "it asks again: {question:?}");
    gateway.decide(&question, AskDecision::AllowOnce);
    gateway.answer(2).await.answers("Done.");
    assert_eq!(gateway.read("workspace/shared.txt"), "two\n");
    gateway.notice(1, WARNS).await;
}
