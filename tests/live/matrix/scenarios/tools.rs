//! Scenarios about tools and their limits.

use aetheel_model::agent::ToolStatus;

use super::super::gateway::{Cell, Wishes};
use super::{Script, open};
use crate::support::model_server::{Intent, ModelServer, Reply};

pub(super) async fn one(cell: Cell) {
    let work = Reply::text("Working.")
        .then_does("call_1", Intent::shell("echo output-of-the-tool | tee made.txt"));
    let gateway = open(&cell, Script::default().on("Work.", [work, Reply::text("Done.")])).await;
    let told = gateway.talk("Work.").await;
    assert!(told.answer.text.ends_with("Done.") && told.answer.failure.is_none(), "{told:?}");
    assert_eq!(told.tools(), [("bash", Some(ToolStatus::Ok))], "{told:?}");
    let start = &told.transcript.tools()[0].start;
    let shown =
        format!("{} {} {}", start.title, start.target.as_deref().unwrap_or_default(), start.input);
    assert!(shown.contains("output-of-the-tool"), "the command is shown: {start:?}");
    assert_eq!(gateway.read("workspace/made.txt"), "output-of-the-tool\n");
    let request = gateway.model.request(2).await;
    assert!(
        request.tool_results()["call_1"].contains("output-of-the-tool"),
        "{:?}",
        request.tool_results()
    );
}

pub(super) async fn several(cell: Cell) {
    let names = std::sync::Arc::new(std::sync::OnceLock::<(String, String)>::new());
    let told = names.clone();
    let model = ModelServer::answering(move |request| {
        let (written, read) = told.get().expect("set before the first prompt");
        match request.tool_results().len() {
            0 => Reply::does("call_1", Intent::write(written, "one\ntwo\n"))
                .then_does("call_2", Intent::shell("echo three")),
            2 => Reply::does("call_3", Intent::read(read)),
            3 => Reply::does("call_4", Intent::edit(read, "old words", "new words")),
            _ => Reply::text("All done."),
        }
    });
    let gateway = cell.open(model.await, Wishes::default()).await;
    gateway.write("workspace/words.txt", "old words\n");
    names.set((gateway.at("workspace/written.txt"), gateway.at("workspace/words.txt"))).unwrap();
    let told = gateway.talk("Work.").await;
    told.answers("All done.");
    assert_eq!(gateway.read("workspace/written.txt"), "one\ntwo\n", "{told:?}");
    assert_eq!(gateway.read("workspace/words.txt"), "new words\n", "{told:?}");
    let tools = told.tools();
    assert_eq!(tools.len(), 4, "{told:?}");
    assert!(tools.iter().all(|(_, status)| *status == Some(ToolStatus::Ok)), "{told:?}");
    let writing = if cell.backend.distinguishes_writing() { "file_write" } else { "file_edit" };
    for kind in [writing, "bash", "file_edit"] {
        assert!(tools.iter().any(|(known, _)| *known == kind), "no {kind}: {tools:?}");
    }
}

pub(super) async fn allowed(cell: Cell) {
    let model = Script::default().on("Which tools?", [Reply::text("ok")]).serve().await;
    let wishes = Wishes { allowed_tools: vec![cell.backend.reads.to_owned()], ..Wishes::default() };
    let gateway = cell.open(model, wishes).await;
    gateway.talk("Which tools?").await.answers("ok");
    let request = gateway.model.only_request();
    assert!(request.tools().contains(&cell.backend.reads), "{:?}", request.tools());
    assert!(!request.tools().contains(&cell.backend.runs), "{:?}", request.tools());
}

/// Tests the default list of tools, at the level without questions.
pub(super) async fn defaults(cell: Cell) {
    let tries = Reply::does("call_1", Intent::shell("touch made-by-a-command"));
    let script = Script::default().on("Make it.", [tries, Reply::text("I cannot.")]);
    let allowed_tools =
        ["Read", "Glob", "Grep", "WebSearch", "WebFetch"].map(str::to_owned).to_vec();
    let gateway =
        cell.open(script.serve().await, Wishes { allowed_tools, ..Wishes::default() }).await;
    let told = gateway.talk("Make it.").await;
    assert!(!std::path::Path::new(&gateway.at("workspace/made-by-a-command")).exists(), "{told:?}");
    assert!(!told.tools().contains(&("bash", Some(ToolStatus::Ok))), "{told:?}");
}

pub(super) async fn limit(cell: Cell) {
    let mut round = 0;
    let model = ModelServer::answering(move |request| {
        if request.prompts().last().is_some_and(|prompt| prompt.contains("Again")) {
            return Reply::text("ok");
        }
        round += 1;
        Reply::text("Looking.").then_does(&format!("call_{round}"), Intent::shell("true"))
    });
    let model = model.await;
    let gateway = cell.open(model, Wishes { max_turns: 2, ..Wishes::default() }).await;
    gateway.talk("Go on for ever.").await.fails("stopped at a limit");
    let rounds = gateway.model.requests().len();
    assert!((2..=3).contains(&rounds), "{rounds} rounds");
    gateway.talk("Again").await.answers("ok");
}
