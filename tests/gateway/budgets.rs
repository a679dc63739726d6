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
    let labels = ["Raise to 2 turns".to_owned(), "Until tomorrow".to_owned()];
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
    // The other notice is about the cap that was raised.
    local.press(question.id, OWNER, "Raise to 2 turns");
    local.wait_for_message(OTHER, |text| text == "This is no longer available.").await;
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
    local.press(notice.id, OWNER, "Until tomorrow");
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
