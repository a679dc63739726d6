//! The processes that are started for turns.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use aetheel_backend_sdk::fixture::{run, start};
use aetheel_backend_sdk::wit::{
    Action, Chunk, Command, FailureKind, Input, Mode, Outcome, Safety, Spawn, StartTurn, Value,
};
use aetheel_backend_sdk::{Backend as _, json};
use gemini::Backend;

fn spawn(start: StartTurn) -> Spawn {
    match &run::<Backend>(start, Vec::new())[..] {
        [.., Action::Spawn(spawn)] => spawn.clone(),
        other => panic!("{other:?}"),
    }
}

fn refused(start: StartTurn) -> FailureKind {
    match &run::<Backend>(start, Vec::new())[..] {
        [Action::TurnDone(done)] => match &done.outcome {
            Outcome::Failed(failure) => failure.kind,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    }
}

fn words(spawn: &Spawn) -> String {
    let word = |value: &Value| {
        if let Value::Text(text) = value { text.clone() } else { panic!("{value:?}") }
    };
    spawn.arguments.iter().map(word).collect::<Vec<_>>().join(" ")
}

fn stdin(spawn: &Spawn) -> String {
    spawn
        .stdin
        .iter()
        .map(
            |chunk| if let Chunk::Text(text) = chunk { text.as_str() } else { panic!("{chunk:?}") },
        )
        .collect()
}

#[test]
fn a_first_turn_presets_its_session_id() {
    let spawn = spawn(start("hello"));
    let expected =
        "-o stream-json --approval-mode yolo --session-id 7c1f7e52-2f0b-4bd1-9f57-3f1d4a6f0c11";
    assert_eq!(words(&spawn), expected);
    assert_eq!((stdin(&spawn).as_str(), spawn.keep_open), ("hello", false));
    let set: Vec<_> = spawn.environment.iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(set, ["GEMINI_CLI_TRUST_WORKSPACE", "GEMINI_CLI_NO_RELAUNCH", "NO_BROWSER"]);
}

#[test]
fn allowed_tools_become_a_policy_in_every_mode() {
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        let mut start = start("hello");
        start.settings.safety = safety;
        start.settings.allowed_tools = vec!["read_file".to_owned()];
        let actions = run::<Backend>(start, Vec::new());
        let [Action::PutFile(file), Action::Spawn(spawn)] = &actions[..] else {
            panic!("{actions:?}")
        };
        let named = [Value::Text("--policy".to_owned()), Value::File(file.name.clone())];
        assert!(spawn.arguments.ends_with(&named), "{:?}", spawn.arguments);
        let [Chunk::Text(rules)] = &file.body[..] else { panic!("{file:?}") };
        assert!(
            rules.contains("toolName = \"*\"\ndecision = \"deny\"")
                && rules.contains("\"read_file\"\ndecision = \"allow\""),
            "{rules}"
        );
    }
    assert!(!words(&spawn(start("hello"))).contains("--policy"));
}

#[test]
fn levels_and_planning_become_approval_modes() {
    for (mode, safety, expected) in [
        (Mode::Build, Safety::Default, "default"),
        (Mode::Build, Safety::Edit, "auto_edit"),
        (Mode::Build, Safety::Danger, "yolo"),
        (Mode::Plan, Safety::Danger, "plan"),
    ] {
        let mut start = start("hello");
        (start.settings.mode, start.settings.safety) = (mode, safety);
        assert!(words(&spawn(start)).contains(&format!("--approval-mode {expected} ")));
    }
}

#[test]
fn a_resumed_turn_names_a_valid_session_id() {
    let id = "00000000-0000-4000-8000-000000000000";
    let resumed = spawn(StartTurn { native_id: Some(id.to_owned()), ..start("hello") });
    assert!(words(&resumed).ends_with(&format!("--resume {id}")));
    for id in ["latest", "1", "--yolo", ""] {
        assert_eq!(
            refused(StartTurn { native_id: Some(id.to_owned()), ..start("hello") }),
            FailureKind::SessionUnknown,
            "{id}"
        );
    }
    assert_eq!(
        refused(StartTurn { native_id: Some(id.to_owned()), fork: true, ..start("hello") }),
        FailureKind::Unsupported
    );
    assert_eq!(refused(start(" \n")), FailureKind::BadRequest);
}

#[test]
fn the_system_prompt_precedes_the_prompt_and_expands_nothing() {
    let mut start = start("hello");
    start.settings.system_prompt = Some("Be kind. Mail: a@b.example".to_owned());
    start.settings.model = Some("gemini-2.5-flash".to_owned());
    let spawn = spawn(start);
    let stdin = stdin(&spawn);
    assert!(
        stdin.starts_with("<system-prompt>\nBe kind. Mail: a\\@b.example\n</system-prompt>\n"),
        "{stdin}"
    );
    assert!(stdin.ends_with("\n\nhello"));
    assert!(words(&spawn).ends_with("-m gemini-2.5-flash") && !words(&spawn).contains("kind"));
}

#[test]
fn mentions_in_a_prompt_are_escaped() {
    let spawn = spawn(start("npm install @types/node react@18, see \\@/x and (@note) at @"));
    assert_eq!(stdin(&spawn), "npm install \\@types/node react@18, see \\@/x and (\\@note) at \\@");
}

#[test]
fn every_flag_and_variable_is_declared() {
    let descriptor = Backend::describe();
    let descriptor = json::parse(&descriptor).unwrap();
    let flags: Vec<_> = descriptor["programs"].as_array().unwrap()[0]
        .list("flags")
        .iter()
        .map(|flag| flag.text("name").unwrap())
        .collect();
    let set: Vec<_> =
        descriptor["environment"].list("set").iter().filter_map(json::Value::as_str).collect();
    let mut full = start("hello");
    full.settings.model = Some("m".to_owned());
    full.native_id = Some("00000000-0000-4000-8000-000000000000".to_owned());
    let live = StartTurn { one_shot: false, ..start("hello") };
    for spawn in [spawn(full), spawn(start("hello")), spawn(live)] {
        for word in words(&spawn).split(' ').filter(|word| word.starts_with('-')) {
            assert!(flags.contains(&word), "{word}");
        }
        for variable in &spawn.environment {
            assert!(set.contains(&variable.name.as_str()), "{}", variable.name);
        }
        assert_eq!(
            spawn.program,
            descriptor["programs"].as_array().unwrap()[0].text("name").unwrap()
        );
    }
}

#[test]
fn a_long_lived_link_refuses_a_one_shot_turn() {
    let mut backend = Backend::default();
    let mut out = Vec::new();
    let input = Input::Command(Command::StartTurn(StartTurn { one_shot: false, ..start("hello") }));
    backend.handle(aetheel_backend_sdk::wit::TimedInput { at_ms: 0.0, input }, &mut out).unwrap();
    assert!(
        matches!(&out[..], [Action::Spawn(spawn)] if spawn.keep_open && words(spawn) == "--acp")
    );
}
