//! Recorded runs of `opencode run` 1.18.33, and the processes that are started for a turn.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::{Path, PathBuf};

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::fixture::{Fixture, done, events, host_tool, run, start};
use aetheel_backend_sdk::wit::{
    Action, Chunk, EventKind, FailureKind, Mode, Outcome, PlanStatus, Safety, Settings, Spawn,
    StartTurn, ToolStatus, Value,
};
use opencode::Backend;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/opencode")
}

fn actions(name: &str) -> Vec<Action> {
    Fixture::load(&folder().join(format!("run-{name}"))).run::<Backend>()
}

fn planned(start: StartTurn) -> (Spawn, Vec<Action>) {
    let mut actions = run::<Backend>(start, Vec::new());
    match actions.pop() {
        Some(Action::Spawn(spawn)) => (spawn, actions),
        other => panic!("{other:?}"),
    }
}

fn words(spawn: &Spawn) -> String {
    let word = |value: &Value| match value {
        Value::Text(text) => text.clone(),
        other => format!("{other:?}"),
    };
    spawn.arguments.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn a_system_prompt_warns_that_it_replaces_the_operators_configuration() {
    let said = |actions: &[Action]| {
        let said = actions.iter().filter_map(|action| {
            if let Action::Diagnostic(said) = action { Some(said.text.clone()) } else { None }
        });
        said.collect::<Vec<_>>()
    };
    let mut prompted = start("hi");
    prompted.settings.system_prompt = Some("Speak plainly.".to_owned());
    let (spawn, actions) = planned(prompted);
    assert!(spawn.environment.iter().any(|variable| variable.name == "OPENCODE_CONFIG"));
    assert!(said(&actions)[0].contains("OPENCODE_CONFIG_CONTENT"), "{:?}", said(&actions));
    let (spawn, actions) = planned(start("hi"));
    assert!(
        spawn.environment.iter().all(|variable| variable.name != "OPENCODE_CONFIG")
            && said(&actions).is_empty()
    );
}

#[test]
fn the_configuration_of_a_run_has_the_tools_of_the_host() {
    let mut prompted = StartTurn { tools: vec![host_tool("post")], ..start("hi") };
    prompted.settings.system_prompt = Some("Speak plainly.".to_owned());
    prompted.settings.allowed_tools = vec!["read".to_owned()];
    let (spawn, actions) = planned(prompted);
    let config = actions.iter().find_map(|action| match action {
        Action::PutFile(file) if file.name == "opencode.json" => Some(file),
        _ => None,
    });
    let config = config.unwrap().body.iter().map(|chunk| match chunk {
        Chunk::Text(text) => text.as_str(),
        Chunk::ToolServer(1) => "ADDRESS",
        other => panic!("{other:?}"),
    });
    assert_eq!(
        config.collect::<String>(),
        r#"{"instructions":["{env:AETHEEL_SYSTEM_PROMPT}"],"mcp":{"aetheel":{"type":"remote","url":"ADDRESS","oauth":false,"timeout":86400000}}}"#
    );
    let rules = spawn.environment.iter().find(|set| set.name == "OPENCODE_PERMISSION").unwrap();
    let Value::Text(rules) = &rules.value else { panic!("{rules:?}") };
    assert!(rules.contains(r#""aetheel_*":"allow""#), "{rules}");
}

#[test]
fn every_recorded_run_matches_its_golden_actions() {
    let all = Fixture::all(&folder());
    assert!(all.len() > 25, "only {}", all.len());
    for fixture in all {
        let actions = fixture.run::<Backend>();
        done(&actions);
        assert!(
            !events(&actions).any(|event| matches!(event, EventKind::Unrecognised(_))),
            "{}",
            fixture.name()
        );
        fixture.check(&actions);
    }
}

#[test]
fn the_answer_is_the_text_after_the_last_tool() {
    for (name, answer) in [
        ("plain", "MOCK ANSWER: \"Say hello.\""),
        ("thinking-flag-tool", "MOCK ANSWER: \" \" | 1 tool result(s): hello.txt"),
        ("think-tool", "MOCK ANSWER: \" \" | 1 tool result(s): hello.txt"),
    ] {
        let actions = actions(name);
        assert_eq!(
            (&done(&actions).outcome, done(&actions).text.as_deref()),
            (&Outcome::Completed, Some(answer)),
            "{name}"
        );
    }
    assert_eq!(done(&actions("empty-answer")).text, None);
    let actions = actions("thinking-flag");
    assert!(events(&actions).any(
        |event| matches!(event, EventKind::Thinking(text) if text.text.starts_with("Thinking"))
    ));
}

#[test]
fn usage_is_the_sum_of_all_requests() {
    let actions = actions("think-tool");
    let usage = done(&actions).usage.clone().unwrap();
    assert_eq!(
        (usage.input, usage.output, usage.cached, usage.reasoning),
        (810 + 830, 4 + 13 + 11 + 13, 400, 26)
    );
    assert_eq!((usage.cost_usd, usage.context_used), (Some(0.0), Some(1054)));
}

#[test]
fn failures_on_stdout_and_stderr_have_their_kinds() {
    for (name, kind, words) in [
        ("error-400", FailureKind::BadRequest, "scripted error 400"),
        ("error-401", FailureKind::Authentication, ""),
        ("error-429", FailureKind::RateLimited, ""),
        ("error-500", FailureKind::Overloaded, ""),
        ("no-key", FailureKind::Authentication, "invalid credentials"),
        ("refusal", FailureKind::Refused, "content filter"),
        ("resume-malformed", FailureKind::SessionUnknown, "not one of OpenCode"),
        ("prompt-empty", FailureKind::BadRequest, "You must provide a message"),
        ("provider-unknown", FailureKind::Other, "Unexpected server error"),
    ] {
        let actions = actions(name);
        let Outcome::Failed(failure) = &done(&actions).outcome else {
            panic!("{name}: {:?}", done(&actions).outcome)
        };
        assert_eq!(failure.kind, kind, "{name}: {}", failure.message);
        assert!(failure.message.contains(words), "{name}: {}", failure.message);
        assert!(!failure.message.contains('\u{1b}'), "{name}: {:?}", failure.message);
    }
}

#[test]
fn the_turn_of_a_killed_run_is_lost() {
    for name in ["sigterm-stream", "sigkill-tool"] {
        let actions = actions(name);
        assert!(
            matches!(&done(&actions).outcome, Outcome::Lost(failure) if failure.kind == FailureKind::Crashed),
            "{name}"
        );
    }
}

#[test]
fn tool_uses_are_reported_as_in_live_mode() {
    let tools = |name: &str| {
        let actions = actions(name);
        let mut found = Vec::new();
        for event in events(&actions) {
            match event {
                EventKind::ToolStart(start) => {
                    found.push((start.kind.clone(), start.native_name.clone(), None, false))
                }
                EventKind::ToolEnd(end) => {
                    let last = found.last_mut().unwrap();
                    (last.2, last.3) = (Some(end.status), !end.diffs.is_empty());
                }
                _ => {}
            }
        }
        found
    };
    for (name, kind, native, status, diff) in [
        ("tool-fail", "bash", "bash", ToolStatus::Failed, false),
        ("tool-edit", "file_edit", "edit", ToolStatus::Ok, true),
        ("tool-write", "file_write", "write", ToolStatus::Ok, true),
        ("tool-task", "agent_spawn", "task", ToolStatus::Ok, false),
        ("tool-todo", "todo", "todowrite", ToolStatus::Ok, false),
        ("tool-unknown", "other", "no_such_tool", ToolStatus::Failed, false),
        ("perm-outside", "file_read", "read", ToolStatus::Denied, false),
    ] {
        let found = tools(name);
        assert_eq!(
            found.last(),
            Some(&(kind.to_owned(), native.to_owned(), Some(status), diff)),
            "{name}: {found:?}"
        );
    }
    let actions = actions("tool-todo");
    let plans: Vec<_> =
        events(&actions).filter(|event| matches!(event, EventKind::Plan(_))).collect();
    assert!(
        matches!(plans[..], [EventKind::Plan(plan)] if plan[0].status != PlanStatus::Done),
        "{plans:?}"
    );
}

#[test]
fn a_session_is_reported_once_and_a_copy_causes_no_notice() {
    for name in ["plain", "resume-2", "fork"] {
        let actions = actions(name);
        let ready: Vec<_> =
            actions.iter().filter(|action| matches!(action, Action::SessionReady(_))).collect();
        assert_eq!(ready.len(), 1, "{name}");
        assert!(!events(&actions).any(|event| matches!(event, EventKind::Notice(_))), "{name}");
    }
    let fixture = Fixture::load(&folder().join("run-plain"));
    let other = StartTurn { native_id: Some("ses_other".to_owned()), ..start("hi") };
    let actions = run::<Backend>(other, fixture.inputs());
    assert!(
        events(&actions).any(|event| matches!(event, EventKind::Notice(_))),
        "the agent used another session"
    );
}

#[test]
fn the_prompt_is_on_stdin_and_the_level_selects_permissions() {
    let (spawn, _) = planned(start("--help 'me'"));
    assert_eq!(words(&spawn), "run --format json --thinking --agent build --auto");
    assert_eq!(format!("{:?}", spawn.stdin), "[Chunk::Text(\"--help 'me'\")]");
    assert!(!spawn.environment.iter().any(|variable| variable.name == "OPENCODE_PERMISSION"));
    for (safety, mode, begins) in [
        (
            Safety::Default,
            Mode::Build,
            "run --format json --thinking --agent build --model a/b --variant high --session ses_1 --fork",
        ),
        (
            Safety::Danger,
            Mode::Plan,
            "run --format json --thinking --agent plan --model a/b --variant high --session ses_1 --fork",
        ),
    ] {
        let settings = Settings {
            safety,
            mode,
            model: Some("a/b".to_owned()),
            effort: Some("high".to_owned()),
            ..start("").settings
        };
        let (spawn, _) = planned(StartTurn {
            settings,
            native_id: Some("ses_1".to_owned()),
            fork: true,
            ..start("hi")
        });
        assert_eq!(words(&spawn), begins);
        let rules = spawn
            .environment
            .iter()
            .find(|variable| variable.name == "OPENCODE_PERMISSION")
            .unwrap();
        assert!(
            matches!(&rules.value, Value::Text(text) if text.starts_with(r#"{"*":"deny""#)),
            "{rules:?}"
        );
    }
}

#[test]
fn the_configuration_refers_to_the_system_prompts_file_by_a_variable() {
    let settings = Settings { system_prompt: Some("Be kind.".to_owned()), ..start("").settings };
    let (spawn, before) = planned(StartTurn { settings, ..start("hi") });
    let files = before.iter().filter_map(|action| {
        if let Action::PutFile(file) = action { Some(file.name.as_str()) } else { None }
    });
    assert_eq!(files.collect::<Vec<_>>(), ["system-prompt.md", "opencode.json"]);
    let value = |name: &str| {
        spawn
            .environment
            .iter()
            .find(|variable| variable.name == name)
            .map(|variable| variable.value.clone())
    };
    assert_eq!(value("OPENCODE_CONFIG"), Some(Value::File("opencode.json".to_owned())));
    assert_eq!(value("AETHEEL_SYSTEM_PROMPT"), Some(Value::File("system-prompt.md".to_owned())));
}

#[test]
fn the_descriptor_declares_all_flags_and_variables() {
    let descriptor: serde_json::Value = serde_json::from_str(&Backend::describe()).unwrap();
    let program = &descriptor["programs"][0];
    let flags: Vec<_> = program["flags"]
        .as_array()
        .unwrap()
        .iter()
        .map(|flag| flag["name"].as_str().unwrap())
        .collect();
    let set = descriptor["environment"]["set"].as_array().unwrap();
    let settings = Settings {
        system_prompt: Some("Be kind.".to_owned()),
        safety: Safety::Edit,
        effort: Some("max".to_owned()),
        model: Some("a/b".to_owned()),
        ..start("").settings
    };
    let full =
        StartTurn { settings, native_id: Some("ses_1".to_owned()), fork: true, ..start("hi") };
    let live = |start: StartTurn| StartTurn { one_shot: false, ..start };
    for start in [start("hi"), full.clone(), live(full)] {
        let (spawn, _) = planned(start);
        for argument in spawn
            .arguments
            .iter()
            .filter_map(|value| if let Value::Text(text) = value { Some(text) } else { None })
        {
            assert!(!argument.starts_with('-') || flags.contains(&argument.as_str()), "{argument}");
        }
        for variable in &spawn.environment {
            assert!(set.contains(&serde_json::json!(variable.name)), "{}", variable.name);
        }
        assert_eq!(spawn.program, "opencode");
    }
}
