//! Command lines: settings reach Claude Code, users' texts never become flags, and every flag is
//! declared.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use std::path::Path;

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::fixture::{Fixture, run, start};
use aetheel_backend_sdk::json::{self, Value as Json};
use aetheel_backend_sdk::wit::{
    Action, Chunk, FailureKind, HostTool, Mode, Outcome, Part, Safety, Settings, Spawn, StartTurn,
    Value,
};
use claude::Backend;

const ID: &str = "940cfb3c-ee8c-45dc-84ee-2c2dc41b1622";

fn spawned(start: StartTurn) -> (Spawn, Vec<Action>) {
    let actions = run::<Backend>(start, Vec::new());
    let spawn = actions.iter().find_map(|action| match action {
        Action::Spawn(spawn) => Some(spawn.clone()),
        _ => None,
    });
    (spawn.unwrap_or_else(|| panic!("{actions:?}")), actions)
}

fn arguments(start: StartTurn) -> Vec<String> {
    let (spawn, _) = spawned(start);
    spawn
        .arguments
        .iter()
        .map(|argument| match argument {
            Value::Text(text) => text.clone(),
            Value::File(name) => format!("<{name}>"),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn with(change: impl FnOnce(&mut Settings)) -> StartTurn {
    let mut start = start("hi");
    change(&mut start.settings);
    start
}

fn has(arguments: &[String], wanted: &[&str]) -> bool {
    arguments.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn a_plain_turn_streams_and_passes_its_prompt_on_stdin() {
    let (spawn, _) = spawned(start("--help"));
    assert_eq!(spawn.program, "claude");
    assert_eq!(spawn.stdin, [Chunk::Text("--help".to_owned())]);
    let fresh = start("").fresh_id;
    let expected = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--include-partial-messages",
        "--dangerously-skip-permissions",
    ];
    assert_eq!(arguments(start("--help")), [&expected[..], &["--session-id", &fresh]].concat());
}

#[test]
fn options_of_the_backend_become_flags() {
    let chosen = arguments(with(|settings| {
        r#"{"setting-sources":"user,project"}"#.clone_into(&mut settings.options)
    }));
    assert!(has(&chosen, &["--setting-sources=user,project"]), "{chosen:?}");
    assert_eq!(
        arguments(with(|settings| "{}".clone_into(&mut settings.options))),
        arguments(start("hi"))
    );
}

#[test]
fn every_setting_becomes_a_flag() {
    let full = arguments(with(|settings| {
        settings.model = Some("sonnet".to_owned());
        settings.effort = Some("xhigh".to_owned());
        settings.max_turns = Some(25);
        settings.system_prompt = Some("be kind".to_owned());
    }));
    for wanted in [
        &["--model", "sonnet"],
        &["--effort", "xhigh"],
        &["--max-turns", "25"],
        &["--append-system-prompt-file", "<system-prompt.md>"],
    ] {
        assert!(has(&full, wanted), "{wanted:?} not in {full:?}");
    }
}

#[test]
fn the_system_prompt_is_a_file_created_before_the_start() {
    let (_, actions) =
        spawned(with(|settings| settings.system_prompt = Some("be kind".to_owned())));
    let put = actions.iter().position(|action| matches!(action, Action::PutFile(file) if file.body == [Chunk::Text("be kind".to_owned())]));
    let spawn = actions.iter().position(|action| matches!(action, Action::Spawn(_)));
    assert!(put.is_some() && put < spawn, "{actions:?}");
}

#[test]
fn a_release_that_keeps_the_first_system_prompt_is_made_to_use_the_new_one() {
    let flags = |version: Option<&str>| {
        let version = version.map(str::to_owned);
        has(
            &arguments(StartTurn { agent_version: version, ..start("hi") }),
            &["--system-prompt-snapshot", "off"],
        )
    };
    for old in [None, Some("2.1.197"), Some("2.1.252"), Some("2"), Some("new"), Some("1.9.999")] {
        assert!(!flags(old), "{old:?} refuses the flag");
    }
    for new in ["2.1.257", "2.1.332", "2.1.332-beta.1", "2.2.0", "3.0.0"] {
        assert!(flags(Some(new)), "{new} needs the flag");
    }
}

#[test]
fn a_one_shot_run_gets_the_address_of_the_tools_in_a_file() {
    let tool = HostTool {
        name: "remember".to_owned(),
        description: String::new(),
        input_schema: "{}".to_owned(),
    };
    let turn = StartTurn { tools: vec![tool], ..start("hi") };
    let (_, actions) = spawned(turn.clone());
    let file = actions.iter().find_map(|action| match action {
        Action::PutFile(file) => Some(file),
        _ => None,
    });
    let body = &file.unwrap_or_else(|| panic!("{actions:?}")).body;
    let [Chunk::Text(before), Chunk::ToolServer(1), Chunk::Text(after)] = &body[..] else {
        panic!("{body:?}")
    };
    let config = format!("{before}http://127.0.0.1:1/secret{after}");
    let config: serde_json::Value = serde_json::from_str(&config).unwrap();
    let server = &config["mcpServers"]["aetheel"];
    assert_eq!(
        (&server["type"], &server["url"]),
        (&"http".into(), &"http://127.0.0.1:1/secret".into())
    );
    let wanted = ["--mcp-config", "<mcp.json>", "--allowedTools", "mcp__aetheel"];
    assert!(has(&arguments(turn), &wanted));
    assert!(!arguments(start("hi")).contains(&"--mcp-config".to_owned()));
}

#[test]
fn a_session_is_resumed_forked_or_preset() {
    let resumed = arguments(StartTurn { native_id: Some(ID.to_owned()), ..start("hi") });
    assert!(has(&resumed, &["--resume", ID]) && !has(&resumed, &["--session-id"]), "{resumed:?}");
    let forked = arguments(StartTurn { native_id: Some(ID.to_owned()), fork: true, ..start("hi") });
    assert!(has(&forked, &["--resume", ID, "--fork-session"]), "{forked:?}");
}

#[test]
fn an_invalid_session_id_fails_the_turn_without_a_process() {
    for id in ["--help", "latest", "my title", "940cfb3c-ee8c-45dc-84ee-2c2dc41b162"] {
        let actions =
            run::<Backend>(StartTurn { native_id: Some(id.to_owned()), ..start("hi") }, Vec::new());
        let [Action::TurnDone(done)] = &actions[..] else { panic!("{actions:?}") };
        assert!(
            matches!(&done.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::SessionUnknown),
            "{done:?}"
        );
    }
}

#[test]
fn a_blank_prompt_fails_the_turn_without_a_process() {
    for prompt in ["", " \n\t"] {
        let actions = run::<Backend>(start(prompt), Vec::new());
        let [Action::TurnDone(done)] = &actions[..] else { panic!("{actions:?}") };
        assert!(
            matches!(&done.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::BadRequest),
            "{done:?}"
        );
    }
}

#[test]
fn each_safety_level_has_its_mode_and_plan_mode_overrides_it() {
    for (safety, mode, wanted) in [
        (Safety::Default, Mode::Build, &["--permission-mode", "default"][..]),
        (Safety::Edit, Mode::Build, &["--permission-mode", "acceptEdits"]),
        (Safety::Danger, Mode::Build, &["--dangerously-skip-permissions"]),
        (Safety::Danger, Mode::Plan, &["--permission-mode", "plan"]),
        (Safety::Default, Mode::Plan, &["--permission-mode", "plan"]),
    ] {
        let found = arguments(with(|settings| (settings.safety, settings.mode) = (safety, mode)));
        assert!(has(&found, wanted), "{wanted:?} not in {found:?}");
        let skips = found.iter().any(|argument| argument == "--dangerously-skip-permissions");
        assert_eq!(skips, wanted == ["--dangerously-skip-permissions"], "{found:?}");
    }
}

#[test]
fn allowed_tools_limit_the_offer_and_approve_only_tools_of_the_level() {
    let tools = |safety, mode| {
        arguments(with(|settings| {
            (settings.safety, settings.mode) = (safety, mode);
            settings.allowed_tools =
                ["Read", "Write", "Bash(git *)", "mcp__x__y"].map(str::to_owned).to_vec();
        }))
    };
    let danger = tools(Safety::Danger, Mode::Build);
    let wanted = ["--tools", "Read,Write,Bash"];
    let each = [
        "--allowedTools",
        "Read",
        "--allowedTools",
        "Write",
        "--allowedTools",
        "Bash(git *)",
        "--allowedTools",
        "mcp__x__y",
    ];
    assert!(
        danger.ends_with(
            &[&wanted[..], &each[..]].concat().iter().map(ToString::to_string).collect::<Vec<_>>()
        ),
        "{danger:?}"
    );
    let approved = |arguments: Vec<String>| {
        let at: Vec<usize> =
            (0..arguments.len()).filter(|&at| arguments[at] == "--allowedTools").collect();
        at.into_iter().map(|at| arguments[at + 1].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        approved(tools(Safety::Edit, Mode::Build)),
        ["Read"],
        "edits are approved by the mode, not in all directories"
    );
    assert_eq!(approved(tools(Safety::Default, Mode::Build)), ["Read"]);
    assert_eq!(approved(tools(Safety::Danger, Mode::Plan)), ["Read"]);
    assert!(has(&tools(Safety::Default, Mode::Build), &["--tools", "Read,Write,Bash"]));
}

#[test]
fn permissions_are_not_skipped_when_no_tool_is_allowed() {
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        let found = arguments(with(|settings| {
            (settings.safety, settings.allowed_tools) = (safety, vec!["none".to_owned()])
        }));
        assert!(
            has(&found, &["--permission-mode", "default"]) && has(&found, &["--tools", "none"]),
            "{found:?}"
        );
        assert!(
            !found.iter().any(|argument| argument.contains("skip") || argument == "acceptEdits"),
            "{found:?}"
        );
    }
}

#[test]
fn the_memory_of_claude_code_is_disabled() {
    let (spawn, _) = spawned(start("hi"));
    let set: Vec<&str> = spawn.environment.iter().map(|variable| variable.name.as_str()).collect();
    assert_eq!(set, ["CLAUDE_CODE_DISABLE_AUTO_MEMORY"]);
    let text = Backend::describe();
    let descriptor = json::parse(&text).unwrap();
    let declared: Vec<&str> =
        descriptor["environment"].list("set").iter().filter_map(Json::as_str).collect();
    assert_eq!(declared, [set, vec!["CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS"]].concat());
}

#[test]
fn an_unknown_effort_is_omitted_with_a_notice() {
    let (spawn, actions) = spawned(with(|settings| settings.effort = Some("heroic".to_owned())));
    assert!(!spawn.arguments.contains(&Value::Text("--effort".to_owned())));
    assert!(
        actions.iter().any(
            |action| matches!(action, Action::Diagnostic(line) if line.text.contains("heroic"))
        )
    );
}

#[test]
fn parts_of_a_prompt_are_separated_by_blank_lines() {
    let parts = vec![Part::Text("one".to_owned()), Part::Text("two".to_owned())];
    let (spawn, _) = spawned(StartTurn { parts, ..start("") });
    assert_eq!(spawn.stdin, [Chunk::Text("one\n\ntwo".to_owned())]);
}

fn flag<'a>(
    flags: &'a [Json<'a>],
    name: &str,
    safety: Safety,
    value: Option<&str>,
) -> Option<&'a Json<'a>> {
    let rank = |text: Option<&str>| match text {
        None | Some("default") => Safety::Default,
        Some("edit") => Safety::Edit,
        _ => Safety::Danger,
    };
    flags.iter().find(|flag| {
        let values = flag.list("values");
        flag.text("name") == Some(name)
            && rank(flag.text("safety")) <= safety
            && (values.is_empty() || values.iter().any(|allowed| allowed.as_str() == value))
    })
}

/// The host's rule: every argument is a declared flag of the level, or the value of one.
#[test]
fn every_argument_is_declared_for_its_safety_level() {
    let text = Backend::describe();
    let descriptor = json::parse(&text).unwrap();
    let flags = descriptor.list("programs")[0].list("flags");
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        for mode in [Mode::Build, Mode::Plan] {
            let start = StartTurn { native_id: Some(ID.to_owned()), fork: true, ..start("hi") };
            let mut arguments = arguments(StartTurn {
                settings: Settings {
                    model: Some("opus".to_owned()),
                    safety,
                    mode,
                    effort: Some("max".to_owned()),
                    system_prompt: Some("x".to_owned()),
                    allowed_tools: vec!["Read".to_owned(), "Bash(git *)".to_owned()],
                    max_turns: Some(1),
                    options: "{}".to_owned(),
                },
                ..start
            })
            .into_iter()
            .peekable();
            while let Some(argument) = arguments.next() {
                let value = arguments.next_if(|next| !next.starts_with('-'));
                let found = flag(flags, &argument, safety, value.as_deref());
                let found = found.unwrap_or_else(|| {
                    panic!("{argument} {value:?} is not declared at {safety:?}")
                });
                assert_eq!(found.text("value") == Some("one"), value.is_some(), "{argument}");
            }
        }
    }
    assert!(flag(flags, "--dangerously-skip-permissions", Safety::Edit, None).is_none());
    assert!(flag(flags, "--permission-mode", Safety::Default, Some("acceptEdits")).is_none());
}

/// The recordings contain the arguments that the real Claude Code accepted.
#[test]
fn every_flag_used_was_accepted_by_the_real_agent() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/claude");
    let accepted: Vec<String> =
        Fixture::all(&folder).into_iter().flat_map(|fixture| fixture.argv).collect();
    // Tested in runs that are not recorded, `--system-prompt-snapshot` with 2.1.332.
    let elsewhere = [
        "--session-id",
        "--fork-session",
        "--permission-mode",
        "--system-prompt-snapshot",
        "--mcp-config",
    ];
    let dialogues: Vec<String> = std::fs::read_dir(folder.join("live"))
        .unwrap()
        .map(|file| file.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "dialogue"))
        .map(|path| std::fs::read_to_string(path).unwrap())
        .collect();
    let said = |dialogue: &String, name: &str, end: char| {
        dialogue.lines().next().unwrap().contains(&format!("\"{name}{end}"))
    };
    let spoken = |name: &str| {
        dialogues.iter().any(|dialogue| said(dialogue, name, '"') || said(dialogue, name, '='))
    };
    let text = Backend::describe();
    let descriptor = json::parse(&text).unwrap();
    for flag in descriptor.list("programs")[0].list("flags") {
        let name = flag.text("name").unwrap();
        assert!(
            accepted.iter().any(|argument| argument == name)
                || elsewhere.contains(&name)
                || spoken(name),
            "{name} was never tested"
        );
    }
}
