//! The drift monitor with the real program: the output of an agent changes while the gateway runs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, Spawn, TextEvent, TurnDone, TurnOutcome,
};
use rustix::process::Signal;
use serde_json::{Value, json};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::guests::{EXITED, Wat};
use crate::support::program::{Installation, built};

const KEY: &str = "sk-ant-canary-0123456789abcdef";

/// A script that prints the output of Claude Code 2.1.197 and adds the lines of the file `more`. If
/// there is a file `mute` or `renamed`, its answers have another form.
const CLAUDE: &str = r#"#!/bin/sh
if [ "$1" = --version ]; then echo '2.1.197 (Claude Code)'; exit; fi
for word in "$@"; do
  case "$before" in --session-id | --resume) session=$word ;; esac
  before=$word
done
cat > /dev/null
cat << END
{"type":"system","subtype":"init","session_id":"$session","model":"claude-opus-4-8","tools":[],"claude_code_version":"2.1.197"}
END
cat "$HOME/more" 2> /dev/null
if [ -e "$HOME/mute" ]; then
cat << END
{"type":"utterance","words":"Claude was here."}
{"type":"result","subtype":"success","is_error":false,"result":"","session_id":"$session","num_turns":1,"usage":{}}
END
exit
fi
if [ -e "$HOME/renamed" ]; then
cat << END
{"type":"assistant","message":{"id":"m0","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"tool_use","id":"toolu_1","name":"Bash","input":{"command":"ls"}}]},"session_id":"$session"}
{"type":"user","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":"a.txt"}]},"session_id":"$session"}
{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","body":"Claude was here."}]},"session_id":"$session"}
{"type":"result","subtype":"success","is_error":false,"answer":"Claude was here.","session_id":"$session","num_turns":1}
END
exit
fi
cat << END
{"type":"assistant","message":{"id":"m1","type":"message","role":"assistant","model":"claude-opus-4-8","content":[{"type":"text","text":"Claude was here."}]},"session_id":"$session"}
{"type":"result","subtype":"success","is_error":false,"result":"Claude was here.","session_id":"$session","num_turns":1,"usage":{}}
END
"#;

/// Returns an installation of the real backend for Claude Code, with [`CLAUDE`] in place of the
/// program. Notices go to another channel.
fn with_claude(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    fs::write(installation.backend("claude"), built("claude")).unwrap();
    let (folder, path) = (installation.path("bin"), installation.path("bin/claude"));
    fs::create_dir(&folder).unwrap();
    fs::write(&path, CLAUDE).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let places = format!("{}:/usr/bin:/bin", folder.display());
    let set = [
        ("AGENT_BACKEND", "claude"),
        ("BACKEND_RUN", "one-shot"),
        ("ANTHROPIC_API_KEY", KEY),
        // Claude Code does not skip permissions for root outside of sandboxes.
        ("IS_SANDBOX", "1"),
        ("STATUS_ADDRESS", "127.0.0.1:0"),
    ];
    let more = installation.path("home/more").display().to_string();
    fs::create_dir_all(installation.path("home")).unwrap();
    fs::write(installation.path("home/more"), "").unwrap();
    // The sandbox must allow the agent to read the file with additional lines.
    let installation = installation
        .with("AGENT_READ", &more)
        .with("PATH", &places)
        .with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    set.into_iter().fold(installation, |installation, (name, value)| installation.with(name, value))
}

async fn expect_answer(local: &LocalDiscord, prompt: &str) {
    let before = local.texts(CHANNEL).len();
    local.mention(CHANNEL, ANN, prompt);
    let came = |local: &LocalDiscord| {
        local.texts(CHANNEL)[before..]
            .iter()
            .any(|text| text.starts_with("Claude was here."))
            .then_some(())
    };
    local.wait_for("the answer", came).await;
}

/// Returns the notices about drift in the operator's channel.
fn notices(local: &LocalDiscord) -> Vec<String> {
    local.texts(OTHER).into_iter().filter(|text| text.contains("(drift)")).collect()
}

#[tokio::test]
async fn a_new_event_is_reported_once_in_the_operators_channel_and_counted_everywhere() {
    let local = LocalDiscord::start().await;
    let installation = with_claude(&local);
    let mut bot = serving(&installation).await;
    expect_answer(&local, "before").await;
    assert!(!installation.path("config/state/drift.md").exists(), "nothing is unknown yet");

    // As if the agent had been updated.
    let more = format!(
        "{{\"type\":\"hologram\",\"depth\":3,\"for\":\"{KEY}\",\"said\":\"{}\"}}\n",
        "la ".repeat(100)
    );
    fs::write(installation.path("home/more"), more).unwrap();
    expect_answer(&local, "after").await;
    let notice = local.wait_for_message(OTHER, |text| text.contains("(drift)")).await;
    let text = notice.content;
    for part in [
        "**claude**, agent version 2.1.197, backend version 1@",
        "hologram",
        r#""depth":3"#,
        "docs/drift.md",
        "…",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains(KEY) && !text.contains(&"la ".repeat(20)), "{text}");
    let recording = text.split("recording `").nth(1).unwrap().split('`').next().unwrap();
    assert!(installation.recordings()[recording].contains("hologram"), "{recording}");
    let line = bot.logs("the agent sent output that its backend does not recognise").await;
    assert_eq!(
        (line["level"].as_str(), line["recording"].as_str()),
        (Some("WARN"), Some(recording)),
        "{line}"
    );
    // The promised time is 2 s, but the machine may be busy.
    let noticed: jiff::Timestamp = line["timestamp"].as_str().unwrap().parse().unwrap();
    let told_ms =
        i64::try_from((notice.id >> 22) + 1_420_070_400_000).unwrap() - noticed.as_millisecond();
    println!("from first sight to the notice: {told_ms} ms");
    assert!((0..20_000).contains(&told_ms), "{told_ms}");
    expect_answer(&local, "again").await;

    let address = bot.logs("status pages are open").await["address"].as_str().unwrap().to_owned();
    let metrics =
        reqwest::get(format!("http://{address}/metrics")).await.unwrap().text().await.unwrap();
    let counted = metrics
        .lines()
        .find(|line| line.starts_with("aetheel_unrecognised_total{"))
        .expect("it is counted")
        .to_owned();
    assert!(
        counted.contains(r#"backend="claude",agent_version="2.1.197",generation="1@"#)
            && counted.ends_with(" 2"),
        "{counted}"
    );
    assert!(!metrics.contains("hologram"), "{metrics}");

    // The last count is saved at shutdown.
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
    let doctor = installation.run(&["doctor", "--json"], "").await;
    let said: Value = serde_json::from_str(&doctor.stdout).unwrap();
    let line = said["lines"]
        .as_array()
        .unwrap()
        .iter()
        .find(|line| line["about"] == "drift of claude")
        .expect("the doctor reports drift")
        .clone();
    let says = line["says"].as_str().unwrap();
    assert!(
        line["level"] == "warning"
            && says.contains("hologram")
            && says.contains(": 2 times")
            && says.contains("agent 2.1.197"),
        "{line}"
    );

    // The next process knows it, and reports only new output.
    let bot = serving(&installation).await;
    expect_answer(&local, "third").await;
    fs::write(installation.path("home/more"), "{\"type\":\"hologram\"}\n{\"type\":\"perfume\"}\n")
        .unwrap();
    expect_answer(&local, "fourth").await;
    local.wait_for_message(OTHER, |text| text.contains("perfume")).await;
    let all = notices(&local);
    assert!(all.len() == 2 && !all[1].contains("hologram"), "{all:#?}");
    drop(bot);
}

#[tokio::test]
async fn an_answer_in_an_unknown_form_is_a_distinct_failure() {
    let local = LocalDiscord::start().await;
    let installation = with_claude(&local);
    let bot = serving(&installation).await;
    fs::write(installation.path("home/mute"), "").unwrap();
    local.mention(CHANNEL, ANN, "hello");
    let failed = local.wait_for_message(CHANNEL, |text| text.contains("(unread, ")).await.content;
    let id = super::id_of(&failed, "unread");
    let line = bot.logs("turn failed").await;
    assert!(line["detail"].as_str().unwrap().contains("utterance"), "{line}");
    local.wait_for_message(OTHER, |text| text.contains("utterance")).await;
    let ending = |installation: &Installation| {
        installation.recordings()[id].contains(r#""how":"unread: "#).then_some(())
    };
    local.wait_for("the recording's end", |_| ending(&installation)).await;
}

#[tokio::test]
async fn an_answer_with_renamed_fields_is_saved_and_reported_once_even_after_a_tool() {
    let local = LocalDiscord::start().await;
    let installation = with_claude(&local);
    let bot = serving(&installation).await;
    fs::write(installation.path("home/renamed"), "").unwrap();
    for prompt in ["one", "two"] {
        let before = local.texts(CHANNEL).len();
        local.mention(CHANNEL, ANN, prompt);
        let failed = local
            .wait_for("the failure", |local| {
                let texts = local.texts(CHANNEL);
                texts[before..].iter().find(|text| text.contains("(unread, ")).cloned()
            })
            .await;
        let id = super::id_of(&failed, "unread").to_owned();
        local
            .wait_for("the note", |_| {
                installation.read("state/lost.md").contains(&id).then_some(())
            })
            .await;
    }
    local.wait_for_message(OTHER, |text| text.contains("(drift)")).await;
    assert_eq!(notices(&local).len(), 1, "{:#?}", notices(&local));
    drop(bot);
}

/// Returns a backend whose agent prints one line. It shows `answer` when the agent has exited, and
/// reports success in any case.
pub(super) fn reader(version: &str, answer: Option<&str>) -> Wat {
    let mut wat = Wat::new("mini", version);
    let programs = json!([{ "name": "mini", "version-arguments": ["--version"] }]);
    wat.descriptor = json!({ "sharing": "turn", "programs": programs });
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
    wat.on_start = Some(vec![Action::Spawn(spawn)]);
    let text = answer.map(|answer| {
        let text = TextEvent { part: 0, text: answer.to_owned(), replace: false, parent: None };
        Action::Event(AgentEvent { session: 1, turn: 1, kind: AgentEventKind::Text(text) })
    });
    let done = Action::TurnDone(TurnDone {
        session: 1,
        turn: 1,
        outcome: TurnOutcome::Completed,
        text: None,
        usage: None,
    });
    wat.later = Some((EXITED, text.into_iter().chain([done]).collect()));
    wat
}

#[tokio::test]
async fn a_component_that_drops_answers_silently_is_rolled_back() {
    const ANSWER: &str = "Two files are in the folder.";
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let (folder, path) = (installation.path("bin"), installation.path("bin/mini"));
    fs::create_dir(&folder).unwrap();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo 1.0.0 && exit\necho '{{\"said\":\"{ANSWER}\"}}'\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let (good, bad) = (reader("1.0.0", Some(ANSWER)), reader("2.0.0", None));
    good.accepted_in(&installation.path("config"));
    fs::write(installation.backend("mini"), good.build()).unwrap();
    let installation = installation
        .with("PATH", &format!("{}:/usr/bin:/bin", folder.display()))
        .with("AGENT_BACKEND", "mini")
        .with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let bot = serving(&installation).await;
    let answer = async |prompt: &str, part: &'static str| {
        let before = local.texts(CHANNEL).len();
        local.mention(CHANNEL, ANN, prompt);
        let seen = |local: &LocalDiscord| {
            local.texts(CHANNEL)[before..].iter().any(|text| text.contains(part)).then_some(())
        };
        local.wait_for(part, seen).await;
    };
    for prompt in ["one", "two", "three"] {
        answer(prompt, ANSWER).await;
    }
    let new = installation.backend("mini").with_extension("new");
    fs::write(&new, bad.build()).unwrap();
    fs::rename(new, installation.backend("mini")).unwrap();
    bot.logs_where("the next generation", |line| {
        line["message"] == "backend loaded"
            && line["generation"].as_str().is_some_and(|generation| generation.starts_with("2@"))
    })
    .await;
    for prompt in ["four", "five", "six"] {
        answer(prompt, "(unread, ").await;
    }
    bot.logs("a backend read worse than its previous version and was rolled back").await;
    answer("seven", ANSWER).await;
}

#[tokio::test]
async fn the_console_reports_drift_on_stderr_and_answers_are_unchanged() {
    let local = LocalDiscord::start().await;
    let installation = with_claude(&local);
    fs::write(installation.path("home/more"), "{\"type\":\"hologram\",\"depth\":3}\n").unwrap();
    let ended = installation.run(&["console"], "hello\nagain\n").await;
    assert_eq!(
        (ended.stdout.as_str(), ended.code),
        ("Claude was here.\nClaude was here.\n", 0),
        "{}",
        ended.stderr
    );
    let reported: Vec<&str> =
        ended.stderr.lines().filter(|line| line.contains("(drift)")).collect();
    assert_eq!(reported.len(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("hologram") && ended.stderr.contains("docs/drift.md"),
        "{}",
        ended.stderr
    );
}
