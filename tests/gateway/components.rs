//! Components are installed, rolled back, checked for trust and selected for the installed agent,
//! with the real program.

use std::fs;
use std::io::Cursor;
use std::os::unix::fs::PermissionsExt as _;

use aetheel_model::agent::{Action, Spawn, TurnDone, TurnOutcome};
use minisign::KeyPair;
use serde_json::{Value, json};

use super::{installed, serving};
use crate::backend::digest;
use crate::support::built;
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::guests::{EXITED, Wat};
use crate::support::program::{Ended, Installation, Program, copy_program};
use crate::support::recordings::case;

/// Returns a component of the backend `mini`, which answers with its version.
pub(super) fn mini(version: &str, descriptor: Value) -> Vec<u8> {
    wat(version, descriptor).build()
}

fn wat(version: &str, descriptor: Value) -> Wat {
    let mut all = json!({ "programs": [{ "name": "mini", "version-arguments": ["--version"] }] });
    for (key, value) in descriptor.as_object().unwrap() {
        all[key] = value.clone();
    }
    Wat { descriptor: all, ..Wat::new("mini", version) }
}

/// Installs the agent `mini` with this version in the installation's `PATH`, atomically.
fn install_agent(installation: &Installation, version: &str) {
    let (bin, staged) = (installation.path("bin"), installation.path("staged-agent"));
    fs::create_dir_all(&bin).unwrap();
    fs::write(&staged, format!("#!/bin/sh\necho mini {version}\n")).unwrap();
    fs::set_permissions(&staged, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(staged, bin.join("mini")).unwrap();
}

/// Adds the agent `mini` 1.0.0 as the default backend, and accepts it.
pub(super) fn prepared(installation: Installation) -> Installation {
    install_agent(&installation, "1.0.0");
    wat("1.0.0", json!({})).accepted_in(&installation.path("config"));
    let path = format!("{}:/usr/bin:/bin", installation.path("bin").display());
    installation.with("PATH", &path).with("AGENT_BACKEND", "mini")
}

/// Writes a component outside of the folder of backends and returns its path.
pub(super) fn download(installation: &Installation, name: &str, bytes: &[u8]) -> String {
    fs::write(installation.path(name), bytes).unwrap();
    installation.path(name).display().to_string()
}

async fn install(installation: &Installation, file: &str, further: &[&str]) -> Ended {
    installation.run(&[&["backend", "install", file], further].concat(), "").await
}

/// Sends a prompt and expects this version as the answer.
pub(super) async fn expect_answer(local: &LocalDiscord, version: &str) {
    let before = local.texts(CHANNEL).len();
    local.mention(CHANNEL, ANN, "hello");
    let came = |local: &LocalDiscord| {
        local.texts(CHANNEL).get(before..)?.iter().any(|text| text == version).then_some(())
    };
    local.wait_for(&format!("the answer {version}"), came).await;
}

pub(super) async fn wait_for_generation(bot: &Program, number: u32) -> Value {
    let begins = format!("{number}@");
    bot.logs_where(&format!("generation {number}"), |line| {
        line["backend"] == "mini"
            && line["generation"].as_str().is_some_and(|generation| generation.starts_with(&begins))
    })
    .await
}

/// Returns the file names in the folder of backends, sorted.
fn backends(installation: &Installation) -> Vec<String> {
    let files = fs::read_dir(installation.path("backends")).unwrap();
    let mut names: Vec<String> =
        files.map(|file| file.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

pub(super) async fn listed(installation: &Installation) -> Value {
    let ended = installation.run(&["backend", "list", "--json"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    serde_json::from_str(&ended.stdout).unwrap()
}

pub(super) fn row_of_mini(listing: &Value) -> &Value {
    listing["backends"]
        .as_array()
        .unwrap()
        .iter()
        .find(|row| row["name"] == "mini")
        .unwrap_or_else(|| panic!("{listing:#}"))
}

#[tokio::test]
async fn an_installed_component_serves_and_a_rollback_restores_the_previous_one() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local));
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;

    let second =
        mini("2.0.0", json!({ "features": ["resume"], "environment": { "pass": ["MINI_KEY"] } }));
    let ended =
        install(&installation, &download(&installation, "mini-2.wasm", &second), &["--yes"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stderr.contains(
            "backend mini wants to\n  pass the gateway's variable `MINI_KEY` to its agent\n"
        ),
        "{}",
        ended.stderr
    );
    for part in [
        &format!("backend mini: version 2.0.0 ({}), in place of 1.0.0 (", &digest(&second)[..12]),
        "contract: aetheel:backend@0.3.0\n",
        "new features: resume\n",
        "new variables: MINI_KEY (passed on)\n",
        &format!("installed as {}\n", installation.backend("mini").display()),
        &format!("the gateway (process {}) loads it now", bot.pid.as_raw_nonzero()),
    ] {
        assert!(ended.stdout.contains(part), "{part} is missing in\n{}", ended.stdout);
    }
    wait_for_generation(&bot, 2).await;
    expect_answer(&local, "2.0.0").await;

    let ended = installation.run(&["backend", "rollback", "mini"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("version 1.0.0 (") && ended.stdout.contains("is back in"),
        "{}",
        ended.stdout
    );
    wait_for_generation(&bot, 3).await;
    expect_answer(&local, "1.0.0").await;
    let aside = format!("mini.wasm.rolled-back-{}", &digest(&second)[..12]);
    assert_eq!(backends(&installation), ["demo.wasm", "mini.wasm", &aside]);

    let ended = installation.run(&["backend", "rollback", "mini"], "").await;
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    assert!(ended.stderr.contains("no earlier version of `mini` is kept"), "{}", ended.stderr);
    let ended = installation.run(&["backend", "rollback", "nobody"], "").await;
    assert_eq!(ended.code, 64, "{}", ended.stdout);
    assert!(
        ended.stderr.contains("there is no backend `nobody`; there are demo, mini"),
        "{}",
        ended.stderr
    );
    for file in backends(&installation) {
        std::fs::remove_file(installation.path("backends").join(file)).unwrap();
    }
    let ended = installation.run(&["backend", "rollback", "nobody"], "").await;
    assert!(
        ended.stderr.contains("there is no backend `nobody`, and no other in "),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_component_that_reads_worse_is_rolled_back_automatically_without_a_restart() {
    use aetheel_model::agent::{AgentEvent, AgentEventKind, TextEvent, Unrecognised};

    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local)).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    let bot = serving(&installation).await;
    for _ in 0..3 {
        expect_answer(&local, "1.0.0").await;
    }
    // The second version does not recognise the output that the first one could read.
    let event = |kind| Action::Event(AgentEvent { session: 1, turn: 1, kind });
    let unknown = Unrecognised {
        what: "telling".to_owned(),
        path: None,
        sample: "{}".to_owned(),
        ..Unrecognised::default()
    };
    let wat = Wat {
        descriptor: json!({ "programs": [{ "name": "mini", "version-arguments": ["--version"] }] }),
        on_start: Some(vec![
            event(AgentEventKind::Unrecognised(unknown)),
            event(AgentEventKind::Text(TextEvent {
                part: 0,
                text: "2.0.0".to_owned(),
                replace: false,
                parent: None,
            })),
            completed(),
        ]),
        ..Wat::new("mini", "2.0.0")
    };
    let second = wat.build();
    let ended = install(&installation, &download(&installation, "mini-2.wasm", &second), &[]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    // As after an installation from a registry.
    let locked = digest(&second);
    let section = format!(
        "## mini.wasm\n\n- from: oci://registry.example/mini:2@sha256:{locked}\n- sha256: {locked}\n"
    );
    fs::write(installation.path("config/backends.lock.md"), section).unwrap();
    wait_for_generation(&bot, 2).await;
    for _ in 0..3 {
        expect_answer(&local, "2.0.0").await;
    }
    let line = bot.logs("a backend read worse than its previous version and was rolled back").await;
    assert!(line["serves"].as_str().is_some_and(|serves| serves.starts_with("3@")), "{line}");
    expect_answer(&local, "1.0.0").await;
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), mini("1.0.0", json!({})));
    let aside =
        installation.path(&format!("backends/mini.wasm.rolled-back-{}", &digest(&second)[..12]));
    assert_eq!(fs::read(aside).unwrap(), second);
    local.wait_for_message(OTHER, |text| text.contains("mini") && text.contains("3@")).await;
    assert!(!installation.read("backends.lock.md").contains("## mini.wasm"));
}

#[tokio::test]
async fn an_invalid_session_id_of_a_backend_is_logged_with_a_next_step() {
    use aetheel_model::agent::{AgentEvent, AgentEventKind, SessionReady, TextEvent};

    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local));
    let ready = SessionReady {
        session: 1,
        native_id: "--resume all".to_owned(),
        model: None,
        title: None,
        tools: vec![],
    };
    let answer = TextEvent { part: 0, text: "1.0.0".to_owned(), replace: false, parent: None };
    let answer = AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(answer) };
    let wat = Wat {
        on_start: Some(vec![Action::SessionReady(ready), Action::Event(answer), completed()]),
        ..wat("1.0.0", json!({}))
    };
    fs::write(installation.backend("mini"), wat.build()).unwrap();
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;
    let line =
        bot.logs("dropped a session id of the backend: the next turn begins a new session").await;
    assert!(line["reason"].as_str().unwrap().contains("--resume all"), "{line}");
    assert!(line["hint"].as_str().unwrap().contains("aetheel backend check"), "{line}");
}

#[tokio::test]
async fn an_open_console_loads_a_version_that_is_installed_beside_it() {
    let installation = prepared(Installation::new());
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    let mut console = installation.start(&["console"]);
    console.type_in("hello\n").await;
    console.prints("the first version", |text| text.ends_with("1.0.0\n").then_some(())).await;
    let second = download(&installation, "mini-2.wasm", &mini("2.0.0", json!({})));
    let ended = install(&installation, &second, &[]).await;
    assert!(
        ended.code == 0
            && ended.stdout.contains("the next start loads it, and an open `aetheel console` now"),
        "{}{}",
        ended.stdout,
        ended.stderr
    );
    // The console takes the new version when its watcher has seen the file.
    let is_new = |text: &str| text.ends_with("2.0.0\n").then_some(true);
    let is_old =
        |count: usize, text: &str| (text.matches("1.0.0\n").count() > count).then_some(false);
    for old in 1.. {
        console.type_in("hello\n").await;
        if console.prints("an answer", |text| is_new(text).or_else(|| is_old(old, text))).await {
            break;
        }
    }
    console.end_input();
    assert_eq!(console.ended().await.code, 0);
}

#[tokio::test]
async fn install_replays_the_recordings_in_the_folder_of_cases_beside_the_file() {
    let installation = Installation::new();
    let project = installation.path("project");
    fs::create_dir_all(project.join("cases")).unwrap();
    let component = project.join("gemini.wasm").display().to_string();
    fs::write(&component, built("gemini.wasm")).unwrap();
    let recorded = fs::read_to_string(&case("gemini", "plain").path).unwrap();
    let recording = project.join("cases/plain.jsonl");
    // Its answer is in a field that the component does not know.
    fs::write(&recording, recorded.replace(r#"\"content\""#, r#"\"reply\""#)).unwrap();
    let ended = install(&installation, &component, &[]).await;
    assert_eq!(ended.code, 1, "{}", ended.stdout);
    assert!(ended.stderr.contains("does not pass its check"), "{}", ended.stderr);
    assert!(!installation.backend("gemini").exists());
    fs::write(&recording, recorded).unwrap();
    let ended = install(&installation, &component, &[]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(fs::read(installation.backend("gemini")).unwrap(), built("gemini.wasm"));
}

fn completed() -> Action {
    Action::TurnDone(TurnDone {
        session: 1,
        turn: 1,
        outcome: TurnOutcome::Completed,
        text: None,
        usage: None,
    })
}

#[tokio::test]
async fn install_and_rollback_work_without_a_gateway_and_the_next_start_uses_the_result() {
    let installation = prepared(Installation::new());
    let ended = install(
        &installation,
        &download(&installation, "anything.wasm", &mini("1.0.0", json!({}))),
        &[],
    )
    .await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("new here") && ended.stdout.contains("no gateway runs here"),
        "{}",
        ended.stdout
    );
    assert_eq!(backends(&installation), ["demo.wasm", "mini.wasm"]);
    let second = download(&installation, "mini-2.wasm", &mini("2.0.0", json!({})));
    assert_eq!(install(&installation, &second, &[]).await.code, 0);
    let again = install(&installation, &second, &[]).await;
    assert!(again.code == 0 && again.stdout.contains("it is already installed"), "{again:?}");
    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("2.0.0\n", 0), "{}", ended.stderr);
    assert_eq!(installation.run(&["backend", "rollback", "mini"], "").await.code, 0);
    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("1.0.0\n", 0), "{}", ended.stderr);
    let kept = installation.path("config/state/components/mini");
    assert_eq!(fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn rolling_back_a_profile_rolls_back_its_component() {
    let installation = prepared(Installation::new()).with("AGENT_BACKEND", "goose");
    copy_program(&installation.path("bin/mini"), &installation.path("bin/goose"));
    fs::write(installation.path("config/acp.md"), "## goose\n- command: goose acp\n").unwrap();
    for version in ["1.0.0", "2.0.0"] {
        let mut wat = Wat::new("acp", version);
        wat.descriptor = json!({ "profiles": true });
        wat.accepted_in(&installation.path("config"));
        let file = download(&installation, "acp-new.wasm", &wat.build());
        assert_eq!(install(&installation, &file, &[]).await.code, 0);
        let ended = installation.run(&["console"], "hello\n").await;
        assert_eq!((ended.stdout, ended.code), (format!("{version}\n"), 0), "{}", ended.stderr);
    }
    let ended = installation.run(&["backend", "rollback", "goose"], "").await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("backend acp (all profiles of acp.md with `goose`): version 1.0.0 ("),
        "{}",
        ended.stdout
    );
    let ended = installation.run(&["console"], "hello\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("1.0.0\n", 0), "{}", ended.stderr);
}

#[tokio::test]
async fn the_recordings_beside_a_component_are_tested_before_it_is_installed() {
    let installation = prepared(Installation::new());
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    assert_eq!(installation.run(&["console"], "hello\n").await.code, 0);
    let recording = installation.recordings().into_values().next().unwrap();
    // The expected actions come from the first version.
    let second = download(&installation, "mini-2.wasm", &mini("2.0.0", json!({})));
    let case = installation.path("mini-2.cases/hello.jsonl");
    fs::create_dir(case.parent().unwrap()).unwrap();
    fs::write(&case, recording).unwrap();
    let case = case.display().to_string();
    let first = installation.backend("mini").display().to_string();
    let golden = installation.run(&["backend", "test", &first, &case, "--update"], "").await;
    assert_eq!(golden.code, 0, "{golden:?}");
    let refused = install(&installation, &second, &[]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(
        refused.stderr.contains("fails a recording of its own") && refused.stderr.contains("hello"),
        "{}",
        refused.stderr
    );
    assert_eq!(fs::read(installation.backend("mini")).unwrap(), mini("1.0.0", json!({})));

    // The recordings beside the installed file count too, because it would be loaded with them.
    fs::rename(installation.path("mini-2.cases"), installation.path("backends/mini.cases"))
        .unwrap();
    let refused = install(&installation, &second, &[]).await;
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.stderr.contains("mini.cases, or remove it"), "{}", refused.stderr);
    fs::remove_dir_all(installation.path("backends/mini.cases")).unwrap();
    assert_eq!(install(&installation, &second, &[]).await.code, 0);
}

#[tokio::test]
async fn after_a_restart_the_last_good_component_serves_instead_of_a_damaged_file() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local));
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    let mut bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;
    bot.signal(rustix::process::Signal::TERM);
    bot.ended().await;
    let whole = fs::read(installation.backend("mini")).unwrap();
    fs::write(installation.backend("mini"), &whole[..whole.len() / 2]).unwrap();

    let bot = serving(&installation).await;
    bot.logs("the backend's file is refused").await;
    expect_answer(&local, "1.0.0").await;
}

#[tokio::test]
async fn a_recording_can_be_replayed_by_backend_name_and_id() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local));
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;
    drop(bot);
    let id = installation.recordings().into_keys().next().expect("a recording");
    let replayed = installation.run(&["backend", "replay", "mini", &id], "").await;
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
    assert!(replayed.stdout.contains("1.0.0"), "{}", replayed.stdout);

    for (arguments, part) in [
        (["nobody", &*id], "no backend of that name"),
        (["mini", "00000000"], "no recording `00000000.jsonl`"),
    ] {
        let refused =
            installation.run(&[&["backend", "replay"][..], &arguments].concat(), "").await;
        assert_eq!(refused.code, 64, "{}", refused.stderr);
        assert!(refused.stderr.contains(part), "{}", refused.stderr);
    }
}

/// A component whose guest crashes when the agent exits.
fn crashing(version: &str) -> Vec<u8> {
    let spawn = Spawn {
        proc: 1,
        program: "mini".to_owned(),
        arguments: Vec::new(),
        environment: Vec::new(),
        stdin: Vec::new(),
        keep_open: false,
        listens: false,
        basic_auth: None,
        session: None,
        turn: None,
    };
    Wat {
        on_start: Some(vec![Action::Spawn(spawn)]),
        later: Some((EXITED, Vec::new())),
        on_timer: "unreachable".to_owned(),
        ..wat(version, json!({}))
    }
    .build()
}

#[tokio::test]
async fn prompts_for_a_backend_that_keeps_failing_wait_for_the_next_component() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local));
    fs::write(installation.backend("mini"), crashing("1.0.0")).unwrap();
    let bot = serving(&installation).await;
    for _ in 0..5 {
        let before = local.texts(CHANNEL).len();
        local.mention(CHANNEL, ANN, "hello");
        let failed = |local: &LocalDiscord| {
            let new = local.texts(CHANNEL);
            new.get(before..)?.iter().any(|text| text.contains("backend crashed")).then_some(())
        };
        local.wait_for("the failure", failed).await;
    }
    bot.logs("5 failures within a minute").await;
    for channel in [CHANNEL, OTHER] {
        local.mention(channel, ANN, "are you there?");
        local.wait_for_message(channel, |text| text.contains("Your message waits")).await;
    }
    let fixed = download(&installation, "fixed.wasm", &mini("2.0.0", json!({})));
    assert_eq!(install(&installation, &fixed, &["--yes"]).await.code, 0);
    for channel in [CHANNEL, OTHER] {
        local.wait_for_message(channel, |text| text == "2.0.0").await;
    }
}

#[tokio::test]
async fn a_failed_installation_changes_nothing() {
    let installation = prepared(Installation::new());
    fs::write(installation.backend("mini"), mini("1.0.0", json!({}))).unwrap();
    let before = installation.everything();
    let untouched = |installation: &Installation| {
        let same = |(path, bytes): &(std::path::PathBuf, Vec<u8>)| {
            fs::read(path).is_ok_and(|now| now == *bytes)
        };
        assert!(before.iter().all(same));
        assert_eq!(backends(installation), ["demo.wasm", "mini.wasm"]);
    };
    let missing = install(&installation, "/nonexistent.wasm", &["--pin"]).await;
    assert_eq!(missing.code, 64, "{}", missing.stderr);
    let nonsense = download(&installation, "nonsense.wasm", b"nonsense");
    let refused = install(&installation, &nonsense, &["--pin"]).await;
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("is not a WebAssembly file") && refused.stderr.contains("hint: "),
        "{}",
        refused.stderr
    );
    assert!(refused.stderr.ends_with("nothing was changed\n"), "{}", refused.stderr);
    untouched(&installation);

    let second = download(&installation, "mini-2.wasm", &mini("2.0.0", json!({})));
    let installation = installation.with("BACKEND_TRUST", "pinned");
    let refused = install(&installation, &second, &[]).await;
    assert_eq!(refused.code, 1, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("is not pinned in backends.md") && refused.stderr.contains("--pin"),
        "{}",
        refused.stderr
    );
    untouched(&installation);
    for (settings, fault) in [
        (
            ("BACKEND_SIGNERS", "nokey"),
            "BACKEND_SIGNERS: \"nokey\" is not a public key of minisign",
        ),
        (("BACKEND_TRUST", "signed"), "BACKEND_TRUST=signed needs BACKEND_SIGNERS"),
    ] {
        let installation = prepared(Installation::new()).with(settings.0, settings.1);
        for command in [&["backend", "install", &second][..], &["run"], &["check"]] {
            let refused = installation.run(command, "").await;
            assert_eq!(refused.code, 78, "{command:?} {}", refused.stderr);
            assert!(refused.faults().contains(fault), "{command:?} {}", refused.stderr);
        }
    }
}

#[tokio::test]
async fn installing_an_installed_component_with_a_pin_creates_no_second_file() {
    let installation = prepared(Installation::new()).with("BACKEND_TRUST", "pinned");
    let first = mini("1.0.0", json!({}));
    fs::write(installation.path("backends/copied.wasm"), &first).unwrap();
    let file = download(&installation, "mini.wasm", &first);
    let ended = install(&installation, &file, &["--pin"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(ended.stdout.contains("it is already installed"), "{}", ended.stdout);
    assert_eq!(backends(&installation), ["copied.wasm", "demo.wasm"]);
    assert!(installation.read("backends.md").contains(&digest(&first)));
    let listing = listed(&installation).await;
    assert_eq!(row_of_mini(&listing)["version"], "1.0.0");
    assert!(!listing["refused"].to_string().contains("copied.wasm"), "{listing:#}");
}

#[tokio::test]
async fn with_trust_in_pins_only_pinned_components_serve_and_installing_can_pin() {
    let local = LocalDiscord::start().await;
    let first = mini("1.0.0", json!({}));
    let installation = prepared(installed(&local)).with("BACKEND_TRUST", "pinned");
    fs::write(installation.backend("mini"), &first).unwrap();
    let refused = installation.run(&["check"], "").await;
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains(&format!("its SHA-256 is not pinned in backends.md: {}", digest(&first))),
        "{}",
        refused.stderr
    );
    let accepted = installation.read("backends.md");
    let pinned =
        |bytes: &[u8]| format!("My own words.\n\n## mini\n- sha256: {}\n\nMore.\n", digest(bytes));
    fs::write(installation.path("config/backends.md"), accepted.clone() + &pinned(&first)).unwrap();
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;

    // Copied there by hand, the file is refused until its pin is added. It is then loaded without
    // another change of the file.
    let (second, third) = (mini("2.0.0", json!({})), mini("3.0.0", json!({})));
    fs::write(installation.backend("mini"), &second).unwrap();
    let refused =
        |line: &Value| line["message"].as_str().is_some_and(|text| text.contains(&digest(&second)));
    let line = bot.logs_where("the refusal", refused).await;
    assert!(
        line["message"].as_str().unwrap().starts_with("backend file is not trusted here"),
        "{line}"
    );
    assert!(
        line["message"].as_str().unwrap().contains("hint: ") && line["serving"].as_str().is_some(),
        "{line}"
    );
    expect_answer(&local, "1.0.0").await;
    fs::write(installation.path("config/backends.md"), accepted.clone() + &pinned(&second))
        .unwrap();
    wait_for_generation(&bot, 2).await;
    expect_answer(&local, "2.0.0").await;

    let ended =
        install(&installation, &download(&installation, "mini-3.wasm", &third), &["--pin"]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains(&format!("pinned in backends.md: {}", digest(&third))),
        "{}",
        ended.stdout
    );
    let wanted = format!(
        "My own words.\n\n## mini\n- sha256: {}\n- sha256: {}\n\nMore.\n",
        digest(&second),
        digest(&third)
    );
    assert_eq!(installation.read("backends.md"), accepted + &wanted);
    wait_for_generation(&bot, 3).await;
    expect_answer(&local, "3.0.0").await;
    let listing = listed(&installation).await;
    assert_eq!(
        (&listing["trust"], &row_of_mini(&listing)["standing"]),
        (&json!("pinned"), &json!("pinned"))
    );
    assert!(
        listing["refused"][0].as_str().unwrap().contains("demo.wasm: is not trusted here"),
        "{listing}"
    );
}

#[tokio::test]
async fn with_trust_in_signatures_only_signed_components_serve_and_signatures_are_installed_too() {
    let keys = KeyPair::generate_unencrypted_keypair().unwrap();
    let sign = |bytes: &[u8]| {
        minisign::sign(None, &keys.sk, Cursor::new(bytes), Some("built in CI, run 7"), None)
            .unwrap()
            .into_string()
    };
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local))
        .with("BACKEND_TRUST", "signed")
        .with("BACKEND_SIGNERS", &keys.pk.to_base64());
    let (first, second) = (mini("1.0.0", json!({})), mini("2.0.0", json!({})));
    fs::write(installation.backend("mini"), &first).unwrap();
    fs::write(installation.path("backends/mini.wasm.minisig"), sign(&first)).unwrap();
    let bot = serving(&installation).await;
    let line = bot
        .logs_where("the signer's words", |line| {
            line["standing"].as_str().is_some_and(|text| text.contains("built in CI, run 7"))
        })
        .await;
    assert_eq!(line["message"], "backend loaded");
    expect_answer(&local, "1.0.0").await;

    let file = download(&installation, "mini-2.wasm", &second);
    let refused = install(&installation, &file, &["--pin"]).await;
    assert_eq!(refused.code, 1, "a pin does not replace a signature: {}", refused.stdout);
    assert!(refused.stderr.contains("it is not signed"), "{}", refused.stderr);
    fs::write(installation.path("mini-2.wasm.minisig"), sign(&second)).unwrap();
    let ended = install(&installation, &file, &[]).await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(
        ended.stdout.contains("trust: signed by key 1: built in CI, run 7"),
        "{}",
        ended.stdout
    );
    wait_for_generation(&bot, 2).await;
    expect_answer(&local, "2.0.0").await;
    assert_eq!(installation.run(&["backend", "rollback", "mini"], "").await.code, 0);
    wait_for_generation(&bot, 3).await;
    expect_answer(&local, "1.0.0").await;

    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert!(doctor.stdout.contains("trust: only signed backend files serve"), "{}", doctor.stdout);
    assert!(
        doctor.stdout.contains("is valid and signed by key 1: built in CI, run 7"),
        "{}",
        doctor.stdout
    );
    assert!(
        doctor.stdout.contains("compiled code: only the gateway's user can write to "),
        "{}",
        doctor.stdout
    );
}

#[tokio::test]
async fn a_new_agent_version_is_noticed_and_the_component_made_for_it_serves_the_next_turn() {
    let local = LocalDiscord::start().await;
    let installation = prepared(installed(&local)).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    fs::write(installation.backend("mini"), mini("0.1.0", json!({ "understands": ["^1"] })))
        .unwrap();
    fs::write(installation.backend("mini-2"), mini("0.2.0", json!({ "understands": [">=2, <4"] })))
        .unwrap();
    let bot = serving(&installation).await;
    let line = bot.logs("selected this file among several").await;
    assert_eq!((&line["backend"], &line["version"]), (&json!("mini"), &json!("0.1.0")), "{line}");
    assert!(
        line["message"]
            .as_str()
            .unwrap()
            .ends_with("it is made for agent versions ^1, installed is 1.0.0"),
        "{line}"
    );
    expect_answer(&local, "0.1.0").await;

    install_agent(&installation, "2.3.0");
    bot.logs("agent is now version 2.3.0 (was 1.0.0)").await;
    let notice = "The agent of `mini` is now version 2.3.0 (was 1.0.0); version 0.2.0 of the backend reads its output.";
    local.wait_for_message(OTHER, |text| text == notice).await;
    expect_answer(&local, "0.2.0").await;

    let listing = listed(&installation).await;
    let row = row_of_mini(&listing);
    assert_eq!((&row["version"], &row["agent-version"]), (&json!("0.2.0"), &json!("2.3.0")));
    assert!(row["file"].as_str().unwrap().ends_with("backends/mini-2.wasm"), "{row}");
    assert_eq!(row["chosen"], "it is made for agent versions >=2, <4, installed is 2.3.0");
    assert_eq!(
        (&row["others"][0]["version"], &row["others"][0]["understands"]),
        (&json!("0.1.0"), &json!(["^1"]))
    );
    let table = installation.run(&["backend", "list"], "").await;
    let wanted = "  serves from: mini-2.wasm, because it is made for agent versions >=2, <4, installed is 2.3.0; not mini.wasm (0.1.0, for ^1)\n";
    assert!(table.stdout.contains(wanted), "{}", table.stdout);
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert!(
        doctor.stdout.contains("backend mini: serves from mini-2.wasm, because"),
        "{}",
        doctor.stdout
    );

    // No component is made for this version. The highest one keeps serving, with a warning.
    install_agent(&installation, "9.0.0");
    let line = bot
        .logs_where("the doubt", |line| line["level"] == "WARN" && line["backend"] == "mini")
        .await;
    assert!(
        line["message"]
            .as_str()
            .unwrap()
            .contains("none is made for agent 9.0.0: it is the highest; hint: "),
        "{line}"
    );
    expect_answer(&local, "0.2.0").await;
}

#[tokio::test]
async fn compiled_code_that_other_users_can_write_stops_the_start() {
    let installation = Installation::new();
    let cache = installation.path("cache");
    fs::create_dir(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let installation = installation.with("CACHE_DIR", &cache.display().to_string());
    let refused = installation.run(&["check"], "").await;
    assert_eq!(refused.code, 78, "{}", refused.stderr);
    assert!(
        refused
            .stderr
            .contains("can be written to by others (mode 777): remove it; it is created again"),
        "{}",
        refused.stderr
    );
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert!(
        doctor.code == 2 && doctor.stdout.contains("FAULT    compiled code: "),
        "{}",
        doctor.stdout
    );
    fs::remove_dir(&cache).unwrap();
    assert_eq!(installation.run(&["check"], "").await.code, 0);
    assert_eq!(fs::metadata(&cache).unwrap().permissions().mode() & 0o777, 0o700);
}
