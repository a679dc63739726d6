//! A month at random: prompts in several lanes, limits, caps, decisions of owners, and gateways that
//! are killed at any time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel_model::agent::Exit;
use aetheel_model::budget::BudgetPeriod;
use aetheel_model::event::Lane;
use aetheel_model::id::{ChannelId, UserId};
use aetheel_runtime::clock::Clock;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::watch;
use tokio::time::timeout;

use super::{ANN, MovedGateway, spending_within_limits, time};
use crate::support::scripted::{Agent, ScriptedBackend, ScriptedLauncher};
use crate::support::shelf::Shelf;

const START: &str = "2027-03-15T09:00:00Z";
const END: &str = "2027-04-15T09:00:00Z";
const CHANNELS: [u64; 3] = [7, 8, 9];
const RULES: &str = "## team\n- cap: $5 a day\n- cap: 40 turns a week\n\n## people\n- person: each\n- cap: $40 a month\n";
/// How far the clock moves at most while the gateway works.
const TICK: Duration = Duration::from_millis(500);
/// How long a request of an agent takes in which it uses money.
const REQUEST: Duration = Duration::from_millis(10);
/// The largest number of such requests of a turn.
const MAX_REQUESTS: usize = 100;

/// A sequence of numbers that its seed determines (SplitMix64).
#[derive(Clone)]
struct Numbers(u64);

impl Numbers {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut number = self.0;
        number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (number ^ (number >> 31)) % below
    }

    /// Returns numbers that depend on a text and on the seed.
    fn of(&self, text: &str) -> Self {
        let mix = |sum: u64, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        Self(text.bytes().fold(self.0 ^ 0xcbf2_9ce4_8422_2325, mix))
    }
}

/// Agents that answer, reach a limit, or use more and more until a cap stops them.
fn agents(seed: &Numbers, clock: &Clock) -> Arc<ScriptedLauncher> {
    let (seed, clock) = (seed.clone(), clock.clone());
    let begun: Mutex<HashMap<String, u64>> = Mutex::default();
    ScriptedLauncher::new(move |mut agent: Agent| {
        let turn = {
            let mut begun = begun.lock().unwrap();
            let turns = begun.entry(agent.prompt.clone()).or_default();
            *turns += 1;
            *turns
        };
        let mut numbers = seed.of(&format!("{} {turn}", agent.prompt));
        let now = clock.now();
        async move {
            agent.say(&["session s1"]).await;
            let (kind, mut cents) = (numbers.next(10), 10 + numbers.next(150));
            let hours = i64::try_from(1 + numbers.next(40)).expect("small");
            let until = format!("until {}", now + SignedDuration::from_hours(hours));
            let usage = |cents: u64| format!("usage {}.{:02}", cents / 100, cents % 100);
            match kind {
                0 => agent.say(&[&until]).await,
                1 => agent.say(&["text half", "tool t1", &usage(cents), &until]).await,
                2 => {
                    agent.say(&["text half", "tool t1"]).await;
                    // Owners may have lifted all caps.
                    for _ in 0..MAX_REQUESTS {
                        agent.say(&[&usage(cents)]).await;
                        cents += 200;
                        if timeout(REQUEST, agent.commands.recv()).await.is_ok() {
                            return agent.exit(Exit::Code(0), "").await;
                        }
                    }
                    agent.say(&["done"]).await;
                }
                _ => {
                    let text = format!("text {}", agent.prompt);
                    agent.say(&[&text, &usage(cents), "done"]).await;
                }
            }
            agent.exit(Exit::Code(0), "").await;
        }
    })
}

/// The finished turns of all files: when each ended, and what it used in cents.
fn lines(gateway: &MovedGateway) -> Vec<(Timestamp, u64)> {
    let folder = gateway.folder.path().join("config/state/turns");
    let files = std::fs::read_dir(folder).into_iter().flatten().map(|file| file.unwrap().path());
    let text: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
    let of_line = |line: &str| {
        let line: serde_json::Value = serde_json::from_str(line).ok()?;
        let cents = line["usage"]["cost-usd"].as_f64().unwrap_or_default() * 100.0;
        Some((line["ended"].as_str()?.parse().ok()?, cents.round() as u64))
    };
    text.lines().filter_map(of_line).collect()
}

/// Lets the time pass slowly until no turn runs, and every lane with prompts waits.
fn work(gateway: &MovedGateway) {
    let observer = &gateway.dispatcher().observer;
    let all_wait = || {
        CHANNELS.iter().all(|channel| {
            let queue = observer.queue_of(&Lane::Channel(ChannelId::discord(*channel)));
            queue.waiting.iter().all(|waiting| waiting.wait.is_some())
        })
    };
    gateway.run("all lanes are idle or wait", async {
        loop {
            if observer.stats().running == 0 && all_wait() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
            gateway.control.advance(TICK);
        }
    });
}

/// Checks that the sums of the budgets are those of the lines of the turns, once all lines are written.
fn check_sums(gateway: &MovedGateway) {
    let now = gateway.clock.now();
    gateway.until("the sums are those of the lines", || {
        let (lines, uses) =
            (lines(gateway), gateway.run("uses", gateway.dispatcher().budgets.uses()));
        let used = |account: &str| {
            let found = uses.iter().find(|used| used.account.0 == account);
            found.map_or(0, |used| used.used)
        };
        let of = |period: BudgetPeriod| {
            let span = period.span(now, &gateway.zone);
            lines.iter().filter(move |(ended, _)| span.contains(*ended))
        };
        let cents: u64 = of(BudgetPeriod::Day).map(|(_, cents)| cents).sum();
        let turns = of(BudgetPeriod::Week).count() as u64;
        used("team money day") == cents * 10_000 && used("team turns week") == turns
    });
}

/// Presses a button of one of the last notices, which may be old.
fn decide(gateway: &MovedGateway, numbers: &mut Numbers) {
    let notices = gateway.notices();
    let offers: Vec<String> = notices
        .iter()
        .rev()
        .take(5)
        .flat_map(|notice| notice.offers.iter().map(|offer| offer.id.clone()))
        .filter(|id| !id.ends_with("-cancel"))
        .collect();
    if offers.is_empty() {
        return;
    }
    let offer = &offers[numbers.next(offers.len() as u64) as usize];
    gateway.run("a decision", async {
        let owner = super::super::budgets::person(true);
        if gateway.dispatcher().budgets.press(offer, &owner).await.is_none() {
            let _ = gateway.dispatcher().wait_choices.press(offer, true).await;
        }
    });
}

fn month(seed: u64) {
    let mut numbers = Numbers(seed);
    let backend = ScriptedBackend::new(spending_within_limits());
    let nobody = ScriptedLauncher::new(|agent: Agent| async { drop(agent) });
    let gate = watch::channel(true).0;
    let mut gateway = MovedGateway::prepare(("Europe/Berlin", START), backend, nobody, gate);
    gateway.launcher = agents(&numbers, &gateway.clock);
    gateway.shelf = Shelf::new(gateway.launcher.clone());
    gateway.write("budgets.md", RULES);
    gateway.start();
    let mut asked: HashMap<(u64, u64), Vec<String>> = HashMap::new();
    let mut count = 0;
    while gateway.clock.now() < time(END) {
        match numbers.next(20) {
            0..9 => {
                let channel = CHANNELS[numbers.next(3) as usize];
                let person = ANN + numbers.next(2);
                count += 1;
                let prompt = format!("prompt {count} in {channel}");
                asked.entry((channel, person)).or_default().push(prompt.clone());
                gateway.ask_as(person, channel, &prompt);
            }
            9..15 => {
                work(&gateway);
                gateway.control.advance(Duration::from_secs(numbers.next(14 * 3_600)));
            }
            // At the first instant of a day.
            15 => {
                work(&gateway);
                let now = gateway.clock.now();
                let left = BudgetPeriod::Day.span(now, &gateway.zone).end.duration_since(now);
                gateway.control.advance(left.unsigned_abs());
            }
            16 | 17 => {
                if numbers.next(2) == 0 {
                    work(&gateway);
                }
                gateway.kill();
                if numbers.next(3) == 0 {
                    gateway.control.advance(Duration::from_secs(numbers.next(30 * 3_600)));
                }
                gateway.start();
            }
            18 => {
                work(&gateway);
                check_sums(&gateway);
            }
            _ => decide(&gateway, &mut numbers),
        }
    }
    // Every prompt is answered when enough months have passed.
    for _ in 0..100 {
        work(&gateway);
        check_sums(&gateway);
        gateway.control.advance(Duration::from_secs(24 * 3_600));
    }
    gateway.idle();
    gateway.restart();
    gateway.idle();
    check_answers(&gateway, &asked);
}

fn check_answers(gateway: &MovedGateway, asked: &HashMap<(u64, u64), Vec<String>>) {
    let answers = gateway.answers();
    let mut events: Vec<u64> = answers.iter().map(|(event, _)| event.sequence).collect();
    events.sort_unstable();
    events.dedup();
    assert_eq!(events.len(), answers.len(), "no event is answered twice");
    for ((channel, person), prompts) in asked {
        let lane = Lane::Channel(ChannelId::discord(*channel));
        let asker = Some(UserId::discord(*person));
        let own = answers.iter().filter(|(event, _)| event.lane == lane && event.asker == asker);
        let own = own.filter(|(event, _)| event.continues.is_none());
        let answered: Vec<&String> = own.map(|(event, _)| &event.prompt).collect();
        assert_eq!(answered, prompts.iter().collect::<Vec<_>>(), "in order, each once");
    }
    let mut interrupted = 0;
    for (event, answer) in &answers {
        let Some(failure) = &answer.failure else { continue };
        assert!(failure.contains("This is not finished."), "{event:?}: {failure}");
        interrupted += 1;
    }
    let continued = answers.iter().filter(|(event, _)| event.continues.is_some());
    assert_eq!(continued.count(), interrupted, "each interrupted turn continues once");
}

#[test]
fn a_month_of_limits_caps_decisions_and_kills_loses_repeats_and_miscounts_nothing() {
    for seed in [1, 2, 3] {
        month(seed);
    }
}
