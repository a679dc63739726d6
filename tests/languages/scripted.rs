//! Tests of the backend in Python with the real program: a turn, and a mistake in the backend that
//! its author can find.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use aetheel_model::agent::{Input, Pipe, TimedInput};
use aetheel_recording::case::Case;

use super::{component, root};
use crate::gateway::{id_of, installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::Installation;
use crate::support::recordings::{case, inputs};

/// Compiles it into the cache that all tests share. Compiling an interpreter takes longer than
/// tests wait for the program to be ready.
async fn compiled(wasm: &Path) {
    super::engine().inspect(wasm).await.unwrap();
}

/// Creates an installation with this backend, and an agent that prints the recorded output of
/// Gemini CLI.
async fn recorded(local: &LocalDiscord, wasm: &[u8], run: &str) -> Installation {
    let installation =
        installed(local).with("AGENT_BACKEND", "gemini").with("GEMINI_API_KEY", "none");
    fs::write(installation.backend("gemini"), wasm).unwrap();
    compiled(&installation.backend("gemini")).await;
    let bin = installation.path("bin");
    fs::create_dir(&bin).unwrap();
    let stdout = installation.path("stdout");
    fs::write(&stdout, printed(&case("gemini", run))).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec echo 0.61.0\ncat >/dev/null\ncat '{}'\n",
        stdout.display()
    );
    fs::write(bin.join("gemini"), script).unwrap();
    fs::set_permissions(bin.join("gemini"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let installation =
        installation.with("PATH", &path).with("AGENT_READ", &stdout.display().to_string());
    // The component does not have the shipped one's list of tools.
    let approved = installation.run(&["backend", "approve", "gemini", "--yes"], "").await;
    assert_eq!(approved.code, 0, "{}", approved.stderr);
    installation
}

/// Returns the output of the agent.
fn printed(case: &Case) -> String {
    let text = |timed: TimedInput| match timed.input {
        Input::Line(line) if line.pipe == Pipe::Stdout => Some(line.text + "\n"),
        _ => None,
    };
    inputs(case).into_iter().filter_map(text).collect()
}

/// Builds the backend with a mistake in it, if its sources have changed.
fn mistaken() -> Vec<u8> {
    let sources = [
        "languages/python/app.py",
        "languages/python/gemini.py",
        "languages/python/build",
        "tests/languages/raises.py",
    ];
    let built = root().join("target/languages/python-raises.wasm");
    let changed = |path: &PathBuf| fs::metadata(path).and_then(|told| told.modified()).ok();
    if sources.iter().any(|source| changed(&root().join(source)) > changed(&built)) {
        let status = Command::new(root().join(sources[2]))
            .arg(&built)
            .arg(root().join(sources[3]))
            .status()
            .unwrap();
        assert!(status.success(), "languages/python/build: {status}");
    }
    fs::read(built).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_is_answered_through_the_real_program() {
    let Some(wasm) = component("python") else { return };
    let local = LocalDiscord::start().await;
    let installation = recorded(&local, &wasm, "tool-shell").await;
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "What is in this folder?");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("hello.txt")).await;
    assert!(told.content.contains("MOCK ANSWER"), "{}", told.content);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exception_is_in_the_log_of_the_failure_with_its_location() {
    if component("python").is_none() {
        return;
    }
    let local = LocalDiscord::start().await;
    let installation = recorded(&local, &mistaken(), "plain").await;
    let bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "Hello");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("(backend refused, ")).await;
    let id = id_of(&told.content, "backend refused").to_owned();
    let logged = bot
        .logs_where("the turn's failure", |line| {
            line["message"] == "turn failed" && line["turn"] == id.as_str()
        })
        .await;
    let detail = logged["detail"].as_str().unwrap();
    assert!(
        detail.contains("KeyError: 'colour' in message (line 8), at line 1 of the agent's output"),
        "{detail}"
    );
    assert!(!told.content.contains("colour"), "people do not see it: {}", told.content);
    let traced = |line: &serde_json::Value| {
        line["message"].as_str().is_some_and(|text| text.contains("line 8, in message"))
    };
    bot.logs_where("the traceback", |line| line["printed"] == "Stderr" && traced(line)).await;
}
