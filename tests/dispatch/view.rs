//! Tests of the view of a lane.

use std::sync::Arc;

use aetheel_dispatch::{Setting, queue_rows, status_rows};
use aetheel_model::agent::{Exit, Safety};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::ChannelId;
use tokio::sync::watch;

use crate::support::scripted::{Agent, Desk, DeskOptions, ScriptedLauncher, message};

const SEVEN: Lane = Lane::Channel(ChannelId::discord(7));

/// An agent that ends its turn when the flag is set.
fn held() -> (Arc<ScriptedLauncher>, watch::Sender<bool>) {
    let (release, held) = watch::channel(false);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut held = held.clone();
        async move {
            let _ = held.wait_for(|released| *released).await;
            agent.say(&["session s-1", "text done", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    (launcher, release)
}

#[tokio::test]
async fn running_and_waiting_prompts_are_shown_by_their_first_words_without_secrets() {
    let (launcher, release) = held();
    let desk = Desk::new(
        launcher,
        DeskOptions { secret: Some("hunter2-hunter2".to_owned()), ..DeskOptions::default() },
    )
    .await;
    desk.ask(7, "first\nthing");
    let by = |text: &str| NewEvent { author: Some("ann".to_owned()), ..message(7, text) };
    desk.dispatcher.intake.submit(by("the password is hunter2-hunter2")).unwrap();
    desk.dispatcher.intake.submit(by(&"long ".repeat(100))).unwrap();
    desk.ask(8, "elsewhere");
    let queue = desk.dispatcher.observer.queue_of(&SEVEN);
    let running = queue.running.clone().expect("something runs");
    assert_eq!((running.words.as_str(), running.who.as_str()), ("first thing", "somebody"));
    let waiting: Vec<(&str, &str)> =
        queue.waiting.iter().map(|seen| (seen.words.as_str(), seen.who.as_str())).collect();
    assert_eq!(waiting.len(), 2);
    assert!(
        waiting[0].0.starts_with("the password is ") && !waiting[0].0.contains("hunter2"),
        "{waiting:?}"
    );
    assert!(waiting[1].0.ends_with('…') && waiting[1].1 == "ann", "{waiting:?}");
    assert_eq!((queue.all_running, queue.all_waiting, queue.slots), (2, 2, 5));
    let rows = queue_rows(&queue, jiff::Timestamp::now());
    assert_eq!(rows.last().unwrap().text, "2 of 5 slots taken, 2 waiting");
    release.send(true).unwrap();
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.dispatcher.observer.queue_of(&SEVEN).running, None);
}

#[tokio::test]
async fn the_panel_shows_supported_options_only_and_the_directory_to_owners_only() {
    let (launcher, release) = held();
    release.send(true).unwrap();
    let desk =
        Desk::new(launcher, DeskOptions { feature: Some("model"), ..DeskOptions::default() }).await;
    let options = async || desk.dispatcher.observer.lane_status(&SEVEN).await.options;
    let settings: Vec<Setting> = options().await.iter().map(|option| option.setting).collect();
    assert_eq!(
        settings,
        [Setting::Backend, Setting::Model, Setting::Safety],
        "neither thinking nor modes"
    );
    let safety = options().await.remove(2);
    let levels: Vec<&str> = safety.choices.iter().map(|choice| choice.id.as_str()).collect();
    assert_eq!((levels, safety.chosen, safety.shown()), (vec!["ask", "edit"], false, "Edit files"));
    desk.dispatcher.settings.choose(&SEVEN, Setting::Model, Some("m-9")).await.unwrap();
    let model = options().await.remove(1);
    assert_eq!((model.current.as_deref(), model.chosen, model.shown()), (Some("m-9"), true, "m-9"));

    desk.ask(7, "hello");
    desk.collected.answers(1).await;
    desk.dispatcher.turns.idle().await;
    let view = desk.dispatcher.observer.lane_status(&SEVEN).await;
    assert_eq!(view.session.as_ref().map(|session| session.as_str()), Some("s-1"));
    let rows = |owner: bool| status_rows(&view, owner, jiff::Timestamp::now());
    let text = |owner: bool| {
        rows(owner).iter().map(|row| format!("{}: {}\n", row.name, row.text)).collect::<String>()
    };
    let folder = desk.folder.path().display().to_string();
    assert!(text(true).contains(&folder) && !text(false).contains(&folder), "{}", text(true));
    for part in [
        "Backend: scripted, agent version unknown, version 1@000000000000",
        "Model: m-9, chosen here",
        "Conversation: s-1",
        "Running here: nothing",
    ] {
        assert!(text(false).contains(part), "{part} is missing in\n{}", text(false));
    }
}

#[tokio::test]
async fn an_unusable_directory_causes_a_warning_that_hides_its_path_from_non_owners() {
    let (launcher, _release) = held();
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    std::fs::write(
        desk.folder.path().join("config/channels.md"),
        "## channel #x 7\n- directory: /nowhere/secret\n",
    )
    .unwrap();
    let view = desk.dispatcher.observer.lane_status(&SEVEN).await;
    let text = |owner: bool| {
        status_rows(&view, owner, jiff::Timestamp::now())
            .iter()
            .map(|row| row.text.clone() + "\n")
            .collect::<String>()
    };
    assert!(
        text(false).contains("⚠️ The working directory") && !text(false).contains("nowhere"),
        "{}",
        text(false)
    );
    assert!(text(true).contains("nowhere"), "{}", text(true));
}

#[tokio::test]
async fn a_backend_is_chosen_and_the_choice_is_reset() {
    let (launcher, _release) = held();
    let desk = Desk::new(launcher, DeskOptions::default()).await;
    let choose =
        async |value| desk.dispatcher.settings.choose(&SEVEN, Setting::Backend, value).await;
    assert_eq!(choose(None).await.unwrap(), "Backend is scripted; there are: `scripted`");
    assert!(
        choose(Some("other"))
            .await
            .unwrap_err()
            .to_string()
            .starts_with("There is no backend \"other\"")
    );
    assert_eq!(choose(Some("scripted")).await.unwrap(), "Backend is scripted from now on.");
    assert!(desk.dispatcher.observer.lane_status(&SEVEN).await.options[0].chosen);
    choose(Some("unset")).await.unwrap();
    assert!(!desk.dispatcher.observer.lane_status(&SEVEN).await.options[0].chosen);
}

#[tokio::test]
async fn a_warning_says_that_an_agents_own_sandbox_cannot_work_or_hides_refusals() {
    let warned = async |safety, works| {
        let (launcher, release) = held();
        release.send(true).unwrap();
        let desk_options =
            DeskOptions { safety, own_sandbox: Some(works), ..DeskOptions::default() };
        let desk = Desk::new(launcher, desk_options).await;
        let rows = status_rows(
            &desk.dispatcher.observer.lane_status(&SEVEN).await,
            false,
            jiff::Timestamp::now(),
        );
        let status = rows.into_iter().map(|row| row.text).find(|text| text.contains("sandbox"));
        desk.ask(7, "hello");
        let answers = desk.collected.answers(1).await;
        (status.unwrap_or_default(), answers[0].1.notices.join(" "))
    };
    let (status, notice) = warned(Safety::Edit, false).await;
    assert!(status.starts_with("⚠️ ") && status.contains("cannot work"), "{status}");
    assert!(notice.contains("installs bubblewrap") && notice.contains("`aetheel doctor`"));
    let (status, notice) = warned(Safety::Edit, true).await;
    assert!(status.contains("may not report a command") && notice.is_empty(), "{status} {notice}");
    assert_eq!(warned(Safety::Danger, false).await, (String::new(), String::new()));
}
