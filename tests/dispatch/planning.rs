//! Tests of planning mode: until a person approves the plan, a permission request is refused unless
//! it only reads, for every backend and every person who would allow it.

use std::collections::BTreeMap;
use std::sync::Arc;

use aetheel_dispatch::{Person, Settlement};
use aetheel_model::agent::{
    Action, Ask, AskDecision, AskKind, Chunk, Exit, HostCommand, Input, Mode, ToolStart, Write,
    is_read_only,
};
use aetheel_model::event::NewEvent;
use aetheel_model::id::UserId;
use aetheel_turn::ProcessCommand;

use crate::support::recordings::{actions, cases};
use crate::support::scripted::{
    Agent, Desk, DeskOptions, ScriptedLauncher, Understanding, message, plain,
};

const ANN: u64 = 4;

fn tool(kind: &str, target: &str) -> AskKind {
    AskKind::Permission(ToolStart {
        id: "t".into(),
        parent: None,
        kind: kind.into(),
        native_name: "Tool".into(),
        title: "use".into(),
        target: Some(target.to_owned()),
        input: "{}".into(),
    })
}

/// Like `plain`, but asks at `plan` and `KIND TARGET`, and writes every decision to the agent as a
/// line.
pub(super) fn asking() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text.starts_with("ask ") => {
            let kind = match line.text[4..].split_once(' ') {
                Some((kind, target)) => tool(kind, target),
                None => AskKind::PlanApproval("1. look\n2. leap".to_owned()),
            };
            let (title, always_label) = ("May I?".to_owned(), None);
            let ask = Ask {
                ask: 9,
                session: 1,
                turn: 1,
                title,
                kind,
                always_label,
                options: vec![],
                diffs: vec![],
                changeable: false,
                parent: None,
                deadline_ms: None,
            };
            Ok(vec![Action::Ask(ask)])
        }
        Input::Command(HostCommand::Answer(answer)) => {
            let told = format!("{}\n", serde_json::to_string(&answer.decision).unwrap());
            Ok(vec![Action::Write(Write { proc: 1, body: vec![Chunk::Text(told)] })])
        }
        _ => usual(state, input),
    })
}

/// Agents that ask these questions one after the other, and repeat what they receive.
pub(super) fn agent(asks: &'static [&'static str]) -> Arc<ScriptedLauncher> {
    ScriptedLauncher::new(move |mut agent: Agent| async move {
        for ask in asks {
            agent.say(&[&format!("ask {ask}")]).await;
            let Some(ProcessCommand::Write(bytes)) = agent.commands.recv().await else { return };
            agent
                .say(&[&format!("text {ask}: {}; ", String::from_utf8(bytes).unwrap().trim())])
                .await;
        }
        agent.say(&["done"]).await;
        agent.exit(Exit::Code(0), "").await;
    })
}

async fn planning(
    asks: &'static [&'static str],
    mode: Mode,
    feature: Option<&'static str>,
) -> Desk {
    let desk = Desk::new(
        agent(asks),
        DeskOptions { understanding: asking(), mode, feature, ..DeskOptions::default() },
    )
    .await;
    desk.dispatcher
        .intake
        .submit(NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, "go") })
        .unwrap();
    desk
}

pub(super) fn ann() -> Person {
    Person::User { id: UserId::discord(ANN), roles: vec![], owner: true, name: "ann".to_owned() }
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_refused_with_a_reason_for_the_agent_and_for_people() {
    // This also holds for an agent without a mode for it.
    for feature in [Some("plan"), None] {
        let asks =
            &["bash touch x", "file_write a", "file_edit b", "mcp c", "other d", "bash touch x"];
        let desk = planning(asks, Mode::Plan, feature).await;
        let answer = desk.collected.answers(1).await.remove(0).1;
        assert_eq!(
            answer.text.matches("Only planning is allowed here").count(),
            asks.len(),
            "{}",
            answer.text
        );
        assert!(desk.collected.settled(0).await.is_empty(), "nobody is asked");
        let told = "Refused in plan mode: `touch x`, `a`, `b` and 3 more. `/settings mode:build` ends it, if the operator allows that.";
        assert_eq!(answer.notices, [told], "{feature:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_may_be_allowed_and_so_may_changes_once_a_person_approved_the_plan() {
    let desk = planning(&["file_read /etc/x", "plan", "bash make"], Mode::Plan, Some("plan")).await;
    for (number, decision) in
        [(1, AskDecision::Deny(None)), (2, AskDecision::AllowOnce), (3, AskDecision::AllowOnce)]
    {
        let question = desk.collected.questions(number).await.remove(number - 1);
        desk.dispatcher.questions.answer(&question.id, &ann(), decision).unwrap();
    }
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert!(answer.text.ends_with("bash make: \"allow-once\"; "), "{}", answer.text);
    assert!(answer.notices.is_empty(), "{:?}", answer.notices);
    // After the plan was refused, planning continues.
    let desk = planning(&["plan", "bash make"], Mode::Plan, Some("plan")).await;
    let question = desk.collected.questions(1).await.remove(0);
    desk.dispatcher
        .questions
        .answer(&question.id, &ann(), AskDecision::Deny(Some("not yet".to_owned())))
        .unwrap();
    let answer = desk.collected.answers(1).await.remove(0).1;
    assert!(answer.text.contains("Only planning is allowed here"), "{}", answer.text);
    assert!(matches!(desk.collected.settled(1).await[0].1, Settlement::Answered { .. }));
}

#[tokio::test(flavor = "multi_thread")]
async fn outside_plan_mode_people_are_asked() {
    let desk = planning(&["bash make"], Mode::Build, Some("plan")).await;
    let question = desk.collected.questions(1).await.remove(0);
    desk.dispatcher.questions.answer(&question.id, &ann(), AskDecision::AllowOnce).unwrap();
    assert!(desk.collected.answers(1).await.remove(0).1.text.contains("allow-once"));
}

/// Every recorded permission request of any agent changes something, and gets the refusal for it.
#[test]
fn every_recorded_permission_request_of_every_backend_is_refused() {
    let mut held: BTreeMap<&str, usize> = BTreeMap::new();
    for backend in ["acp", "claude", "codex", "droid", "gemini", "opencode"] {
        for case in cases(backend) {
            for action in actions(&case) {
                if let Action::Ask(Ask { kind: AskKind::Permission(tool), .. }) = action {
                    let looks = ["read", "view", "search", "glob", "grep", "list", "fetch"];
                    let name = tool.native_name.to_lowercase();
                    assert_eq!(
                        is_read_only(tool),
                        looks.iter().any(|word| name.contains(word)),
                        "{}: {tool:?}",
                        case.path.display()
                    );
                    *held.entry(backend).or_default() += usize::from(!is_read_only(tool));
                }
            }
        }
    }
    assert!(held.len() == 6 && held.values().all(|count| *count >= 3), "{held:?}");
}
