//! Tests of commands and menus that show and change options.

use std::time::Duration;

use aetheel_dispatch::Setting;
use aetheel_model::access::AllowLists;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, UserId};

use super::bot::{Bot, Home, everybody};
use crate::support::discord::{
    ANN, BOB, CHANNEL, DIRECT, Fault, LocalDiscord, Message, OTHER, OWNER, THREAD,
};

/// Uses a command. Returns its answer, and the type of response that Discord received.
async fn use_command(
    local: &LocalDiscord,
    user: u64,
    name: &str,
    value: Option<&str>,
) -> (Message, u64) {
    let id = local.slash(CHANNEL, user, name, value);
    let message = local.answer_to(id).await;
    (message, local.interaction(id).acknowledged.expect("acknowledged").1)
}

/// Returns the options that are set for the channel.
async fn chosen_options(bot: &Bot) -> Vec<(Setting, String)> {
    let options = bot
        .dispatcher
        .observer
        .lane_status(&Lane::Channel(ChannelId::discord(CHANNEL)))
        .await
        .options
        .into_iter();
    options
        .filter(|option| option.chosen)
        .map(|option| (option.setting, option.current.unwrap_or_default()))
        .collect()
}

#[tokio::test]
async fn commands_that_only_show_answer_privately_and_changes_are_public() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    for name in ["status", "sessions", "settings", "help"] {
        let (answer, kind) = use_command(&local, ANN, name, None).await;
        assert!(answer.ephemeral && kind == 4, "/{name}: {answer:?}");
    }
    for (name, value, said) in [
        ("backend", "claude", "Backend is Claude Code from now on."),
        ("model", "sonnet", "Model is Sonnet from now on."),
        ("thinking", "high", "Thinking is High from now on."),
        ("safety", "ask", "Safety is Ask before changes from now on."),
        ("mode", "plan", "Mode is Plan only from now on."),
    ] {
        let (answer, _) =
            use_command(&local, ANN, "settings", Some(&format!("{name}:={value}"))).await;
        assert_eq!((answer.content.as_str(), answer.ephemeral), (said, false));
    }
    let settings: Vec<Setting> =
        chosen_options(&bot).await.into_iter().map(|(setting, _)| setting).collect();
    assert_eq!(settings, Setting::ALL);
    let (answer, _) = use_command(&local, ANN, "settings", Some("safety:=danger")).await;
    assert!(
        answer.ephemeral && answer.content.starts_with("The operator does not allow danger here"),
        "{answer:?}"
    );
}

#[tokio::test]
async fn a_status_shows_the_directory_to_owners_only_and_escapes_texts() {
    let local = LocalDiscord::start().await;
    let _bot = Bot::start(&local).await;
    let (seen, _) = use_command(&local, ANN, "status", None).await;
    assert!(
        seen.content.starts_with("**Backend:** Demo \\*agent\\* \\(demo\\), "),
        "{}",
        seen.content
    );
    assert!(!seen.content.contains("**Directory:**"), "{}", seen.content);
    let (seen, _) = use_command(&local, OWNER, "status", None).await;
    assert!(seen.content.contains("**Directory:** /"), "{}", seen.content);
}

#[tokio::test]
async fn a_long_queue_is_one_message() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.home.busy.send_replace(true);
    for _ in 0..101 {
        let origin = EventOrigin::Internal { channel: None };
        let lane = Lane::Channel(ChannelId::discord(CHANNEL));
        let event = NewEvent::new(EventKind::Message, lane, origin, "[".repeat(60));
        bot.submit(NewEvent { author: Some("*".repeat(60)), ..event });
    }
    let (answer, _) = use_command(&local, ANN, "status", None).await;
    assert!(answer.content.contains("**Running here:** \\[\\["), "{}", answer.content);
    assert!(answer.content.chars().count() <= 2_000);
}

#[tokio::test]
async fn a_slow_command_is_acknowledged_in_time_and_answered_later() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.home.slow.send_replace(true);
    let ids = [
        local.slash(CHANNEL, ANN, "settings", Some("claude")),
        local.slash(CHANNEL, OWNER, "status", Some("demo")),
    ];
    for id in ids {
        let (at, kind) = local
            .wait_for("the acknowledgement of the slow command", |local| {
                local.interaction(id).acknowledged
            })
            .await;
        assert!(kind == 5 && at - local.interaction(id).used < Duration::from_secs(3));
    }
    bot.home.slow.send_replace(false);
    let (backend, ping) = (local.answer_to(ids[0]).await, local.answer_to(ids[1]).await);
    assert_eq!(
        (backend.content.as_str(), backend.ephemeral),
        ("Backend is Claude Code from now on.", false)
    );
    assert!(ping.ephemeral && ping.content.starts_with("demo is ready"), "{ping:?}");
}

#[tokio::test]
async fn a_change_is_reported_even_if_the_command_cannot_be_answered() {
    let local = LocalDiscord::start().await;
    let _bot = Bot::start(&local).await;
    local.faults().next("POST", "/callback", Fault::Status(500), 20);
    local.slash(CHANNEL, ANN, "settings", Some("model:=sonnet"));
    let told = local.wait_for_message(CHANNEL, |text| text == "Model is Sonnet from now on.").await;
    assert!(!told.ephemeral);
}

#[tokio::test]
async fn options_are_menus_of_supported_values_and_a_choice_is_public() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let (menus, _) = use_command(&local, ANN, "settings", None).await;
    let (options, set) = local.menu(menus.id, "set:model").expect("a menu of models");
    let values: Vec<&str> = options.iter().map(|(_, value)| value.as_str()).collect();
    assert_eq!((values, set.as_deref()), (vec!["unset", "opus", "sonnet"], Some("unset")));
    assert_eq!(options[0].0, "Default: Opus 5");
    assert!(
        local.menu(menus.id, "set:thinking").is_some()
            && local.menu(menus.id, "set:backend").is_some()
    );
    assert_eq!(local.menu(menus.id, "set:mode"), None, "the backend has no modes");

    let id = local.choose_in(menus.id, ANN, "set:model", "Sonnet");
    let said = local
        .wait_for_message(CHANNEL, |text| {
            text.ends_with("Model is Sonnet from now on. (chosen by ann)")
        })
        .await;
    assert!(!said.ephemeral && said.content.starts_with("-# "), "{said:?}");
    assert_eq!(local.interaction(id).acknowledged.unwrap().1, 7);
    let set = local.menu(menus.id, "set:model").unwrap().1;
    assert_eq!(
        (set.as_deref(), chosen_options(&bot).await),
        (Some("sonnet"), vec![(Setting::Model, "sonnet".to_owned())])
    );
    local.choose_in(menus.id, ANN, "set:model", "Default");
    local
        .wait_for("the default", |local| {
            (local.menu(menus.id, "set:model")?.1? == "unset").then_some(())
        })
        .await;
}

#[tokio::test]
async fn thinking_that_is_on_or_off_is_a_button() {
    let local = LocalDiscord::start().await;
    let bot = Bot::with_home(&local, &Home::with(|home| home.efforts = ["off", "on"]).await).await;
    let (menus, _) = use_command(&local, ANN, "settings", None).await;
    assert_eq!(local.menu(menus.id, "set:thinking"), None);
    local.press(menus.id, ANN, "Thinking: off");
    local.wait_for("the button to change", |local| local.button(menus.id, "Thinking: on")).await;
    assert_eq!(chosen_options(&bot).await, [(Setting::Effort, "on".to_owned())]);
    assert_eq!(local.button(menus.id, "Default").as_deref(), Some("set:thinking:unset"));
}

#[tokio::test]
async fn an_invalid_choice_is_refused_privately_and_the_menu_stays() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let (menus, _) = use_command(&local, ANN, "settings", None).await;
    *bot.home.unavailable.lock().unwrap() = Some("it is not signed in".to_owned());
    local.choose_in(menus.id, ANN, "set:backend", "Claude Code");
    let told = local.wait_for_message(CHANNEL, |text| text.contains("not signed in")).await;
    assert!(told.ephemeral);
    assert_eq!(local.menu(menus.id, "set:backend").unwrap().1.as_deref(), Some("unset"));
}

#[tokio::test]
async fn a_slow_choice_is_acknowledged_in_time() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let (menus, _) = use_command(&local, ANN, "settings", None).await;
    bot.home.slow.send_replace(true);
    let id = local.choose_in(menus.id, ANN, "set:backend", "Claude Code");
    local
        .wait_for("the acknowledgement", |local| {
            local.interaction(id).acknowledged.filter(|(_, kind)| *kind == 6)
        })
        .await;
    bot.home.slow.send_replace(false);
    local
        .wait_for_message(CHANNEL, |text| text.contains("Backend is Claude Code from now on"))
        .await;
}

#[tokio::test]
async fn menus_work_after_a_restart() {
    let local = LocalDiscord::start().await;
    let home = Home::new().await;
    let before = Bot::with_home(&local, &home).await;
    let (menus, _) = use_command(&local, ANN, "settings", None).await;
    before.listening.close().await;
    let after = Bot::with_home(&local, &home).await;
    local.choose_in(menus.id, ANN, "set:safety", "Ask before changes");
    local.wait_for_message(CHANNEL, |text| text.contains("Safety is Ask before changes")).await;
    assert_eq!(chosen_options(&after).await, [(Setting::Safety, "ask".to_owned())]);
}

#[tokio::test]
async fn people_without_access_get_neither_answers_nor_menus_nor_suggestions() {
    let local = LocalDiscord::start().await;
    let allowed = AllowLists { users: [ANN].map(UserId::discord).into(), ..AllowLists::default() };
    let bot = Bot::allowing(&local, allowed).await;
    let (menus, _) = use_command(&local, ANN, "settings", None).await;
    assert_eq!(local.suggestions(CHANNEL, ANN, "settings:model", "").await.len(), 2);
    assert!(use_command(&local, BOB, "status", None).await.0.content.contains("may not use me"));
    local.choose_in(menus.id, BOB, "set:model", "Sonnet");
    local
        .wait_for("two refusals", |local| {
            (local.texts(CHANNEL).iter().filter(|text| text.contains("may not use me")).count()
                == 2)
                .then_some(())
        })
        .await;
    assert!(local.suggestions(CHANNEL, BOB, "settings:model", "").await.is_empty());
    assert!(chosen_options(&bot).await.is_empty());
}

#[tokio::test]
async fn suggestions_match_the_typed_text() {
    let local = LocalDiscord::start().await;
    // A thread is allowed if its channel is.
    let allowed =
        AllowLists { channels: [CHANNEL, OTHER].map(ChannelId::discord).into(), ..everybody() };
    let _bot = Bot::allowing(&local, allowed).await;
    let pair = |id: &str, name: &str| vec![(id.to_owned(), name.to_owned())];
    assert_eq!(
        local.suggestions(CHANNEL, ANN, "settings:model", "OPU").await,
        pair("opus", "Opus 5")
    );
    assert_eq!(
        local.suggestions(THREAD, ANN, "settings:backend", "code").await,
        pair("claude", "Claude Code")
    );
    assert_eq!(
        local.suggestions(DIRECT, ANN, "settings:safety", "ask").await,
        pair("ask", "Ask before changes")
    );
    assert!(
        local.suggestions(OTHER, ANN, "settings:mode", "").await.is_empty(),
        "the backend has no modes"
    );
}

#[tokio::test]
async fn a_conversation_is_chosen_by_its_title_and_resumed_publicly() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    for (prompt, session) in [("fix the build", "s-1"), ("paint", "s-2")] {
        use_command(&local, ANN, "reset", None).await;
        local.mention(CHANNEL, ANN, prompt);
        bot.event(&local, prompt).await;
        bot.dispatcher.turns.idle().await;
        assert_eq!(bot.home.session(CHANNEL).await.as_deref(), Some(session));
    }
    let (listed, _) = use_command(&local, ANN, "sessions", None).await;
    assert!(
        listed.content.contains("- paint · just now · s-2 · now\n- fix the build · just now · s-1"),
        "{}",
        listed.content
    );
    let suggested = local.suggestions(CHANNEL, ANN, "sessions", "build").await;
    assert_eq!(suggested, [("s-1".to_owned(), "fix the build · just now · s-1".to_owned())]);
    let (answer, _) = use_command(&local, ANN, "sessions", Some("s-1")).await;
    assert_eq!(
        (answer.content.as_str(), answer.ephemeral),
        ("\"fix the build\" continues with the next message", false)
    );
    assert_eq!(bot.home.session(CHANNEL).await.as_deref(), Some("s-1"));
}

#[tokio::test]
async fn commands_for_owners_are_marked_and_refused_to_others() {
    let local = LocalDiscord::start().await;
    let _bot = Bot::allowing(&local, AllowLists::default()).await;
    let registered = local.commands();
    let permissions = |name: &str| {
        registered.as_array().unwrap().iter().find(|command| command["name"] == name).unwrap()["default_member_permissions"].clone()
    };
    assert_eq!(
        (permissions("project"), permissions("status")),
        (serde_json::json!("32"), serde_json::Value::Null)
    );
    let (refused, _) = use_command(&local, ANN, "project", None).await;
    assert!(refused.ephemeral && refused.content == "Only my owner may do that.", "{refused:?}");
    let (refused, _) = use_command(&local, ANN, "status", Some("demo")).await;
    assert!(refused.ephemeral && refused.content == "Only my owner may check a backend.");
    assert!(local.suggestions(CHANNEL, ANN, "status", "").await.is_empty());
    let (ready, _) = use_command(&local, OWNER, "status", Some("claude")).await;
    assert!(ready.content.starts_with("claude is ready"), "{ready:?}");
    assert_eq!(local.suggestions(CHANNEL, OWNER, "status", "").await.len(), 2);
    let help = async |user| use_command(&local, user, "help", None).await.0.content;
    assert!(help(OWNER).await.contains("/project") && !help(ANN).await.contains("/project"));
    assert!(help(OWNER).await.contains("in private"));
    assert!(!help(ANN).await.contains("in private"), "the command would get no answer");
}

#[tokio::test]
async fn help_lists_only_what_the_backend_supports() {
    let local = LocalDiscord::start().await;
    let _bot = Bot::start(&local).await;
    let (help, _) = use_command(&local, ANN, "help", None).await;
    for (command, told) in [
        ("`/ask`", true),
        ("`/settings`", true),
        ("`/sessions`", true),
        ("`/mode`", false),
        ("`/queue`", false),
        ("`/compact`", false),
        ("in private", true),
    ] {
        assert_eq!(help.content.contains(command), told, "{command} in {}", help.content);
    }
}

#[tokio::test]
async fn several_settings_are_chosen_at_once_and_a_refusal_is_named() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let given = "mode:=plan\nbackend:=claude\nsafety:=danger";
    let (answer, _) = use_command(&local, ANN, "settings", Some(given)).await;
    let lines: Vec<&str> = answer.content.lines().collect();
    assert!(
        lines[..2] == ["Backend is Claude Code from now on.", "Mode is Plan only from now on."]
            && lines[2].starts_with("The operator does not allow danger here")
            && !answer.ephemeral,
        "{answer:?}"
    );
    let chosen = chosen_options(&bot).await;
    let chosen: Vec<(Setting, &str)> =
        chosen.iter().map(|(setting, value)| (*setting, value.as_str())).collect();
    assert_eq!(chosen, [(Setting::Backend, "claude"), (Setting::Mode, "plan")]);
}

#[tokio::test]
async fn commands_of_earlier_versions_name_what_replaces_them() {
    let local = LocalDiscord::start().await;
    let _bot = Bot::start(&local).await;
    for (old, now) in
        [("model", "/settings model:"), ("queue", "/status"), ("ping", "/status check:")]
    {
        let (answer, _) = use_command(&local, ANN, old, None).await;
        assert_eq!(answer.content, format!("`/{old}` is now `{now}`."));
        assert!(answer.ephemeral);
    }
}

#[tokio::test]
async fn a_status_has_the_waiting_prompts_and_the_connection() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    bot.home.busy.send_replace(true);
    for prompt in ["first", "second"] {
        let origin = EventOrigin::Internal { channel: None };
        let lane = Lane::Channel(ChannelId::discord(CHANNEL));
        bot.submit(NewEvent::new(EventKind::Message, lane, origin, prompt));
    }
    let (answer, _) = use_command(&local, ANN, "status", None).await;
    for part in ["**Running here:** first", "\n1. second", "**Connection:** Discord answers in "] {
        assert!(answer.content.contains(part), "{part} is missing in {}", answer.content);
    }
}

#[tokio::test]
async fn a_prompt_by_command_has_its_file_agent_and_model() {
    let local = LocalDiscord::start().await;
    let bot = Bot::start(&local).await;
    let given = "paint\nfile:=https://cdn.discordapp.com/notes.txt\nagent:=claude\nmodel:=opus";
    local.slash(CHANNEL, ANN, "ask", Some(given));
    let event = bot.event(&local, "paint").await;
    assert_eq!(event.attached[0].source, "https://cdn.discordapp.com/notes.txt");
    let choice = event.request.choice.expect("a choice");
    assert_eq!(
        (choice.backend.as_deref(), choice.model.as_deref()),
        (Some("claude"), Some("opus"))
    );
    assert!(chosen_options(&bot).await.is_empty(), "the channel keeps its settings");
    for (given, why) in [("x\nagent:=nobody", "nobody"), ("x\nmodel:=--evil", "--evil")] {
        let (refused, _) = use_command(&local, ANN, "ask", Some(given)).await;
        assert!(refused.ephemeral && refused.content.contains(why), "{refused:?}");
    }
    let pair = ("claude".to_owned(), "Claude Code".to_owned());
    assert_eq!(local.suggestions(CHANNEL, ANN, "ask:agent", "code").await, [pair]);
    let pair = ("opus".to_owned(), "Opus 5".to_owned());
    assert_eq!(local.suggestions(CHANNEL, ANN, "new:model", "OPU").await, [pair]);
}
