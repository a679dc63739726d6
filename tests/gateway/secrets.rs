//! Secrets appear in no output, at any log level.

use rustix::process::Signal;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, TOKEN};

const KEY: &str = "sk-ant-canary-0123456789abcdef";

/// Returns a secret as text and in the forms in which dumps of bytes show it.
fn forms(secret: &str) -> [String; 4] {
    let hex: String = secret.bytes().map(|byte| format!("{byte:02x}")).collect();
    let list = secret.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ");
    [secret.to_owned(), hex.to_uppercase(), hex, list]
}

fn contains_secret(bytes: &[u8], secret: &str) -> bool {
    let text = String::from_utf8_lossy(bytes);
    forms(secret).iter().any(|form| text.contains(form.as_str()))
}

async fn check_redaction(log_level: &str) {
    let local = LocalDiscord::start().await;
    // So slow that a draft could show half of a secret.
    let installation = installed(&local)
        .with("ANTHROPIC_API_KEY", KEY)
        .with("LOG_LEVEL", log_level)
        .with("DEMO_AGENT_DELAY_MS", "150");
    let mut bot = serving(&installation).await;
    // They are hidden even if the agent prints them.
    local.mention(CHANNEL, ANN, &format!("my key is {KEY} and the token {TOKEN}"));
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("You said: my key is *** and the token ***\n")
        })
        .await;
    local.mention(CHANNEL, ANN, &format!("remember {KEY}"));
    local.wait_for_message(CHANNEL, |text| text == "Noted.").await;
    local.mention(CHANNEL, ANN, &format!("tool {TOKEN}"));
    bot.logs_where("the third turn's end", |line| {
        line["message"] == "turn ended" && line["event"] == 3
    })
    .await;
    local.mention(CHANNEL, ANN, "hang");
    let agents = local
        .wait_for("the agent", |_| Some(bot.agents()).filter(|agents| !agents.is_empty()))
        .await;
    for agent in agents {
        let environment =
            std::fs::read(format!("/proc/{}/environ", agent.as_raw_nonzero())).unwrap();
        assert!(
            !contains_secret(&environment, TOKEN) && !contains_secret(&environment, KEY),
            "the demo agent gets neither secret"
        );
    }
    local.slash(CHANNEL, ANN, "stop", None);
    local.wait_for_message(CHANNEL, |text| text.contains("⚠️ Stopped.")).await;
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);

    for secret in [TOKEN, KEY] {
        for (name, text) in [("stdout", &ended.stdout), ("stderr", &ended.stderr)] {
            let line = text.lines().find(|line| contains_secret(line.as_bytes(), secret));
            assert_eq!(line, None, "in {name}");
        }
        for (path, bytes) in installation.everything() {
            // Files of the agent itself are not redacted.
            let agents_own = path.starts_with(installation.path("workspace"));
            assert!(agents_own || !contains_secret(&bytes, secret), "in {}", path.display());
        }
        for request in local.requests() {
            let text = format!("{} {}", request.path, request.body);
            assert!(
                !contains_secret(text.as_bytes(), secret) && !text.contains(&secret[..10]),
                "{request:?}"
            );
        }
    }
    let drafts =
        local.requests().into_iter().filter(|request| request.body.contains("my key is")).count();
    assert!(drafts >= 2, "the first answer was streamed");
    assert!(
        !installation.recordings().is_empty()
            && installation.read(&format!("memory/channel-{CHANNEL}.md")).contains("***")
    );
}

#[tokio::test]
async fn secrets_do_not_appear_at_trace_level() {
    check_redaction("trace").await;
}

#[tokio::test]
async fn secrets_do_not_appear_when_libraries_are_traced_by_name() {
    check_redaction("aetheel=trace,serenity=trace,tungstenite=trace,tungstenite::protocol::frame=trace,hyper=trace,hyper_util=trace")
        .await;
}
