//! The real program and its journal: a second gateway, kills during a turn, a full disk, and too
//! many logins.

use rustix::process::{Resource, Rlimit, Signal, getrlimit, prlimit};

use super::{installed, serving, used_a_tool};
use crate::support::discord::{ANN, BOB, CHANNEL, LocalDiscord, OTHER};
use crate::support::program::Program;

#[tokio::test]
async fn a_second_gateway_with_the_same_folder_ends_with_73_and_names_the_first() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let first = serving(&installation).await;
    let second = installation.run(&["run"], "").await;
    assert_eq!(second.code, 73, "{}", second.stderr);
    let pid = first.gateway().as_raw_nonzero().to_string();
    assert!(second.stderr.contains(&format!("process {pid}")), "{}", second.stderr);
    assert_eq!(local.logins().0, 1, "the second one did not log in");
    assert_eq!(installation.run(&["check"], "").await.code, 0, "`check` needs no lock");
    first.signal(Signal::KILL);
    drop(first);
    serving(&installation).await;
}

#[tokio::test]
async fn a_second_gateway_with_the_same_token_is_reported() {
    let local = LocalDiscord::start().await;
    let (one, two) = (installed(&local), installed(&local));
    let first = serving(&one).await;
    let warning = "another gateway on this machine uses the same bot token";
    let _second = serving(&two).await.logs(warning).await;
    assert!(!first.stderr().contains(warning), "{}", first.stderr());
}

#[tokio::test]
async fn another_program_that_acknowledges_interactions_is_reported() {
    let local = LocalDiscord::start().await;
    let (one, two) = (installed(&local), installed(&local));
    let (first, second) = (serving(&one).await, serving(&two).await);
    // Discord sends each to both gateways. One of them fails at least two of three times.
    for _ in 0..3 {
        local.slash(CHANNEL, ANN, "status", None);
    }
    let warning = "another program, perhaps on another machine, uses the same bot token";
    let warns = |program: &Program| program.stderr().contains(warning);
    local.wait_for("the warning", |_| (warns(&first) || warns(&second)).then_some(())).await;
}

#[tokio::test]
async fn a_running_prompt_and_those_waiting_behind_it_are_answered_after_a_kill() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let mut killed = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "slow 2");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    local.mention(CHANNEL, ANN, "behind it");
    local
        .wait_for("the journal", |_| {
            installation.read("state/queue.md").contains("behind it").then_some(())
        })
        .await;
    killed.signal(Signal::KILL);
    killed.ended().await;

    let next = serving(&installation).await;
    next.logs("restored the events of the previous process").await;
    local.wait_for_message(CHANNEL, |text| text.contains("You said: behind it")).await;
    let texts = local.texts(CHANNEL);
    assert_eq!(texts.len(), 2, "{texts:?}");
    assert_eq!(
        texts[0], "Second 1. Second 2. There.",
        "the draft of the first process became the answer"
    );
    assert_eq!(local.messages(CHANNEL)[0].reply_to, Some(question));
}

#[tokio::test]
async fn a_turn_killed_after_a_tool_can_be_repeated_by_its_author() {
    let local = LocalDiscord::start().await;
    // A holder would keep the agents running.
    let installation =
        installed(&local).with("AGENT_HOLDER", "off").with("DEMO_AGENT_DELAY_MS", "100");
    let mut killed = serving(&installation).await;
    let question = local.mention(CHANNEL, ANN, "tool");
    used_a_tool(&local, &installation).await;
    killed.signal(Signal::KILL);
    killed.ended().await;

    let next = serving(&installation).await;
    let notice = local.wait_for_message(CHANNEL, |text| text.ends_with("(interrupted)")).await;
    assert_eq!(notice.reply_to, Some(question));
    next.logs("an event was interrupted after its agent had used a tool").await;
    local.press(notice.id, BOB, "Try again");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You may not start this again")).await;
    local.press(notice.id, ANN, "Try again");
    let answer = local
        .wait_for_message(CHANNEL, |text| text.ends_with("One tool worked, one did not."))
        .await;
    assert_eq!(answer.reply_to, Some(question));
    assert!(local.button(notice.id, "Try again").is_none());
    assert!(local.messages(CHANNEL).iter().any(
        |message| message.id == notice.id && message.content.ends_with("Started again by ann.")
    ));
}

#[tokio::test]
async fn with_a_full_disk_new_prompts_wait_turns_pause_and_both_continue_afterwards() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    // A limit of the file size simulates a full disk.
    let bot = installation.start(&["run"]);
    bot.logs("aetheel is ready").await;
    local.mention(CHANNEL, ANN, "hello");
    local.wait_for_message(CHANNEL, |text| text.starts_with("You said: hello")).await;
    local.mention(CHANNEL, ANN, "slow 3");
    local.wait_for_message(CHANNEL, |text| text.contains("Second 1.")).await;
    let limit = |bytes: Option<u64>| {
        let maximum = getrlimit(Resource::Fsize).maximum;
        prlimit(Some(bot.pid), Resource::Fsize, Rlimit { current: bytes, maximum })
            .expect("limited");
    };
    limit(Some(16));
    let refused = local.mention(OTHER, ANN, "too much");
    let notice = local.wait_for_message(OTHER, |text| text.contains("(storage)")).await;
    assert_eq!(notice.reply_to, Some(refused));
    bot.logs("cannot write the queue:").await;
    bot.logs("the turn is paused: the queue cannot be written").await;
    limit(None);
    local.wait_for_message(CHANNEL, |text| text.ends_with("There.")).await;
    bot.logs("the queue can be written again").await;
    let answer = local.wait_for_message(OTHER, |text| text.starts_with("You said: too much")).await;
    assert_eq!(answer.reply_to, Some(refused));
    local.mention(OTHER, ANN, "room again");
    local.wait_for_message(OTHER, |text| text.starts_with("You said: room again")).await;
}

#[tokio::test]
async fn the_next_login_waits_after_many_logins_in_a_row() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let now = jiff::Timestamp::now().as_millisecond();
    let logins: String =
        (0..20).map(|number| format!("- `login:{}`\n", now - number * 1_000)).collect();
    let state = installation.path("config").join("state");
    std::fs::create_dir_all(&state).unwrap();
    std::fs::write(state.join("discord.md"), format!("# Discord\n\n{logins}")).unwrap();
    let mut bot = installation.start(&["run"]);
    let line = bot.logs("many recent discord logins").await;
    assert!((500..=600).contains(&line["seconds"].as_u64().unwrap()), "{line}");
    assert_eq!(local.logins().0, 0);
    bot.signal(Signal::TERM);
    assert_eq!(bot.ended().await.code, 0);
}

#[tokio::test]
async fn a_start_removes_files_that_a_killed_gateway_was_writing() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let state = installation.path("config").join("state");
    std::fs::create_dir_all(state.join("turns")).unwrap();
    let left = [state.join(".new-a1B2c3"), state.join("turns/.new-d4E5f6")];
    let long_ago = std::time::SystemTime::now() - std::time::Duration::from_secs(3600);
    for path in &left {
        std::fs::write(path, "half").unwrap();
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.set_modified(long_ago).unwrap();
    }
    let bot = serving(&installation).await;
    assert_eq!(bot.logs("removed half-written files").await["files"], 2);
    assert!(left.iter().all(|path| !path.exists()));
}
