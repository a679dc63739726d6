//! Logs for programs: every line is JSON, and every line of a turn has its ids at the top level.

use rustix::process::Signal;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord, OTHER};

/// Parses every line of a log.
fn parse(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
        .collect()
}

#[tokio::test]
async fn every_line_of_a_turn_has_its_ids() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("LOG_FORMAT", "json").with("LOG_LEVEL", "debug");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.mention(OTHER, ANN, "fail");
    bot.logs_where("the second answer", |line| {
        line["message"] == "answer delivered" && line["event"] == 2
    })
    .await;
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;

    let lines = parse(&ended.stderr);
    for event in [1, 2] {
        let story: Vec<&Value> = lines.iter().filter(|line| line["event"] == event).collect();
        let messages: Vec<&str> = story
            .iter()
            .filter(|line| line["level"] != "DEBUG")
            .filter_map(|line| line["message"].as_str())
            .collect();
        let said = |message: &str| messages.iter().filter(|found| **found == message).count();
        for message in ["event accepted", "turn begins", "answer delivered"] {
            assert_eq!(said(message), 1, "{message} of event {event}: {messages:?}");
        }
        assert_eq!(said("turn ended") + said("turn failed"), 1, "{messages:?}");
        let lane = if event == 1 { CHANNEL } else { OTHER };
        let turn = story.iter().find_map(|line| line["turn"].as_str()).expect("a turn");
        for line in &story {
            assert_eq!(line["lane"], format!("channel:{lane}"), "{line}");
        }
        let begins = story.iter().position(|line| line["message"] == "turn begins").unwrap();
        for line in &story[begins..] {
            assert_eq!(line["turn"], turn, "{line}");
            assert_eq!(line["backend"], "demo", "{line}");
            assert!(
                line["generation"].as_str().is_some_and(|generation| !generation.is_empty()),
                "{line}"
            );
        }
        // Every line with the turn's id also has the event's id.
        for line in lines.iter().filter(|line| line["turn"] == turn || line["link"] == turn) {
            assert!(line["event"] == event || line["turn"].is_null(), "{line}");
        }
    }
    let above: Vec<&Value> =
        lines.iter().filter(|line| line["level"] != "DEBUG" && line["level"] != "TRACE").collect();
    assert!(
        above.iter().all(|line| !line.to_string().contains("You said")),
        "a reply is in the log"
    );
}

/// The panic hook is global, so the test runs itself in a child process.
#[test]
fn a_panic_is_one_line_of_json_wherever_it_happens() {
    if std::env::var_os("AETHEEL_TEST_PANICS").is_some() {
        aetheel_runtime::log::start(
            aetheel_model::choice::LogFormat::Json,
            "info",
            aetheel_model::redact::Redactor::default(),
        )
        .unwrap();
        let elsewhere = std::thread::Builder::new()
            .name("elsewhere".to_owned())
            .spawn(|| panic!("on purpose\nin two lines"));
        assert!(elsewhere.unwrap().join().is_err());
        return;
    }
    let name = "gateway::logs::a_panic_is_one_line_of_json_wherever_it_happens";
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env("AETHEEL_TEST_PANICS", "1")
        .env("RUST_BACKTRACE", "1")
        .output()
        .unwrap();
    assert!(child.status.success(), "{child:?}");
    let stderr = String::from_utf8(child.stderr).unwrap();
    let lines = parse(&stderr);
    let [line] = &lines[..] else { panic!("{stderr}") };
    assert_eq!((&line["level"], &line["thread"]), (&"ERROR".into(), &"elsewhere".into()));
    assert_eq!(line["message"], "panic, which is a bug in Aetheel: on purpose\nin two lines");
    assert!(
        line["place"].as_str().is_some_and(|place| place.contains("logs.rs"))
            && line["trace"].is_string(),
        "{line}"
    );
}

#[tokio::test]
async fn lines_about_delivery_and_the_agent_have_the_ids_of_the_turn() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("LOG_FORMAT", "json");
    let bot = serving(&installation).await;
    local.faults().next("POST", "/messages", Fault::Refuse(403, 50013), 100);
    local.mention(CHANNEL, ANN, "hello");
    let line = bot.logs("discord does not accept an answer now").await;
    assert_eq!(
        (&line["event"], &line["lane"]),
        (&1.into(), &format!("channel:{CHANNEL}").into()),
        "{line}"
    );
    let line = bot.logs("the answer is not delivered yet").await;
    assert!(line["turn"].is_string() && line["backend"] == "demo", "{line}");
}

#[tokio::test]
async fn lines_keep_their_ids_when_only_warnings_are_logged() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("LOG_FORMAT", "json").with("LOG_LEVEL", "warn");
    let bot = installation.start(&["run"]);
    local.wait_for("the login", |local| (local.logins().0 > 0).then_some(())).await;
    local.mention(CHANNEL, ANN, "crash");
    let line = bot.logs("turn failed").await;
    assert!(line["turn"].is_string() && line["event"] == 1 && line["backend"] == "demo", "{line}");
}
