//! Tests of the buttons below the notice that a lane waits for the end of a usage limit, and of the
//! change to another account of the agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, Notice, OfferEffect, OfferRefusal, Setting};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::queue::QueueLimits;
use aetheel_recording::Backend;
use aetheel_turn::Backends;

use super::limits::{THREE_HOURS, agent, lane, limited, saved};
use crate::support::scripted::{Collected, ScriptedBackend, ScriptedLauncher, message, parts};

/// The agents, and those of them between which conversations change at a usage limit.
struct Agents(BTreeMap<String, Arc<dyn Backend>>, Vec<String>);

impl Backends for Agents {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.0.get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.keys().cloned().collect()
    }

    fn rotation(&self, _name: &str) -> Vec<String> {
        self.1.clone()
    }
}

fn backend(name: &str) -> Arc<dyn Backend> {
    let json = format!(
        r#"{{"name":"{name}","version":"1","label":"Agent {name}","features":["resume","model"],
        "models":[{{"id":"big/1.0","label":"Big"}},{{"id":"small/1.0","label":"Small"}}],
        "programs":[{{"name":"agent","flags":[{{"name":"--resume","value":"one"}},{{"name":"--model","value":"one"}}]}}]}}"#
    );
    Arc::new(ScriptedBackend::described(limited(), &json))
}

/// A dispatcher with the agents `alpha`, which serves by default, `beta`, `gamma` and `delta`. People
/// may choose the first three.
pub(super) struct Team {
    pub(super) dispatcher: Dispatcher,
    pub(super) collected: Arc<Collected>,
    launcher: Arc<ScriptedLauncher>,
    pub(super) folder: tempfile::TempDir,
}

impl Team {
    pub(super) async fn new(turns: &[&[&str]]) -> Self {
        Self::rotating(turns, &[]).await
    }

    /// A team in which conversations change between these agents at a usage limit.
    async fn rotating(turns: &[&[&str]], accounts: &[&str]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let names = ["alpha", "beta", "gamma", "delta"];
        let agents = names.map(|name| (name.to_owned(), backend(name))).into();
        let (launcher, collected) = (agent(turns), Arc::new(Collected::default()));
        let limits =
            QueueLimits { max_concurrent: 5, max_depth: 100, busy_policy: BusyPolicy::Queue };
        let accounts = accounts.iter().map(|name| (*name).to_owned()).collect();
        let backends = Arc::new(Agents(agents, accounts));
        let launched = launcher.clone();
        let mut parts = parts(folder.path(), "alpha", backends, launched, &collected, limits).await;
        parts.choices.backends = names[..3].iter().map(|name| (*name).to_owned()).collect();
        Self { dispatcher: Dispatcher::new(parts, turn_parts()), collected, launcher, folder }
    }

    pub(super) fn ask(&self, channel: u64, prompt: &str) {
        self.dispatcher.intake.submit(message(channel, prompt)).unwrap();
    }

    /// Asks for something that reaches a limit of three hours, and returns the notice.
    pub(super) async fn limited(channel: u64) -> (Self, Notice) {
        let team = Self::new(&[&[THREE_HOURS]]).await;
        team.ask(channel, "build it");
        let notice = team.collected.notices(1).await.remove(0);
        (team, notice)
    }

    async fn press(&self, id: &str, is_admitted: bool) -> Result<OfferEffect, OfferRefusal> {
        self.dispatcher.wait_choices.press(id, is_admitted).await.expect("a button of a wait")
    }

    /// Returns the agent of the answer, and the prompts of all turns.
    async fn answer(&self) -> (String, Vec<String>) {
        let (_, answer) = self.collected.answers(1).await.remove(0);
        self.dispatcher.turns.idle().await;
        (answer.backend, self.launcher.prompts())
    }
}

pub(super) fn id<'a>(notice: &'a Notice, label: &str) -> &'a str {
    let offer = notice.offers.iter().find(|offer| offer.label == label);
    &offer.unwrap_or_else(|| panic!("no {label:?} in {:?}", notice.offers)).id
}

#[tokio::test(flavor = "multi_thread")]
async fn the_notice_offers_what_the_operator_allows_in_one_row() {
    let (_team, notice) = Team::limited(7).await;
    let labels: Vec<&str> = notice.offers.iter().map(|offer| offer.label.as_str()).collect();
    let expected = ["Use Agent beta", "Use Agent gamma", "Use Small", "Try now", "Cancel"];
    assert_eq!(labels, expected);
    let is_plain = |id: &str| {
        id.len() <= 64 && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    assert!(notice.offers.iter().all(|offer| is_plain(&offer.id)), "{:?}", notice.offers);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_agent_answers_the_waiting_prompt_once() {
    let (team, notice) = Team::limited(7).await;
    let button = id(&notice, "Use Agent beta");
    let pressed = team.press(button, true).await;
    assert_eq!(pressed, Ok(OfferEffect::Decided("🔀 Another agent was chosen by")));
    let (backend, prompts) = team.answer().await;
    assert_eq!((backend.as_str(), prompts.len()), ("Agent beta", 2));
    assert_eq!(team.press(button, true).await, Err(OfferRefusal::Gone), "a second press");
    assert_eq!(team.launcher.prompts().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_model_answers_the_waiting_prompt_once() {
    let (team, notice) = Team::limited(7).await;
    team.press(id(&notice, "Use Small"), true).await.expect("chosen");
    let (backend, prompts) = team.answer().await;
    assert_eq!((backend.as_str(), prompts.len()), ("Agent alpha", 2));
    let settings = &team.dispatcher.settings;
    let model = settings.choose(&lane(7), Setting::Model, None).await.unwrap();
    assert!(model.contains("small/1.0"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_agent_can_try_again_at_once_and_waits_again() {
    let team = Team::new(&[&[THREE_HOURS], &[THREE_HOURS]]).await;
    team.ask(7, "build it");
    let first = team.collected.notices(1).await.remove(0);
    let pressed = team.press(id(&first, "Try now"), true).await;
    assert_eq!(pressed, Ok(OfferEffect::Decided("▶️ Tried again at once for")));
    let second = team.collected.notices(2).await.remove(1);
    assert_eq!(team.press(id(&first, "Try now"), true).await, Err(OfferRefusal::Gone));
    team.press(id(&second, "Try now"), true).await.expect("tried again");
    assert_eq!(team.answer().await.1, ["build it"; 3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_waiting_prompts_can_be_cancelled() {
    let (team, notice) = Team::limited(7).await;
    team.ask(7, "another");
    let pressed = team.press(id(&notice, "Cancel"), true).await;
    assert_eq!(pressed, Ok(OfferEffect::Decided("🛑 Cancelled by")));
    assert!(!saved(team.folder.path()).contains("channel:7"));
    team.dispatcher.turns.idle().await;
    team.ask(7, "hello");
    assert_eq!(team.answer().await.1, ["build it", "hello"]);
    assert_eq!(team.press(id(&notice, "Cancel"), true).await, Err(OfferRefusal::Gone));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_continues_for_another_is_told_so_in_one_consistent_text() {
    let team = Team::new(&[&["text half", "tool t1", THREE_HOURS]]).await;
    team.ask(7, "build it");
    let notice = team.collected.notices(1).await.remove(0);
    team.press(id(&notice, "Use Agent gamma"), true).await.expect("chosen");
    team.collected.answers(2).await;
    let prompt = team.launcher.prompts().remove(1);
    assert!(
        prompt.starts_with("[Said here before, in a conversation that you do not remember. It shows how far the request came that you continue now;"),
        "{prompt}"
    );
    assert!(prompt.contains("(tools that ran: Bash `make`)"), "{prompt}");
    assert!(
        prompt.contains(
            "[Continue this request, which a usage limit of the agent interrupted:]\n> build it\n"
        ),
        "{prompt}"
    );
    for wrong in ["only context", "your last turn", "has ended"] {
        assert!(!prompt.contains(wrong), "{prompt}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_showed_something_offers_the_same_and_continues_once() {
    let team = Team::new(&[&["text half", "tool t1", THREE_HOURS]]).await;
    team.ask(7, "build it");
    let notice = team.collected.notices(1).await.remove(0);
    assert!(notice.text.contains("I continue by myself at "), "{}", notice.text);
    team.press(id(&notice, "Use Agent gamma"), true).await.expect("chosen");
    let answers = team.collected.answers(2).await;
    assert_eq!(answers[1].1.backend, "Agent gamma");
    team.dispatcher.turns.idle().await;
    assert_eq!(team.launcher.prompts().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_that_reached_a_limit_elsewhere_are_not_offered() {
    let team = Team::new(&[&[THREE_HOURS], &[THREE_HOURS]]).await;
    team.dispatcher.settings.choose_backend(&lane(8), "beta").await.unwrap();
    team.ask(8, "elsewhere");
    team.collected.notices(1).await;
    team.ask(7, "build it");
    let notice = team.collected.notices(2).await.remove(1);
    let labels: Vec<&str> = notice.offers.iter().map(|offer| offer.label.as_str()).collect();
    assert_eq!(labels, ["Use Agent gamma", "Use Small", "Try now", "Cancel"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_answers_again_is_offered_again() {
    let team = Team::new(&[&[THREE_HOURS], &["text ok", "done"], &[THREE_HOURS]]).await;
    team.ask(7, "build it");
    let notice = team.collected.notices(1).await.remove(0);
    team.press(id(&notice, "Try now"), true).await.expect("tried again");
    team.answer().await;
    team.dispatcher.settings.choose_backend(&lane(8), "beta").await.unwrap();
    team.ask(8, "elsewhere");
    let notice = team.collected.notices(2).await.remove(1);
    let labels: Vec<&str> = notice.offers.iter().map(|offer| offer.label.as_str()).collect();
    assert_eq!(labels[..2], ["Use Agent alpha", "Use Agent gamma"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_who_may_not_use_the_bot_and_forged_buttons_decide_nothing() {
    let (team, notice) = Team::limited(7).await;
    for offer in &notice.offers {
        let refused = team.press(&offer.id, false).await;
        assert_eq!(refused, Err(OfferRefusal::NotAdmitted), "{}", offer.label);
    }
    let stem = id(&notice, "Cancel").trim_end_matches("cancel");
    // The operator does not offer `delta`, and no agent has the other names.
    for name in ["delta", "nobody", "", "../beta"] {
        let refused = team.press(&format!("{stem}agent-{name}"), true).await;
        assert_eq!(refused, Err(OfferRefusal::NotPossible), "{name}");
    }
    let unknown = team.press(&format!("{stem}model-0000000000"), true).await;
    assert_eq!(unknown, Err(OfferRefusal::Gone));
    assert!(team.dispatcher.wait_choices.press("17-0", true).await.is_none());
    assert_eq!(team.launcher.prompts(), ["build it"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_account_answers_at_once_with_the_same_choices() {
    let team = Team::rotating(&[&[THREE_HOURS]], &["alpha", "beta", "gamma"]).await;
    let settings = &team.dispatcher.settings;
    settings.choose(&lane(7), Setting::Model, Some("small/1.0")).await.unwrap();
    team.ask(7, "build it");
    let notice = team.collected.notices(1).await.remove(0);
    let wanted = "Agent alpha has reached a usage limit (5 hours). Agent beta continues at once. (usage limit)";
    assert_eq!((notice.text.as_str(), notice.offers.len()), (wanted, 0));
    let (backend, prompts) = team.answer().await;
    assert_eq!((backend.as_str(), prompts), ("Agent beta", vec!["build it".to_owned(); 2]));
    assert!(settings.choose(&lane(7), Setting::Model, None).await.unwrap().contains("small/1.0"));
    assert!(!saved(team.folder.path()).contains("channel:7"), "the lane does not wait");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_showed_something_continues_with_the_next_account() {
    let turns: [&[&str]; 1] = [&["text half", "tool t1", THREE_HOURS]];
    let team = Team::rotating(&turns, &["alpha", "beta"]).await;
    team.ask(7, "build it");
    let answers = team.collected.answers(2).await;
    let failure = answers[0].1.failure.as_deref().unwrap();
    assert!(failure.ends_with("Agent beta continues at once. (usage limit)"), "{failure}");
    assert_eq!(answers[1].1.backend, "Agent beta");
    team.dispatcher.turns.idle().await;
    let prompts = team.launcher.prompts();
    assert_eq!(prompts.len(), 2);
    assert!(prompts[1].contains("build it") && prompts[1].contains("half"), "{}", prompts[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_waits_once_each_account_has_reached_its_limit() {
    for limit in [THREE_HOURS, "limit -60000"] {
        // People may not choose `delta`.
        let team = Team::rotating(&[&[limit], &[THREE_HOURS]], &["delta", "beta", "alpha"]).await;
        team.ask(7, "build it");
        let notices = team.collected.notices(2).await;
        assert!(notices[0].text.contains("Agent beta continues at once"), "{}", notices[0].text);
        assert!(notices[1].text.contains("Your message waits"), "{}", notices[1].text);
        let labels: Vec<&str> =
            notices[1].offers.iter().map(|offer| offer.label.as_str()).collect();
        assert_eq!(labels, ["Use Agent gamma", "Use Small", "Try now", "Cancel"]);
        assert_eq!(team.launcher.prompts().len(), 2);
    }
}
