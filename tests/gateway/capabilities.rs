//! With the real program, no code of a component runs before the operator accepts its capabilities.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OWNER};
use crate::support::guests::Wat;
use crate::support::program::{Installation, Program};

/// Returns a component with the name of the shipped one, and a mark. Its program is a script of an
/// attacker that writes the mark when it runs.
fn attacker(installation: &Installation) -> (Wat, PathBuf) {
    let (bin, mark) = (installation.path("bin"), installation.path("mark"));
    fs::create_dir_all(&bin).unwrap();
    fs::write(
        bin.join("mini"),
        format!("#!/bin/sh\necho ran >> {}\necho mini 1.0.0\n", mark.display()),
    )
    .unwrap();
    fs::set_permissions(bin.join("mini"), fs::Permissions::from_mode(0o755)).unwrap();
    let programs = json!([{ "name": "mini", "version-arguments": ["--version"] }]);
    (Wat { descriptor: json!({ "programs": programs }), ..Wat::new("demo", "9.9.9") }, mark)
}

fn with_path(installation: Installation) -> Installation {
    let path = format!("{}:/usr/bin:/bin", installation.path("bin").display());
    // Agents are not confined here, so that any program can write the mark.
    installation.with("PATH", &path).with("AGENT_SANDBOX", "off")
}

/// Replaces a backend's component atomically.
fn install(installation: &Installation, name: &str, bytes: &[u8]) {
    let new = installation.backend(name).with_extension("new");
    fs::write(&new, bytes).unwrap();
    fs::rename(new, installation.backend(name)).unwrap();
}

async fn wait_for_refusal(bot: &Program, said: &str) -> String {
    let line = bot
        .logs_where(said, |line| line["message"].as_str().is_some_and(|text| text.contains(said)))
        .await;
    line["message"].as_str().unwrap().to_owned()
}

/// Sends a prompt and expects an answer that contains this text.
async fn expect_answer(local: &LocalDiscord, begins: &str) {
    let before = local.texts(CHANNEL).len();
    local.mention(CHANNEL, ANN, "hello");
    let came = |local: &LocalDiscord| {
        local.texts(CHANNEL).get(before..)?.iter().any(|text| text.contains(begins)).then_some(())
    };
    local.wait_for(&format!("an answer with {begins}"), came).await;
}

#[tokio::test]
async fn a_patched_component_runs_nothing_until_it_is_approved_and_is_then_swapped_in() {
    let local = LocalDiscord::start().await;
    let installation = with_path(installed(&local)).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let (evil, mark) = attacker(&installation);
    let bot = serving(&installation).await;
    expect_answer(&local, "hello").await;

    install(&installation, "demo", &evil.build());
    let message = wait_for_refusal(&bot, "wants to do more than is accepted of `demo`").await;
    assert!(
        message.contains("start the program `mini`; ask `mini` for its version with `--version`"),
        "{message}"
    );
    assert!(message.contains("`aetheel backend approve NAME`"), "{message}");
    local
        .wait_for_message(OTHER, |text| {
            text.contains("start the program `mini`")
                && text.contains("`aetheel backend approve demo`")
        })
        .await;
    expect_answer(&local, "hello").await;

    // No command runs it either.
    let file = installation.backend("demo").display().to_string();
    for command in [
        &["backend", "list"][..],
        &["backend", "list", "--json"],
        &["check"],
        &["doctor", "--offline"],
        &["backend", "inspect", &file],
        &["backend", "check", &file],
        &["backend", "ping", "demo"],
        &["backend", "install", &file],
        &["backend", "approve", "demo"],
        &["console"],
    ] {
        let ended = installation.run(command, "hello\n").await;
        assert!(!mark.exists(), "{command:?} ran it: {} {}", ended.stdout, ended.stderr);
    }
    let listed = installation.run(&["backend", "list"], "").await;
    assert!(
        listed.stdout.contains(
            "demo.wasm: wants to do more than is accepted of `demo`: start the program `mini`"
        ),
        "{}",
        listed.stdout
    );
    let doctor = installation.run(&["doctor", "--offline"], "").await;
    assert!(
        doctor.stdout.contains("wants to do more than is accepted of `demo`"),
        "{}",
        doctor.stdout
    );
    let asked = installation.run(&["backend", "approve", "demo"], "y\n").await;
    assert_eq!(asked.code, 1, "without a terminal nothing is approved: {}", asked.stdout);
    assert!(
        asked.stdout.contains("demo.wasm wants to\n  start the program `mini`\n"),
        "{}",
        asked.stdout
    );
    assert!(
        asked.stderr.contains("`--yes`") && asked.stderr.ends_with("nothing was changed\n"),
        "{}",
        asked.stderr
    );
    assert!(!installation.path("config/backends.md").exists() && !mark.exists());

    let approved = installation.run(&["backend", "approve", "demo", "--yes"], "").await;
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    let notes = installation.read("backends.md");
    assert!(notes.contains("\n## demo\n\n- program: mini\n- version: mini --version\n"), "{notes}");
    expect_second_generation(&local, &bot, "9.9.9").await;
    let asked = |_: &LocalDiscord| mark.exists().then_some(());
    local.wait_for("the version to be asked for, now that it may be", asked).await;
    let again = installation.run(&["backend", "approve", "demo"], "").await;
    assert_eq!(
        (again.code, again.stderr.contains("Nothing to approve")),
        (0, true),
        "{}",
        again.stderr
    );
}

#[tokio::test]
async fn an_owner_can_accept_with_a_button_even_after_a_restart_while_the_previous_component_serves()
 {
    let local = LocalDiscord::start().await;
    let installation = with_path(installed(&local)).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let (evil, mark) = attacker(&installation);
    let mut bot = serving(&installation).await;
    expect_answer(&local, "hello").await;
    let kept = || {
        fs::read_dir(installation.path("config/state/components/demo"))
            .is_ok_and(|mut found| found.next().is_some())
    };
    local.wait_for("the kept component", |_| kept().then_some(())).await;
    install(&installation, "demo", &evil.build());
    let notice =
        local.wait_for_message(OTHER, |text| text.contains("start the program `mini`")).await;
    assert!(notice.content.contains("my owner presses *Accept* or runs"), "{}", notice.content);
    bot.signal(Signal::KILL);
    bot.ended().await;

    // Its only file may not serve. The accepted component serves instead, and all commands report
    // that.
    for (command, said) in [
        (&["check"][..], "serves meanwhile; it will not run until you accept it"),
        (&["doctor", "--offline"], "`aetheel backend approve demo` shows all of it"),
        (&["backend", "list"], "serves meanwhile; it will not run until you accept it"),
    ] {
        let ended = installation.run(command, "").await;
        assert!(ended.stdout.contains(said), "{command:?}: {}", ended.stdout);
    }
    let bot = serving(&installation).await;
    wait_for_refusal(&bot, "the version that served before serves until then").await;
    expect_answer(&local, "hello").await;
    let status = local.answer_to(local.slash(CHANNEL, OWNER, "status", None)).await.content;
    assert!(status.contains("aetheel backend approve demo"), "{status}");
    let status = local.answer_to(local.slash(CHANNEL, ANN, "status", None)).await.content;
    assert!(!status.contains("approve"), "only owners see it: {status}");

    local.press(notice.id, ANN, "Accept");
    let word = local.wait_for_message(OTHER, |text| text == "Only my owner may accept this.").await;
    assert!(word.ephemeral && !installation.path("config/backends.md").exists() && !mark.exists());
    local.press(notice.id, OWNER, "Accept");
    local.wait_for_message(OTHER, |text| text.contains("✅ Accepted by")).await;
    assert!(local.buttons(notice.id).is_empty());
    let notes = installation.read("backends.md");
    assert!(notes.contains("\n## demo\n\n- program: mini\n- version: mini --version\n"), "{notes}");
    expect_second_generation(&local, &bot, "9.9.9").await;
}

#[tokio::test]
async fn a_button_accepts_only_what_its_message_lists() {
    let local = LocalDiscord::start().await;
    let installation = with_path(installed(&local)).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let (evil, mark) = attacker(&installation);
    let _bot = serving(&installation).await;
    install(&installation, "demo", &evil.build());
    let first =
        local.wait_for_message(OTHER, |text| text.contains("start the program `mini`")).await;
    let mut worse = evil.clone();
    worse.descriptor["environment"] = json!({ "pass": ["OTHER_TOKEN"] });
    install(&installation, "demo", &worse.build());
    local
        .wait_for_message(OTHER, |text| text.contains("pass the gateway's variable `OTHER_TOKEN`"))
        .await;
    local.press(first.id, OWNER, "Accept");
    local.wait_for_message(OTHER, |text| text == "This is no longer available.").await;
    assert!(
        local.buttons(first.id).is_empty() && !installation.path("config/backends.md").exists()
    );
    // A list too long for a message can be accepted only at the terminal.
    let flags: Vec<Value> =
        (0..40).map(|number| json!({ "name": format!("--flag-{number}") })).collect();
    let many = json!({ "programs": [{ "name": "mini", "flags": flags }, { "name": "sh" }, { "name": "bash" }] , "environment": { "pass": (0..12).map(|n| format!("V{n}")).collect::<Vec<_>>() } });
    install(&installation, "demo", &Wat { descriptor: many, ..Wat::new("demo", "10.0.0") }.build());
    let long = local
        .wait_for_message(OTHER, |text| {
            text.contains(
                "more.\nIt will not run until my owner runs `aetheel backend approve demo`",
            )
        })
        .await;
    assert!(local.buttons(long.id).is_empty(), "{}", long.content);
    assert!(!mark.exists());
}

#[tokio::test]
async fn an_unaccepted_name_runs_nothing_whatever_number_of_files_have_it() {
    let installation = with_path(Installation::new());
    let (evil, mark) = attacker(&installation);
    for (name, version, understands) in [("a", "1.0.0", "^1"), ("b", "2.0.0", ">=1")] {
        let mut wat = Wat { name: "mini".to_owned(), version: version.to_owned(), ..evil.clone() };
        wat.descriptor["understands"] = json!([understands]);
        fs::write(installation.backend(name), wat.build()).unwrap();
    }
    for backend in ["demo", "mini", "auto"] {
        let installation = Installation::run(&installation, &["backend", "list"], "").await;
        assert!(
            installation.stdout.contains("is of a backend that was never accepted, `mini`"),
            "{backend}: {}",
            installation.stdout
        );
    }
    let ended = installation.run(&["console", "--backend", "mini"], "hello\n").await;
    assert!(ended.code != 0 && !mark.exists(), "{} {}", ended.stdout, ended.stderr);
    let approved = installation.run(&["backend", "approve", "mini", "--yes"], "").await;
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    assert!(
        approved.stdout.contains("a.wasm wants to") && approved.stdout.contains("b.wasm wants to"),
        "{}",
        approved.stdout
    );
    assert!(!mark.exists(), "approving starts no program");
    let ended = installation.run(&["console", "--backend", "mini"], "hello\n").await;
    assert_eq!((ended.stdout.as_str(), ended.code), ("2.0.0\n", 0), "{}", ended.stderr);
    let unknown = installation.run(&["backend", "approve", "nobody", "--yes"], "").await;
    assert_eq!(unknown.code, 64, "{}", unknown.stderr);
}

#[tokio::test]
async fn wider_capabilities_are_refused_with_a_reason_and_narrower_ones_are_swapped_in() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_BACKEND", "mini");
    let of = |version: &str, descriptor: Value| Wat { descriptor, ..Wat::new("mini", version) };
    let program = |flags: Value| json!([{ "name": "true", "flags": flags }]);
    let safe = json!([{ "name": "--yolo", "safety": "danger" }, { "name": "--mode", "value": "one", "values": ["ask"] }]);
    let first = of(
        "1.0.0",
        json!({ "programs": program(safe.clone()), "environment": { "pass": ["MINI_URL"] } }),
    );
    first.accepted_in(&installation.path("config"));
    install(&installation, "mini", &first.build());
    let bot = serving(&installation).await;
    expect_answer(&local, "1.0.0").await;

    for (descriptor, said) in [
        (
            json!({ "programs": program(json!([{ "name": "--yolo", "safety": "default" }])) }),
            "give `true` the flag `--yolo`, at every safety level",
        ),
        (
            json!({ "programs": program(json!([{ "name": "--mode", "value": "one" }])) }),
            "the flag `--mode` with any value",
        ),
        (
            json!({ "programs": program(safe.clone()), "environment": { "pass": ["OTHER_TOKEN"] } }),
            "pass the gateway's variable `OTHER_TOKEN`",
        ),
        (
            json!({ "programs": program(safe.clone()), "environment": { "set": ["MINI_URL"] } }),
            "set the variable `MINI_URL`",
        ),
        (
            json!({ "programs": program(safe.clone()), "credentials": [{ "variable": "AWS_SECRET" }] }),
            "pass the secret `AWS_SECRET`",
        ),
        (
            json!({ "programs": [{ "name": "sh" }] }),
            "start the program `sh` (CAREFUL: it runs whatever it is given)",
        ),
        (
            json!({ "programs": [{ "name": "true", "version-arguments": ["-c", "id"] }] }),
            "`version-arguments` \"-c id\" of `true` must be one of",
        ),
        (
            json!({ "programs": program(safe.clone()), "environment": { "pass": ["LD_AUDIT"] } }),
            "`LD_AUDIT` may not be used",
        ),
        (
            json!({ "programs": program(safe.clone()), "environment": { "pass": ["GIT_EXTERNAL_DIFF"] } }),
            "`GIT_EXTERNAL_DIFF` selects which programs run",
        ),
        (
            json!({ "programs": program(safe), "environment": { "pass": ["CONFIG_DIR"] } }),
            "`CONFIG_DIR` selects which programs run or belongs to the gateway",
        ),
    ] {
        install(&installation, "mini", &of("2.0.0", descriptor).build());
        wait_for_refusal(&bot, said).await;
    }
    expect_answer(&local, "1.0.0").await;
    install(
        &installation,
        "mini",
        &of("3.0.0", json!({ "programs": program(json!([{ "name": "--mode", "value": "one", "values": ["ask"] }])) })).build(),
    );
    expect_second_generation(&local, &bot, "3.0.0").await;
}

/// Waits for the second generation, then expects an answer with this version.
async fn expect_second_generation(local: &LocalDiscord, bot: &Program, version: &str) {
    bot.logs_where("the second generation", |line| {
        line["generation"].as_str().is_some_and(|generation| generation.starts_with("2@"))
    })
    .await;
    expect_answer(local, version).await;
}

#[tokio::test]
async fn rollback_and_install_also_require_acceptance() {
    let installation = with_path(Installation::new());
    let (evil, mark) = attacker(&installation);
    // A component that served before the operator accepted anything.
    let (old, new) =
        (evil.build(), Wat { version: "1.0.0".to_owned(), ..Wat::new("demo", "1.0.0") });
    let kept = installation.path("config/state/components/demo");
    fs::create_dir_all(&kept).unwrap();
    fs::write(kept.join(format!("1-{}.wasm", crate::backend::digest(&old))), &old).unwrap();
    let demo = fs::read(installation.backend("demo")).unwrap();
    fs::write(kept.join(format!("2-{}.wasm", crate::backend::digest(&demo))), &demo).unwrap();
    let rolled = installation.run(&["backend", "rollback", "demo"], "").await;
    assert_eq!(rolled.code, 1, "{}", rolled.stdout);
    assert!(
        rolled.stderr.contains("may not serve: it wants to do more than is accepted of `demo`"),
        "{}",
        rolled.stderr
    );
    let file = installation.path("new.wasm");
    fs::write(&file, new.build()).unwrap();
    let file = file.display().to_string();
    let asked = installation.run(&["backend", "install", &file], "y\n").await;
    assert_eq!(asked.code, 1, "{}", asked.stdout);
    assert!(
        asked.stderr.contains("start the program `demo`")
            && asked.stderr.ends_with("nothing was changed\n"),
        "{}",
        asked.stderr
    );
    assert_eq!(fs::read(installation.backend("demo")).unwrap(), demo);
    assert!(!installation.path("config/backends.md").exists());
    let installed = installation.run(&["backend", "install", &file, "--yes"], "").await;
    assert_eq!(installed.code, 0, "{}", installed.stderr);
    assert!(
        installed.stdout.contains("accepted in backends.md: the permissions above\n"),
        "{}",
        installed.stdout
    );
    assert!(installation.read("backends.md").contains("- program: demo\n") && !mark.exists());
}
