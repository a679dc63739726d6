//! Scenarios about questions to people, and the effect of each decision.

use aetheel_dispatch::{OpenQuestion, Subject};
use aetheel_model::agent::{AskDecision, Mode, Safety};

use super::super::gateway::{Cell, Gateway, Wishes};
use super::Script;
use super::stops::stop_and_go_on;
use crate::support::model_server::{Intent, Reply};

/// Starts a gateway whose agent must ask before it changes the file `first` and then `second`.
async fn asking(cell: &Cell) -> Gateway {
    let script = Script::default()
        .on(
            "Work.",
            [
                Reply::does("call_1", Intent::unboxed("touch first")),
                Reply::does("call_2", Intent::unboxed("touch second")),
                Reply::text("Done."),
            ],
        )
        .on("Go on.", [Reply::text("Going on.")]);
    cell.open(script.serve().await, Wishes { safety: Safety::Default, ..Wishes::default() }).await
}

/// Waits for the request for permission, and checks that it names the file.
async fn permission(gateway: &Gateway, file: &str) -> OpenQuestion {
    let question = gateway.question(1).await;
    let Subject::Permission { about, .. } = &question.subject else {
        panic!("no request for permission: {question:?}")
    };
    let about = about.as_ref().map_or("", |about| about.text.as_str());
    assert!(
        format!("{} {about}", question.title).contains(&format!("touch {file}")),
        "it does not name the file: {question:?}"
    );
    assert!(
        !gateway.path(&format!("workspace/{file}")).exists(),
        "the turn did not wait for the decision"
    );
    question
}

pub(super) async fn allow_once(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    for file in ["first", "second"] {
        let question = permission(&gateway, file).await;
        gateway.decide(&question, AskDecision::AllowOnce);
    }
    gateway.answer(1).await.answers("Done.");
    assert!(gateway.path("workspace/first").exists() && gateway.path("workspace/second").exists());
}

pub(super) async fn allow_always(cell: Cell) {
    let call = |id| Reply::does(id, Intent::unboxed("touch first"));
    let script =
        Script::default().on("Work.", [call("call_1"), call("call_2"), Reply::text("Done.")]);
    let gateway = cell
        .open(script.serve().await, Wishes { safety: Safety::Default, ..Wishes::default() })
        .await;
    gateway.prompt(1, "Work.");
    let question = permission(&gateway, "first").await;
    assert!(question.always.is_some(), "always is not offered: {question:?}");
    gateway.decide(&question, AskDecision::AllowAlways);
    match gateway.question_or_end(1).await {
        Ok(question) => panic!("it asks again: {question:?}"),
        Err(told) => told.answers("Done."),
    }
    assert!(gateway.path("workspace/first").exists());
    assert!(gateway.model.request(3).await.tool_results().contains_key("call_2"));
}

pub(super) async fn deny(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    let question = permission(&gateway, "first").await;
    gateway.decide(&question, AskDecision::Deny(Some("not that one".to_owned())));
    // Some agents end their turn when something is denied; the others continue with the next step.
    match gateway.question_or_end(1).await {
        Ok(question) => {
            gateway.decide(&question, AskDecision::AllowOnce);
            gateway.answer(1).await.answers("Done.");
            assert!(gateway.path("workspace/second").exists());
            let result = gateway.model.request(2).await.tool_results()["call_1"].clone();
            assert!(
                result.contains("not that one") || !cell.backend.passes_reasons_on(),
                "the model receives the person's reason: {result}"
            );
        }
        Err(told) => {
            let stopped = told.answer.failure.as_ref().is_none_or(|failure| failure == "Stopped.");
            assert!(!cell.backend.passes_reasons_on() && stopped, "{told:?}");
        }
    }
    assert!(!gateway.path("workspace/first").exists());
    gateway.talk("Go on.").await.answers("Going on.");
}

pub(super) async fn deny_and_stop(cell: Cell) {
    let gateway = asking(&cell).await;
    gateway.prompt(1, "Work.");
    let question = permission(&gateway, "first").await;
    gateway.decide(&question, AskDecision::DenyAndStop);
    gateway.answer(1).await.fails("Stopped.");
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
    let script = Script::default().on(
        "Paint.",
        [
            Reply::does("call_1", Intent::ask("Which colour?", &["Red", "Blue"])),
            Reply::text("Blue it is."),
        ],
    );
    let mode = if cell.backend.asks_while_planning_only() { Mode::Plan } else { Mode::Build };
    let gateway = cell
        .open(script.serve().await, Wishes { safety: Safety::Default, mode, ..Wishes::default() })
        .await;
    gateway.prompt(1, "Paint.");
    let question = gateway.question(1).await;
    let Subject::Questions(questions) = &question.subject else {
        panic!("no question: {question:?}")
    };
    let [asked] = &questions[..] else { panic!("one question: {questions:?}") };
    assert!(format!("{} {}", question.title, asked.text).contains("Which colour?"), "{asked:?}");
    assert_eq!(
        asked.options.iter().map(|option| option.label.as_str()).collect::<Vec<_>>(),
        ["Red", "Blue"]
    );
    let answers = vec![(asked.id.clone(), vec!["Blue".to_owned()])];
    gateway.decide(&question, AskDecision::Answers(answers));
    gateway.answer(1).await.answers("Blue it is.");
    let result = gateway.model.request(2).await.tool_results()["call_1"].clone();
    assert!(result.contains("Blue"), "{result}");
}
