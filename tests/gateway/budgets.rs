//! Budgets in Discord, with the real program: owners raise a cap with a button, and others cannot.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use super::cluster::{connected, node, node_of};
use super::{installed, serving};
use crate::support::discord::{ANN, CHANNEL, LocalDiscord, OTHER, OWNER, room};
use crate::support::postgres::Postgres;

#[tokio::test]
async fn an_owner_raises_a_cap_with_a_button_and_a_member_cannot() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    fs::create_dir_all(installation.path("config")).unwrap();
    let budgets = "# Budgets\n\n## team\n- cap: 1 turns a month\n";
    fs::write(installation.path("config/budgets.md"), budgets).unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    local.mention(CHANNEL, ANN, "two");
    let used_up = |text: &str| text.contains("`team` is used up: 1 turn of 1 turn a month.");
    let notice = local.wait_for_message(CHANNEL, used_up).await;
    assert!(notice.content.contains("Your message waits"), "{}", notice.content);
    let labels = ["Raise to 2 turns".to_owned(), "No cap until tomorrow".to_owned()];
    assert_eq!(local.buttons(notice.id), labels);
    let question = local.wait_for_message(OTHER, used_up).await;
    assert_eq!(local.buttons(question.id), labels, "the operator's channel has them, too");

    local.press(notice.id, ANN, "Raise to 2 turns");
    let word = local.wait_for_message(CHANNEL, |text| text == "Only my owner may accept this.");
    assert!(word.await.ephemeral);
    assert_eq!(local.buttons(notice.id), labels, "owners can still press them");
    assert!(!installation.read("state/budgets.md").contains("raised `2`"));

    local.press(notice.id, OWNER, "Raise to 2 turns");
    let raised = |text: &str| used_up(text) && text.contains("💰 Raised by");
    let notice = local.wait_for_message(CHANNEL, raised).await;
    assert!(local.buttons(notice.id).is_empty());
    local.wait_for_message(CHANNEL, |text| text.contains("You said: two")).await;
    assert!(installation.read("state/budgets.md").contains("raised `2`"));
    // The other notice is about the same cap.
    let question = local.wait_for_message(OTHER, raised).await;
    assert!(local.buttons(question.id).is_empty());
}

#[tokio::test]
async fn two_machines_share_a_cap_and_a_button_of_one_lets_the_other_continue() {
    let (local, postgres) = (LocalDiscord::start().await, Postgres::start());
    let machine = |name: &str, label: &str| {
        let node = node(&local, &postgres, name).with("NODE_LABELS", label);
        let channels =
            format!("## channel {CHANNEL}\n- node: gpu\n\n## channel {OTHER}\n- node: cpu\n");
        fs::write(node.path("config/channels.md"), channels).unwrap();
        let budgets = "## team\n- cap: 1 turns a month\n";
        fs::write(node.path("config/budgets.md"), budgets).unwrap();
        node
    };
    let (one, two) = (machine("one", "cpu"), machine("two", "gpu"));
    let _first = connected(&one).await;
    let _second = serving(&two).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    local.mention(OTHER, ANN, "two");
    let used_up = |text: &str| text.contains("`team` is used up: 1 turn of 1 turn a month.");
    local.wait_for_message(OTHER, used_up).await;
    assert_eq!([node_of(&postgres, CHANNEL), node_of(&postgres, OTHER)], ["two", "one"]);
    local.mention(CHANNEL, ANN, "three");
    let notice = local.wait_for_message(CHANNEL, used_up).await;
    // Owners lift the cap on the second machine.
    local.press(notice.id, OWNER, "No cap until tomorrow");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: three")).await;
    local.wait_for_message(OTHER, |text| text.contains("You said: two")).await;
    for node in [&one, &two] {
        assert!(
            node.read("state/budgets.md").contains("team turns month"),
            "{}",
            node.path("").display()
        );
    }
}

#[tokio::test]
async fn a_fault_in_a_file_with_limits_keeps_them_over_a_restart_and_an_unknown_name_does_too() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let file = installation.path("config/budgets.md");
    fs::write(&file, "## team\n- backend: demo\n- cap: 1 turns a month\n").unwrap();
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    let kept = || installation.read("state/in-force/budgets.md").contains("1 turns");
    local.wait_for("the copy", |_| kept().then_some(())).await;
    let used_up = |text: &str| text.contains("`team` is used up: 1 turn of 1 turn a month.");
    let changes = [
        ("### team\n- backend: demo\n- cap: 9 turns a month\n", "budgets.md line 1: "),
        ("## team\n- backend: dmeo\n- cap: 9 turns a month\n", "the backend \"dmeo\" of `team`"),
        ("## team\n- project: site\n- cap: 9 turns a month\n", "the project \"site\" of `team`"),
    ];
    for (number, (text, fault)) in (1..).zip(changes) {
        fs::write(&file, text).unwrap();
        let has_fault =
            |line: &Value| line["fault"].as_str().is_some_and(|said| said.contains(fault));
        local.mention(room(number), ANN, "two");
        bot.logs_where(fault, has_fault).await;
        local.wait_for_message(room(number), used_up).await;
        bot.signal(Signal::TERM);
        bot.ended().await;
        bot = serving(&installation).await;
        bot.logs_where("the fault at the start", |line| {
            let message = line["message"].as_str().unwrap_or_default();
            message.contains(fault)
                && message.contains("the last content without faults stays in force")
        })
        .await;
        local.mention(room(10 + number), ANN, "three");
        local.wait_for_message(room(10 + number), used_up).await;
    }
    // The name exists once the other file has it, without another change of this one.
    fs::write(installation.path("config/channels.md"), "## project site\n- mode: plan\n").unwrap();
    local.mention(room(20), ANN, "four");
    local.wait_for_message(room(20), |text| text.contains("You said: four")).await;
}

#[tokio::test]
async fn deleting_a_file_with_limits_between_two_starts_is_reported() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    let file = installation.path("config/budgets.md");
    fs::write(&file, "## team\n- cap: 1 turns a month\n").unwrap();
    let mut bot = serving(&installation).await;
    let kept = || installation.read("state/in-force/budgets.md").contains("1 turns");
    local.wait_for("the copy", |_| kept().then_some(())).await;
    bot.signal(Signal::TERM);
    bot.ended().await;
    fs::remove_file(&file).unwrap();
    let bot = serving(&installation).await;
    bot.logs("the file became empty; its limits are no longer in force").await;
    local.wait_for_message(OTHER, |text| text.contains("`budgets.md` became empty")).await;
    for text in ["one", "two"] {
        local.mention(CHANNEL, ANN, text);
        let answer = format!("You said: {text}");
        local.wait_for_message(CHANNEL, |said| said.contains(&answer)).await;
    }
}

#[tokio::test]
async fn a_wait_is_told_once_over_a_restart_and_a_decision_closes_all_its_notices() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local).with("OUTPUT_CHANNEL_ID", &OTHER.to_string());
    fs::write(installation.path("config/budgets.md"), "## team\n- cap: 1 turns a month\n").unwrap();
    let mut bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    let used_up = |text: &str| text.contains("`team` is used up");
    let waiting = [CHANNEL, room(1), room(2)];
    for channel in waiting {
        local.mention(channel, ANN, "two");
        let notice = local.wait_for_message(channel, used_up).await;
        assert!(notice.content.contains("or at <t:"), "{}", notice.content);
    }
    let question = local.wait_for_message(OTHER, used_up).await;
    let status = local.slash(CHANNEL, ANN, "status", None);
    let listed = local.answer_to(status).await.content;
    assert!(listed.contains("waits until <t:") && listed.contains("budget `team`"), "{listed}");

    let saved = || installation.read("state/discord.md").matches("wait.").count() == 4;
    local.wait_for("the notices are saved", |_| saved().then_some(())).await;
    bot.signal(Signal::KILL);
    bot.ended().await;
    // Discord recognises a repeated message for a few minutes only.
    local.faults().forget_nonces();
    let bot = serving(&installation).await;
    for channel in waiting {
        let lane = format!("channel:{channel}");
        bot.logs_where("the wait is announced", |line| {
            line["message"] == "event waits: a budget is used up" && line["lane"] == lane.as_str()
        })
        .await;
    }
    local.press(question.id, OWNER, "No cap until tomorrow");
    for channel in [CHANNEL, room(1), room(2), OTHER] {
        let decided =
            |text: &str| used_up(text) && text.contains("💰 No cap until tomorrow, decided by");
        let notice = local.wait_for_message(channel, decided).await;
        assert!(local.buttons(notice.id).is_empty(), "{}", notice.content);
        // The answer to `/status` says it too.
        let is_notice = |text: &&String| used_up(text) && !text.contains("Prompts are answered");
        assert_eq!(local.texts(channel).iter().filter(is_notice).count(), 1);
    }
    let open = || installation.read("state/discord.md").contains("wait.");
    local.wait_for("no notice is open", |_| (!open()).then_some(())).await;
}

#[tokio::test]
async fn the_notice_of_a_wait_that_ends_by_itself_is_closed() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let file = installation.path("config/budgets.md");
    fs::write(&file, "## people\n- person: each\n- cap: 1 turns a month\n").unwrap();
    let _bot = serving(&installation).await;
    local.mention(CHANNEL, ANN, "one");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: one")).await;
    local.mention(CHANNEL, ANN, "two");
    let waits = |text: &str| text.contains("Your message waits");
    let notice = local.wait_for_message(CHANNEL, waits).await;
    assert!(notice.content.contains(&format!("`people` (<@{ANN}>)")), "{}", notice.content);
    // The cap holds one person only.
    local.mention(CHANNEL, OWNER, "three");
    local.wait_for_message(CHANNEL, |text| text.contains("You said: three")).await;
    fs::write(&file, "## people\n- person: each\n- cap: 5 turns a month\n").unwrap();
    let over = |text: &str| waits(text) && text.contains("-# ▶️ The wait is over.");
    let notice = local.wait_for_message(CHANNEL, over).await;
    assert!(local.buttons(notice.id).is_empty());
    local.wait_for_message(CHANNEL, |text| text.contains("You said: two")).await;
}

#[tokio::test]
async fn without_a_channel_for_notices_the_warning_reaches_the_channel_that_used_the_budget() {
    let local = LocalDiscord::start().await;
    let installation = installed(&local);
    let budgets = "## team\n- cap: 5 turns a month\n";
    fs::write(installation.path("config/budgets.md"), budgets).unwrap();
    let _bot = serving(&installation).await;
    for number in 1..=4 {
        local.mention(CHANNEL, ANN, &format!("prompt {number}"));
        let answer = format!("You said: prompt {number}");
        local.wait_for_message(CHANNEL, |text| text.contains(&answer)).await;
    }
    local.wait_for_message(CHANNEL, |text| text.contains("`team` is used to 80 %")).await;
}
