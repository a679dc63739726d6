//! Scenarios about the tools of the gateway that the agent offers its model.

use aetheel::agent::descriptor::Feature;
use aetheel::agent::{AskDecision, Mode, Safety};
use aetheel::dispatch::Subject;
use aetheel::event::Lane;
use aetheel::id::ChannelId;
use serde_json::json;

use super::super::gateway::{Cell, Wishes};
use super::Script;
use crate::support::model_server::{Intent, Reply};

/// Posts a file while the agent's own tools are limited, which must not remove those of the
/// gateway, and at the level that asks before changes.
pub(super) async fn file(cell: Cell) {
    let call =
        |id| Reply::does(id, Intent::host("aetheel_post_file", json!({"path": "report.txt"})));
    let script = Script::default()
        .on("Post.", [call("call_1"), Reply::text("Posted.")])
        .on("Again.", [call("call_2"), Reply::text("Posted again.")]);
    let allowed_tools = if cell.has(Feature::AllowedTools) {
        vec![cell.backend.reads.to_owned()]
    } else {
        Vec::new()
    };
    let wishes = Wishes { safety: Safety::Default, allowed_tools, ..Wishes::default() };
    let gateway = cell.open(script.serve().await, wishes).await;
    gateway.write("workspace/report.txt", "figures of the week\n");
    for (prompt, answer) in [("Post.", "Posted."), ("Again.", "Posted again.")] {
        gateway.prompt(1, prompt);
        let mut told = gateway.question_or_end(1).await;
        if let Ok(question) = &told {
            assert!(cell.backend.asks_before_host_tools(), "somebody is asked: {question:?}");
            gateway.decide(question, AskDecision::AllowOnce);
            told = gateway.question_or_end(1).await;
        }
        let Err(told) = told else { panic!("somebody is asked twice: {told:?}") };
        told.answers(answer);
        let [file] = &told.answer.files[..] else { panic!("one file: {told:?}") };
        assert_eq!(file.name, "report.txt", "{told:?}");
        assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "figures of the week\n");
    }
}

/// Asks people, while the agent only plans if it has the tool then.
pub(super) async fn ask(cell: Cell) {
    let question = json!({"question": "Which colour?", "options": ["Red", "Blue"]});
    let script = Script::default().on(
        "Paint.",
        [Reply::does("call_1", Intent::host("aetheel_ask", question)), Reply::text("Blue it is.")],
    );
    let mode = if cell.backend.plans_with_host_tools() { Mode::Plan } else { Mode::Build };
    let wishes = Wishes { safety: Safety::Default, mode, ..Wishes::default() };
    let gateway = cell.open(script.serve().await, wishes).await;
    gateway.prompt(1, "Paint.");
    let mut question = gateway.question(1).await;
    if matches!(question.subject, Subject::Permission { .. }) {
        assert!(cell.backend.asks_before_host_tools(), "somebody is asked: {question:?}");
        gateway.decide(&question, AskDecision::AllowOnce);
        question = gateway.question(1).await;
    }
    let Subject::Questions(questions) = &question.subject else {
        panic!("no question: {question:?}")
    };
    let [asked] = &questions[..] else { panic!("one question: {questions:?}") };
    assert!(asked.text.contains("Which colour?"), "{asked:?}");
    let answers = vec![(asked.id.clone(), vec!["Blue".to_owned()])];
    gateway.decide(&question, AskDecision::Answers(answers));
    gateway.answer(1).await.answers("Blue it is.");
    let result = gateway.model.request(2).await.tool_results()["call_1"].clone();
    assert!(result.contains("Blue"), "{result}");
}

/// Saves a turn for later, in a channel whose operator allows that.
pub(super) async fn later(cell: Cell) {
    let reminder = json!({"in": "2h", "text": "Look at the build."});
    let script = Script::default().on(
        "Later.",
        [Reply::does("call_1", Intent::host("aetheel_remind", reminder)), Reply::text("Saved.")],
    );
    let wishes = Wishes { safety: Safety::Default, ..Wishes::default() };
    let gateway = cell.open(script.serve().await, wishes).await;
    gateway.write("config/channels.md", "## channel 1\n\n- host-tools: remind\n");
    gateway.prompt(1, "Later.");
    let mut told = gateway.question_or_end(1).await;
    if let Ok(question) = &told {
        assert!(cell.backend.asks_before_host_tools(), "somebody is asked: {question:?}");
        gateway.decide(question, AskDecision::AllowOnce);
        told = gateway.question_or_end(1).await;
    }
    let Err(told) = told else { panic!("somebody is asked twice: {told:?}") };
    told.answers("Saved.");
    let lane = Lane::Channel(ChannelId::discord(1));
    let [saved] = &gateway.dispatcher.later_turns.in_lane(&lane)[..] else {
        panic!("one turn: {told:?}")
    };
    assert_eq!(saved.text, "Look at the build.");
}
