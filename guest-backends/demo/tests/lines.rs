//! Converts the lines of the demo agent into events.

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::fixture::{line, run, start};
use aetheel_backend_sdk::json;
use aetheel_backend_sdk::wit::{
    Action, Answer, AnswerForm, ArtifactBody, AskKind, Chunk, Command, Decision, EventKind, Exit,
    Exited, FailureKind, FileChange, Input, Outcome, Pipe, PlanStatus, Scope, StartTurn,
    TaskStatus, ToolRequest, ToolResult, ToolStatus, Value,
};
use demo::Backend;

fn after(lines: &[&str], how: Exit) -> Vec<Action> {
    let mut inputs: Vec<Input> = lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
    inputs.push(Input::Exited(Exited { proc: 1, how, stderr_tail: String::new() }));
    run::<Backend>(start("hi"), inputs)
}

fn outcome(actions: &[Action]) -> &Outcome {
    let Some(Action::TurnDone(done)) = actions.last() else { panic!("{actions:?}") };
    &done.outcome
}

fn events(actions: Vec<Action>) -> Vec<EventKind> {
    let event = |action| match action {
        Action::Event(event) => Some(event.kind),
        _ => None,
    };
    actions.into_iter().filter_map(event).collect()
}

#[test]
fn a_turn_is_reported_completely() {
    let lines = [
        r#"{"type":"hello","session":"demo-1","model":null}"#,
        r#"{"type":"thinking","text":"hm"}"#,
        r#"{"type":"text","text":"I "}"#,
        r#"{"type":"tool","id":"t1","tool":"shell","about":"ls"}"#,
        r#"{"type":"tool-output","id":"t1","text":"a"}"#,
        r#"{"type":"tool-end","id":"t1","ok":false}"#,
        r#"{"type":"plan","steps":[{"text":"look","status":"active"}]}"#,
        r#"{"type":"retry","kind":"overloaded","message":"attempt 1 of 2","after_ms":200}"#,
        r#"{"type":"usage","input":3,"output":4}"#,
        r#"{"type":"done"}"#,
    ];
    let actions = after(&lines, Exit::Code(0));
    assert!(actions.iter().any(
        |action| matches!(action, Action::SessionReady(ready) if ready.native_id == "demo-1")
    ));
    let Some(Action::TurnDone(done)) = actions.last() else { panic!("{actions:?}") };
    assert_eq!(
        (&done.outcome, done.usage.as_ref().map(|usage| (usage.input, usage.output))),
        (&Outcome::Completed, Some((3, 4)))
    );
    let events = events(actions);
    let [
        EventKind::Thinking(_),
        EventKind::Text(text),
        EventKind::ToolStart(tool),
        EventKind::ToolOutput(_),
        EventKind::ToolEnd(end),
        EventKind::Plan(plan),
        EventKind::Retry(retry),
    ] = &events[..]
    else {
        panic!("{events:?}")
    };
    assert_eq!(
        (text.text.as_str(), tool.kind.as_str(), tool.target.as_deref()),
        ("I ", "bash", Some("ls"))
    );
    assert_eq!((end.status, plan[0].status), (ToolStatus::Failed, PlanStatus::Active));
    assert_eq!((retry.kind, retry.retry_after_ms), (FailureKind::Overloaded, Some(200)));
}

#[test]
fn errors_interrupts_and_crashes_are_distinguished() {
    let error =
        r#"{"type":"error","kind":"session-unknown","message":"there is no session \"x\""}"#;
    let failed = after(&[error], Exit::Code(1));
    assert!(
        matches!(outcome(&failed), Outcome::Failed(failure) if failure.kind == FailureKind::SessionUnknown)
    );
    assert_eq!(
        outcome(&after(&[r#"{"type":"interrupted"}"#], Exit::Code(130))),
        &Outcome::Interrupted
    );
    assert!(matches!(
        outcome(&after(&[r#"{"type":"text","text":"I"}"#], Exit::Code(101))),
        Outcome::Lost(_)
    ));
}

#[test]
fn unknown_lines_are_unrecognised() {
    let found =
        events(after(&["Debugger attached.", r#"{"type":"hologram"}"#, "[1]"], Exit::Code(0)));
    assert_eq!(found.len(), 3);
    assert!(found.iter().all(|event| matches!(event, EventKind::Unrecognised(_))), "{found:?}");
}

#[test]
fn questions_become_asks_and_decisions_become_lines() {
    let lines = [
        r#"{"type":"ask","ask":1,"title":"Run?","tool":"shell","about":"ls","always":"Always"}"#,
        r#"{"type":"ask","ask":2,"title":"Change?","tool":"edit","about":"a.txt","input":{"diff":"+x"}}"#,
        r#"{"type":"ask","ask":3,"title":"Go on?","plan":"1. look"}"#,
        r#"{"type":"ask","ask":4,"title":"Which?","questions":[{"id":"a","text":"Which?","options":["x"],"many":true,"words":false}]}"#,
        r#"{"type":"ask","ask":5,"title":"Sign in","address":"https://example.com"}"#,
    ];
    let decisions = [
        (Decision::AllowOnce, r#""decision":"allow""#),
        (
            Decision::Deny(Some("no".to_owned())),
            r#""decision":"deny","type":"answer","words":"no""#,
        ),
        (Decision::AllowAlways, r#""decision":"always""#),
        (
            Decision::Answers(vec![("a".to_owned(), vec!["x".to_owned()])]),
            r#""answers":[["a",["x"]]],"ask":4,"decision":"answers""#,
        ),
        (Decision::Dismissed, r#""decision":"dismissed""#),
    ];
    let mut inputs: Vec<Input> = lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
    for (ask, (decision, _)) in (1..).zip(&decisions) {
        inputs.push(Input::Command(Command::Answer(Answer { ask, decision: decision.clone() })));
    }
    let actions = run::<Backend>(start("hi"), inputs);
    let asks: Vec<_> = actions
        .iter()
        .filter_map(|action| if let Action::Ask(ask) = action { Some(ask) } else { None })
        .collect();
    assert_eq!((asks.len(), asks[0].always_label.as_deref()), (5, Some("Always")));
    assert!(
        matches!(&asks[0].kind, AskKind::Permission(tool) if tool.kind == "bash" && tool.target.as_deref() == Some("ls"))
    );
    assert!(
        matches!(&asks[1].kind, AskKind::Permission(tool) if tool.kind == "file_edit" && tool.input == r#"{"diff":"+x"}"#)
    );
    assert!(matches!(&asks[2].kind, AskKind::PlanApproval(plan) if plan == "1. look"));
    assert!(
        matches!(&asks[3].kind, AskKind::Questions(list) if list[0].many && list[0].options[0].label == "x")
    );
    assert!(matches!(&asks[4].kind, AskKind::SignIn(address) if address == "https://example.com"));
    let written: Vec<_> = actions
        .iter()
        .filter_map(
            |action| if let Action::Write(write) = action { Some(&write.body[..]) } else { None },
        )
        .collect();
    for (body, (_, expected)) in written.iter().zip(&decisions) {
        let [Chunk::Text(line)] = body else { panic!("{body:?}") };
        assert!(line.contains(expected) && line.ends_with('\n'), "{line}");
    }
    assert_eq!(written.len(), decisions.len());
}

#[test]
fn options_changes_and_typed_questions_reach_the_user() {
    let lines = [
        r#"{"type":"ask","ask":1,"title":"Run?","tool":"shell","about":"ls","changeable":true,"diffs":[{"path":"b","change":"renamed","was":"a"}],"options":[{"id":"y","label":"Yes","allows":true},{"id":"never","label":"Never","allows":false,"scope":"project"}]}"#,
        r#"{"type":"ask","ask":2,"title":"?","questions":[{"id":"n","text":"?","says":"more","form":"whole","optional":true,"preset":["3"],"secret":true,"options":[{"id":"1","label":"one","says":"least"}]}]}"#,
    ];
    let mut inputs: Vec<Input> = lines.iter().map(|text| line(Pipe::Stdout, text)).collect();
    let decisions = [
        (1, Decision::Chosen("never".to_owned()), r#""decision":"chosen","option":"never""#),
        (
            1,
            Decision::AllowChanged(r#"{"command":"pwd"}"#.to_owned()),
            r#""decision":"changed","input":{"command":"pwd"}"#,
        ),
        (2, Decision::Declined, r#""decision":"declined""#),
    ];
    inputs.extend(decisions.iter().map(|(ask, decision, _)| {
        Input::Command(Command::Answer(Answer { ask: *ask, decision: decision.clone() }))
    }));
    let actions = run::<Backend>(start("hi"), inputs);
    let asks: Vec<_> = actions
        .iter()
        .filter_map(|action| if let Action::Ask(ask) = action { Some(ask) } else { None })
        .collect();
    assert!(asks[0].changeable && asks[0].diffs[0].change == FileChange::Renamed, "{asks:?}");
    let options: Vec<_> = asks[0]
        .options
        .iter()
        .map(|option| (option.id.as_str(), option.allows, option.scope))
        .collect();
    assert_eq!(options, [("y", true, Scope::Once), ("never", false, Scope::Project)]);
    let AskKind::Questions(list) = &asks[1].kind else { panic!("{asks:?}") };
    assert!(list[0].form == AnswerForm::Whole && list[0].optional && list[0].secret, "{list:?}");
    assert_eq!(
        (list[0].preset[0].as_str(), list[0].options[0].description.as_deref()),
        ("3", Some("least"))
    );
    let written: Vec<_> = actions
        .iter()
        .filter_map(
            |action| if let Action::Write(write) = action { Some(&write.body[..]) } else { None },
        )
        .collect();
    for (body, (_, _, expected)) in written.iter().zip(&decisions) {
        let [Chunk::Text(line)] = body else { panic!("{body:?}") };
        assert!(line.contains(expected), "{line}");
    }
    assert_eq!(written.len(), decisions.len());
}

#[test]
fn a_call_of_a_host_tool_is_reported_and_its_result_reaches_the_agent() {
    let result = ToolResult { call: 4, text: "posted".to_owned(), failed: false };
    let inputs = vec![
        line(Pipe::Stdout, r#"{"type":"call","call":4,"name":"post","input":{"path":"a"}}"#),
        Input::ToolResult(result),
    ];
    let actions = run::<Backend>(start("hi"), inputs);
    let request = ToolRequest {
        call: 4,
        session: 1,
        turn: 1,
        name: "post".to_owned(),
        input: r#"{"path":"a"}"#.to_owned(),
    };
    assert!(actions.contains(&Action::ToolRequest(request)), "{actions:?}");
    let Some(Action::Write(write)) = actions.last() else { panic!("{actions:?}") };
    let [Chunk::Text(line)] = &write.body[..] else { panic!("{write:?}") };
    assert_eq!(line, "{\"call\":4,\"failed\":false,\"text\":\"posted\",\"type\":\"result\"}\n");
}

#[test]
fn artifacts_tasks_and_sub_agents_are_reported() {
    let lines = [
        r#"{"type":"artifact","name":"a.png","media":"image/png","base64":"aGk="}"#,
        r#"{"type":"task","id":"1","title":"look","status":"running","background":true}"#,
        r#"{"type":"text","parent":"t1","text":"sub"}"#,
    ];
    let found = events(after(&lines, Exit::Code(0)));
    assert!(
        matches!(&found[0], EventKind::Artifact(artifact) if artifact.body == ArtifactBody::Base64("aGk=".to_owned())),
        "{found:?}"
    );
    assert!(
        matches!(&found[1], EventKind::Task(task) if task.background && task.status == TaskStatus::Running),
        "{found:?}"
    );
    assert!(
        matches!(&found[2], EventKind::Text(text) if text.parent.as_deref() == Some("t1")),
        "{found:?}"
    );
}

#[test]
fn settings_reach_the_agent_and_are_declared() {
    let mut start = StartTurn { native_id: Some("demo-1".to_owned()), ..start("hi") };
    start.settings.model = Some("echo".to_owned());
    start.settings.system_prompt = Some("be kind".to_owned());
    let actions = run::<Backend>(start, Vec::new());
    let Some(Action::Spawn(spawn)) = actions.last() else { panic!("{actions:?}") };
    let text = |text: &str| Value::Text(text.to_owned());
    let file = Value::File("system.md".to_owned());
    let wanted = [
        text("demo-agent"),
        text("--talk"),
        text("--resume"),
        text("demo-1"),
        text("--model"),
        text("echo"),
        text("--system-file"),
        file,
    ];
    assert_eq!(
        (spawn.program.as_str(), &spawn.arguments[..], &spawn.stdin[..]),
        (
            "aetheel",
            &wanted[..],
            &[Chunk::Text("{\"text\":\"hi\",\"type\":\"prompt\"}\n".to_owned())][..]
        )
    );
    assert!(spawn.keep_open, "answers follow");
    let text = Backend::describe();
    let descriptor = json::parse(&text).expect("JSON");
    let program = &descriptor.list("programs")[0];
    let flags: Vec<_> = program.list("flags").iter().map(|flag| flag.text("name")).collect();
    assert_eq!(flags, [Some("--resume"), Some("--model"), Some("--system-file"), Some("--talk")]);
    assert_eq!(program.list("words")[0].as_str(), Some("demo-agent"));
}
