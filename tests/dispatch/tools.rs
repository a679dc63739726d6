//! Tests of the host's tools: each call has one effect and one result, also if the gateway dies in
//! between.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;

use aetheel_dispatch::{Settlement, TurnAnswer};
use aetheel_model::agent::{Action, AskDecision, Chunk, Exit, Input, ToolRequest, Write};
use aetheel_model::host_tool::HostToolKind;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{EntryKind, ParsedRecording};
use aetheel_turn::ProcessCommand;
use tokio::sync::{mpsc, watch};

use super::outlive::{Gateway, Setup, ann, recording};
use super::turns::only_recording;
use crate::support::scripted::{
    Agent, Desk, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher, Understanding, plain,
};
use crate::support::shelf::Shelf;

/// Understands `call KEY NAME INPUT` and `tools`, and writes results to the agent as lines.
fn calling() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| match input {
        Input::Line(line) if line.text == "tools" => {
            let tools = &state.start.as_ref().expect("a turn").tools;
            let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).collect();
            Ok(vec![line_to_agent(&format!("tools: {}", names.join(" ")))])
        }
        Input::Line(line) if line.text.starts_with("call ") => {
            let words: Vec<&str> = line.text.splitn(4, ' ').collect();
            let [_, call, name, input] = words[..] else { panic!("{}", line.text) };
            Ok(vec![Action::ToolRequest(ToolRequest {
                call: call.parse().expect("a key"),
                session: 1,
                turn: 1,
                name: name.to_owned(),
                input: input.to_owned(),
            })])
        }
        Input::ToolResult(result) => {
            let kind = if result.failed { "failed" } else { "done" };
            Ok(vec![line_to_agent(&format!("{} {kind}: {}", result.call, result.text))])
        }
        _ => usual(state, input),
    })
}

fn line_to_agent(text: &str) -> Action {
    Action::Write(Write { proc: 1, body: vec![Chunk::Text(format!("{text}\n"))] })
}

/// An agent that prints these lines, receives this many lines, and finishes once the flag is set.
struct Calls {
    received: mpsc::UnboundedReceiver<String>,
    leave: watch::Sender<bool>,
    launcher: Arc<ScriptedLauncher>,
}

impl Calls {
    fn new(lines: &[&str], results: usize) -> Self {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let (sent, received) = mpsc::unbounded_channel();
        let (leave, given) = watch::channel(true);
        let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
            let (sent, mut given, lines) = (sent.clone(), given.clone(), lines.clone());
            async move {
                agent.say(&["session s1", "text before "]).await;
                agent.say(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
                let mut left = results;
                while left > 0 {
                    let Some(command) = agent.commands.recv().await else { return };
                    if let ProcessCommand::Write(bytes) = command {
                        let text = String::from_utf8(bytes).expect("text");
                        // The test may have ended.
                        let _ = sent.send(text.trim().to_owned());
                        left -= 1;
                    }
                }
                let _ = given.wait_for(|given| *given).await;
                agent.say(&["text after", "done"]).await;
                agent.exit(Exit::Code(0), "").await;
            }
        });
        Self { received, leave, launcher }
    }

    /// Runs one turn and returns its answer and the lines that the agent received.
    async fn run(self, desk_options: DeskOptions) -> (Desk, TurnAnswer, Vec<String>) {
        let Self { mut received, launcher, .. } = self;
        let desk = Desk::new(launcher, desk_options).await;
        prepare(&desk.folder.path().join("workspace"), desk.folder.path());
        desk.ask(1, "go");
        let answer = desk.collected.answers(1).await.remove(0).1;
        desk.dispatcher.turns.idle().await;
        let mut lines = Vec::new();
        while let Ok(line) = received.try_recv() {
            lines.push(line);
        }
        (desk, answer, lines)
    }
}

/// Fills a working directory. `outside` is a folder that contains it.
fn prepare(cwd: &Path, outside: &Path) {
    std::fs::write(outside.join("secret.txt"), "precious").unwrap();
    std::fs::write(cwd.join("plot.png"), b"\x89PNG\xff").unwrap();
    std::fs::File::create(cwd.join("huge.bin")).unwrap().set_len(64 << 20).unwrap();
    symlink("../secret.txt", cwd.join("leak.txt")).unwrap();
    symlink("..", cwd.join("up")).unwrap();
}

fn options() -> DeskOptions {
    DeskOptions { understanding: calling(), feature: Some("host-tools"), ..DeskOptions::default() }
}

const POST: &str = r#"call 5 aetheel_post_file {"path":"plot.png"}"#;
const ASK: &str = r#"call 6 aetheel_ask {"question":"Which colour?","options":["red","blue"]}"#;

fn posted(answer: &TurnAnswer) -> Vec<(String, Vec<u8>)> {
    let read = |path: &Path| std::fs::read(path).unwrap();
    answer.files.iter().map(|file| (file.name.clone(), read(&file.path))).collect()
}

fn plot() -> (String, Vec<u8>) {
    ("plot.png".to_owned(), b"\x89PNG\xff".to_vec())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_the_agent_posts_is_part_of_the_answer_once() {
    let (desk, answer, lines) = Calls::new(&["tools", POST], 2).run(options()).await;
    assert_eq!(answer.text, "before after");
    assert_eq!(posted(&answer), [plot()]);
    assert_eq!(lines[0], "tools: aetheel_post_file aetheel_ask aetheel_claim");
    assert_eq!(lines[1], "5 done: The file `plot.png` (5 bytes) is attached to your answer.");
    let tape = ParsedRecording::read(&only_recording(&desk).await).unwrap();
    let count = |found: fn(&EntryKind) -> bool| {
        tape.entries.iter().filter(|entry| found(&entry.kind)).count()
    };
    let counts = [
        count(|kind| matches!(kind, EntryKind::Out(Action::ToolRequest(_)))),
        count(|kind| matches!(kind, EntryKind::Attached { call: 5, .. })),
        count(|kind| matches!(kind, EntryKind::In(Input::ToolResult(_)))),
    ];
    assert_eq!(counts, [1, 1, 1]);
    // A replay gets the result from the recording and carries out nothing.
    std::fs::remove_file(desk.folder.path().join("workspace/plot.png")).unwrap();
    let backend = ScriptedBackend::new(calling());
    let replayed = replay(&backend, &tape.entries, Batches::Single).await.unwrap();
    let recorded: Vec<&Action> = tape.entries.iter().filter_map(|entry| entry.action()).collect();
    assert_eq!(replayed.actions().collect::<Vec<_>>(), recorded);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_of_a_question_is_the_answer_of_people() {
    let answer = AskDecision::Answers(vec![("answer".to_owned(), vec!["blue".to_owned()])]);
    for (decision, result) in [
        (answer, "6 done: blue"),
        (AskDecision::Declined, "6 done: They saw the question and do not want to answer it."),
        (AskDecision::Dismissed, "6 done: The question got no answer."),
    ] {
        let Calls { mut received, launcher, .. } = Calls::new(&[ASK], 1);
        let desk = Desk::new(launcher, options()).await;
        desk.ask(1, "go");
        let asked = desk.collected.questions(1).await.remove(0);
        let owner = aetheel_dispatch::Person::User {
            id: aetheel_model::id::UserId::discord(9),
            roles: vec![],
            owner: true,
            name: "owner".to_owned(),
        };
        desk.dispatcher.questions.answer(&asked.id, &owner, decision).unwrap();
        let line = received.recv().await.unwrap();
        assert!(line.starts_with(result), "{line}");
        assert_eq!(desk.collected.answers(1).await.remove(0).1.text, "before after");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_cannot_be_carried_out_fails_with_the_reason() {
    let calls = [
        (r#"call 1 aetheel_post_file {"path":"leak.txt"}"#, "outside of the working directory"),
        (
            r#"call 2 aetheel_post_file {"path":"up/secret.txt"}"#,
            "outside of the working directory",
        ),
        (
            r#"call 3 aetheel_post_file {"path":"../secret.txt"}"#,
            "outside of the working directory",
        ),
        (r#"call 4 aetheel_post_file {"path":"/etc/passwd"}"#, "outside of the working directory"),
        (r#"call 5 aetheel_post_file {"path":"none.txt"}"#, "there is no file `none.txt`"),
        (r#"call 6 aetheel_post_file {"path":"."}"#, "not a regular file"),
        (r#"call 7 aetheel_post_file {"path":"huge.bin"}"#, "the limit is"),
        (r#"call 8 aetheel_post_file {"path""#, "not valid"),
        (r#"call 9 aetheel_ask {"question":""}"#, "the question is empty"),
        ("call 10 rm {}", "its tools are: aetheel_post_file, aetheel_ask, aetheel_claim"),
    ];
    for (line, reason) in calls {
        let (_, answer, lines) = Calls::new(&[line], 1).run(options()).await;
        assert_eq!((posted(&answer), answer.text.as_str()), (vec![], "before after"), "{line}");
        assert!(lines[0].contains(" failed: ") && lines[0].contains(reason), "{}", lines[0]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn open_calls_and_files_are_limited() {
    let asks: Vec<String> = (1..=9)
        .map(|call| format!(r#"call {call} aetheel_ask {{"question":"{call}?"}}"#))
        .collect();
    let lines: Vec<&str> = asks.iter().map(String::as_str).collect();
    let (desk, answer, lines) = Calls::new(&lines, 1).run(options()).await;
    assert_eq!(answer.text, "before after");
    assert!(lines[0].starts_with("9 failed: 8 calls"), "{}", lines[0]);
    // The turn ended with open questions.
    assert_eq!(desk.collected.settled(8).await.len(), 8);
    let posts: Vec<String> = (1..=11)
        .map(|call| format!(r#"call {call} aetheel_post_file {{"path":"plot.png"}}"#))
        .collect();
    let posts: Vec<&str> = posts.iter().map(String::as_str).collect();
    let (_desk, answer, lines) = Calls::new(&posts, 11).run(options()).await;
    let failed = lines.iter().filter(|line| line.contains(" failed: ")).count();
    assert!((1..=3).contains(&failed), "{lines:?}");
    assert_eq!(posted(&answer).len(), 11 - failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_ends_closes_its_question() {
    let Calls { launcher, .. } = Calls::new(&[ASK], 0);
    let desk = Desk::new(launcher, options()).await;
    desk.ask(1, "go");
    let asked = desk.collected.questions(1).await.remove(0);
    assert_eq!(desk.collected.answers(1).await.remove(0).1.text, "before after");
    let (id, how) = desk.collected.settled(1).await.remove(0);
    assert_eq!(id, asked.id);
    assert!(matches!(how, Settlement::Withdrawn | Settlement::TurnEnded), "{how:?}");
    let late = desk.dispatcher.questions.answer(&id, &ann(), AskDecision::Declined);
    assert!(late.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backend_without_the_feature_gets_no_tools_and_may_call_none() {
    let without = DeskOptions { feature: None, ..options() };
    let (_, answer, lines) = Calls::new(&["tools", POST], 2).run(without).await;
    assert_eq!((lines[0].as_str(), posted(&answer).len()), ("tools:", 0));
    assert!(lines[1].contains("its tools are: none"), "{}", lines[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_the_operator_switched_off_is_not_offered() {
    let only_ask = DeskOptions { host_tools: vec![HostToolKind::Ask], ..options() };
    let (_, answer, lines) = Calls::new(&["tools", POST], 2).run(only_ask).await;
    assert_eq!((lines[0].as_str(), posted(&answer).len()), ("tools: aetheel_ask", 0));
    assert!(lines[1].contains("its tools are: aetheel_ask"), "{}", lines[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_whose_tool_server_cannot_start_offers_no_tools() {
    let Calls { mut received, launcher, .. } = Calls::new(&["tools"], 1);
    let desk = Desk::new(launcher, options()).await;
    desk.dispatcher.tool_endpoints.set_unavailable();
    desk.ask(1, "go");
    desk.collected.answers(1).await;
    assert_eq!(received.recv().await.unwrap(), "tools:");
}

fn setup() -> Setup {
    let backend = ScriptedBackend::with_feature(calling(), Some("host-tools"));
    Setup::with(Arc::new(OneBackend(Arc::new(backend))))
}

/// Returns the files and the text of the first answer.
fn outcome(gateway: &Gateway) -> (Vec<(String, Vec<u8>)>, String) {
    let (_, answer) = gateway.runtime.block_on(gateway.collected.answers(1)).remove(0);
    assert_eq!(answer.failure, None);
    (posted(&answer), answer.text)
}

#[test]
fn a_file_is_posted_once_wherever_the_gateway_dies() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("plot.png"), b"\x89PNG\xff").unwrap();
    let mut calls = Calls::new(&[POST], 1);
    calls.leave.send_replace(false);
    let shelf = Shelf::new(calls.launcher.clone());
    let first = Gateway::begin(folder.path(), &shelf, setup());
    first.ask("go");
    assert!(calls.received.blocking_recv().unwrap().starts_with("5 done"));
    first.die();
    calls.leave.send_replace(true);
    shelf.wait_for_exits();
    let (path, queue) = (recording(folder.path()), folder.path().join("config/state/queue.md"));
    let (whole, state) = (std::fs::read(&path).unwrap(), std::fs::read(&queue).unwrap());
    let text = String::from_utf8(whole.clone()).unwrap();
    let line_with = |word: &str| text[..text.find(word).expect(word)].rfind('\n').unwrap() + 1;
    let request = line_with("tool-request");
    assert!(request < line_with("attached") && line_with("attached") < line_with("tool-result"));
    // The recording ends before or after each line, and in the middle of one.
    let ends: Vec<usize> = text.match_indices('\n').map(|(at, _)| at + 1).collect();
    let starts = line_with("start-turn");
    let cuts = ends.iter().flat_map(|end| [*end, end - 2]).filter(|cut| *cut > starts + 20);
    for cut in cuts {
        std::fs::write(&path, &whole[..cut]).unwrap();
        std::fs::write(&queue, &state).unwrap();
        shelf.forget_recorded();
        shelf.make_folders();
        let gateway = Gateway::begin(folder.path(), &shelf.copy(), setup());
        assert_eq!(outcome(&gateway), (vec![plot()], "before after".to_owned()), "cut at {cut}");
        gateway.runtime.block_on(gateway.dispatcher.turns.idle());
        gateway.die();
    }
}

#[test]
fn a_file_that_was_recorded_is_not_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("plot.png");
    std::fs::write(&file, b"\x89PNG\xff").unwrap();
    let mut calls = Calls::new(&[POST], 1);
    calls.leave.send_replace(false);
    let shelf = Shelf::new(calls.launcher.clone());
    let first = Gateway::begin(folder.path(), &shelf, setup());
    first.ask("go");
    calls.received.blocking_recv().unwrap();
    first.die();
    std::fs::remove_file(&file).unwrap();
    calls.leave.send_replace(true);
    let second = Gateway::begin(folder.path(), &shelf, setup());
    assert_eq!(outcome(&second), (vec![plot()], "before after".to_owned()));
    assert!(calls.received.try_recv().is_err(), "the agent gets one result");
}

#[test]
fn an_open_question_is_asked_again_after_each_crash_and_answered_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = Calls::new(&[ASK], 1);
    let shelf = Shelf::new(calls.launcher.clone());
    let mut gateway = Gateway::begin(folder.path(), &shelf, setup());
    gateway.ask("go");
    let id = gateway.runtime.block_on(gateway.collected.questions(1)).remove(0).id;
    for _ in 0..4 {
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, setup());
        assert_eq!(gateway.runtime.block_on(gateway.collected.questions(1)).remove(0).id, id);
        assert_eq!(*gateway.collected.continued.lock().unwrap(), std::slice::from_ref(&id));
    }
    let blue = AskDecision::Answers(vec![("answer".to_owned(), vec!["blue".to_owned()])]);
    gateway.dispatcher.questions.answer(&id, &ann(), blue).unwrap();
    assert_eq!(calls.received.blocking_recv().as_deref(), Some("6 done: blue"));
    assert_eq!(outcome(&gateway), (vec![], "before after".to_owned()));
    assert!(calls.received.try_recv().is_err(), "the agent gets one result");
}

#[test]
fn a_question_answered_before_a_crash_is_not_asked_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut calls = Calls::new(&[ASK], 1);
    calls.leave.send_replace(false);
    let shelf = Shelf::new(calls.launcher.clone());
    let first = Gateway::begin(folder.path(), &shelf, setup());
    first.ask("go");
    let id = first.runtime.block_on(first.collected.questions(1)).remove(0).id;
    first.dispatcher.questions.answer(&id, &ann(), AskDecision::Declined).unwrap();
    assert!(calls.received.blocking_recv().unwrap().starts_with("6 done"));
    first.die();
    let second = Gateway::begin(folder.path(), &shelf, setup());
    assert!(second.collected.continued.lock().unwrap().is_empty());
    calls.leave.send_replace(true);
    assert_eq!(outcome(&second), (vec![], "before after".to_owned()));
    assert_eq!(second.runtime.block_on(second.collected.questions(0)).len(), 0);
    assert!(calls.received.try_recv().is_err());
}
