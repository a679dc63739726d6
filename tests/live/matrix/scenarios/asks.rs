//! Questions to people, and what each decision does.

use aetheel::agent::descriptor::Feature;
use aetheel::agent::{AskKind, Decision, Safety};

use super::super::gateway::{Cell, Gateway, Wishes};
use super::Script;
use super::stops::stop_and_go_on;
use crate::support::model_server::{Intent, Reply};

/// A gateway whose agent must ask before it touches the file `first` and then `second`.
async fn asking(cell: &Cell) -> Gateway {
    let script = Script::default()
        .on(
            "Work.",
            [
                Reply::does("call_1", Intent::shell("touch first")),
                Reply::does("call_2", Intent::shell("touch second")),
                Reply::text("Done."),
            ],
        )
        .on("Go on.", [Reply::text("Going on.")]);
    cell.open(script.serve().await, Wishes { safety: Safety::Default, ..Wishes::default() }).await
}

/// Waits for the request for permission and sees that it says for what.
async fn permission(gateway: &Gateway, file: &str) -> super::super::stage::Question {
    let question = gateway.question(1).await;
    let AskKind::Permission(tool) = &question.ask.kind else { panic!("no request for permission: {:?}", question.ask) };
    let shown = format!("{} {} {} {}", question.ask.title, tool.title, tool.target.as_deref().unwrap_or_default(), tool.input);
    assert!(shown.contains(&format!("touch {file}")), "it does not say for what: {:?}", question.ask);
    assert!(!gateway.path(&format!("workspace/{file}")).exists(), "it was not waited for");
    question
}

pub(super) async fn allow_once(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    for file in ["first", "second"] {
        let question = permission(&gateway, file).await;
        gateway.decide(question, Decision::AllowOnce);
    }
    gateway.told(1).await.answers("Done.");
    assert!(gateway.path("workspace/first").exists() && gateway.path("workspace/second").exists());
}

pub(super) async fn allow_always(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    let question = permission(&gateway, "first").await;
    assert!(question.ask.always_label.is_some(), "always is not offered: {:?}", question.ask);
    gateway.decide(question, Decision::AllowAlways);
    gateway.told(1).await.answers("Done.");
    assert!(gateway.path("workspace/first").exists() && gateway.path("workspace/second").exists());
}

pub(super) async fn deny(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    let question = permission(&gateway, "first").await;
    gateway.decide(question, Decision::Deny(Some("not that one".to_owned())));
    let question = permission(&gateway, "second").await;
    gateway.decide(question, Decision::AllowOnce);
    gateway.told(1).await.answers("Done.");
    assert!(!gateway.path("workspace/first").exists() && gateway.path("workspace/second").exists());
    let result = gateway.model.request(2).await.tool_results()["call_1"].clone();
    assert!(result.contains("not that one"), "the model reads what the person said: {result}");
}

pub(super) async fn deny_and_stop(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    let question = permission(&gateway, "first").await;
    gateway.decide(question, Decision::DenyAndStop);
    gateway.told(1).await.fails("stopped");
    assert!(!gateway.path("workspace/first").exists());
    assert_eq!(gateway.model.requests().len(), 1, "the model is not asked again");
    gateway.talk("Go on.").await.answers("Going on.");
}

pub(super) async fn interrupt(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    permission(&gateway, "first").await;
    stop_and_go_on(&gateway).await;
    assert!(!gateway.path("workspace/first").exists());
}

pub(super) async fn question(cell: Cell) {
    let script = Script::default().on("Paint.", [Reply::does("call_1", Intent::ask("Which colour?", &["Red", "Blue"])), Reply::text("Blue it is.")]);
    let gateway = cell.open(script.serve().await, Wishes { safety: Safety::Default, ..Wishes::default() }).await;
    assert!(cell.has(Feature::Questions));
    gateway.prompt(1, "Paint.");
    let question = gateway.question(1).await;
    let AskKind::Questions(questions) = &question.ask.kind else { panic!("no question: {:?}", question.ask) };
    let [asked] = &questions[..] else { panic!("one question: {questions:?}") };
    assert!(asked.text.contains("Which colour?"), "{asked:?}");
    assert_eq!(asked.options, ["Red", "Blue"]);
    let answers = vec![(asked.id.clone(), vec!["Blue".to_owned()])];
    gateway.decide(question, Decision::Answers(answers));
    gateway.told(1).await.answers("Blue it is.");
    let result = gateway.model.request(2).await.tool_results()["call_1"].clone();
    assert!(result.contains("Blue"), "{result}");
}
