//! Tests of policies: they decide before people are asked, never permit more than the operator's
//! settings, and each decision is recorded.

use std::sync::{Arc, Mutex};

use aetheel_model::agent::{AllowedTools, AskDecision, Mode, Safety};
use aetheel_model::event::NewEvent;
use aetheel_model::id::UserId;
use aetheel_model::policy::{PolicyCeiling, PolicyEffect, PolicyRequest, PolicyRuling, PolicyVote};
use aetheel_model::redact::Redactor;
use aetheel_recording::{EntryKind, ParsedRecording, transcript};
use aetheel_turn::Policies;
use async_trait::async_trait;

use super::outlive::{self, Gateway, Setup, asking_agents, recording};
use super::planning::{agent, ann, asking};
use crate::support::policies::ScriptedPolicy;
use crate::support::scripted::{Desk, DeskOptions, message};
use crate::support::shelf::Shelf;

const ANN: u64 = 4;

/// Allows `ls`, denies `rm` and asks about `make`. It has no rule for anything else.
fn guard() -> Arc<dyn Policies> {
    Arc::new(ScriptedPolicy(|request: &PolicyRequest| match request.command.as_deref() {
        Some("ls") => (PolicyEffect::Allow, "it only reads"),
        Some("rm") => (PolicyEffect::Deny, "it removes files"),
        Some("make") => (PolicyEffect::Ask, "it may do anything"),
        _ => (PolicyEffect::Pass, ""),
    }))
}

/// Allows everything.
fn lax() -> Arc<dyn Policies> {
    Arc::new(ScriptedPolicy(|_: &PolicyRequest| (PolicyEffect::Allow, "why not")))
}

async fn desk(asks: &'static [&'static str], options: DeskOptions) -> Desk {
    let desk = Desk::new(agent(asks), DeskOptions { understanding: asking(), ..options }).await;
    let asked = NewEvent { asker: Some(UserId::discord(ANN)), ..message(7, "go") };
    desk.dispatcher.intake.submit(asked).unwrap();
    desk
}

fn rulings(recording: &ParsedRecording) -> Vec<PolicyRuling> {
    let entries = recording.entries.iter();
    let rulings = entries.filter_map(|entry| match &entry.kind {
        EntryKind::Ruled(ruling) => Some(ruling.clone()),
        _ => None,
    });
    rulings.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_decide_before_people_are_asked_and_everything_is_recorded() {
    let asks = &["bash ls", "bash rm", "bash make", "bash true"];
    let desk = desk(asks, DeskOptions { policies: guard(), ..DeskOptions::default() }).await;
    for number in 1..=2 {
        let question = desk.collected.questions(number).await.remove(number - 1);
        let decision = AskDecision::AllowOnce;
        desk.dispatcher.questions.answer(&question.id, &ann(), decision).unwrap();
    }
    let answer = desk.collected.answers(1).await.remove(0).1;
    let told = [
        r#"bash ls: "allow-once"; "#,
        r#"bash rm: {"deny":"The operator's policy `guard` does not allow this: it removes files"}; "#,
        r#"bash make: "allow-once"; "#,
        r#"bash true: "allow-once"; "#,
    ];
    assert_eq!(answer.text, told.concat());
    assert_eq!(desk.collected.questions(2).await.len(), 2, "people are asked about two of four");
    assert_eq!(answer.notices, ["`rm` was denied by the policy `guard`: it removes files."]);
    desk.dispatcher.turns.idle().await;
    desk.recorder.flush();
    let path = recording(desk.folder.path());
    let text = std::fs::read_to_string(&path).unwrap();
    let recorded = ParsedRecording::read(&text).unwrap();
    let effects: Vec<_> = rulings(&recorded).iter().map(|ruling| ruling.effect).collect();
    use PolicyEffect::{Allow, Ask, Deny};
    assert_eq!(effects, [Allow, Deny, Ask, Ask]);
    let name = path.strip_prefix(desk.recorder.folder()).unwrap().to_str().unwrap();
    let redactor = Redactor::default();
    let told = transcript::read(desk.recorder.folder(), name, &recorded.header.link, &redactor);
    let told = format!("{:?}", told.await.unwrap());
    for line in [
        "allowed by the policy `guard`: it only reads",
        "denied by the policy `guard`: it removes files",
        "left to people by the policy `guard`: it may do anything",
    ] {
        assert!(told.contains(line), "{told}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_allows_everything_exceeds_no_setting_of_the_operator() {
    let only_reading = AllowedTools::Only(vec!["file_read".into()]);
    for (options, part) in [
        (
            DeskOptions { allowed_tools: only_reading, ..DeskOptions::default() },
            "operator does not allow this tool",
        ),
        (DeskOptions { mode: Mode::Plan, ..DeskOptions::default() }, "Only planning is allowed"),
    ] {
        let desk = desk(&["bash rm"], DeskOptions { policies: lax(), ..options }).await;
        let answer = desk.collected.answers(1).await.remove(0).1;
        assert!(answer.text.contains(part), "{}", answer.text);
    }
    for (ceiling, request, asked) in [
        (PolicyCeiling::Nothing, "file_read a", true),
        (PolicyCeiling::Read, "file_read a", false),
        (PolicyCeiling::Read, "file_edit a", true),
        (PolicyCeiling::Edit, "file_edit a", false),
        (PolicyCeiling::Edit, "file_edit ../a", true),
        (PolicyCeiling::Edit, "bash ls", true),
        (PolicyCeiling::All, "bash ls", false),
    ] {
        let asks: &'static [&'static str] = Box::leak(Box::new([request]));
        let options =
            DeskOptions { policies: lax(), policy_allow: ceiling, ..DeskOptions::default() };
        let desk = desk(asks, options).await;
        if asked {
            let question = desk.collected.questions(1).await.remove(0);
            let refused = AskDecision::Deny(None);
            desk.dispatcher.questions.answer(&question.id, &ann(), refused).unwrap();
        }
        let answer = desk.collected.answers(1).await.remove(0).1;
        assert_eq!(answer.text.contains("allow-once"), !asked, "{ceiling:?}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_sees_the_turn_and_hostile_text_but_no_secrets() {
    let seen: Arc<Mutex<Vec<PolicyRequest>>> = Arc::default();
    let taken = seen.clone();
    let policies = Arc::new(ScriptedPolicy(move |request: &PolicyRequest| {
        taken.lock().unwrap().push(request.clone());
        (PolicyEffect::Deny, "no\u{202e}\n@everyone `x` sk-canary-0123456789")
    }));
    let options = DeskOptions {
        policies,
        safety: Safety::Default,
        secret: Some("sk-canary-0123456789".into()),
        ..DeskOptions::default()
    };
    let desk = desk(&["bash echo sk-canary-0123456789 \u{1b}[2J"], options).await;
    let answer = desk.collected.answers(1).await.remove(0).1;
    let request = seen.lock().unwrap().remove(0);
    assert_eq!(request.command.as_deref(), Some("echo *** \u{1b}[2J"));
    let context = &request.context;
    assert_eq!((context.backend.as_str(), context.lane.as_str()), ("scripted", "channel:7"));
    assert_eq!((context.person.as_deref(), context.safety), (Some("4"), Safety::Default));
    assert!(context.cwd.ends_with("/workspace"), "{}", context.cwd);
    let notice = &answer.notices[0];
    assert!(
        notice.contains("denied by the policy `guard`: no @everyone") && !notice.contains("canary"),
        "{notice}"
    );
    assert!(!notice.contains(['\n', '\u{202e}', '\u{1b}']), "{notice:?}");
}

/// Panics.
struct Broken;

#[async_trait]
impl Policies for Broken {
    fn is_empty(&self) -> bool {
        false
    }

    async fn decide(&self, _: &PolicyRequest) -> Vec<PolicyVote> {
        panic!("a bug of the host")
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_panics_leaves_the_question_to_people() {
    let options = DeskOptions { policies: Arc::new(Broken), ..DeskOptions::default() };
    let desk = desk(&["bash ls"], options).await;
    let question = desk.collected.questions(1).await.remove(0);
    desk.dispatcher.questions.answer(&question.id, &ann(), AskDecision::Deny(None)).unwrap();
    assert!(desk.collected.answers(1).await.remove(0).1.text.contains("deny"));
}

/// Never decides.
struct Endless;

#[async_trait]
impl Policies for Endless {
    fn is_empty(&self) -> bool {
        false
    }

    async fn decide(&self, _: &PolicyRequest) -> Vec<PolicyVote> {
        std::future::pending().await
    }
}

#[test]
fn a_gateway_that_dies_during_a_decision_decides_again() {
    let (folder, (mut told, leave, agents)) = (tempfile::tempdir().unwrap(), asking_agents());
    leave.send_replace(true);
    let shelf = Shelf::new(agents.clone());
    let endless = Setup { policies: Arc::new(Endless), ..Setup::of(outlive::asking()) };
    let first = Gateway::begin(folder.path(), &shelf, endless);
    first.ask("go");
    first.wait_for_text("before ");
    first.die();
    let lax = Setup { policies: lax(), ..Setup::of(outlive::asking()) };
    let second = Gateway::begin(folder.path(), &shelf, lax);
    assert_eq!(second.answer(), ("before after".to_owned(), None));
    assert_eq!(told.blocking_recv().as_deref(), Some("AllowOnce"));
    assert!(told.try_recv().is_err(), "one decision reached the agent");
    assert_eq!(second.runtime.block_on(second.collected.questions(0)).len(), 0);
}

/// Runs a gateway that dies after a policy decided and the agent got the answer. The recording ends
/// after the decision if `cut` is set, as if the gateway had died before the answer.
fn dead_after_the_decision(cut: bool, policies: Arc<dyn Policies>) -> (Gateway, Vec<String>) {
    let (folder, (mut told, leave, agents)) = (tempfile::tempdir().unwrap(), asking_agents());
    let shelf = Shelf::new(agents.clone());
    let deciding = Setup { policies: lax(), ..Setup::of(outlive::asking()) };
    let first = Gateway::begin(folder.path(), &shelf, deciding);
    first.ask("go");
    let mut answers = vec![told.blocking_recv().unwrap()];
    first.die();
    if cut {
        let path = recording(folder.path());
        let text = std::fs::read_to_string(&path).unwrap();
        let end = text.find(r#""ruled":"#).unwrap();
        let end = end + text[end..].find('\n').unwrap() + 1;
        std::fs::write(&path, &text[..end]).unwrap();
    }
    let second =
        Gateway::begin(folder.path(), &shelf, Setup { policies, ..Setup::of(outlive::asking()) });
    leave.send_replace(true);
    let (text, failure) = second.answer();
    assert_eq!((text.as_str(), failure), ("before after", None), "cut: {cut}");
    answers.extend(std::iter::from_fn(|| told.try_recv().ok()));
    (second, answers)
}

#[test]
fn a_gateway_that_dies_after_a_decision_gives_the_agent_one_answer() {
    for cut in [false, true] {
        let (gateway, answers) = dead_after_the_decision(cut, lax());
        assert_eq!(answers, ["AllowOnce"], "cut: {cut}");
        assert_eq!(gateway.runtime.block_on(gateway.collected.questions(0)).len(), 0);
        let interrupted = *gateway.collected.interrupted.lock().unwrap();
        assert_eq!(interrupted, 0, "people did not see the question, cut: {cut}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn without_policies_people_decide_and_nothing_is_recorded() {
    let desk = desk(&["bash ls"], DeskOptions::default()).await;
    let question = desk.collected.questions(1).await.remove(0);
    desk.dispatcher.questions.answer(&question.id, &ann(), AskDecision::AllowOnce).unwrap();
    desk.collected.answers(1).await;
    desk.dispatcher.turns.idle().await;
    desk.recorder.flush();
    let text = std::fs::read_to_string(recording(desk.folder.path())).unwrap();
    assert!(rulings(&ParsedRecording::read(&text).unwrap()).is_empty());
}
