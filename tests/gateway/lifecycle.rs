//! Starts, stops, lost connections, and catching up on missed messages.

use std::time::{Duration, Instant};

use rustix::process::{Signal, test_kill_process};

use super::{id_of, installed, serving, used_a_tool};
use crate::support::discord::{ANN, CHANNEL, Fault, LocalDiscord, OTHER, TOKEN};
use crate::support::program::Installation;

/// Returns how often the demo agent repeated each of these prompts.
fn answer_counts(local: &LocalDiscord, prompts: &[&str]) -> Vec<usize> {
    let texts = local.texts(CHANNEL);
    prompts
        .iter()
        .map(|prompt| {
            texts.iter().filter(|text| text.starts_with(&format!("You said: {prompt}\n"))).count()
        })
        .collect()
}

#[tokio::test]
async fn messages_written_while_the_program_was_down_are_answered_once() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut first = serving(&installation).await;
    local.mention(CHANNEL, ANN, "before");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: before")).await;
    first.signal(Signal::TERM);
    assert_eq!(first.ended().await.code, 0);
    local.mention(CHANNEL, ANN, "meanwhile");
    local.say(CHANNEL, ANN, "nothing for the bot");
    local.mention(CHANNEL, ANN, "and again");

    let mut second = serving(&installation).await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: and again")).await;
    second.signal(Signal::TERM);
    assert_eq!(second.ended().await.code, 0);

    let third = serving(&installation).await;
    third.logs("discord is ready").await;
    local.mention(CHANNEL, ANN, "after");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: after")).await;
    assert_eq!(answer_counts(&local, &["before", "meanwhile", "and again", "after"]), [1, 1, 1, 1]);
    assert_eq!(local.texts(CHANNEL).len(), 4, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn an_answer_survives_a_lost_gateway_connection_and_is_posted_once() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.faults().drop_gateway(true);
    local.mention(CHANNEL, ANN, "written meanwhile");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: written meanwhile")).await;
    assert_eq!(local.texts(CHANNEL).len(), 2, "{:?}", local.texts(CHANNEL));
    assert_eq!(local.texts(CHANNEL)[0], "Second 1. Second 2. Second 3. There.");
    let (logins, resumed) = local.logins();
    assert!(logins + resumed >= 2, "the connection was really cut");
}

#[tokio::test]
async fn an_interrupted_program_finishes_its_turn_and_exits_with_zero() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    bot.signal(Signal::INT);
    bot.logs("shutdown: intake closed").await;
    local.mention(OTHER, ANN, "too late");
    local.wait_for_message(OTHER, |text| text.contains("I am restarting")).await;
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert_eq!(local.texts(CHANNEL), ["Second 1. Second 2. Second 3. There."]);
    let phases: Vec<String> = bot
        .log()
        .iter()
        .filter_map(|line| Some(line["message"].as_str()?.strip_prefix("shutdown: ")?.to_owned()))
        .collect();
    let wanted = [
        "begins",
        "intake closed",
        "waiting for turns",
        "no turn is left, closing long-lived agents",
        "discord is closed",
        "done",
    ];
    assert_eq!(phases, wanted);
    assert_eq!(local.connections(), 0);
    assert_eq!(local.closed_with(), [Some(1000)], "a clean close");
}

#[tokio::test]
async fn every_termination_signal_causes_an_orderly_shutdown() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut bot = serving(&installation).await;
        bot.signal(signal);
        assert_eq!(bot.ended().await.code, 0, "{signal:?}");
        bot.logs("shutdown: done").await;
    }
}

#[tokio::test]
async fn a_second_signal_stops_the_turns_at_once() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("the agent", |_| (!bot.agents().is_empty()).then_some(())).await;
    bot.signal(Signal::INT);
    bot.logs("shutdown: waiting for turns").await;
    let second = Instant::now();
    bot.signal(Signal::INT);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(second.elapsed() < Duration::from_secs(20), "{:?}", second.elapsed());
    let [notice] = &local.texts(CHANNEL)[..] else { panic!("{:?}", local.texts(CHANNEL)) };
    assert!(
        notice.starts_with("⚠️ I am restarting; this is answered as soon as I am back."),
        "{notice}"
    );
    id_of(notice, "restarting");
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn an_answer_that_discord_refuses_delays_the_shutdown_only_briefly() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("STOP_GRACE_MS", "200").with("SHUTDOWN_GRACE_MS", "500");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("the agent", |_| (!bot.agents().is_empty()).then_some(())).await;
    local.faults().next("POST", "/messages", Fault::Status(503), 1_000);
    let asked = Instant::now();
    bot.signal(Signal::INT);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(asked.elapsed() < Duration::from_secs(30), "{:?}", asked.elapsed());
    assert!(
        ended.stderr.contains("shutdown: not every answer could be delivered"),
        "{}",
        ended.stderr
    );
    assert_eq!(bot.agents(), []);
}

#[tokio::test]
async fn turns_stopped_after_the_grace_period_and_waiting_prompts_run_after_the_next_start() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("SHUTDOWN_GRACE_MS", "500");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 600");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "waiting behind it");
    local
        .wait_for("both prompts", |_| {
            installation.read("state/queue.md").contains("waiting behind it").then_some(())
        })
        .await;
    bot.signal(Signal::INT);
    assert_eq!(bot.ended().await.code, 0);
    let texts = local.texts(CHANNEL);
    assert!(
        texts.len() == 1 && texts[0].contains("(restarting, "),
        "the waiting prompt gets no message, since it will be answered: {texts:?}"
    );
    bot.logs_where("how many are kept", |line| line["kept"] == 1).await;

    let _next = serving(&installation).await;
    local
        .wait_for_message(CHANNEL, |text| {
            text.starts_with("Second 1.") && !text.contains("(restarting")
        })
        .await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "the answer continues in the same message");
    local.slash(CHANNEL, ANN, "stop", None);
    let stopped = |local: &LocalDiscord| {
        (local.texts(CHANNEL).iter().filter(|text| text.contains("Stopped")).count() == 2)
            .then_some(())
    };
    local.wait_for("both to be stopped", stopped).await;
}

#[tokio::test]
async fn a_turn_with_a_tool_stopped_by_a_shutdown_is_reported_and_saved() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("SHUTDOWN_GRACE_MS", "0").with("DEMO_AGENT_DELAY_MS", "1000");
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "tool");
    used_a_tool(&local, &installation).await;
    bot.signal(Signal::INT);
    assert_eq!(bot.ended().await.code, 0);
    local
        .wait_for_message(CHANNEL, |text| {
            text.contains("I ask whether to try again. (restarting, ")
        })
        .await;
    assert!(
        !installation.read("state/queue.md").contains("- [x] `1`"),
        "{}",
        installation.read("state/queue.md")
    );
}

#[tokio::test]
async fn agents_of_a_killed_gateway_are_ended_by_the_next_start() {
    let local = LocalDiscord::start().await;
    // A holder would keep the agents running.
    let installation = installed(&local).with("AGENT_HOLDER", "off");
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "stubborn");
    local.wait_for_message(CHANNEL, |text| text.contains("I will not stop.")).await;
    let left = killed.agents();
    assert!(!left.is_empty());
    killed.signal(Signal::KILL);
    assert_eq!(killed.ended().await.code, 128 + 9);

    let _next = serving(&installation).await;
    // Any gateway of this user may end them, also one of another test.
    local
        .wait_for("the end of what was left", |_| {
            left.iter().all(|pid| test_kill_process(*pid).is_err()).then_some(())
        })
        .await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.starts_with("You said: hello")).await;
}

#[tokio::test]
async fn temporary_folders_of_a_killed_gateway_are_removed_but_not_those_in_use() {
    let local = LocalDiscord::start().await;
    // A holder would keep the agents running.
    let installation = installed(&local).with("AGENT_HOLDER", "off");
    let place = installation.path("tmp");
    std::fs::create_dir(&place).unwrap();
    let installation = installation.with("TMPDIR", &place.display().to_string());
    let folders = || {
        std::fs::read_dir(&place)
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect::<std::collections::BTreeSet<_>>()
    };
    let mut killed = serving(&installation).await;
    local.mention(CHANNEL, ANN, "hang");
    local.wait_for("the agent's folder", |_| (!folders().is_empty()).then_some(())).await;
    local.wait_for("the agent", |_| (!killed.agents().is_empty()).then_some(())).await;
    let left = folders();
    killed.signal(Signal::KILL);
    killed.ended().await;
    assert_eq!(folders(), left, "the folders of the killed gateway are still there");

    let next = serving(&installation).await;
    local
        .wait_for("the end of what was left", |_| folders().is_disjoint(&left).then_some(()))
        .await;
    // The prompt runs again, in a folder of the new process.
    local
        .wait_for("the agent's folder", |_| {
            (!folders().is_empty() && !next.agents().is_empty()).then_some(())
        })
        .await;
    let serving = folders();
    let checked = installation.run(&["console"], "hello\n").await;
    assert_eq!(checked.code, 0, "{}", checked.stderr);
    assert!(
        serving.is_subset(&folders()),
        "a second gateway removed folders of the first one: {:?}",
        folders()
    );
}

#[tokio::test]
async fn a_token_revoked_while_the_gateway_runs_ends_it_with_77() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = serving(&installation).await;
    local.faults().refuse_token(true);
    local.faults().forget_sessions();
    local.faults().drop_gateway(true);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 77, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("DISCORD_BOT_TOKEN") && ended.stderr.contains("shutdown: done"),
        "{}",
        ended.stderr
    );
}

#[tokio::test]
async fn a_program_that_is_trying_to_reach_discord_can_be_ended() {
    // Nothing listens on this port, which was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let nowhere = format!("http://127.0.0.1:{port}");
    let installation =
        Installation::new().with("DISCORD_API_BASE", &nowhere).with("DISCORD_BOT_TOKEN", TOKEN);
    let mut bot = installation.start(&["run"]);
    bot.logs("backend loaded").await;
    let asked = Instant::now();
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
}

#[tokio::test]
async fn a_program_that_waits_for_the_gateway_connection_can_be_ended() {
    let local = LocalDiscord::start().await;
    local.faults().refuse_gateway(true);
    let installation = installed(&local);
    let mut bot = installation.start(&["run"]);
    let asked = |local: &LocalDiscord| {
        local.requests().iter().any(|request| request.path == "/gateway/bot").then_some(())
    };
    local.wait_for("the question for the gateway", asked).await;
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
}

#[tokio::test]
async fn a_console_beside_a_running_gateway_disturbs_nothing() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let console = installation.run(&["console"], "one\ntwo\n").await;
    assert!(console.code == 0 && console.stdout.contains("message 2"), "{console:?}");
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    local.mention(OTHER, ANN, "hello");
    local.wait_for_message(OTHER, |text| text.contains("message 1")).await;
    let console = installation.run(&["console"], "three\n").await;
    assert!(console.stdout.contains("message 3"), "the conversation continues: {console:?}");
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.contains("message 2")).await;
    let sessions = installation.read("state/sessions.md");
    assert_eq!(sessions.matches("demo-").count(), 3, "{sessions}");
}

#[tokio::test]
async fn an_env_file_without_a_home_is_enough() {
    let local = LocalDiscord::start().await;
    let installation =
        installed(&local).with("HOME", "").with("DISCORD_BOT_TOKEN", "").with("LOG_FORMAT", "json");
    let file = installation.path("env");
    std::fs::write(&file, format!("# the bot\nDISCORD_BOT_TOKEN='{TOKEN}'\n")).unwrap();
    let mut bot = installation.start(&["run", "--env-file", file.to_str().unwrap()]);
    bot.logs("aetheel is ready").await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert!(ended.code == 0 && !ended.stderr.contains(TOKEN), "{}", ended.stderr);
}
