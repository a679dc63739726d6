//! Tests of budgets: turns are stopped at a cap, owners raise it with a button, and conversations
//! continue once, also if the gateway is restarted meanwhile.

use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{Dispatcher, Notice, OfferEffect, OfferRefusal, Person, TurnAnswer};
use aetheel_model::agent::{AgentEventKind, Exit, Input, ToolEnd, ToolStart, ToolStatus, Usage};
use aetheel_model::budget::AccountUse;
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{Event, Lane, NewEvent};
use aetheel_model::id::{ChannelId, UserId};
use aetheel_model::queue::QueueLimits;
use tokio::sync::{Semaphore, mpsc, watch};

use super::outlive::{Gateway, Setup};
use crate::support::scripted::{
    Agent, Collected, Desk, DeskOptions, OneBackend, ScriptedBackend, ScriptedLauncher,
    Understanding, event, message, parts, plain,
};
use crate::support::shelf::Shelf;

/// Understands `usage DOLLARS TOKENS`, and `tool ID`.
pub(crate) fn spending() -> Understanding {
    let usual = plain();
    Arc::new(move |state, input| {
        let Input::Line(line) = input else { return usual(state, input) };
        Ok(match line.text.split_once(' ').unwrap_or((&line.text, "")) {
            ("usage", amounts) => {
                let (dollars, tokens) = amounts.split_once(' ').unwrap_or((amounts, "0"));
                vec![event(AgentEventKind::Usage(Usage {
                    cost_usd: Some(dollars.parse().expect("a price")),
                    input: tokens.parse().expect("tokens"),
                    ..Usage::default()
                }))]
            }
            ("tool", id) => {
                let (id, kind) = (id.to_owned(), "bash".to_owned());
                let start = ToolStart {
                    id: id.clone(),
                    parent: None,
                    kind,
                    native_name: "Bash".to_owned(),
                    title: "make".to_owned(),
                    target: None,
                    input: "{}".to_owned(),
                };
                let status = ToolStatus::Ok;
                let end = ToolEnd { id, status, output: None, exit_code: None, diffs: vec![] };
                vec![event(AgentEventKind::ToolStart(start)), event(AgentEventKind::ToolEnd(end))]
            }
            _ => return usual(state, input),
        })
    })
}

/// An agent whose turns print these lines, one list per turn, and then end with `done` or wait until
/// they are stopped. Later turns answer with the prompt.
pub(crate) fn agent(turns: &[&[&str]]) -> Arc<ScriptedLauncher> {
    let owned = |lines: &&[&str]| lines.iter().map(|line| (*line).to_owned()).collect();
    let turns: Arc<Vec<Vec<String>>> = Arc::new(turns.iter().map(owned).collect());
    let begun = Arc::new(AtomicUsize::new(0));
    ScriptedLauncher::new(move |mut agent: Agent| {
        let (turns, turn) = (turns.clone(), begun.fetch_add(1, Ordering::SeqCst));
        async move {
            agent.say(&["session s1"]).await;
            match turns.get(turn) {
                Some(lines) => {
                    agent.say(&lines.iter().map(String::as_str).collect::<Vec<_>>()).await;
                    if lines.last().map(String::as_str) != Some("done") {
                        let _ = agent.commands.recv().await;
                    }
                }
                None => agent.say(&[&format!("text {}", agent.prompt), "done"]).await,
            }
            agent.exit(Exit::Code(0), "").await;
        }
    })
}

async fn desk(budgets: &str, turns: &[&[&str]]) -> Desk {
    let options = DeskOptions { understanding: spending(), ..DeskOptions::default() };
    let desk = Desk::new(agent(turns), options).await;
    std::fs::write(desk.folder.path().join("config/budgets.md"), budgets).unwrap();
    desk
}

const DOLLAR: &str = "## team\n- cap: $1 a day\n";

pub(crate) fn lane(channel: u64) -> Lane {
    Lane::Channel(ChannelId::discord(channel))
}

pub(crate) fn person(owner: bool) -> Person {
    Person::User { id: UserId::discord(4), roles: vec![], owner, name: "Ann".to_owned() }
}

fn saved(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("config/state/budgets.md")).unwrap_or_default()
}

/// Returns the id of a button of the first notice that has one.
pub(crate) fn button(notices: &[Notice], label: &str) -> String {
    let mut offers = notices.iter().flat_map(|notice| &notice.offers);
    let offer = offers.find(|offer| offer.label.starts_with(label));
    offer.unwrap_or_else(|| panic!("no {label:?} in {notices:?}")).id.clone()
}

pub(crate) async fn press(
    dispatcher: &Dispatcher,
    id: &str,
    owner: bool,
) -> Result<OfferEffect, OfferRefusal> {
    dispatcher.budgets.press(id, &person(owner)).await.expect("a button of a budget")
}

pub(crate) const RAISED: Result<OfferEffect, OfferRefusal> =
    Ok(OfferEffect::Decided("💰 Raised by"));

#[tokio::test(flavor = "multi_thread")]
async fn a_prompt_waits_at_the_cap_and_is_answered_when_an_owner_raises_it() {
    let desk = desk(DOLLAR, &[&["usage 1.5"]]).await;
    desk.ask(7, "hello");
    let notices = desk.collected.notices(2).await;
    let texts: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
    assert!(texts.iter().any(|text| text.contains("Your message waits")), "{texts:?}");
    assert!(texts.iter().all(|text| text.contains("$1.50 of $1.00 a day")), "{texts:?}");
    let raise = button(&notices, "Raise to $3.00");
    assert_eq!(press(&desk.dispatcher, &raise, false).await, Err(OfferRefusal::NotOwner));
    assert_eq!(desk.launcher.prompts(), ["hello"], "a member changes nothing");
    assert_eq!(press(&desk.dispatcher, &raise, true).await, RAISED);
    let (_, answer) = desk.collected.answers(1).await.remove(0);
    assert_eq!((answer.text.as_str(), answer.failure), ("hello", None));
    assert_eq!(press(&desk.dispatcher, &raise, true).await, Err(OfferRefusal::Gone));
    assert_eq!(desk.launcher.prompts(), ["hello", "hello"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_showed_something_is_interrupted_and_continues_once() {
    let turns: [&[&str]; 2] =
        [&["text one", "usage 0.5", "done"], &["text half", "tool t1", "usage 0.6"]];
    let desk = desk(DOLLAR, &turns).await;
    desk.ask(7, "first");
    desk.dispatcher.turns.idle().await;
    desk.ask(7, "second");
    let answers = desk.collected.answers(2).await;
    assert_eq!(answers[1].1.text, "half");
    let failure = answers[1].1.failure.clone().unwrap();
    assert!(failure.contains("The budget `team` is used up: $1.10 of $1.00 a day."), "{failure}");
    assert!(failure.contains("This is not finished."), "{failure}");
    let notices = desk.collected.notices(2).await;
    let lift = button(&notices, "No cap until tomorrow");
    assert!(press(&desk.dispatcher, &lift, true).await.is_ok());
    let answers = desk.collected.answers(3).await;
    assert!(answers[2].1.text.contains("Continue the work on this request"));
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.launcher.prompts().len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn people_are_warned_at_80_percent_once() {
    let turns: [&[&str]; 2] =
        [&["text one", "usage 0.8", "done"], &["text two", "usage 0.05", "done"]];
    let desk = desk(DOLLAR, &turns).await;
    desk.ask(7, "first");
    let notice = desk.collected.notices(1).await.remove(0);
    desk.dispatcher.turns.idle().await;
    assert_eq!(notice.channel, None, "the operator's channel");
    assert!(notice.text.contains("`team` is used to 80 %: $0.80 of $1.00"), "{}", notice.text);
    assert!(notice.offers.is_empty());
    desk.ask(7, "second");
    desk.collected.answers(2).await;
    desk.dispatcher.turns.idle().await;
    assert_eq!(desk.collected.notices(1).await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lane_at_its_cap_can_be_stopped_and_other_people_continue() {
    let desk = desk("## people\n- person: each\n- cap: 1 turns a day\n", &[]).await;
    let ask = |channel, person, prompt: &str| {
        let asker = Some(UserId::discord(person));
        let event = NewEvent { asker, ..message(channel, prompt) };
        desk.dispatcher.intake.submit(event).unwrap();
    };
    ask(7, 4, "one");
    desk.dispatcher.turns.idle().await;
    ask(7, 4, "two");
    ask(8, 5, "other");
    let answers = desk.collected.answers(2).await;
    assert!(answers[1].1.text.contains("other"), "{}", answers[1].1.text);
    desk.collected.notices(2).await;
    assert_eq!(desk.dispatcher.turns.stop_durably(&lane(7)).await.waiting, 1);
    assert_eq!(desk.launcher.prompts().len(), 2);
    // The operator removes the budget.
    ask(7, 4, "three");
    std::fs::remove_file(desk.folder.path().join("config/budgets.md")).unwrap();
    let answers = desk.collected.answers(3).await;
    assert!(answers[2].1.text.contains("three"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cap_of_one_person_holds_only_the_prompts_of_that_person_in_order() {
    let desk = desk("## people\n- person: each\n- cap: 1 turns a day\n", &[]).await;
    let ask = |person, prompt: &str| {
        let event = NewEvent { asker: Some(UserId::discord(person)), ..message(7, prompt) };
        desk.dispatcher.intake.submit(event).unwrap()
    };
    let texts = |answers: &[(Event, TurnAnswer)]| {
        answers.iter().map(|(event, _)| event.prompt.clone()).collect::<Vec<_>>()
    };
    ask(4, "one");
    desk.dispatcher.turns.idle().await;
    for (person, prompt) in [(4, "two"), (5, "of another"), (4, "three"), (6, "of a third")] {
        ask(person, prompt);
    }
    let answers = desk.collected.answers(3).await;
    assert_eq!(texts(&answers), ["one", "of another", "of a third"]);
    // The lane is free shortly after its answer was delivered.
    while desk.dispatcher.observer.stats().running > 0 {
        tokio::task::yield_now().await;
    }
    // A person who comes later is served at once. Each held person is notified once.
    assert_eq!(ask(7, "of a fourth").ahead, 0);
    desk.collected.answers(4).await;
    ask(5, "a second of another");
    // One for the operator about each of four people, and one for each held person.
    let mut notices = desk.collected.notices(6).await;
    notices.retain(|notice| notice.text.contains("Your message waits"));
    let held: Vec<&str> = notices.iter().map(|notice| notice.text.as_str()).collect();
    assert!(held[0].contains("`people` (<@4>)") && held[1].contains("(<@5>)"), "{held:?}");
    let queue = desk.dispatcher.observer.queue_of(&lane(7));
    let words: Vec<&str> = queue.waiting.iter().map(|waiting| &*waiting.words).collect();
    assert_eq!(words, ["two", "three", "a second of another"]);
    assert!(queue.waiting.iter().all(|waiting| waiting.wait.is_some()), "{queue:?}");

    let lift = button(&notices[..1], "No cap until tomorrow");
    assert!(press(&desk.dispatcher, &lift, true).await.is_ok());
    let answers = desk.collected.answers(6).await;
    assert_eq!(texts(&answers)[4..], ["two", "three"]);
    assert_eq!(desk.dispatcher.observer.queue_of(&lane(7)).waiting.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_ends_the_notices_of_all_waiting_lanes_and_that_of_the_operator() {
    let desk = desk("## all\n- cap: 1 turns a day\n", &[]).await;
    desk.ask(7, "one");
    desk.dispatcher.turns.idle().await;
    for channel in 7..=10 {
        desk.ask(channel, "two");
    }
    let notices = desk.collected.notices(5).await;
    let lift = button(&notices, "No cap until tomorrow");
    assert!(press(&desk.dispatcher, &lift, true).await.is_ok());
    desk.collected.answers(5).await;
    let is_decided =
        |(_, line): &&(String, String)| line == "💰 No cap until tomorrow, decided by Ann.";
    let mut ended = desk.collected.ended_waits.subscribe();
    let all = |ended: &Vec<(String, String)>| {
        let topics = ended.iter().filter(is_decided).map(|(topic, _)| topic);
        topics.collect::<HashSet<_>>().len() == 5
    };
    ended.wait_for(all).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_lanes_share_a_cap_of_turns() {
    let desk = desk("## all\n- cap: 3 turns a day\n", &[]).await;
    for channel in 1..=5 {
        desk.ask(channel, "hello");
    }
    desk.collected.answers(3).await;
    desk.collected.notices(3).await;
    assert_eq!(desk.launcher.prompts().len(), 3);
    assert_eq!(desk.collected.answers(3).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn impossible_usage_neither_stops_turns_nor_frees_budgets() {
    let turns: [&[&str]; 4] = [
        &["text one", "usage NaN", "usage -5", "usage 1e300", "done"],
        // The agent takes its usage back.
        &["text two", "usage 0.7", "usage -100", "usage 0.7", "done"],
        &["text three", "usage 0 4294967295", "usage 0.4 4294967295"],
        &[],
    ];
    let desk = desk(DOLLAR, &turns).await;
    for prompt in ["one", "two"] {
        desk.ask(7, prompt);
        desk.dispatcher.turns.idle().await;
    }
    desk.ask(7, "three");
    let answers = desk.collected.answers(3).await;
    assert_eq!((answers[0].1.failure.clone(), answers[1].1.failure.clone()), (None, None));
    let failure = answers[2].1.failure.clone().unwrap();
    assert!(failure.contains("$1.10 of $1.00"), "{failure}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_file_keeps_the_caps() {
    let desk = desk("## all\n- cap: 1 turns a day\n", &[]).await;
    desk.ask(7, "one");
    desk.dispatcher.turns.idle().await;
    std::fs::write(desk.folder.path().join("config/budgets.md"), "## all\n- cap: lots\n").unwrap();
    desk.ask(7, "two");
    desk.collected.notices(2).await;
    assert_eq!(desk.launcher.prompts().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_operator_learns_that_a_file_with_caps_became_empty() {
    let desk = desk("## all\n- cap: 1 turns a day\n", &[]).await;
    desk.ask(7, "one");
    desk.dispatcher.turns.idle().await;
    std::fs::write(desk.folder.path().join("config/budgets.md"), "").unwrap();
    while !desk.dispatcher.budgets.uses().await.is_empty() {}
    let mut count = 1;
    loop {
        let notices = desk.collected.notices(count).await;
        if notices.iter().any(|notice| notice.text.contains("`budgets.md` became empty")) {
            break;
        }
        count = notices.len() + 1;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn five_lanes_exceed_a_cap_by_one_request_each_and_no_prompt_is_lost() {
    const TURNS: u64 = 500;
    const LANES: u64 = 5;
    let requests = Arc::new(Semaphore::new(0));
    let allowed = requests.clone();
    // Each turn makes two requests of ten cents. A request ends when the test lets it end.
    let launcher = ScriptedLauncher::new(move |mut agent: Agent| {
        let allowed = allowed.clone();
        async move {
            for usage in ["usage 0.1", "usage 0.2"] {
                tokio::select! {
                    request = allowed.acquire() => request.unwrap().forget(),
                    _ = agent.commands.recv() => return agent.exit(Exit::Code(0), "").await,
                }
                agent.say(&[usage]).await;
            }
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    let folder = tempfile::tempdir().unwrap();
    let collected = Arc::new(Collected::default());
    let limits =
        QueueLimits { max_concurrent: 5, max_depth: 1_000, busy_policy: BusyPolicy::Queue };
    let backends = Arc::new(OneBackend(Arc::new(ScriptedBackend::new(spending()))));
    let parts =
        parts(folder.path(), "scripted", backends, launcher.clone(), &collected, limits).await;
    let rules = folder.path().join("config/budgets.md");
    std::fs::write(rules, "## team\n- cap: $20 a day\n").unwrap();
    let dispatcher = Dispatcher::new(parts, turn_parts());
    let (reported, mut reports) = mpsc::unbounded_channel();
    let look = move |event: &AgentEventKind| {
        if matches!(event, AgentEventKind::Usage(_)) {
            let _ = reported.send(());
        }
    };
    assert!(collected.look.set(Box::new(look)).is_ok());
    for number in 0..TURNS {
        let prompt = format!("prompt {number}");
        dispatcher.intake.submit(message(1 + number % LANES, &prompt)).unwrap();
    }
    requests.add_permits(5);
    while !dispatcher.budgets.uses().await.iter().any(AccountUse::is_reached) {
        reports.recv().await.unwrap();
        requests.add_permits(1);
    }
    // The warning, the question to an owner, and a notice in each lane.
    let notices = collected.notices(2 + 5).await;
    let used = dispatcher.budgets.uses().await[0].used;
    assert!((20_000_000..=20_500_000).contains(&used), "{used}");
    let lift = button(&notices, "No cap until tomorrow");
    assert!(press(&dispatcher, &lift, true).await.is_ok());
    requests.add_permits(10_000);
    dispatcher.turns.idle().await;
    let answers = collected.answers(500).await;
    let mut events: Vec<u64> = answers.iter().map(|(event, _)| event.sequence).collect();
    events.sort_unstable();
    events.dedup();
    assert_eq!((answers.len(), events.len()), (500, 500));
    assert!(answers.iter().all(|(_, answer)| answer.failure.is_none()));
    assert!(launcher.prompts().len() <= 505, "only stopped turns ran again");
}

fn setup() -> Setup {
    Setup::with(Arc::new(OneBackend(Arc::new(ScriptedBackend::new(spending())))))
}

/// Kills the gateway this often while a conversation waits at its cap, lets an owner raise the cap,
/// kills it again if wanted, and returns the agent's prompts after one more restart.
fn killed_at_the_cap(turns: &[&[&str]], kills: usize, dies_after_raise: bool) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("budgets.md"), DOLLAR).unwrap();
    let launcher = agent(turns);
    let shelf = Shelf::new(launcher.clone());
    let mut gateway = Gateway::begin(folder.path(), &shelf, setup());
    gateway.ask("build it");
    gateway.wait_until("an owner is asked", || saved(folder.path()).contains("asked `1000000`"));
    let waiting = |gateway: &Gateway| {
        gateway.runtime.block_on(async {
            for count in 1.. {
                let notices = gateway.collected.notices(count).await;
                let notice = notices.into_iter().find(|notice| notice.channel.is_some());
                if let Some(notice) = notice {
                    return notice;
                }
            }
            unreachable!("the list of notices ends")
        })
    };
    let mut notice = waiting(&gateway);
    for _ in 0..kills {
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, setup());
        notice = waiting(&gateway);
        assert_eq!(launcher.prompts().len(), turns.len(), "the cap holds after a restart");
    }
    let raise = button(&[notice], "Raise to");
    assert_eq!(gateway.runtime.block_on(press(&gateway.dispatcher, &raise, true)), RAISED);
    if dies_after_raise {
        gateway.die();
        gateway = Gateway::begin(folder.path(), &shelf, setup());
    }
    gateway.wait_until("the conversation continues", || launcher.prompts().len() > turns.len());
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    gateway.die();
    let last = Gateway::begin(folder.path(), &shelf, setup());
    last.runtime.block_on(last.dispatcher.turns.idle());
    last.die();
    launcher.prompts()
}

#[test]
fn a_waiting_prompt_survives_restarts_and_runs_once() {
    for (kills, dies) in [(0, false), (0, true), (1, false), (2, true)] {
        let prompts = killed_at_the_cap(&[&["usage 1.5"]], kills, dies);
        assert_eq!(prompts, ["build it", "build it"], "{kills} restarts, {dies}");
    }
}

#[test]
fn a_stopped_turn_continues_once_after_restarts() {
    for (kills, dies) in [(0, false), (0, true), (1, false), (2, true)] {
        let prompts = killed_at_the_cap(&[&["text half", "tool t1", "usage 1.5"]], kills, dies);
        assert_eq!(prompts.len(), 2, "{kills} restarts, {dies}: {prompts:?}");
        assert!(prompts[1].contains("Continue the work on this request"), "{prompts:?}");
    }
}

/// Returns an agent that the test lets end after its interruption.
fn stubborn() -> (watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let (leave, given) = watch::channel(false);
    let begun = Arc::new(AtomicUsize::new(0));
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let (mut given, turn) = (given.clone(), begun.fetch_add(1, Ordering::SeqCst));
        async move {
            agent.say(&["session s1"]).await;
            if turn > 0 {
                agent.say(&[&format!("text {}", agent.prompt), "done"]).await;
                return agent.exit(Exit::Code(0), "").await;
            }
            agent.say(&["text half", "tool t1", "usage 1.5"]).await;
            // The agent ignores its interruption and ends only when the test lets it end. A gateway
            // that dies may not have interrupted it.
            let _ = given.wait_for(|given| *given).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    (leave, launcher)
}

#[test]
fn a_turn_continues_if_the_gateway_dies_between_the_interruption_and_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("budgets.md"), DOLLAR).unwrap();
    let (leave, launcher) = stubborn();
    let shelf = Shelf::new(launcher.clone());
    let patient = || Setup { stop_grace: Some(Duration::from_secs(60)), ..setup() };
    let gateway = Gateway::begin(folder.path(), &shelf, patient());
    gateway.ask("build it");
    let queue = || std::fs::read_to_string(config.join("state/queue.md")).unwrap_or_default();
    gateway.wait_until("the turn is interrupted", || {
        queue().contains(" cut off ") && recorded(folder.path()).contains("interrupt")
    });
    gateway.die();
    // The agent ends while no gateway runs.
    leave.send_replace(true);
    shelf.wait_for_exits();
    let gateway = Gateway::begin(folder.path(), &shelf, patient());
    let (text, failure) = gateway.answer();
    let failure = failure.unwrap();
    assert!(text == "half" && failure.contains("This is not finished."), "{text} {failure}");
    let notices = gateway.runtime.block_on(gateway.collected.notices(1));
    let raise = button(&notices, "Raise to");
    assert_eq!(gateway.runtime.block_on(press(&gateway.dispatcher, &raise, true)), RAISED);
    gateway.wait_until("the conversation continues", || launcher.prompts().len() == 2);
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    assert!(launcher.prompts()[1].contains("Continue the work on this request"));
}

fn recorded(folder: &Path) -> String {
    std::fs::read_to_string(super::outlive::recording(folder)).unwrap_or_default()
}

/// Lets a turn be stopped at its cap, and cuts the journal after the first line that the end of the
/// turn wrote, as if the gateway had died there.
#[test]
fn a_gateway_that_dies_right_after_a_stopped_turn_continues_it_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("budgets.md"), DOLLAR).unwrap();
    let launcher = agent(&[&["text half", "tool t1", "usage 1.5"]]);
    let shelf = Shelf::new(launcher.clone());
    let gateway = Gateway::begin(folder.path(), &shelf, setup());
    gateway.ask("build it");
    gateway.answer();
    gateway.wait_until("an owner is asked", || saved(folder.path()).contains("asked `1000000`"));
    gateway.die();
    let path = config.join("state/queue.md");
    let journal = std::fs::read_to_string(&path).unwrap();
    let end = ["answered", "- [ ]"];
    let cut = journal.find(" cut off ").unwrap();
    let first = journal[cut..].lines().position(|line| end.iter().any(|word| line.contains(word)));
    let lines = journal[..cut].lines().count() + first.unwrap();
    let kept: Vec<&str> = journal.lines().take(lines).collect();
    std::fs::write(&path, kept.join("\n") + "\n").unwrap();
    for _ in 0..2 {
        let gateway = Gateway::begin(folder.path(), &shelf, setup());
        let notices = gateway.runtime.block_on(gateway.collected.notices(1));
        assert!(notices.iter().all(|notice| notice.text.contains("(budget)")), "{notices:?}");
        gateway.die();
    }
    let gateway = Gateway::begin(folder.path(), &shelf, setup());
    let notices = gateway.runtime.block_on(gateway.collected.notices(1));
    let raise = button(&notices, "Raise to");
    assert_eq!(gateway.runtime.block_on(press(&gateway.dispatcher, &raise, true)), RAISED);
    gateway.wait_until("the conversation continues", || launcher.prompts().len() == 2);
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    gateway.die();
    let gateway = Gateway::begin(folder.path(), &shelf, setup());
    gateway.runtime.block_on(gateway.dispatcher.turns.idle());
    let prompts = launcher.prompts();
    assert_eq!(prompts.len(), 2, "{prompts:?}");
    assert!(prompts[1].contains("Continue the work on this request"), "{prompts:?}");
}
