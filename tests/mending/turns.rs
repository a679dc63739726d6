//! Rounds of an agent: a scripted program that changes the sources in the sandbox.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use aetheel_kit::mend::LostRecording;
use aetheel_mending::agent::MendingAgent;
use aetheel_mending::{MendError, MendedBackend, Refused};
use aetheel_model::agent::{HostCommand, Input, TurnOutcome};
use aetheel_model::redact::Redactor;
use aetheel_recording::{Recorder, RecordingLimits};
use aetheel_turn::ReachPolicy;

use super::formats::{TURN, with_turn};
use super::smith::{Bench, case, custody};
use crate::support::scripted::{ScriptedBackend, done, event, host, spawn, text_event};

const HOUR: Duration = Duration::from_secs(3600);

/// The first round changes a file that it may not change, and tries to leave the folder. The second
/// one reads the verdict and makes a correct change.
const AGENT: &str = r#"#!/bin/sh
cat > /dev/null
test -f TASK.md && test -f lost/0badcafe.jsonl && test -f cases/plain.jsonl || exit 3
if grep -q 'Say hello' lost/0badcafe.jsonl; then echo "text the conversation is readable"; fi
for place in "OUTSIDE/written" "OUTSIDE/config/written" /tmp/mend-agent-was-here; do
    (echo x > "$place") 2> /dev/null && echo "text wrote $place"
done
cat OUTSIDE/config/secret 2> /dev/null && echo "text read the secret"
env | grep -q TOKEN && echo "text has the token"
if [ ! -f VERDICT.md ]; then
    echo '# changed' >> source/Cargo.toml
    echo "text first try"
    echo "done"
    exit 0
fi
grep -q 'Cargo.toml' VERDICT.md || exit 4
sed -i '/# changed/d' source/Cargo.toml
cd source/gemini/src
sed -i 's/emit.required_text(message, "content", raw)/match message.text("content_renamed") { Some(text) => text, None => emit.required_text(message, "content", raw) }/' stream.rs
echo "text mended"
echo "done"
"#;

/// Lets a scripted agent mend the gemini backend.
async fn mended_by(
    script: &str,
    (rounds, time): (u32, Duration),
) -> (Vec<String>, Result<MendedBackend, MendError>) {
    let mut bench = Bench::open("gemini").await;
    let plain = case("gemini", "plain");
    bench.mending.evidence.cases.push(plain.clone());
    let entries = plain.tape.entries.iter().map(|entry| {
        let text = serde_json::to_string(entry).unwrap();
        let changed = text.replace(r#"\"content\":"#, r#"\"content_renamed\":"#);
        serde_json::from_str(&changed).unwrap()
    });
    let lost = with_turn(&plain, entries.collect(), 1);
    bench.lose(LostRecording { turn: TURN.to_owned(), case: lost });
    (bench.mending.limits.rounds, bench.mending.limits.time) = (rounds, time);

    // Not in /tmp, because the folders of temporary files are granted differently.
    let outside = tempfile::tempdir_in("/var/tmp").unwrap();
    let at = |name: &str| outside.path().join(name);
    for folder in ["config", "recordings", "bin"] {
        fs::create_dir(at(folder)).unwrap();
    }
    fs::write(at("config/secret"), "text SECRET\n").unwrap();
    fs::write(at("bin/agent"), script.replace("OUTSIDE", outside.path().to_str().unwrap()))
        .unwrap();
    fs::set_permissions(at("bin/agent"), fs::Permissions::from_mode(0o755)).unwrap();
    let backend = ScriptedBackend::new(Arc::new(|_, input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => vec![spawn(start, &[])],
            Input::Line(line) => match line.text.split_once(' ') {
                Some(("text", text)) => vec![event(text_event(&format!("{text}\n")))],
                _ if line.text == "done" => vec![done(TurnOutcome::Completed)],
                _ => vec![],
            },
            _ => vec![],
        })
    }));
    let mut host = host(outside.path());
    host.variables.insert("DISCORD_BOT_TOKEN".to_owned(), "TOKEN".to_owned());
    host.agents.set_program("scripted", "agent", Path::new(&at("bin/agent")));
    host.reach_policy = Some(ReachPolicy {
        write: vec![outside.path().to_owned()],
        hidden: vec![at("config"), at("recordings")],
        ..ReachPolicy::default()
    });
    let limits = RecordingLimits { bytes: 1 << 30, age: HOUR, lost_bytes: 1 << 20, lost_age: HOUR };
    let agent = MendingAgent {
        backend: Arc::new(backend),
        host,
        launcher: Arc::new(custody()),
        recorder: Recorder::new(at("recordings"), limits, Redactor::default()),
        model: None,
    };
    let mut said = Vec::new();
    let mended = bench
        .mending
        .run(&agent, |round, Refused(reasons)| {
            said.push(format!("{}: {}", round.said, reasons.join("; ")));
        })
        .await;
    assert!(!Path::new("/tmp/mend-agent-was-here").exists());
    (said, mended)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_change_is_explained_to_the_agent_which_can_write_nowhere_else() {
    let (said, mended) = mended_by(AGENT, (3, HOUR)).await;
    assert_eq!(said.len(), 1, "{said:?}");
    assert!(said[0].starts_with("first try: `Cargo.toml` was changed"), "{said:?}");
    let mended = mended.unwrap();
    assert_eq!(mended.rounds.len(), 2);
    assert_eq!(mended.rounds[1].said, "mended");
    assert!(mended.patch.diff.contains("content_renamed"), "{}", mended.patch.diff);
    assert_eq!(mended.judgement.replies[0].text, "MOCK ANSWER: Say hello.");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rounds_are_limited() {
    let (said, mended) = mended_by("#!/bin/sh\ncat > /dev/null\necho done\n", (2, HOUR)).await;
    assert_eq!(said.len(), 2, "{said:?}");
    let error = mended.unwrap_err().to_string();
    assert!(error.contains("no change was accepted in 2 rounds"), "{error}");
    assert!(error.contains("no source of the backend was changed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_of_the_rounds_is_limited() {
    let sleeps = mended_by("#!/bin/sh\nexec sleep 3600\n", (2, Duration::from_secs(1)));
    let (said, mended) = tokio::time::timeout(HOUR / 30, sleeps).await.expect("it ends");
    assert_eq!(said.len(), 0, "{said:?}");
    let error = mended.unwrap_err().to_string();
    assert!(error.contains("the limit of time was reached"), "{error}");
}
