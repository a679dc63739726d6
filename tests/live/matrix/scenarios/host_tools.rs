//! Scenarios about the tools of the gateway that the agent offers its model.

use std::collections::BTreeSet;

use aetheel_dispatch::Subject;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AskDecision, Mode, Safety};
use aetheel_model::event::Lane;
use aetheel_model::id::ChannelId;
use serde_json::json;

use super::super::gateway::{Cell, Gateway, Wishes};
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

/// Begins several conversations, each of which has the tools. `CONVERSATIONS` is their number.
pub(super) async fn each(cell: Cell) {
    let count = super::number("CONVERSATIONS").unwrap_or(5);
    let mut script = Script::default();
    for number in 1..=count {
        let call = Intent::host("aetheel_post_file", json!({"path": "report.txt"}));
        let prompt = format!("Post {number}.").leak();
        script = script.on(prompt, [Reply::does("call_1", call), Reply::text("Posted.")]);
    }
    let gateway = cell.open(script.serve().await, Wishes::default()).await;
    gateway.write("workspace/report.txt", "figures of the week\n");
    for number in 1..=count {
        gateway.prompt(number, &format!("Post {number}."));
        let mut told = gateway.question_or_end(number).await;
        if let Ok(question) = &told {
            assert!(cell.backend.asks_before_host_tools(), "somebody is asked: {question:?}");
            gateway.decide(question, AskDecision::AllowOnce);
            told = gateway.question_or_end(number).await;
        }
        let Err(told) = told else { panic!("somebody is asked twice: {told:?}") };
        assert_eq!(told.answer.files.len(), 1, "conversation {number} of {count}: {told:?}");
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

/// Saves turns for later in each way, in a channel whose operator allows that. People are asked
/// before the one that repeats.
pub(super) async fn later(cell: Cell) {
    let reminder = json!({"in": "2h", "text": "Look at the build."});
    let schedule = json!({"cron": "0 9 * * 1-5", "text": "Look at the news."});
    let sleep = json!({"in": "3h", "reason": "Look whether it has ended."});
    let calls = [
        ("call_1", "aetheel_remind", reminder),
        ("call_2", "aetheel_schedule", schedule),
        ("call_3", "aetheel_sleep_until", sleep),
    ];
    let (gateway, asked) = calling(&cell, calls).await;
    let lane = Lane::Channel(ChannelId::discord(1));
    let saved = gateway.dispatcher.later_turns.in_lane(&lane);
    let texts: BTreeSet<&str> = saved.iter().map(|turn| turn.text.as_str()).collect();
    assert_eq!(
        texts,
        ["Look at the build.", "Look at the news.", "Look whether it has ended."].into(),
        "{:?}",
        gateway.model.requests().pop().unwrap().tool_results()
    );
    assert!(matches!(&asked[..], [one] if one.contains("Look at the news.")), "{asked:?}");
}

/// Works with other conversations: reserves a file, lists the places for a hand-off, reads two
/// channels and hands work over. People are asked before the other channel is read and before the
/// work goes there.
pub(super) async fn team(cell: Cell) {
    let calls = [
        ("call_1", "aetheel_claim", json!({"paths": ["report.txt"], "reason": "release"})),
        ("call_2", "aetheel_list_agents", json!({})),
        ("call_3", "aetheel_read_channel", json!({})),
        ("call_4", "aetheel_read_channel", json!({"channel": "2"})),
        ("call_5", "aetheel_handoff", json!({"channel": "2", "text": "Check it."})),
    ];
    let (gateway, asked) = calling(&cell, calls).await;
    let request = gateway.model.requests().into_iter().rfind(|request| request.mentions("call_5"));
    let results = request.as_ref().map(|request| request.tool_results()).unwrap_or_default();
    for (call, words) in [
        ("call_1", "report.txt"),
        ("call_2", "#room-2"),
        ("call_3", "words of channel 1"),
        ("call_4", "words of channel 2"),
        ("call_5", "handed over"),
    ] {
        assert!(results.get(call).is_some_and(|told| told.contains(words)), "{call}: {results:?}");
    }
    let claims = gateway.dispatcher.claims.all();
    let [claim] = &claims[..] else { panic!("one claim: {claims:?}") };
    assert_eq!(claim.reason.as_deref(), Some("release"), "{claim:?}");
    let words: Vec<bool> = asked.iter().map(|text| text.contains("Check it.")).collect();
    assert_eq!(words, [false, true], "{asked:?}");
    gateway.answer(2).await.answers("Checked.");
    let request = gateway.model.requests().pop().unwrap();
    assert!(
        request.prompts().iter().any(|prompt| prompt.contains("Check it.")),
        "{:?}",
        request.prompts()
    );
}

/// Makes these calls one after the other in a turn of two channels that have all tools, and returns
/// the questions that people were asked about them. People allow everything.
async fn calling<const N: usize>(
    cell: &Cell,
    calls: [(&'static str, &'static str, serde_json::Value); N],
) -> (Gateway, Vec<String>) {
    let calls = calls.map(|(id, name, input)| Reply::does(id, Intent::host(name, input)));
    let script = Script::default()
        .on("Begin.", calls.into_iter().chain([Reply::text("Done.")]))
        .on("Check it.", [Reply::text("Checked.")]);
    let wishes = Wishes { safety: Safety::Default, ..Wishes::default() };
    let gateway = cell.open(script.serve().await, wishes).await;
    gateway.write("workspace/report.txt", "figures of the week\n");
    let channels = "## channel 1\n\n- host-tools: all\n\n## channel 2\n\n- host-tools: all\n";
    gateway.write("config/channels.md", channels);
    gateway.ask(1, "Begin.");
    let mut asked = Vec::new();
    loop {
        match gateway.question_or_end(1).await {
            Ok(question) => match &question.subject {
                Subject::Questions(questions) => {
                    let [one] = &questions[..] else { panic!("one question: {questions:?}") };
                    asked.push(one.text.clone());
                    let answers = vec![(one.id.clone(), vec!["Allow".to_owned()])];
                    gateway.decide(&question, AskDecision::Answers(answers));
                }
                _ => {
                    assert!(
                        cell.backend.asks_before_host_tools(),
                        "somebody is asked: {question:?}"
                    );
                    gateway.decide(&question, AskDecision::AllowOnce);
                }
            },
            Err(told) => {
                told.answers("Done.");
                return (gateway, asked);
            }
        }
    }
}
