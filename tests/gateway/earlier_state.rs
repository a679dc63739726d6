//! A state folder that an earlier version wrote is continued: `tests/fixtures/earlier-state` has the
//! state of a gateway that was killed while one prompt ran and another one waited, after an agent
//! had reserved a file and asked for a reminder. `make earlier-state` writes it again; use it with
//! the program whose files later versions must continue.

use std::fs;
use std::path::Path;

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::Installation;

const FIXTURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/earlier-state");
/// Stands for the folder of the installation in the files of the fixture.
const FOLDER: &str = "/srv/earlier";
/// Files that belong to one process or one machine.
const LEFT_OUT: [&str; 7] = [
    "gateway.lock",
    "holder.lock",
    "lock",
    "holder.log",
    "tools.sock",
    "tool-server.md",
    "components",
];

fn with_tools(local: &LocalDiscord) -> Installation {
    let installation = installed(local);
    let text = format!("## channel {CHANNEL}\n\n- host-tools: all\n");
    fs::write(installation.path("config/channels.md"), text).expect("written");
    installation
}

fn copy(from: &Path, to: &Path, change: &dyn Fn(&str) -> String) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder").flatten() {
        let (path, name) = (entry.path(), entry.file_name());
        if LEFT_OUT.iter().any(|left_out| name == *left_out) {
            continue;
        }
        if path.is_dir() {
            copy(&path, &to.join(&name), change);
        } else {
            let text = fs::read_to_string(&path).expect("text");
            fs::write(to.join(&name), change(&text)).expect("written");
        }
    }
}

/// Replaces the rest of each code span that begins with the end of `before`.
fn with_code_after(text: &str, before: &str, code: &str) -> String {
    let mut parts = text.split(before);
    let first = parts.next().expect("a part").to_owned();
    parts.fold(first, |text, part| {
        let (_, rest) = part.split_once('`').expect("the span ends");
        format!("{text}{before}{code}`{rest}")
    })
}

#[tokio::test]
#[ignore = "writes the fixture: make earlier-state"]
async fn an_earlier_version_writes_its_state() {
    let to = std::env::var("EARLIER_STATE").expect("EARLIER_STATE names a folder");
    let local = LocalDiscord::start().await;
    // The agents end with this gateway, because no test could continue them.
    let installation = with_tools(&local).with("AGENT_HOLDER", "off").with("BUSY_POLICY", "queue");
    let mut bot = serving(&installation).await;
    let claim = r#"call aetheel_claim {"paths":["notes.txt"],"minutes":60}"#;
    let remind = r#"call aetheel_remind {"in":"2h","text":"look again"}"#;
    for (prompt, answer, number) in [
        ("hello", "You said: hello", 1),
        (claim, "The tool returned", 1),
        (remind, "The tool returned", 2),
    ] {
        local.mention(CHANNEL, ANN, prompt);
        let answers = |local: &LocalDiscord| {
            let texts = local.texts(CHANNEL);
            let found = texts.iter().filter(|text| text.contains(answer));
            (found.count() == number).then_some(())
        };
        local.wait_for("an answer", answers).await;
    }
    local.mention(OTHER, ANN, "slow 4");
    local.wait_for_message(OTHER, |text| text.contains("Second 1")).await;
    let waiting = local.mention(OTHER, ANN, "hello to you");
    let accepted = || installation.read("state/queue.md").contains(&waiting.to_string());
    local.wait_for("the prompt", |_| accepted().then_some(())).await;
    bot.signal(Signal::KILL);
    bot.ended().await;
    let folder = installation.path("config").parent().expect("a folder").display().to_string();
    let neutral = |text: &str| text.replace(&folder, FOLDER);
    copy(&installation.path("config/state"), &Path::new(&to).join("state"), &neutral);
    let sessions = ".demo-agent";
    copy(
        &installation.path("workspace").join(sessions),
        &Path::new(&to).join("demo-agent"),
        &neutral,
    );
}

#[tokio::test]
async fn the_state_of_an_earlier_version_is_continued() {
    let local = LocalDiscord::start().await;
    let installation = with_tools(&local);
    let folder = installation.path("config").parent().expect("a folder").display().to_string();
    let here = |text: &str| text.replace(FOLDER, &folder);
    let state = installation.path("config/state");
    copy(&Path::new(FIXTURE).join("state"), &state, &here);
    copy(
        &Path::new(FIXTURE).join("demo-agent"),
        &installation.path("workspace/.demo-agent"),
        &here,
    );
    // The reminder is due, and nothing expires today.
    let now = jiff::Timestamp::now().to_string();
    let later = "2100-01-01T00:00:00Z";
    for (file, times) in [
        ("agent-schedules.md", &[(" next `", now.as_str()), (" until `", later)][..]),
        ("claims.md", &[(" until `", later)]),
    ] {
        let mut text = installation.read(&format!("state/{file}"));
        for (before, time) in times {
            text = with_code_after(&text, before, time);
        }
        fs::write(state.join(file), text).expect("written");
    }
    let ended = installation.run(&["check"], "").await;
    assert_eq!(ended.code, 0, "{ended:?}");
    let bot = serving(&installation).await;
    // The prompt that ran is answered again, then the one that waited.
    local.wait_for_message(OTHER, |text| text.contains("You said: hello to you")).await;
    let texts = local.texts(OTHER);
    let at = |text: &str| texts.iter().position(|said| said.contains(text));
    assert!(at("Second 4. There.") < at("You said: hello to you"), "{texts:?}");
    assert!(at("Second 4. There.").is_some(), "{texts:?}");
    local.wait_for_message(CHANNEL, |text| text.contains("as a reminder")).await;
    // The conversation of the channel continues: the reminder was its fourth message.
    local.mention(CHANNEL, ANN, "hello again");
    local
        .wait_for_message(CHANNEL, |text| text.contains("This is message 5 of our conversation."))
        .await;
    let claims = installation.read("state/claims.md");
    assert!(claims.contains("`notes.txt`"), "{claims}");
    let warnings: Vec<_> = bot
        .log()
        .into_iter()
        .filter(|line| line["message"].as_str().is_some_and(|text| text.contains("is left out")))
        .collect();
    assert!(warnings.is_empty(), "{warnings:?}");
    bot.signal(Signal::TERM);
    let audit = installation.run(&["audit", "verify"], "").await;
    assert_eq!(audit.code, 0, "{audit:?}");
}
