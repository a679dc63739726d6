//! Command lines: the settings reach Droid, user texts never become flags, and the descriptor
//! declares every flag for its safety level.
#![allow(clippy::unwrap_used, reason = "a panic reports the failure")]

use aetheel_backend_sdk::Backend as _;
use aetheel_backend_sdk::fixture::{host_tool, run, start};
use aetheel_backend_sdk::json::{self, Value as Json};
use aetheel_backend_sdk::wit::{
    Action, Attachment, Chunk, FailureKind, Mode, Outcome, Part, Safety, Settings, Spawn,
    StartTurn, Value,
};
use droid::Backend;

const ID: &str = "940cfb3c-ee8c-45dc-84ee-2c2dc41b1622";

fn spawn(start: StartTurn) -> (Spawn, Vec<Action>) {
    let actions = run::<Backend>(start, Vec::new());
    let spawn = actions.iter().find_map(|action| {
        if let Action::Spawn(spawn) = action { Some(spawn.clone()) } else { None }
    });
    (spawn.unwrap_or_else(|| panic!("{actions:?}")), actions)
}

fn arguments(start: StartTurn) -> Vec<String> {
    let argument = |argument: &Value| match argument {
        Value::Text(text) => text.clone(),
        Value::File(name) => format!("<{name}>"),
        other => panic!("{other:?}"),
    };
    spawn(start).0.arguments.iter().map(argument).collect()
}

fn with(one_shot: bool, change: impl FnOnce(&mut Settings)) -> StartTurn {
    let mut start = StartTurn { one_shot, ..start("hi") };
    change(&mut start.settings);
    start
}

fn has(arguments: &[String], wanted: &[&str]) -> bool {
    arguments.windows(wanted.len()).any(|window| window == wanted)
}

#[test]
fn a_plain_turn_reads_its_prompt_from_stdin() {
    let (spawn, _) = spawn(start("--help"));
    assert_eq!(
        (spawn.program.as_str(), &spawn.stdin[..], spawn.keep_open),
        ("droid", &[Chunk::Text("--help".to_owned())][..], false)
    );
    assert_eq!(
        arguments(start("--help")),
        ["exec", "--output-format", "stream-json", "--skip-permissions-unsafe"]
    );
}

#[test]
fn a_run_gets_the_tools_of_the_host_unless_it_only_plans() {
    let run = |change: fn(&mut Settings)| {
        arguments(StartTurn { tools: vec![host_tool("post")], ..with(true, change) })
    };
    let all = run(|_| {});
    assert!(has(&all, &["--settings", "<settings.json>"]), "{all:?}");
    assert!(has(&all, &["--add-tools", "MCP:aetheel"]), "{all:?}");
    let some = run(|settings| settings.allowed_tools = vec!["Read".to_owned()]);
    assert!(has(&some, &["--only-tools", "Read,aetheel___post"]), "{some:?}");
    let plan = run(|settings| settings.mode = Mode::Plan);
    assert!(!plan.join(" ").contains("aetheel") && !has(&plan, &["--settings"]), "{plan:?}");
}

#[test]
fn an_escaped_file_name_is_changed_so_that_droid_does_not_read_the_file() {
    let (spawn, _) = spawn(start("look at \\@note.txt, not at @types/node"));
    let expected = Chunk::Text("look at @\\note.txt, not at @types/node".to_owned());
    assert_eq!(spawn.stdin, [expected]);
}

#[test]
fn the_command_line_of_a_long_lived_process_does_not_contain_the_prompt() {
    let start = StartTurn { one_shot: false, ..start("--help") };
    let (spawn, _) = spawn(start.clone());
    assert!(spawn.stdin.is_empty() && spawn.keep_open);
    let expected = [
        "exec",
        "--input-format",
        "stream-jsonrpc",
        "--output-format",
        "stream-jsonrpc",
        "--skip-permissions-unsafe",
    ];
    assert_eq!(arguments(start), expected);
}

#[test]
fn every_setting_of_a_one_shot_run_has_a_flag() {
    let full = arguments(with(true, |settings| {
        settings.model = Some("custom:Mock-0".to_owned());
        settings.effort = Some("xhigh".to_owned());
        settings.system_prompt = Some("be kind".to_owned());
        settings.allowed_tools = vec!["Read".to_owned(), "Execute".to_owned(), "Read".to_owned()];
    }));
    for wanted in [
        &["--model", "custom:Mock-0"],
        &["--reasoning-effort", "xhigh"],
        &["--append-system-prompt-file", "<system-prompt.md>"],
        &["--only-tools", "Read,Execute"],
    ] {
        assert!(has(&full, wanted), "{wanted:?} not in {full:?}");
    }
    let unknown = arguments(with(true, |settings| settings.effort = Some("heroic".to_owned())));
    assert!(!has(&unknown, &["--reasoning-effort"]), "{unknown:?}");
}

#[test]
fn the_system_prompt_is_a_file_that_is_written_before_the_start() {
    for one_shot in [true, false] {
        let start = with(one_shot, |settings| settings.system_prompt = Some("be kind".to_owned()));
        let (_, actions) = spawn(start.clone());
        let put =
            actions.iter().position(|action| matches!(action, Action::PutFile(file) if file.body == [Chunk::Text("be kind".to_owned())]));
        let started = actions.iter().position(|action| matches!(action, Action::Spawn(_)));
        assert!(put.is_some() && put < started, "{actions:?}");
        assert!(has(&arguments(start), &["--append-system-prompt-file", "<system-prompt.md>"]));
    }
    let blank = arguments(with(false, |settings| settings.system_prompt = Some(" \n".to_owned())));
    assert!(!has(&blank, &["--append-system-prompt-file"]), "{blank:?}");
}

#[test]
fn a_session_is_resumed_or_forked() {
    let resumed = arguments(StartTurn { native_id: Some(ID.to_owned()), ..start("hi") });
    assert!(has(&resumed, &["--session-id", ID]), "{resumed:?}");
    let forked = arguments(StartTurn { native_id: Some(ID.to_owned()), fork: true, ..start("hi") });
    assert!(has(&forked, &["--fork", ID]) && !has(&forked, &["--session-id"]), "{forked:?}");
}

#[test]
fn an_invalid_session_id_fails_the_turn_without_a_process() {
    for id in ["--help", "", "my title", "../x"] {
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
    for one_shot in [true, false] {
        for prompt in ["", " \n\t"] {
            let actions = run::<Backend>(StartTurn { one_shot, ..start(prompt) }, Vec::new());
            let [Action::TurnDone(done)] = &actions[..] else { panic!("{actions:?}") };
            assert!(
                matches!(&done.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::BadRequest),
                "{done:?}"
            );
        }
    }
}

#[test]
fn below_danger_a_one_shot_run_gets_only_tools_that_are_safe_for_the_level() {
    let level = |safety, mode| {
        arguments(with(true, |settings| (settings.safety, settings.mode) = (safety, mode)))
    };
    let tools = |arguments: &[String]| {
        arguments.iter().position(|word| word == "--only-tools").map(|at| arguments[at + 1].clone())
    };
    let reading = "Read,LS,Grep,Glob,WebSearch,FetchUrl,TodoWrite,Skill";
    let default = level(Safety::Default, Mode::Build);
    assert_eq!(tools(&default).as_deref(), Some(reading));
    assert!(
        !has(&default, &["--auto"]) && !has(&default, &["--skip-permissions-unsafe"]),
        "{default:?}"
    );
    let edit = level(Safety::Edit, Mode::Build);
    assert_eq!(tools(&edit), Some(format!("{reading},Create,Edit,ApplyPatch")));
    assert!(has(&edit, &["--auto", "low"]), "{edit:?}");
    // The model itself decides which commands have low risk, so one-shot runs get no commands.
    for safety in [Safety::Default, Safety::Edit, Safety::Danger] {
        let plan = level(safety, Mode::Plan);
        assert_eq!(tools(&plan).as_deref(), Some(reading));
        assert!(
            has(&plan, &["--use-spec"])
                && !has(&plan, &["--auto"])
                && !has(&plan, &["--skip-permissions-unsafe"]),
            "{plan:?}"
        );
    }
    assert_eq!(tools(&level(Safety::Danger, Mode::Build)), None);
}

#[test]
fn unknown_tool_names_are_reported_and_never_allow_more() {
    let allowed = |one_shot, tools: &[&str]| {
        with(one_shot, |settings| {
            settings.allowed_tools = tools.iter().map(|tool| (*tool).to_owned()).collect()
        })
    };
    let (run, actions) =
        spawn(allowed(true, &["Read", "Bash", "Write", "ExitSpecMode", "github___issues"]));
    assert!(
        run.arguments.contains(&Value::Text("Read,ExitSpecMode,github___issues".to_owned())),
        "{run:?}"
    );
    for actions in [actions, run_alone(allowed(false, &["Read", "Bash", "Write"]))] {
        let said: Vec<_> = actions
            .iter()
            .filter_map(|action| {
                if let Action::Diagnostic(said) = action { Some(said.text.as_str()) } else { None }
            })
            .collect();
        assert_eq!(
            said,
            ["left out of the allowed tools, as Droid has no tools with these names: Bash, Write"]
        );
    }
    for one_shot in [true, false] {
        let actions = run_alone(allowed(one_shot, &["Bash", "WebFetch"]));
        let [Action::TurnDone(done)] = &actions[..] else { panic!("{actions:?}") };
        let Outcome::Failed(failure) = &done.outcome else { panic!("{done:?}") };
        assert_eq!(failure.kind, FailureKind::Unsupported);
        assert!(failure.message.contains("(Bash, WebFetch)"), "{failure:?}");
    }
}

#[test]
fn a_resumed_session_plans_with_restricted_tools_and_an_instruction() {
    let plans = |settings: &mut Settings| settings.mode = Mode::Plan;
    let (run, _) = spawn(StartTurn { native_id: Some(ID.to_owned()), ..with(true, plans) });
    let arguments = format!("{:?}", run.arguments);
    assert!(
        arguments.contains("--session-id") && !arguments.contains("--use-spec"),
        "Droid refuses the combination: {arguments}"
    );
    assert!(
        arguments.contains("--only-tools")
            && !arguments.contains("Create")
            && !arguments.contains("Execute"),
        "{arguments}"
    );
    let Chunk::Text(prompt) = &run.stdin[0] else { panic!("{run:?}") };
    assert!(prompt.starts_with("<planning>") && prompt.ends_with("hi"), "{prompt}");
}

#[test]
fn a_rule_for_some_uses_of_a_tool_is_reported_and_allows_nothing() {
    for one_shot in [true, false] {
        let allowed = |tools: &[&str]| {
            with(one_shot, |settings| {
                settings.allowed_tools = tools.iter().map(|tool| (*tool).to_owned()).collect()
            })
        };
        let actions = run_alone(allowed(&["Read", "Execute(git:*)"]));
        let said = actions.iter().find_map(|action| {
            if let Action::Diagnostic(said) = action { Some(said.text.as_str()) } else { None }
        });
        let why = "left out of the allowed tools, as Droid does not support rules for parts of a tool: Execute(git:*)";
        assert_eq!(said, Some(why));
        assert!(!format!("{actions:?}").contains("Read,Execute"), "{actions:?}");
        let actions = run_alone(allowed(&["Execute(git:*)"]));
        let [Action::TurnDone(done)] = &actions[..] else { panic!("{actions:?}") };
        assert!(
            matches!(&done.outcome, Outcome::Failed(failure) if failure.message.contains("(Execute(git:*))")),
            "{done:?}"
        );
    }
}

fn run_alone(start: StartTurn) -> Vec<Action> {
    run::<Backend>(start, Vec::new())
}

#[test]
fn allowed_tools_only_restrict_the_tools_of_the_level() {
    let allowed = |safety, tools: &[&str]| {
        with(true, |settings| {
            settings.safety = safety;
            settings.allowed_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        })
    };
    assert!(has(
        &arguments(allowed(Safety::Default, &["Execute", "Read"])),
        &["--only-tools", "Read"]
    ));
    let actions = run::<Backend>(allowed(Safety::Default, &["Execute"]), Vec::new());
    let [Action::TurnDone(done)] = &actions[..] else { panic!("{actions:?}") };
    assert!(
        matches!(&done.outcome, Outcome::Failed(failure) if failure.kind == FailureKind::Unsupported),
        "{done:?}"
    );
}

#[test]
fn only_danger_skips_questions_in_a_long_lived_process() {
    for (safety, mode, skips) in [
        (Safety::Default, Mode::Build, false),
        (Safety::Edit, Mode::Build, false),
        (Safety::Danger, Mode::Plan, false),
        (Safety::Danger, Mode::Build, true),
    ] {
        let found =
            arguments(with(false, |settings| (settings.safety, settings.mode) = (safety, mode)));
        assert_eq!(has(&found, &["--skip-permissions-unsafe"]), skips, "{found:?}");
    }
}

#[test]
fn the_prompt_contains_the_paths_of_files() {
    let file = Attachment {
        blob: 7,
        name: "notes.txt".to_owned(),
        media_type: "text/plain".to_owned(),
        size: 12,
        path: "/srv/in/notes.txt".to_owned(),
    };
    let (spawn, _) = spawn(StartTurn {
        parts: vec![Part::Text("read".to_owned()), Part::File(file)],
        ..start("")
    });
    let expected = "read\n\n[Attached file: notes.txt (text/plain, 12 bytes) at /srv/in/notes.txt]";
    assert_eq!(spawn.stdin, [Chunk::Text(expected.to_owned())]);
}

#[test]
fn every_flag_is_declared_for_its_level() {
    let descriptor = Backend::describe();
    let descriptor = json::parse(&descriptor).unwrap();
    let flags = descriptor.list("programs")[0].list("flags");
    let rank = |safety: &str| {
        ["default", "edit", "danger"].iter().position(|level| *level == safety).unwrap()
    };
    for (safety, level) in [(Safety::Default, 0), (Safety::Edit, 1), (Safety::Danger, 2)] {
        for mode in [Mode::Build, Mode::Plan] {
            for one_shot in [true, false] {
                let mut turn = with(one_shot, |settings| {
                    (settings.safety, settings.mode) = (safety, mode);
                    settings.model = Some("m".to_owned());
                    settings.effort = Some("max".to_owned());
                    settings.system_prompt = Some("be kind".to_owned());
                    settings.allowed_tools = vec!["Read".to_owned()];
                });
                turn.native_id = Some(ID.to_owned());
                let words = arguments(turn);
                let mut at = 1;
                assert_eq!(words[0], "exec");
                while at < words.len() {
                    let value = words.get(at + 1);
                    let fits = |flag: &&Json| {
                        let values = flag.list("values");
                        flag.text("name") == Some(&words[at])
                            && rank(flag.text("safety").unwrap_or("default")) <= level
                            && (values.is_empty()
                                || values
                                    .iter()
                                    .any(|known| known.as_str() == value.map(String::as_str)))
                    };
                    let flag = flags
                        .iter()
                        .find(fits)
                        .unwrap_or_else(|| panic!("{} {value:?} is not declared", words[at]));
                    at += if flag.text("value") == Some("one") { 2 } else { 1 };
                }
            }
        }
    }
}
