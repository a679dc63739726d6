//! The effects of each signal, with and without a holder, as in the table in `docs/operating.md`.

use rustix::process::{Signal, test_kill_process};

use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::{Installation, Program};

/// Starts a gateway with an agent that is answering.
async fn start_answering(
    local: &LocalDiscord,
    installation: &Installation,
    prompt: &str,
) -> Program {
    let bot = serving(installation).await;
    local.mention(CHANNEL, ANN, prompt);
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    bot
}

fn with_hook(installation: Installation, hook: &str) -> Installation {
    let agents = format!("# Hooks\n## shutdown\n- channel: {OTHER}\n- instruction: {hook}\n");
    std::fs::write(installation.path("config").join("agents.md"), agents).unwrap();
    installation
}

/// Returns the log lines about the shutdown, in order.
fn phases(bot: &Program) -> Vec<String> {
    let lines = bot.log().into_iter();
    let said = lines
        .filter_map(|line| Some(line["message"].as_str()?.strip_prefix("shutdown: ")?.to_owned()));
    said.collect()
}

/// Checks that the next start continues the answer and that no agent got the prompt twice.
async fn expect_continuation(local: &LocalDiscord, installation: &Installation, answer: &str) {
    let next = serving(installation).await;
    next.logs("a link outlived the gateway and continues").await;
    local.wait_for_message(CHANNEL, |text| text == answer).await;
    assert_eq!(local.texts(CHANNEL).len(), 1, "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn sigterm_runs_the_hook_closes_discord_and_leaves_turns_to_the_holder() {
    for (signal, code) in [(Signal::TERM, 0), (Signal::USR2, 75)] {
        let local = LocalDiscord::start().await;
        let installation =
            with_hook(installed(&local), "say good night").with("MAX_CONCURRENT_QUERIES", "1");
        let mut bot = start_answering(&local, &installation, "slow 6").await;
        bot.signal(signal);
        let ended = bot.ended().await;
        assert_eq!(ended.code, code, "{}", ended.stderr);
        let wanted = [
            "begins",
            "intake closed",
            "prompts that wait are left to the next start",
            "the hook has ended",
            "turns are handed over to the next start",
            "discord is closed",
            "done; agents go on, and the next start takes them over",
        ];
        assert_eq!(phases(&bot), wanted);
        let posted = local.texts(OTHER);
        assert!(
            posted.len() == 1 && posted[0].starts_with("You said: say good night"),
            "{posted:?}"
        );
        assert_eq!((local.connections(), local.closed_with()), (0, vec![Some(1000)]));
        assert!(!local.texts(CHANNEL)[0].contains("restarting"), "{:?}", local.texts(CHANNEL));
        let answer = "Second 1. Second 2. Second 3. Second 4. Second 5. Second 6. There.";
        expect_continuation(&local, &installation, answer).await;
    }
}

#[tokio::test]
async fn sigterm_waits_for_a_hook_only_briefly_and_new_messages_get_a_notice() {
    let local = LocalDiscord::start().await;
    let installation = with_hook(installed(&local), "hang")
        .with("SHUTDOWN_GRACE_MS", "1500")
        .with("STOP_GRACE_MS", "200");
    let mut bot = start_answering(&local, &installation, "slow 6").await;
    bot.signal(Signal::TERM);
    bot.logs_where("the hook", |line| {
        line["message"] == "hook fired" && line["hook"] == "shutdown"
    })
    .await;
    bot.logs_where("its turn", |line| {
        line["message"] == "turn begins" && line["lane"] == "hook:shutdown"
    })
    .await;
    local.mention(OTHER, ANN, "written meanwhile");
    local.wait_for_message(OTHER, |text| text.contains("I am restarting")).await;
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    let phases = phases(&bot);
    assert!(phases.iter().any(|phase| phase.starts_with("the hook did not end in time")));
    assert_eq!(bot.agents().len(), 1, "only the hook's agent is stopped");
    let answer = "Second 1. Second 2. Second 3. Second 4. Second 5. Second 6. There.";
    expect_continuation(&local, &installation, answer).await;
    local.wait_for_message(OTHER, |text| text.starts_with("You said: written meanwhile")).await;
}

#[tokio::test]
async fn a_second_sigterm_skips_the_hook_and_turns_continue() {
    let local = LocalDiscord::start().await;
    let installation = with_hook(installed(&local), "hang").with("STOP_GRACE_MS", "200");
    let mut bot = start_answering(&local, &installation, "slow 6").await;
    bot.signal(Signal::TERM);
    bot.logs_where("the hook's turn", |line| {
        line["message"] == "turn begins" && line["lane"] == "hook:shutdown"
    })
    .await;
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(phases(&bot).iter().any(|phase| phase.starts_with("second signal")));
    let answer = "Second 1. Second 2. Second 3. Second 4. Second 5. Second 6. There.";
    expect_continuation(&local, &installation, answer).await;
}

#[tokio::test]
async fn sigint_and_sighup_end_turns_even_with_a_holder() {
    for signal in [Signal::INT, Signal::HUP] {
        let local = LocalDiscord::start().await;
        let installation = installed(&local).with("SHUTDOWN_GRACE_MS", "0");
        let mut bot = start_answering(&local, &installation, "slow 600").await;
        bot.signal(signal);
        let ended = bot.ended().await;
        assert_eq!(ended.code, 0, "{signal:?}: {}", ended.stderr);
        assert_eq!(bot.agents(), [], "{signal:?}");
        assert!(local.texts(CHANNEL)[0].contains("(restarting, "), "{:?}", local.texts(CHANNEL));
    }
}

#[tokio::test]
async fn without_a_holder_sigterm_ends_turns() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("AGENT_HOLDER", "off").with("SHUTDOWN_GRACE_MS", "0");
    let mut bot = start_answering(&local, &installation, "slow 600").await;
    let agents = bot.agents();
    bot.signal(Signal::TERM);
    let ended = bot.ended().await;
    assert_eq!(ended.code, 0, "{}", ended.stderr);
    assert!(!agents.is_empty() && agents.iter().all(|pid| test_kill_process(*pid).is_err()));
    assert!(local.texts(CHANNEL)[0].contains("(restarting, "), "{:?}", local.texts(CHANNEL));
}

#[tokio::test]
async fn kill_9_leaves_turns_to_the_holder() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = start_answering(&local, &installation, "slow 4").await;
    bot.signal(Signal::KILL);
    bot.ended().await;
    expect_continuation(&local, &installation, "Second 1. Second 2. Second 3. Second 4. There.")
        .await;
}

#[tokio::test]
async fn a_gateway_started_with_nohup_survives_its_terminal() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut bot = installation.start_in_shell("trap '' HUP; exec \"$0\" run");
    bot.logs("aetheel is ready").await;
    bot.signal(Signal::HUP);
    local.mention(CHANNEL, ANN, "still there?");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: still there?")).await;
    assert!(!bot.is_over());
}

#[tokio::test]
async fn a_test_leaves_no_holder_behind() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let bot = start_answering(&local, &installation, "slow 600").await;
    let (holders, agents) = (installation.holders(), bot.agents());
    assert_eq!((holders.len(), agents.len()), (1, 1));
    drop(bot);
    drop(installation);
    for pid in holders.into_iter().chain(agents) {
        let gone = || test_kill_process(pid).is_err().then_some(());
        local.wait_for("the end of what was started", |_| gone()).await;
    }
}
