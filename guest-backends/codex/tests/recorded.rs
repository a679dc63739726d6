//! Recorded runs of `codex exec` 0.169.0, and the command lines of new ones.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

mod support;

use aetheel_backend_sdk::fixture::{
    Fixture, done, events, line, run, shown, start, thoughts, tool_ends, tool_starts, unrecognised,
};
use aetheel_backend_sdk::wit::{
    Action, Chunk, Command, Diagnostic, EventKind, Failure, FailureKind, Input, Mode, Outcome,
    Part, Pipe, PlanStatus, Safety, Spawn, StartTurn, ToolStatus, Value,
};
use codex::Backend;
use support::{folder, ids};

const THREAD: &str = "01a1ffe4-4d56-7702-a732-f4a42b6d7070";

fn actions(name: &str) -> Vec<Action> {
    Fixture::load(&folder().join(name)).run::<Backend>()
}

fn failure(actions: &[Action]) -> &Failure {
    match &done(actions).outcome {
        Outcome::Failed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_recorded_run_matches_its_golden_actions_without_unrecognised_output() {
    let mut runs = 0;
    for fixture in Fixture::all(&folder()) {
        let actions = fixture.run::<Backend>();
        done(&actions);
        fixture.check(&actions);
        assert_eq!(unrecognised(&actions), Vec::<&_>::new(), "{}", fixture.name());
        runs += 1;
    }
    assert!(runs > 30, "only {runs} recordings");
}

#[test]
fn the_answer_is_the_last_message_and_usage_excludes_cached_input() {
    let actions = actions("plain");
    let done = done(&actions);
    assert_eq!(
        (&done.outcome, done.text.as_deref()),
        (&Outcome::Completed, Some("MOCK ANSWER: Say hello."))
    );
    let usage = done.usage.clone().unwrap();
    assert_eq!((usage.input, usage.cached, usage.output), (840, 200, 5));
    assert_eq!(shown(&actions), ["MOCK ANSWER: Say hello."]);
    assert_eq!(thoughts(&self::actions("think")).len(), 1);
}

#[test]
fn the_usage_of_a_resumed_turn_covers_only_the_turn() {
    let second = Fixture::load(&folder().join("resume-2"));
    let plain = second.run::<Backend>();
    assert_eq!(done(&plain).usage, None, "the sums of earlier turns are unknown");
    let id = ids(&plain).pop().unwrap().to_owned();
    assert!(id.ends_with(".u2100-400-22-0"), "the sums are known from now on: {id}");

    let third = Fixture::load(&folder().join("resume-3"));
    let resumed =
        run::<Backend>(StartTurn { native_id: Some(id), ..start("recorded") }, third.inputs());
    let usage = done(&resumed).usage.clone().unwrap();
    assert_eq!((usage.input, usage.cached, usage.output), (1080 - 200, 200, 16));
    assert!(ids(&resumed).pop().unwrap().ends_with(".u3180-600-38-0"));
    let begun = StartTurn { native_id: Some(format!("{THREAD}.u9999-1-1-1")), ..start("recorded") };
    assert_eq!(
        done(&run::<Backend>(begun, third.inputs())).usage,
        None,
        "lower sums belong to another conversation"
    );
}

#[test]
fn missing_sessions_are_unknown() {
    assert_eq!(failure(&actions("resume-unknown")).kind, FailureKind::SessionUnknown);
    let refused = run::<Backend>(
        StartTurn { native_id: Some("not-a-session".to_owned()), ..start("hi") },
        Vec::new(),
    );
    assert_eq!(failure(&refused).kind, FailureKind::SessionUnknown);
    assert!(
        !refused.iter().any(|action| matches!(action, Action::Spawn(_))),
        "Codex would silently begin a new thread"
    );
    let other = Fixture::load(&folder().join("resume-malformed"));
    let actions = run::<Backend>(
        StartTurn { native_id: Some(THREAD.to_owned()), ..start("hi") },
        other.inputs(),
    );
    assert!(
        events(&actions).any(
            |event| matches!(event, EventKind::Notice(notice) if notice.text.contains("began a new one"))
        )
    );
    let forked = self::actions("fork");
    assert!(
        !events(&forked).any(|event| matches!(event, EventKind::Notice(_))),
        "a copy has another id"
    );
}

#[test]
fn failures_have_their_kinds_and_messages() {
    for (name, kind, message) in [
        ("error-400", FailureKind::BadRequest, "mock: scripted error 400"),
        ("error-401", FailureKind::Authentication, "unexpected status 401 Unauthorized"),
        ("error-429", FailureKind::RateLimited, "exceeded retry limit"),
        ("limit-plan", FailureKind::Quota, "You’ve hit your usage limit."),
        ("error-500", FailureKind::Overloaded, "We’re currently experiencing high demand"),
        ("drop-mid", FailureKind::Overloaded, "stream disconnected before completion"),
        ("stdin-empty", FailureKind::Other, "No prompt provided via stdin."),
    ] {
        let actions = actions(name);
        let failure = failure(&actions);
        assert_eq!(failure.kind, kind, "{name}");
        assert!(failure.message.starts_with(message), "{name}: {}", failure.message);
    }
    assert!(
        matches!(&done(&actions("max-tokens")).outcome, Outcome::Limit(text) if text.contains("max_output_tokens"))
    );
}

#[test]
fn attempts_are_retries_and_warnings_are_notices() {
    let retries =
        |name| events(&actions(name)).filter(|event| matches!(event, EventKind::Retry(_))).count();
    assert_eq!((retries("error-500"), retries("error-400")), (5, 0));
    let remarks = actions("unknown-model");
    assert_eq!(done(&remarks).outcome, Outcome::Completed);
    assert!(events(&remarks).any(
        |event| matches!(event, EventKind::Notice(notice) if notice.text.starts_with("Model metadata"))
    ));
}

#[test]
fn tools_have_their_kinds_titles_and_ends() {
    for (name, kind, native, title) in [
        ("tool-shell", "bash", "command_execution", "ls"),
        ("tool-write", "file_write", "file_change", "/srv/proj/"),
        ("mcp-tool", "mcp", "mockmcp.echo", "mockmcp.echo"),
    ] {
        let actions = actions(name);
        let starts = tool_starts(&actions);
        assert_eq!(
            (starts[0].kind.as_str(), starts[0].native_name.as_str()),
            (kind, native),
            "{name}"
        );
        assert!(starts[0].title.starts_with(title), "{name}: {}", starts[0].title);
        assert_eq!(tool_ends(&actions).len(), starts.len(), "{name}");
    }
    assert_eq!(tool_ends(&actions("mcp-tool"))[0].output.as_deref(), Some("echo: hi"));
    let failed = actions("tool-fail");
    assert_eq!(
        (tool_ends(&failed)[0].status, tool_ends(&failed)[0].exit_code),
        (ToolStatus::Failed, Some(3))
    );
}

#[test]
fn the_last_of_duplicate_keys_is_used() {
    let actions = actions("tool-search");
    let starts = tool_starts(&actions);
    assert!(
        starts.iter().all(|start| start.id == "ws_mock_0001_0" && start.kind == "web_search"),
        "{starts:?}"
    );
    assert_eq!(
        starts.last().unwrap().title,
        "mock query",
        "the search query is only known at the end"
    );
    assert_eq!(tool_ends(&actions).len(), 1);
}

#[test]
fn the_todo_list_becomes_the_plan() {
    let actions = actions("tool-plan");
    let plans: Vec<_> = events(&actions)
        .filter_map(|event| {
            if let EventKind::Plan(plan) = event {
                Some(plan.iter().map(|entry| entry.status).collect::<Vec<_>>())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(plans.first().unwrap(), &[PlanStatus::Pending, PlanStatus::Pending]);
    assert_eq!(plans.last().unwrap(), &[PlanStatus::Done, PlanStatus::Done]);
}

#[test]
fn a_run_that_was_stopped_is_interrupted_or_lost() {
    let fixture = Fixture::load(&folder().join("sigint-tool"));
    let mut inputs = fixture.inputs();
    inputs.insert(
        inputs.len() - 1,
        Input::Command(Command::Interrupt(aetheel_backend_sdk::fixture::TURN)),
    );
    assert_eq!(done(&run::<Backend>(start("recorded"), inputs)).outcome, Outcome::Interrupted);
    assert!(
        matches!(&done(&actions("sigkill-tool")).outcome, Outcome::Lost(failure) if failure.kind == FailureKind::Crashed)
    );
    assert!(matches!(&done(&actions("sigterm-stream")).outcome, Outcome::Lost(_)));
}

fn spawn(start: StartTurn) -> (Spawn, Vec<Diagnostic>) {
    let mut spawns = Vec::new();
    let mut said = Vec::new();
    for action in run::<Backend>(start, Vec::new()) {
        match action {
            Action::Spawn(spawn) => spawns.push(spawn),
            Action::Diagnostic(diagnostic) => said.push(diagnostic),
            other => panic!("{other:?}"),
        }
    }
    (spawns.pop().unwrap(), said)
}

fn arguments(start: StartTurn) -> Vec<String> {
    let texts = spawn(start).0.arguments.into_iter().map(|argument| match argument {
        Value::Text(text) => text,
        other => panic!("{other:?}"),
    });
    texts.collect()
}

fn stdin(start: StartTurn) -> String {
    match &spawn(start).0.stdin[..] {
        [Chunk::Text(text)] => text.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_prompt_is_passed_on_stdin_whatever_it_contains() {
    for prompt in ["--help", "-", "@file", "/compact", "!ls", "resume", "a\nb"] {
        assert_eq!(stdin(start(prompt)), prompt);
        let given = arguments(start(prompt));
        assert_eq!(
            given,
            [
                "exec",
                "--json",
                "--skip-git-repo-check",
                "--dangerously-bypass-approvals-and-sandbox",
                "--",
                "-"
            ]
        );
    }
    let blank = run::<Backend>(start(" \n"), Vec::new());
    assert_eq!(failure(&blank).kind, FailureKind::BadRequest);
}

#[test]
fn safety_and_mode_choose_the_sandbox() {
    for (safety, mode, sandbox) in [
        (Safety::Default, Mode::Build, "read-only"),
        (Safety::Edit, Mode::Build, "workspace-write"),
        (Safety::Danger, Mode::Plan, "read-only"),
    ] {
        let mut start = StartTurn { native_id: Some(THREAD.to_owned()), ..start("hi") };
        (start.settings.safety, start.settings.mode) = (safety, mode);
        let given = arguments(start);
        assert_eq!(given[..4], ["exec", "-s", sandbox, "resume"], "`resume` does not accept -s");
        assert!(!given.iter().any(|argument| argument.contains("bypass")));
        let own = ["-c", "sandbox_workspace_write.exclude_slash_tmp=true"];
        assert_eq!(
            given.windows(2).any(|pair| pair == own),
            sandbox == "workspace-write",
            "`/tmp` is everybody's"
        );
        assert_eq!(given[given.len() - 3..], ["--", THREAD, "-"]);
    }
    assert_eq!(
        arguments(StartTurn { native_id: Some(THREAD.to_owned()), fork: true, ..start("hi") })[1],
        "fork"
    );
}

#[test]
fn settings_become_flags() {
    let mut with = start("hi");
    with.settings.model = Some("gpt-x".to_owned());
    with.settings.effort = Some("high".to_owned());
    with.settings.system_prompt = Some("Say \"yes\".\nAlways.\u{7f}".to_owned());
    let given = arguments(with.clone());
    for pair in [["-m", "gpt-x"], ["-c", "model_reasoning_effort=high"]] {
        assert!(given.windows(2).any(|window| window == pair), "{pair:?} in {given:?}");
    }
    with.settings.effort = Some("high\" x=\"".to_owned());
    let (spawn, said) = spawn(with);
    assert_eq!(said.len(), 1, "an unsupported effort is ignored with a warning");
    assert!(
        !spawn
            .arguments
            .iter()
            .any(|argument| matches!(argument, Value::Text(text) if text.contains("reasoning")))
    );
}

#[test]
fn a_system_prompt_is_sent_unless_the_thread_has_it() {
    let with = |text: &str, id: Option<String>| {
        let mut start = StartTurn { native_id: id, ..start("hi") };
        start.settings.system_prompt = Some(text.to_owned());
        start
    };
    let plain = Fixture::load(&folder().join("plain"));
    let first = run::<Backend>(with("Be kind.", None), plain.inputs());
    let id = ids(&first).pop().map(str::to_owned);
    assert_eq!(
        stdin(with("Be kind.", id.clone())),
        "hi",
        "the thread already has the system prompt"
    );
    let changed = stdin(with("Be quick.", id));
    assert!(changed.contains("\nBe quick.\n") && changed.ends_with("\n\nhi"), "{changed}");
    let unknown = stdin(with("Be kind.", Some(THREAD.to_owned())));
    assert!(unknown.contains("\nBe kind.\n"), "the system prompt of the thread is unknown");
    assert!(stdin(with("Be kind.", None)).contains("\nBe kind.\n"));
}

#[test]
fn neither_prompt_nor_system_prompt_is_ever_an_argument() {
    for (id, fork) in [(None, false), (Some(THREAD), false), (Some(THREAD), true)] {
        let mut start =
            StartTurn { native_id: id.map(str::to_owned), fork, ..start("words-of-a-person") };
        start.settings.system_prompt = Some("words-of-the-operator".to_owned());
        let given = arguments(start.clone()).join(" ");
        assert!(
            !given.contains("words-of"),
            "all users of the machine can read arguments: {given}"
        );
        let said = stdin(start);
        assert!(
            said.contains("words-of-the-operator") && said.ends_with("words-of-a-person"),
            "{said}"
        );
    }
}

#[test]
fn a_list_without_the_shell_disables_it_and_writing() {
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        for id in [None, Some(THREAD)] {
            let mut start = StartTurn { native_id: id.map(str::to_owned), ..start("hi") };
            start.settings.safety = safety;
            start.settings.allowed_tools = vec!["view_image".to_owned(), "web_search".to_owned()];
            let given = arguments(start.clone());
            for pair in [
                ["--disable", "shell_tool"],
                ["-c", "features.multi_agent=false"],
                ["-s", "read-only"],
            ] {
                assert!(given.windows(2).any(|window| window == pair), "{pair:?} in {given:?}");
            }
            assert!(
                !given
                    .iter()
                    .any(|argument| argument.contains("bypass") || argument.contains("web_search")),
                "{given:?}"
            );
            start.settings.allowed_tools = vec!["none".to_owned()];
            assert!(arguments(start).contains(&"web_search=disabled".to_owned()));
        }
    }
}

#[test]
fn both_modes_have_the_same_conversation() {
    let fixture = Fixture::load(&folder().join("tool-fail"));
    let once = fixture.run::<Backend>();
    let tool = tool_starts(&once)[0];
    let mut live = support::play("live-tool-danger");
    live.start(support::live("tools"));
    support::until_done(&mut live);
    let other = tool_starts(&live.actions)[0];
    assert_eq!((&tool.kind, &tool.native_name), (&other.kind, &other.native_name));
    let keys = |input: &str| {
        serde_json::from_str::<serde_json::Value>(input)
            .unwrap()
            .as_object()
            .unwrap()
            .keys()
            .cloned()
            .collect::<Vec<_>>()
    };
    assert_eq!(keys(&tool.input), keys(&other.input));
    assert_eq!(tool_ends(&once)[0].exit_code, tool_ends(&live.actions)[0].exit_code);
}

#[test]
fn a_file_is_named_with_its_path() {
    let file = aetheel_backend_sdk::wit::Attachment {
        blob: 1,
        name: "a.csv".to_owned(),
        media_type: "text/csv".to_owned(),
        size: 3,
        path: "/srv/a.csv".to_owned(),
    };
    let text = stdin(StartTurn {
        parts: vec![Part::Text("see".to_owned()), Part::File(file)],
        ..start("")
    });
    assert_eq!(text, "see\n\n[Attached file: a.csv (text/csv, 3 bytes) at /srv/a.csv]");
}

#[test]
fn lines_of_stderr_never_change_the_actions() {
    for name in ["plain", "tool-plan", "drop-mid"] {
        let fixture = Fixture::load(&folder().join(name));
        let calm = fixture.run::<Backend>();
        let noisy = fixture
            .inputs()
            .into_iter()
            .flat_map(|input| [line(Pipe::Stderr, "ERROR noise"), input])
            .collect();
        assert_eq!(run::<Backend>(fixture.start.clone(), noisy), calm, "{name}");
    }
}

#[test]
fn options_of_the_backend_become_settings() {
    let with = |options: &str| {
        let mut start = start("hi");
        options.clone_into(&mut start.settings.options);
        arguments(start)
    };
    let chosen = with(r#"{"verbosity":"low","reasoning-summary":"none"}"#).join(" ");
    assert!(chosen.contains("-c model_reasoning_summary=none -c model_verbosity=low"), "{chosen}");
    assert_eq!(
        with(r#"{"verbosity":"low sandbox_mode=x"}"#),
        arguments(start("hi")),
        "invalid values are left out"
    );
}
