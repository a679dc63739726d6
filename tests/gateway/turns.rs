//! The records of turns: the real program writes one line for each turn, whatever its outcome.

use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use rustix::process::Signal;
use serde_json::Value;

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord};
use crate::support::program::Installation;

/// Returns the lines of all days, in order.
fn lines(installation: &Installation) -> Vec<Value> {
    let folder = installation.path("config/state/turns");
    let mut days: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path()).collect();
    days.sort();
    let text: String = days.iter().map(|day| std::fs::read_to_string(day).unwrap()).collect();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits for this many lines. More lines are an error.
async fn wait_for_lines(
    local: &LocalDiscord,
    installation: &Installation,
    count: usize,
) -> Vec<Value> {
    local
        .wait_for("the lines of turns", |_| {
            let lines = lines(installation);
            assert!(lines.len() <= count, "too many: {lines:#?}");
            (lines.len() == count).then_some(lines)
        })
        .await
}

#[tokio::test]
async fn each_turn_is_recorded_with_its_prompt_answer_and_usage() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = serving(&installation).await;
    let secret = crate::support::discord::TOKEN;
    local.mention(CHANNEL, ANN, &format!("hello <b>{secret}</b>"));
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.mention(CHANNEL, ANN, "tool");
    local.wait_for_message(CHANNEL, |text| text.ends_with("one did not.")).await;
    local.mention(CHANNEL, ANN, "fail authentication");
    local.wait_for_message(CHANNEL, |text| text.contains("not signed in")).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.answer_to(local.slash(CHANNEL, ANN, "stop", None)).await;
    local.wait_for_message(CHANNEL, |text| text.contains("Stopped.")).await;
    let lines = wait_for_lines(&local, &installation, 4).await;

    let hows: Vec<String> = lines.iter().map(|line| line["how"].to_string()).collect();
    assert_eq!(hows, ["\"done\"", "\"done\"", r#"{"failed":"authentication"}"#, "\"stopped\""]);
    let first = &lines[0];
    for (field, value) in [
        ("lane", format!("channel:{CHANNEL}")),
        ("kind", "message".to_owned()),
        ("name", "ann".to_owned()),
        ("backend", "demo".to_owned()),
        ("asked", "hello <b>***</b>".to_owned()),
        (
            "answered",
            "You said: hello <b>***</b>\n\nThis is message 1 of our conversation.".to_owned(),
        ),
    ] {
        assert_eq!(first[field], value, "{first:#}");
    }
    assert_eq!(first["user"], ANN);
    assert_eq!((&first["tools"], &lines[1]["tools"]), (&0.into(), &2.into()));
    assert!(first["usage"]["output"].as_u64().is_some_and(|tokens| tokens > 0), "{first:#}");
    assert_eq!(first["digest"].as_str().unwrap().len(), 64);
    assert!(lines[2]["answered"].as_str().unwrap().contains("The agent is not signed in"));
    assert!(lines[3]["took-ms"].as_u64().unwrap() > 0);
    for line in &lines {
        let recording = installation.path("recordings").join(line["recording"].as_str().unwrap());
        assert!(recording.exists(), "{line:#}");
        bot.logs_where("the turn's end", |logged| logged["turn"] == line["turn"]).await;
    }
    assert!(!format!("{lines:?}").contains(secret));
}

#[tokio::test]
async fn a_turn_that_could_not_start_is_recorded_too() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let channels = format!("## channel {CHANNEL}\n- directory: `missing`\n");
    std::fs::write(installation.path("config/channels.md"), channels).unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("(directory, ")).await;
    let line = &wait_for_lines(&local, &installation, 1).await[0];
    assert_eq!(line["how"]["failed"], "refused", "{line:#}");
    assert_eq!((&line["took-ms"], &line["link"]), (&0.into(), &Value::Null));
}

#[tokio::test]
async fn a_turn_that_outlived_two_gateways_and_a_repeated_turn_have_one_line_each() {
    for holder in ["require", "off"] {
        let local = LocalDiscord::start().await;
        let installation = installed(&local).with("AGENT_HOLDER", holder);
        let installation = installation.with("AGENT_HOLD_SECONDS", "60");
        let mut killed = serving(&installation).await;
        local.mention(CHANNEL, ANN, "slow 3");
        for said in ["Second 1.", "Second 2."] {
            local.wait_for_message(CHANNEL, |text| text.contains(said)).await;
            killed.signal(Signal::KILL);
            killed.ended().await;
            killed = serving(&installation).await;
        }
        local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
        let line = &wait_for_lines(&local, &installation, 1).await[0];
        assert_eq!(line["how"], "done", "with {holder}: {line:#}");
        assert_eq!(line["answered"], "Second 1. Second 2. Second 3. There.", "with {holder}");
    }
}

#[tokio::test]
async fn a_turn_whose_answer_the_next_process_delivers_has_exactly_one_line() {
    for lost in [false, true] {
        let local = LocalDiscord::start().await;
        let installation = installed(&local);
        let mut killed = serving(&installation).await;
        local.mention(CHANNEL, ANN, "slow 2");
        local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
        local.faults().away(true);
        let before = wait_for_lines(&local, &installation, 1).await;
        killed.signal(Signal::KILL);
        killed.ended().await;
        local.faults().away(false);
        if lost {
            // As if it had been killed earlier, while it wrote the line.
            let folder = installation.path("config/state/turns");
            let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, &text[..text.len() / 2]).unwrap();
        }
        let next = serving(&installation).await;
        next.logs("answer delivered").await;
        drop(next);
        let folder = installation.path("config/state/turns");
        let file = std::fs::read_dir(folder).unwrap().next().unwrap().unwrap().path();
        let text = std::fs::read_to_string(file).unwrap();
        let whole: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        assert_eq!(whole, before);
    }
}

#[tokio::test]
async fn old_turns_lose_their_texts_at_the_next_start_and_are_removed_later() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    let line = wait_for_lines(&local, &installation, 1).await.remove(0);
    bot.signal(Signal::TERM);
    bot.ended().await;
    let folder = installation.path("config/state/turns");
    std::fs::remove_dir_all(&folder).unwrap();
    std::fs::create_dir(&folder).unwrap();
    for (turn, days) in [("today", 0), ("week", 8), ("year", 402)] {
        let ended = Timestamp::now() - SignedDuration::from_hours(24 * days);
        let mut line = line.clone();
        (line["turn"], line["ended"]) = (turn.into(), ended.to_string().into());
        let day = TimeZone::UTC.to_datetime(ended).date();
        std::fs::write(folder.join(format!("{day}.jsonl")), format!("{line}\n")).unwrap();
    }
    let _bot = serving(&installation).await;
    local
        .wait_for("the end of the oldest turn and of the texts of the next one", |_| {
            let has_text = |line: &Value| line["asked"].is_string();
            let left: Vec<_> = lines(&installation)
                .iter()
                .map(|line| (line["turn"].as_str().unwrap().to_owned(), has_text(line)))
                .collect();
            (left == [("week".to_owned(), false), ("today".to_owned(), true)]).then_some(())
        })
        .await;
}
