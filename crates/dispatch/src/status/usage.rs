//! The usage of a lane in the last days, and the budgets that apply there.

use jiff::ToSpan as _;
use jiff::civil::Date;
use jiff::tz::TimeZone;

use super::Observer;
use crate::budgets;
use aetheel_model::budget::{AccountUse, BudgetSubject};
use aetheel_model::event::Lane;
use aetheel_model::id::UserId;
use aetheel_model::plain::counted;
use aetheel_model::shown_time::shown_date;
use aetheel_store::workspace::costs::{CostSum, Costs};

/// The number of days that are shown.
const DAYS: i64 = 14;
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The number of characters of a budget's bar.
const BAR_WIDTH: u64 = 10;

impl Observer {
    /// Returns the usage of a lane in the last 14 days (in UTC) with a plot, and how much of
    /// each budget that applies there, and to the person, is used, one line each.
    pub async fn usage(&self, lane: &Lane, person: Option<UserId>) -> Vec<String> {
        let now = self.shared.now();
        let today = TimeZone::UTC.to_datetime(now).date();
        let from = today.saturating_sub((DAYS - 1).days());
        let (turns, own) = (self.shared.deps.workspace.turns(), lane.clone());
        let costs = turns
            .days(from, today, Costs::default(), move |costs: &mut Costs, line| {
                if line.lane == own {
                    costs.add(&line);
                }
            })
            .await;
        let subject = budgets::lane_subject(&self.shared, lane).await;
        let subject = BudgetSubject { person, ..subject };
        let uses = self.shared.budgets.uses(&subject).await;
        let mut lines = shown(&costs, from, today);
        lines.extend(uses.iter().map(budget));
        lines
    }
}

/// Returns the lines about the sums of days. Pure.
fn shown(costs: &Costs, from: Date, today: Date) -> Vec<String> {
    let whole = &costs.whole;
    if whole.turns == 0 {
        return vec![format!("No turn ran here in the last {DAYS} days.")];
    }
    let sum_of = |day: Date| costs.days.get(&day).copied().unwrap_or_default();
    let (name, of): (&str, fn(&CostSum) -> f64) = if whole.with_price > 0 {
        ("Cost", |sum| sum.cost_usd)
    } else if whole.with_tokens > 0 {
        ("Tokens", |sum| (sum.input + sum.output) as f64)
    } else {
        ("Turns", |sum| sum.turns as f64)
    };
    let days: Vec<f64> =
        from.series(1.day()).take_while(|day| *day <= today).map(|day| of(&sum_of(day))).collect();
    let mut lines = vec![
        format!("Last {DAYS} days: {}", described(whole)),
        format!("Today: {}", described(&sum_of(today))),
        format!("{name} a day: {}", plot(&days)),
    ];
    if whole.with_price > 0 {
        lines.push(
            "Costs are list prices as agents report them; a subscription usually costs less."
                .to_owned(),
        );
    }
    lines
}

fn described(sum: &CostSum) -> String {
    let mut text = format!("{}, {} h", counted(sum.turns, "turn"), sum.hours());
    if sum.with_tokens > 0 {
        let tokens = sum.tokens(sum.input.saturating_add(sum.output));
        text.push_str(&format!(", {tokens} tokens"));
    }
    if sum.with_price > 0 {
        text.push_str(&format!(", {}", sum.cost()));
    }
    text
}

/// Returns one character for each value. The greatest one is full.
fn plot(values: &[f64]) -> String {
    let greatest = values.iter().copied().fold(0.0, f64::max);
    let bar = |value: &f64| {
        let part = if greatest > 0.0 { value / greatest } else { 0.0 };
        let level = (part * (BARS.len() - 1) as f64).ceil() as usize;
        BARS[level.min(BARS.len() - 1)]
    };
    values.iter().map(bar).collect()
}

fn budget(used: &AccountUse) -> String {
    let (percent, unit) = (used.percent(), used.rule.unit);
    let full = (percent * BAR_WIDTH / 100).min(BAR_WIDTH);
    let bar: String = (0..BAR_WIDTH).map(|at| if at < full { '█' } else { '░' }).collect();
    format!(
        "Budget {}: {bar} {percent} %, {} of {} a {}, until {}",
        used.rule.name,
        unit.describe(used.used),
        unit.describe(used.cap),
        used.rule.period.word(),
        shown_date(used.span.end)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_plotted_by_the_greatest_and_a_lane_without_turns_says_so() {
        let day = |day: i8| Date::constant(2026, 11, day);
        let nothing = shown(&Costs::default(), day(1), day(3));
        assert_eq!(nothing, ["No turn ran here in the last 14 days."]);
        let sum = |turns: u64, cost_usd: f64| CostSum {
            turns,
            with_price: turns,
            cost_usd,
            took_ms: turns * 3_600_000,
            ..CostSum::default()
        };
        let mut costs = Costs { whole: sum(3, 5.0), ..Costs::default() };
        costs.days.extend([(day(1), sum(1, 1.0)), (day(3), sum(2, 4.0))]);
        let lines = shown(&costs, day(1), day(3));
        assert!(lines[0].starts_with("Last 14 days: 3 turns, "), "{}", lines[0]);
        assert!(
            lines[1].starts_with("Today: 2 turns, ") && lines[1].contains("4.00"),
            "{}",
            lines[1]
        );
        assert_eq!(lines[2], "Cost a day: ▃▁█");
        assert!(lines[3].contains("list prices"), "{}", lines[3]);
        let free = Costs { whole: CostSum { turns: 1, ..CostSum::default() }, ..costs };
        assert!(shown(&free, day(1), day(3))[2].starts_with("Turns a day: "));
    }
}
