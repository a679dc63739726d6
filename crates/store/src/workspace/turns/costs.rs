//! Sums of what turns cost, by day, lane, person, backend and model. Pure. Nothing is estimated: a
//! sum contains only what agents reported, and the number of turns for which they did.

use std::collections::BTreeMap;

use jiff::Timestamp;
use jiff::civil::Date;

use super::days::day_of;
use super::line::{TurnLine, TurnStatus};
use aetheel_model::agent::{ModelUsage, Usage};
use aetheel_model::event::{EventKind, Lane};
use aetheel_model::id::UserId;
use aetheel_model::plain::counted;

/// Dollars above which a reported price is ignored, because no turn can cost that much.
const PRICE_LIMIT: f64 = 1_000_000.0;

/// The sum of some turns.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CostSum {
    /// The number of turns.
    pub turns: u64,
    /// The number of failed turns.
    pub failed: u64,
    /// The total time that agents worked, in milliseconds.
    pub took_ms: u64,
    /// The number of turns whose agent reported tokens.
    pub with_tokens: u64,
    /// Input tokens, including cached ones.
    pub input: u64,
    /// Output tokens.
    pub output: u64,
    /// Tokens that were read from a cache.
    pub cached: u64,
    /// Tokens of thinking.
    pub reasoning: u64,
    /// The number of turns whose agent reported a price.
    pub with_price: u64,
    /// The total of these prices, in dollars.
    pub cost_usd: f64,
}

impl CostSum {
    /// Adds a turn.
    pub fn add(&mut self, line: &TurnLine) {
        self.turn(line);
        if let Some(usage) = &line.usage {
            self.usage(usage);
        }
    }

    fn turn(&mut self, line: &TurnLine) {
        self.turns += 1;
        self.failed += u64::from(matches!(line.how, TurnStatus::Failed(_)));
        self.took_ms = self.took_ms.saturating_add(line.took_ms);
    }

    fn usage(&mut self, usage: &Usage) {
        self.with_tokens += 1;
        self.input += u64::from(usage.input);
        self.output += u64::from(usage.output);
        self.cached += u64::from(usage.cached);
        self.reasoning += u64::from(usage.reasoning);
        self.price(usage.cost_usd);
    }

    /// Adds the usage of one of several models of a turn.
    fn model(&mut self, usage: &ModelUsage) {
        self.with_tokens += 1;
        self.input += u64::from(usage.input);
        self.output += u64::from(usage.output);
        self.cached += u64::from(usage.cached);
        self.price(usage.cost_usd);
    }

    fn price(&mut self, cost: Option<f64>) {
        if let Some(cost) = cost.filter(|cost| (0.0..=PRICE_LIMIT).contains(cost)) {
            self.with_price += 1;
            self.cost_usd += cost;
        }
    }

    /// Adds another sum.
    pub fn merge(&mut self, other: &Self) {
        self.turns += other.turns;
        self.failed += other.failed;
        self.took_ms = self.took_ms.saturating_add(other.took_ms);
        self.with_tokens += other.with_tokens;
        self.input += other.input;
        self.output += other.output;
        self.cached += other.cached;
        self.reasoning += other.reasoning;
        self.with_price += other.with_price;
        self.cost_usd += other.cost_usd;
    }

    /// Returns the total price, such as `$1.20`, with the number of turns it covers if these are
    /// not all (`$1.20 of 3`), or `unknown` if no agent reported a price.
    #[must_use]
    pub fn cost(&self) -> String {
        let price = if self.cost_usd > 0.0 && self.cost_usd < 0.01 {
            format!("${:.4}", self.cost_usd)
        } else {
            format!("${:.2}", self.cost_usd)
        };
        match self.with_price {
            0 => "unknown".to_owned(),
            priced if priced < self.turns => format!("{price} of {priced}"),
            _ => price,
        }
    }

    /// Returns a number of tokens, or `unknown` if no agent reported tokens.
    #[must_use]
    pub fn tokens(&self, count: u64) -> String {
        match (self.with_tokens, count) {
            (0, _) => "unknown".to_owned(),
            (_, 0..10_000) => count.to_string(),
            (_, 10_000..10_000_000) => format!("{:.1}k", count as f64 / 1e3),
            _ => format!("{:.1}M", count as f64 / 1e6),
        }
    }

    /// Returns the total time that agents worked, in hours.
    #[must_use]
    pub fn hours(&self) -> String {
        format!("{:.2}", self.took_ms as f64 / 3_600_000.0)
    }
}

/// The person or thing that started a turn.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Requester {
    /// A user of a chat platform.
    User(UserId),
    /// Another person, by name, or a source such as `heartbeats`.
    Other(String),
}

impl Requester {
    fn of(line: &TurnLine) -> Self {
        if let Some(user) = line.user {
            return Self::User(user);
        }
        let kind = match line.kind {
            EventKind::Message => "somebody",
            EventKind::Heartbeat => "heartbeats",
            EventKind::Cron => "cron jobs",
            EventKind::Hook => "hooks",
            EventKind::Webhook => "webhooks",
            EventKind::Agent => "agents",
        };
        Self::Other(line.name.clone().unwrap_or_else(|| kind.to_owned()))
    }
}

/// The sum of one person's turns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PersonCosts {
    /// The person's name in the latest turn.
    pub name: String,
    last: Timestamp,
    /// The sum of all turns.
    pub sum: CostSum,
}

impl PersonCosts {
    fn set_name(&mut self, name: &str, at: Timestamp) {
        if at >= self.last {
            (self.name, self.last) = (name.to_owned(), at);
        }
    }
}

/// Sums of some turns by several criteria.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Costs {
    /// The sum of all turns.
    pub whole: CostSum,
    /// Sums by the day on which a turn ended, in UTC.
    pub days: BTreeMap<Date, CostSum>,
    /// Sums by person.
    pub people: BTreeMap<Requester, PersonCosts>,
    /// Sums by backend.
    pub backends: BTreeMap<String, CostSum>,
    /// Sums by model; the key is `None` if the model is not known. A turn that used several models
    /// counts for each.
    pub models: BTreeMap<Option<String>, CostSum>,
}

impl Costs {
    /// Adds a turn. Ignores an event that was stopped while it waited.
    pub fn add(&mut self, line: &TurnLine) {
        if line.link.is_none() && line.how == TurnStatus::Stopped {
            return;
        }
        self.whole.add(line);
        self.days.entry(day_of(line.ended)).or_default().add(line);
        let who = Requester::of(line);
        let name = match &who {
            Requester::Other(name) => name.clone(),
            Requester::User(id) => line.name.clone().unwrap_or_else(|| id.to_string()),
        };
        let person = self.people.entry(who).or_default();
        person.set_name(&name, line.ended);
        person.sum.add(line);
        self.backends.entry(line.backend.clone()).or_default().add(line);
        let models = line.usage.as_ref().map(|usage| usage.models.as_slice()).unwrap_or_default();
        if models.is_empty() {
            self.models.entry(line.model.clone()).or_default().add(line);
        }
        for model in models {
            let sum = self.models.entry(Some(model.model.clone())).or_default();
            sum.turn(line);
            sum.model(model);
        }
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &Self) {
        self.whole.merge(&other.whole);
        for (day, sum) in &other.days {
            self.days.entry(*day).or_default().merge(sum);
        }
        for (who, theirs) in &other.people {
            let person = self.people.entry(who.clone()).or_default();
            person.set_name(&theirs.name, theirs.last);
            person.sum.merge(&theirs.sum);
        }
        for (backend, sum) in &other.backends {
            self.backends.entry(backend.clone()).or_default().merge(sum);
        }
        for (model, sum) in &other.models {
            self.models.entry(model.clone()).or_default().merge(sum);
        }
    }
}

/// The sums of each lane.
pub type LaneCosts = BTreeMap<Lane, Costs>;

pub(super) fn add(lanes: &mut LaneCosts, line: &TurnLine) {
    lanes.entry(line.lane.clone()).or_default().add(line);
}

/// Sorts rows by price, then by turns, then by name. Rows after the first `limit` are merged into
/// one row, named for example `12 others`.
#[must_use]
pub fn top(
    rows: impl IntoIterator<Item = (String, CostSum)>,
    limit: usize,
) -> Vec<(String, CostSum)> {
    let mut rows: Vec<(String, CostSum)> = rows.into_iter().collect();
    rows.sort_by(|(name, one), (other_name, other)| {
        let by_price = other.cost_usd.total_cmp(&one.cost_usd);
        by_price.then(other.turns.cmp(&one.turns)).then_with(|| name.cmp(other_name))
    });
    if rows.len() > limit {
        let rest = rows.split_off(limit);
        let mut others = CostSum::default();
        rest.iter().for_each(|(_, sum)| others.merge(sum));
        rows.push((counted(rest.len(), "other"), others));
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::super::tests::line;
    use super::*;

    fn spent(cost: Option<f64>, models: Vec<ModelUsage>) -> Option<Usage> {
        let usage = Usage {
            input: 100,
            output: 10,
            cached: 60,
            reasoning: 4,
            cost_usd: cost,
            ..Usage::default()
        };
        Some(Usage { models, ..usage })
    }

    fn costs(lines: &[TurnLine]) -> Costs {
        let mut costs = Costs::default();
        lines.iter().for_each(|line| costs.add(line));
        costs
    }

    #[test]
    fn an_event_that_was_stopped_while_it_waited_is_not_counted() {
        let day = "2026-08-06T12:00:00Z";
        let stopped = TurnLine { how: TurnStatus::Stopped, link: None, ..line("a", day) };
        let started = TurnLine { link: Some("b".to_owned()), ..stopped.clone() };
        assert_eq!(costs(&[stopped, started]).whole.turns, 1);
    }

    #[test]
    fn a_sum_contains_only_what_was_reported_and_for_how_many_turns() {
        let day = "2026-08-06T12:00:00Z";
        let priced = TurnLine { usage: spent(Some(0.25), Vec::new()), ..line("a", day) };
        let told = TurnLine { usage: spent(None, Vec::new()), ..line("b", day) };
        let mute = TurnLine {
            usage: None,
            how: TurnStatus::Failed("silent".to_owned()),
            ..line("c", day)
        };
        let whole = costs(&[priced.clone(), told.clone(), mute.clone()]).whole;
        let (turns, failed, told_of) = (whole.turns, whole.failed, whole.with_tokens);
        assert_eq!((turns, failed, told_of, whole.with_price), (3, 1, 2, 1));
        assert_eq!((whole.input, whole.output, whole.cached, whole.reasoning), (200, 20, 120, 8));
        assert_eq!((whole.cost(), whole.tokens(200)), ("$0.25 of 1".to_owned(), "200".to_owned()));
        assert_eq!((whole.took_ms, whole.hours()), (4_500, "0.00".to_owned()));
        assert_eq!(costs(&[priced]).whole.cost(), "$0.25");
        let nothing = costs(&[mute]).whole;
        assert_eq!(
            (nothing.cost(), nothing.tokens(0)),
            ("unknown".to_owned(), "unknown".to_owned())
        );
        assert_eq!(costs(&[told]).whole.cost(), "unknown");
    }

    #[test]
    fn impossible_prices_are_ignored_and_large_numbers_do_not_overflow() {
        let bad = [f64::INFINITY, f64::NAN, -1.0, 1e300].map(|cost| TurnLine {
            usage: spent(Some(cost), Vec::new()),
            took_ms: u64::MAX,
            ..line("x", "2026-08-06T12:00:00Z")
        });
        let whole = costs(&bad).whole;
        assert_eq!((whole.with_price, whole.cost_usd, whole.took_ms), (0, 0.0, u64::MAX));
    }

    #[test]
    fn all_ways_of_adding_up_have_the_same_result() {
        let model = |name: &str, cost| ModelUsage {
            model: name.to_owned(),
            input: 50,
            cost_usd: Some(cost),
            ..ModelUsage::default()
        };
        let lines = [
            line("a", "2026-08-06T23:59:59Z"),
            TurnLine { name: Some("anna".to_owned()), ..line("b", "2026-08-07T00:00:00Z") },
            TurnLine { user: Some(UserId::discord(4)), ..line("c", "2026-08-07T00:00:00Z") },
            TurnLine {
                user: None,
                name: None,
                kind: EventKind::Cron,
                backend: "codex".to_owned(),
                usage: spent(Some(1.0), vec![model("big", 0.75), model("small", 0.25)]),
                ..line("d", "2026-08-07T00:00:00Z")
            },
        ];
        let costs = costs(&lines);
        assert_eq!((costs.whole.turns, costs.whole.cost_usd), (4, 1.75));
        let sums = |sums: Vec<&CostSum>| sums.iter().map(|sum| sum.turns).collect::<Vec<_>>();
        assert_eq!(sums(costs.days.values().collect()), [1, 3]);
        assert_eq!(sums(costs.backends.values().collect()), [3, 1]);
        let people: Vec<_> =
            costs.people.values().map(|one| (one.name.as_str(), one.sum.turns)).collect();
        assert_eq!(people, [("anna", 2), ("ann", 1), ("cron jobs", 1)]);
        let models: Vec<_> = costs
            .models
            .iter()
            .map(|(name, sum)| (name.as_deref().unwrap_or("-"), sum.turns, sum.cost_usd))
            .collect();
        assert_eq!(models, [("big", 1, 0.75), ("opus", 3, 0.75), ("small", 1, 0.25)]);
        let mut merged = Costs::default();
        for line in &lines {
            let mut one = Costs::default();
            one.add(line);
            merged.merge(&one);
        }
        assert_eq!(merged, costs);
    }

    #[test]
    fn the_remaining_rows_are_merged_into_one() {
        let sum = |turns, cost_usd| CostSum { turns, cost_usd, ..CostSum::default() };
        let rows = (0..400).map(|number| (format!("{number:03}"), sum(number, 0.0)));
        let rows = rows.chain([("dear".to_owned(), sum(1, 9.0))]);
        let top = top(rows, 3);
        let names: Vec<&str> = top.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["dear", "399", "398", "398 others"]);
        assert_eq!(top.iter().map(|(_, sum)| sum.turns).sum::<u64>(), 399 * 400 / 2 + 1);
    }

    #[test]
    fn numbers_are_short() {
        let sum = CostSum { with_tokens: 1, ..CostSum::default() };
        let shown = [9_999, 10_000, 1_234_567, 12_345_678].map(|count| sum.tokens(count));
        assert_eq!(shown, ["9999", "10.0k", "1234.6k", "12.3M"]);
        assert_eq!(CostSum { with_price: 1, turns: 1, cost_usd: 0.0031, ..sum }.cost(), "$0.0031");
        assert_eq!(CostSum { with_price: 1, turns: 1, ..sum }.cost(), "$0.00");
    }
}
