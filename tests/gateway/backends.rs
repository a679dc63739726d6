//! Choice of the backend, how it runs, and the list of backends.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, ArgumentValue, Spawn, TextEvent, TurnDone, TurnOutcome,
};
use serde_json::json;

use super::installed;
use crate::support::discord::LocalDiscord;
use crate::support::guests::{EXITED, Wat};
use crate::support::program::Installation;

/// An installation whose `PATH` contains these scripts, in a folder of their own.
fn with_programs(programs: &[(&str, &str)]) -> Installation {
    let installation = Installation::new();
    let bin = installation.path("bin");
    fs::create_dir(&bin).unwrap();
    for (name, script) in programs {
        let path = bin.join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = format!("{}:/usr/bin:/bin", bin.display());
    installation.with("PATH", &path)
}

/// Installs an accepted backend that answers with its version.
fn install(installation: &Installation, name: &str, descriptor: serde_json::Value) {
    let mut wat = Wat::new(name, &format!("{name}-1"));
    wat.descriptor = descriptor;
    wat.accepted_in(&installation.path("config"));
    fs::write(installation.backend(name), wat.build()).unwrap();
}

fn versions() -> serde_json::Value {
    json!(["--version"])
}

/// Installs three backends. `droid` needs a key. `opencode` and `aider` do not.
fn three(installation: &Installation) {
    let key = json!([{ "variable": "FACTORY_API_KEY" }]);
    let program = |name: &str| json!([{ "name": name, "version-arguments": versions() }]);
    let droid = json!({ "programs": program("droid"), "credentials": key, "rank": 20 });
    install(installation, "droid", droid);
    install(installation, "opencode", json!({ "programs": program("opencode"), "rank": 30 }));
    install(installation, "aider", json!({ "programs": program("aider") }));
}

const THREE: [(&str, &str); 3] =
    [("droid", "echo droid 0.2.0"), ("opencode", "echo 1.18.33"), ("aider", "echo 1.0.0")];

async fn selected_backend(installation: &Installation) -> String {
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    ended
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("answers: "))
        .expect("the selected backend")
        .to_owned()
}

#[tokio::test]
async fn auto_prefers_droid_with_a_key_then_opencode_then_any_backend_that_works() {
    let installation =
        with_programs(&THREE).with("AGENT_BACKEND", "auto").with("FACTORY_API_KEY", "fk-1");
    three(&installation);
    assert_eq!(selected_backend(&installation).await, "droid (auto: the first of all)");
    let keyless = installation.with("FACTORY_API_KEY", "");
    let wanted = "opencode (auto: the first that can work here; not droid: no credentials found; set FACTORY_API_KEY)";
    assert_eq!(selected_backend(&keyless).await, wanted);
    fs::remove_file(keyless.path("bin").join("opencode")).unwrap();
    let said = selected_backend(&keyless).await;
    assert!(
        said.starts_with("aider (auto: ")
            && said.contains("not opencode: program not found: opencode"),
        "{said}"
    );
}

#[tokio::test]
async fn auto_without_a_working_backend_exits_with_69_and_a_reason_for_each() {
    let installation = with_programs(&[])
        .with("AGENT_BACKEND", "auto")
        .with("DISCORD_BOT_TOKEN", crate::support::discord::TOKEN);
    three(&installation);
    for command in ["run", "check", "console"] {
        let ended = installation.run(&[command], "").await;
        assert_eq!(ended.code, 69, "{}", ended.stderr);
        for part in [
            "error: AGENT_BACKEND \"auto\": no backend can work here",
            "error: backend `droid`: program not found: droid; install it or add its folder to PATH; no credentials found; set FACTORY_API_KEY",
            "error: backend `opencode`: program not found",
            "error: backend `aider`: program not found",
            "error: backend `demo`: it answers only when named",
        ] {
            assert!(ended.faults().contains(part), "{part} is missing in\n{}", ended.stderr);
        }
        assert!(ended.faults().ends_with("nothing was started: 5 faults\n"), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn auto_answers_at_the_console_and_in_discord_and_its_choice_is_logged() {
    let installation = with_programs(&THREE);
    three(&installation);
    let ended = installation.run(&["console", "--backend", "auto"], "hello\n/backend\n").await;
    assert_eq!(
        (ended.stdout.as_str(), ended.code),
        ("opencode-1\nopencode of aider, demo, opencode\n", 0),
        "{}",
        ended.stderr
    );

    let local = LocalDiscord::start().await;
    let path = format!("{}:/usr/bin:/bin", installation.path("bin").display());
    let running = installed(&local).with("AGENT_BACKEND", "auto").with("PATH", &path);
    three(&running);
    let bot = running.start(&["run"]);
    let line = bot.logs("backend detected").await;
    assert_eq!(line["backend"], "opencode", "{line}");
    assert!(line["why"].as_str().unwrap().contains("not droid: no credentials"), "{line}");
    let other = bot
        .logs_where("droid", |line| {
            line["message"] == "backend is not available" && line["backend"] == "droid"
        })
        .await;
    assert!(other["reason"].as_str().unwrap().contains("FACTORY_API_KEY"), "{other}");
}

#[tokio::test]
async fn the_list_shows_for_each_backend_its_features_or_why_it_cannot_work() {
    let installation = with_programs(&[("able", "echo able 2.1.0 && exit 0")])
        .with("AGENT_BACKEND", "able")
        .with("ALLOWED_TOOLS", "Read");
    let able = json!({
        "label": "Able", "programs": [{ "name": "able", "version-arguments": versions() }], "understands": ["^1"],
        "sharing": "session", "one-shot": "offered", "features": ["resume", "effort", "model"],
        "efforts": [{ "id": "high", "label": "High" }], "models": [{ "id": "m-1", "label": "M" }]
    });
    install(&installation, "able", able);
    install(
        &installation,
        "locked",
        json!({ "credentials": [{ "variable": "LOCKED_KEY" }, { "file": "~/.locked/login" }] }),
    );
    fs::write(installation.backend("broken"), "not a component").unwrap();
    let ended = installation.run(&["backend", "list", "--json"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(listing["default"], "able");
    let names: Vec<_> = listing["backends"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["able", "demo", "locked"]);
    let row = &listing["backends"][0];
    for (field, value) in [
        ("label", json!("Able")),
        ("version", json!("able-1")),
        ("generation", json!(1)),
        ("default", json!(true)),
        ("run", json!("live")),
        ("runs", json!(["live", "one-shot"])),
        ("program-path", json!(installation.path("bin").join("able"))),
        ("agent-version", json!("2.1.0")),
        ("features", json!(["resume", "effort", "model"])),
        ("available", json!(true)),
    ] {
        assert_eq!(row[field], value, "{field}");
    }
    let warnings: Vec<_> = row["warnings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|warning| warning.as_str().unwrap())
        .collect();
    assert!(
        warnings
            .iter()
            .any(|warning| warning.contains("made for agent versions ^1, installed is 2.1.0")),
        "{row}"
    );
    assert!(warnings.iter().any(|warning| warning.contains("cannot limit its own tools")), "{row}");
    let locked = &listing["backends"][2];
    assert_eq!(locked["available"], false);
    assert_eq!(
        locked["reasons"][1],
        "no credentials found; set LOCKED_KEY, or sign in, which creates ~/.locked/login"
    );
    assert!(
        locked["reasons"][0].as_str().unwrap().starts_with("program not found: locked"),
        "{locked}"
    );
    assert!(listing["refused"][0].as_str().unwrap().contains("broken.wasm"), "{listing}");

    let ended = installation.run(&["backend", "list"], "").await;
    assert!(
        ended
            .stdout
            .contains("\nnot installed: locked (`aetheel backend list --all` shows more)\n"),
        "{}",
        ended.stdout
    );
    let ended = installation.run(&["backend", "list", "--all"], "").await;
    let lines: Vec<&str> = ended.stdout.lines().collect();
    assert!(
        lines[0].starts_with("BACKEND") && lines[1].starts_with("able *   ready"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains("  why not: no credentials found; set LOCKED_KEY"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("\n  efforts: high\n  models: m-1\n"), "{}", ended.stdout);
    assert!(!ended.stdout.contains('\x1b'), "no colours without a terminal");
}

/// Programs that do not report a version, with the reported reason.
const SILENT: [(&str, &str, &str); 4] = [
    (
        "crashes",
        "echo oops >&2; exit 139",
        "crashes --version` ended with code 139: oops; run it by hand",
    ),
    ("killed", "kill -SEGV $$", "killed --version` was ended by a signal; run it by hand"),
    ("hangs", "exec sleep 600", "hangs --version` did not answer within 1 s; run it by hand"),
    ("nothing", "exec /no/such/interpreter", "nothing --version` ended with code 127"),
];

#[tokio::test]
async fn a_program_that_does_not_answer_is_not_ready_and_all_commands_give_the_reason() {
    let mut programs: Vec<(&str, &str)> =
        SILENT.iter().map(|(name, script, _)| (*name, *script)).collect();
    programs.extend([("well", "echo well 1.0.0")]);
    let installation =
        with_programs(&programs).with("AGENT_BACKEND", "auto").with("QUERY_TIMEOUT_MS", "1000");
    for (name, _) in &programs {
        install(
            &installation,
            name,
            json!({ "programs": [{ "name": name, "version-arguments": versions() }] }),
        );
    }
    // The file exists and is executable, but is not a program.
    fs::write(installation.path("bin").join("alien"), "\x7fELF no program at all").unwrap();
    fs::set_permissions(installation.path("bin").join("alien"), fs::Permissions::from_mode(0o755))
        .unwrap();
    install(
        &installation,
        "alien",
        json!({ "programs": [{ "name": "alien", "version-arguments": versions() }] }),
    );
    let alien = ("alien", "", "alien --version` cannot be started: ");

    let ended = installation.run(&["backend", "list", "--json"], "").await;
    let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    assert_eq!(listing["default"], "well", "{listing}");
    let check = installation.run(&["check"], "").await;
    assert_eq!(check.code, 0, "{}", check.stderr);
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    for (name, _, why) in SILENT.iter().chain([&alien]) {
        let row = listing["backends"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == **name)
            .unwrap();
        assert_eq!(row["available"], false, "{row}");
        assert!(row["reasons"][0].as_str().unwrap().contains(why), "{row}");
        assert!(row["reasons"][0].as_str().unwrap().contains("reinstall the agent"), "{row}");
        let is_reported = |line: &str| {
            line.starts_with(&format!("backend {name}: not available: ")) && line.contains(why)
        };
        assert!(check.stdout.lines().any(is_reported), "{name}: {}", check.stdout);
        assert!(doctor.stdout.contains(why), "{name}: {}", doctor.stdout);
    }
    assert!(
        check.stdout.contains("answers: well (auto: the first that can work here; ")
            && check.stdout.contains("; not alien: "),
        "{}",
        check.stdout
    );
    let named = installation.with("AGENT_BACKEND", "crashes");
    for command in ["check", "run", "console"] {
        let ended = named.run(&[command], "").await;
        assert!(
            ended.code != 0 && ended.stderr.contains("crashes --version` ended with code 139"),
            "{command}: {}",
            ended.stderr
        );
    }
}

#[tokio::test]
async fn a_default_backend_whose_program_answers_too_late_is_a_warning_and_the_start_continues() {
    let installation = with_programs(&[("hangs", "exec sleep 600")])
        .with("AGENT_BACKEND", "hangs")
        .with("QUERY_TIMEOUT_MS", "1000");
    install(
        &installation,
        "hangs",
        json!({ "programs": [{ "name": "hangs", "version-arguments": versions() }] }),
    );
    let check = installation.run(&["check"], "").await;
    let warning = |line: &str| {
        line.starts_with("warning: backend `hangs`: `")
            && line.ends_with("; prompts still go to it")
    };
    assert!(check.stdout.lines().any(warning), "{}\n{}", check.stdout, check.stderr);
    assert_eq!(check.code, 0, "{}", check.stderr);
    let console = installation.run(&["console"], "hello\n").await;
    assert_eq!((console.stdout.as_str(), console.code), ("hangs-1\n", 0), "{}", console.stderr);
}

#[tokio::test]
async fn auto_asks_the_selected_program_for_its_version_once() {
    let installation = with_programs(&[])
        .with("AGENT_BACKEND", "auto")
        // The program counts its runs in a file outside of the folders that a sandbox would allow.
        .with("AGENT_SANDBOX", "off")
        .with("BACKEND_MODEL", "m-1");
    let (program, asked) = (installation.path("bin").join("counts"), installation.path("asked"));
    fs::write(
        &program,
        format!("#!/bin/sh\necho once >> '{}'\necho counts 1.0.0\n", asked.display()),
    )
    .unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    install(
        &installation,
        "counts",
        json!({ "programs": [{ "name": "counts", "version-arguments": versions() }] }),
    );
    let check = installation.run(&["check"], "").await;
    assert!(
        check.stdout.contains("\nagent version: 1.0.0\n"),
        "{}\n{}",
        check.stdout,
        check.stderr
    );
    // Settings for the backend apply to the one that `auto` selects.
    assert!(
        check.stdout.contains("backend `counts` does not support BACKEND_MODEL"),
        "{}",
        check.stdout
    );
    assert_eq!(fs::read_to_string(&asked).unwrap(), "once\n");
}

#[tokio::test]
async fn an_agent_with_only_a_key_for_one_shot_runs_is_run_one_shot_with_a_warning() {
    let both = json!({
        "sharing": "session", "one-shot": "offered", "features": ["resume", "own-sign-in"], "live-only": ["own-sign-in"],
        "credentials": [{ "variable": "BOTH_API_KEY" }, { "file": "~/.both/auth.json" }]
    });
    let listed = async |installation: &Installation| {
        let ended = installation.run(&["backend", "list", "--json"], "").await;
        let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        let row = listing["backends"]
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["name"] == "both")
            .unwrap()
            .clone();
        (
            row["run"].as_str().unwrap().to_owned(),
            row["available"] == true,
            row["warnings"].to_string(),
        )
    };
    let installation = with_programs(&[("both", "echo 1.0.0")]).with("AGENT_BACKEND", "both");
    install(&installation, "both", both);
    let (run, available, _) = listed(&installation).await;
    assert_eq!((run.as_str(), available), ("live", false), "it has neither a key nor a sign-in");

    let installation = installation.with("BOTH_API_KEY", "k-1");
    let (run, available, warnings) = listed(&installation).await;
    assert_eq!((run.as_str(), available), ("one-shot", true));
    assert!(
        warnings.contains("runs once a turn, because BOTH_API_KEY")
            && warnings.contains("~/.both/auth.json"),
        "{warnings}"
    );
    assert!(
        installation
            .run(&["check"], "")
            .await
            .stdout
            .contains("warning: backend `both` runs once a turn")
    );
    assert_eq!(installation.run(&["console"], "hello\n").await.stdout, "both-1\n");
    assert_eq!(start_turn(&installation)["one-shot"], true);

    let installation = installation.with("BACKEND_RUN", "both=live");
    let (run, _, warnings) = listed(&installation).await;
    assert!(
        run == "live" && warnings.contains("runs live, where BOTH_API_KEY does not sign it in"),
        "{warnings}"
    );

    let installation = installation.with("BACKEND_RUN", "");
    fs::create_dir_all(installation.path("home/.both")).unwrap();
    fs::write(installation.path("home/.both/auth.json"), "{}").unwrap();
    assert_eq!(
        listed(&installation).await,
        ("live".to_owned(), true, "[]".to_owned()),
        "it has a sign-in"
    );
}

#[tokio::test]
async fn codex_with_only_a_key_runs_one_shot() {
    let installation =
        with_programs(&[("codex", "echo codex-cli 0.169.0")]).with("CODEX_API_KEY", "sk-1");
    fs::write(installation.backend("codex"), crate::support::built("codex.wasm")).unwrap();
    let ended = installation.run(&["backend", "list", "--json"], "").await;
    let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let row =
        listing["backends"].as_array().unwrap().iter().find(|row| row["name"] == "codex").unwrap();
    assert_eq!(
        (row["run"].as_str(), row["available"].as_bool()),
        (Some("one-shot"), Some(true)),
        "{row}"
    );
    assert!(
        row["warnings"].to_string().contains("runs once a turn, because CODEX_API_KEY"),
        "{row}"
    );
}

/// The shipped agents, each with a variable that its maker documents for signing in.
const SHIPPED: [(&str, &str); 5] = [
    ("claude", "ANTHROPIC_API_KEY"),
    ("codex", "CODEX_API_KEY"),
    ("droid", "FACTORY_API_KEY"),
    ("gemini", "GEMINI_API_KEY"),
    ("opencode", "OPENCODE_API_KEY"),
];

#[tokio::test]
async fn each_shipped_backend_requires_the_credentials_of_its_agent() {
    for (name, key) in SHIPPED {
        let installation = with_programs(&[(name, "echo 1.0.0")]);
        let component = crate::support::built(&format!("{name}.wasm"));
        fs::write(installation.backend(name), component).unwrap();
        let row = async |installation: &Installation| {
            let ended = installation.run(&["backend", "list", "--json"], "").await;
            let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
            let rows = listing["backends"].as_array().unwrap();
            rows.iter().find(|row| row["name"] == name).unwrap().to_string()
        };
        let without = row(&installation).await;
        assert!(without.contains("no credentials found") && without.contains(key), "{without}");
        let with = row(&installation.with(key, "key-1")).await;
        assert!(!with.contains("no credentials found"), "{with}");
    }
}

#[tokio::test]
async fn settings_for_another_backend_are_ignored_with_a_warning() {
    let installation = with_programs(&[("other", "echo 1.0.0")])
        .with("AGENT_BACKEND", "other")
        .with("BACKEND_MODEL", "m-1");
    install(&installation, "other", json!({}));
    let program = installation.path("bin").join("other").display().to_string();
    let installation = installation.with("BACKEND_CLI_PATH", &program);
    let ended = installation.run(&["console", "--backend", "demo"], "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for name in ["BACKEND_MODEL", "BACKEND_CLI_PATH"] {
        assert!(
            ended
                .stderr
                .contains(&format!("{name} is left out: it is meant for `other`, not for `demo`")),
            "{}",
            ended.stderr
        );
    }
    let same = installation.run(&["console", "--backend", "other"], "hello\n").await;
    assert!(!same.stderr.contains("left out"), "{}", same.stderr);
}

#[tokio::test]
async fn the_list_is_printed_when_no_backend_could_start() {
    let ended =
        Installation::new().with("AGENT_BACKEND", "clod").run(&["backend", "list"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("warning: AGENT_BACKEND \"clod\" is not one of the backends"),
        "{}",
        ended.stdout
    );
    assert!(
        ended.stdout.contains(": demo; `auto` chooses one that works here"),
        "{}",
        ended.stdout
    );
}

/// Returns the `start-turn` input of the only turn.
fn start_turn(installation: &Installation) -> serde_json::Value {
    let recordings = installation.recordings();
    let lines = recordings.values().flat_map(|recording| recording.lines());
    let lines = lines.map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let starts: Vec<_> =
        lines.filter_map(|line| line.pointer("/in/command/start-turn").cloned()).collect();
    assert_eq!(starts.len(), 1, "{recordings:?}");
    starts[0].clone()
}

#[tokio::test]
async fn the_operator_chooses_between_live_and_one_shot() {
    for (run, features, one_shot) in [
        ("", json!(["resume", "steer"]), false),
        ("demo=one-shot,both=one-shot", json!(["resume"]), true),
    ] {
        let installation = with_programs(&[("both", "echo 1.0.0")])
            .with("AGENT_BACKEND", "both")
            .with("BACKEND_RUN", run);
        let both = json!({ "sharing": "session", "one-shot": "offered", "features": ["resume", "steer"], "live-only": ["steer"] });
        install(&installation, "both", both);
        let ended = installation.run(&["backend", "list", "--json"], "").await;
        let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
        assert_eq!(listing["backends"][0]["run"], if one_shot { "one-shot" } else { "live" });
        assert_eq!(listing["backends"][0]["features"], features);
        let ended = installation.run(&["console"], "hello\n").await;
        assert_eq!((ended.stdout.as_str(), ended.code), ("both-1\n", 0), "{}", ended.stderr);
        assert_eq!(start_turn(&installation)["one-shot"], one_shot);
    }
}

#[tokio::test]
async fn an_unsupported_run_mode_is_ignored_with_a_warning() {
    let ended =
        Installation::new().with("BACKEND_RUN", "demo=live,nobody=live").run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    for warning in [
        "backend `demo` cannot run live, only one-shot; it is ignored",
        "BACKEND_RUN names `nobody`, which is not a backend here",
    ] {
        assert!(ended.stdout.contains(warning), "{warning} is missing in\n{}", ended.stdout);
    }
    let ended = Installation::new().with("BACKEND_RUN", "demo=twice").run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
}

/// A component for ACP agents that runs `goose acp` and ends the turn when it exits.
fn acp(installation: &Installation) -> Vec<u8> {
    let mut wat = Wat::new("acp", "acp-1");
    wat.descriptor = json!({ "sharing": "turn", "features": ["resume", "plan"], "programs": [{ "name": "acp-agent" }], "profiles": true });
    let spawn = Spawn {
        proc: 1,
        program: "goose".to_owned(),
        arguments: vec![
            ArgumentValue::Text("acp".to_owned()),
            ArgumentValue::Text("--quiet".to_owned()),
        ],
        environment: Vec::new(),
        stdin: Vec::new(),
        keep_open: false,
        listens: false,
        basic_auth: None,
        session: None,
        turn: None,
    };
    wat.on_start = Some(vec![Action::Spawn(spawn)]);
    let text = AgentEventKind::Text(TextEvent {
        part: 0,
        text: "honk".to_owned(),
        replace: false,
        parent: None,
    });
    let event = Action::Event(AgentEvent { session: 1, turn: 1, kind: text });
    let done = Action::TurnDone(TurnDone {
        session: 1,
        turn: 1,
        outcome: TurnOutcome::Completed,
        text: None,
        usage: None,
    });
    wat.later = Some((EXITED, vec![event, done]));
    wat.accepted_in(&installation.path("config"));
    wat.build()
}

const GOOSE: &str = "\
# Agents
## goose
- command: `goose acp --quiet`
- label: Goose
- version: --version
- credentials: `GOOSE_KEY`
- modes: default=approve, danger=auto
";

#[tokio::test]
async fn a_launch_profile_is_a_separate_backend() {
    let goose =
        "[ \"$1\" = --version ] && echo goose 1.9.0 && exit\necho \"$GOOSE_KEY $*\" > goose.said";
    let installation =
        with_programs(&[("goose", goose)]).with("AGENT_BACKEND", "goose").with("GOOSE_KEY", "gk-1");
    fs::write(installation.backend("acp"), acp(&installation)).unwrap();
    fs::write(installation.path("config").join("acp.md"), GOOSE).unwrap();
    let ended = installation.run(&["backend", "list", "--json"], "").await;
    let listing: serde_json::Value = serde_json::from_str(&ended.stdout).unwrap();
    let names: Vec<_> = listing["backends"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| row["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["demo", "goose"], "the component without a profile is not a backend");
    let row = &listing["backends"][1];
    assert_eq!(
        (&row["component"], &row["label"], &row["agent-version"]),
        (&json!("acp"), &json!("Goose"), &json!("1.9.0"))
    );
    assert_eq!(row["features"], json!(["resume"]), "the profile has no mode for plans");

    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("honk\n", 0), "{}", ended.stderr);
    let options: serde_json::Value =
        serde_json::from_str(start_turn(&installation)["settings"]["options"].as_str().unwrap())
            .unwrap();
    let wanted = json!({ "program": "goose", "arguments": ["acp", "--quiet"], "modes": { "default": "approve", "danger": "auto" } });
    assert_eq!(options, wanted);
    let said = fs::read_to_string(installation.path("workspace").join("goose.said")).unwrap();
    assert_eq!(
        said, "gk-1 acp --quiet\n",
        "the credential is passed on, and the arguments are the profile's"
    );
}

#[tokio::test]
async fn a_profile_is_loaded_while_the_program_runs_and_an_invalid_one_is_reported() {
    let installation = with_programs(&[("goose", "true")])
        .with("GOOSE_KEY", "gk-1")
        .with("LOG_LEVEL", "info")
        .with("LOG_FORMAT", "json");
    fs::write(installation.backend("acp"), acp(&installation)).unwrap();
    let mut console = installation.start(&["console"]);
    console.logs("console ready").await;
    fs::write(
        installation.path("config").join("acp.md"),
        format!("{GOOSE}## bad\n- label: no command\n"),
    )
    .unwrap();
    console
        .logs_where("goose", |line| {
            line["message"] == "backend is ready" && line["backend"] == "goose"
        })
        .await;
    console.logs("acp.md line 8: profile \"bad\" is left out").await;
    console.type_in("/backend goose\nhello\n").await;
    console
        .prints("the answer", |text| {
            text.ends_with("goose answers from now on\nhonk\n").then_some(())
        })
        .await;
    console.end_input();
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn a_profile_without_component_and_a_component_without_profile_are_different_errors() {
    let installation = Installation::new().with("AGENT_BACKEND", "goose");
    fs::write(installation.path("config").join("acp.md"), GOOSE).unwrap();
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("is a profile of acp.md, but"), "{}", ended.stderr);
    fs::write(installation.backend("acp"), acp(&installation)).unwrap();
    let ended = installation.with("AGENT_BACKEND", "acp").run(&["check"], "").await;
    assert_eq!(ended.code, 78, "{}", ended.stderr);
    assert!(ended.stderr.contains("name one of the profiles in acp.md"), "{}", ended.stderr);
}

#[tokio::test]
async fn a_backend_loaded_later_is_probed_when_it_is_loaded() {
    let installation = with_programs(&[("late", "echo late 3.2.1")])
        .with("LOG_LEVEL", "info")
        .with("LOG_FORMAT", "json");
    let mut console = installation.start(&["console"]);
    console.logs("console ready").await;
    install(
        &installation,
        "late",
        json!({ "programs": [{ "name": "late", "version-arguments": versions() }] }),
    );
    let line = console
        .logs_where("late", |line| {
            line["message"] == "backend is ready" && line["backend"] == "late"
        })
        .await;
    assert_eq!(line["version"], "3.2.1");
    install(&installation, "missing", json!({}));
    let line =
        console.logs_where("missing", |line| line["message"] == "backend is not available").await;
    assert!(line["reason"].as_str().unwrap().contains("program not found: missing"), "{line}");
    console.type_in("/backend missing\n/backend late\nhello\n").await;
    console
        .prints("the answer", |text| {
            text.ends_with("late answers from now on\nlate-1\n").then_some(())
        })
        .await;
    assert!(
        console.stderr().contains("✗ missing cannot be used here: its program is not installed."),
        "{}",
        console.stderr()
    );
    console.end_input();
    assert_eq!(console.ended().await.code, 1, "one command was refused");
    let recording = installation.recordings().into_values().next().unwrap();
    let header: serde_json::Value =
        serde_json::from_str(recording.lines().next().unwrap()).unwrap();
    assert_eq!(header["agent-version"], "3.2.1");
}

#[tokio::test]
async fn a_wrapper_starts_the_program() {
    let wrapper = "echo \"$@\" >> wrapped\nexec \"$@\"";
    let installation = with_programs(&[("wrapper", wrapper)]);
    let command = format!("{} --", installation.path("bin").join("wrapper").display());
    fs::write(installation.path("bin").join("wrapper"), format!("#!/bin/sh\nshift\n{wrapper}\n"))
        .unwrap();
    let installation = installation.with("AGENT_WRAPPER", &command);
    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.starts_with("You said: hello\n"), "{}", ended.stdout);
    let wrapped = fs::read_to_string(installation.path("workspace").join("wrapped")).unwrap();
    let program = crate::support::program::aetheel().display().to_string();
    assert!(wrapped.starts_with(&format!("{program} demo-agent")), "{wrapped}");
}

#[tokio::test]
async fn ping_reports_whether_a_backend_can_work() {
    let installation = with_programs(&[]);
    install(&installation, "missing", json!({}));
    let ended = installation.run(&["backend", "ping"], "").await;
    assert_eq!(
        (ended.stdout.as_str(), ended.code),
        ("demo is ready; it runs its agent once a turn\n", 0),
        "{}",
        ended.stderr
    );
    let ended = installation.run(&["backend", "ping", "missing"], "").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("", 69), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("backend `missing`: program not found: missing"),
        "{}",
        ended.stderr
    );
    let ended = installation.run(&["console"], "/ping\n/ping missing\n").await;
    let ready = "demo is ready; it runs its agent once a turn\n";
    assert_eq!((ended.stdout.as_str(), ended.code), (ready, 1), "{}", ended.stderr);
    let refused = "✗ missing cannot be used here: its program is not installed.\n";
    assert!(ended.stderr.contains(refused), "{}", ended.stderr);
}

#[tokio::test]
async fn profiles_of_agents_that_are_not_installed_are_summarised() {
    let installation =
        with_programs(&[("goose", "true")]).with("AGENT_BACKEND", "auto").with("GOOSE_KEY", "gk-1");
    fs::write(installation.backend("acp"), acp(&installation)).unwrap();
    let more = "## absent-a\n- command: absent-a\n## absent-b\n- command: absent-b\n";
    fs::write(installation.path("config").join("acp.md"), format!("{GOOSE}{more}")).unwrap();
    let said = selected_backend(&installation).await;
    assert!(
        said.starts_with("goose (auto: ")
            && said.ends_with("; not 2 profiles of acp.md: their programs are not installed)"),
        "{said}"
    );
    let ended = installation.with("AGENT_BACKEND", "demo").run(&["check"], "").await;
    assert!(
        ended.stdout.contains("\nbackend goose: ready, agent version unknown\n"),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stdout
            .contains("2 profiles cannot work here; `aetheel backend list --all` shows why\n"),
        "{}",
        ended.stdout
    );
}
