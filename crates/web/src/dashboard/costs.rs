//! The costs of turns: sums by day, channel, person, backend and model, of the turns that the user
//! may see. Owners also see the budgets, and can download all turns as a table.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use maud::{Markup, html};

use super::access::{Owner, SignedIn};
use super::components::{Facts, Link, Table, nav, title_cell};
use super::fields::Fields;
use super::layout::{self, MenuPage};
use super::plot;
use aetheel_model::budget::AccountUse;
use aetheel_model::event::Lane;
use aetheel_model::plain::{counted, short_line};
use aetheel_store::workspace::CostSheet;
use aetheel_store::workspace::costs::{CostSum, Costs, LaneCosts, top};

/// The periods that can be chosen, in days.
const PERIODS: [u16; 3] = [7, 30, 90];
const DEFAULT_PERIOD: u16 = 30;
/// The largest number of lanes that are looked up in Discord for a page. Lanes with more turns take
/// precedence.
const ASKED: usize = 60;
/// The largest number of rows of a table. Further rows are summed up.
const ROWS: usize = 12;
/// The largest number of characters of a name.
const NAME: usize = 32;

/// Returns the period that a request asks for: one of [`PERIODS`].
fn period(query: &Fields) -> u16 {
    query.parse("days").filter(|days| PERIODS.contains(days)).unwrap_or(DEFAULT_PERIOD)
}

/// Returns the first and the last day of a period that ends today, in UTC.
fn days_until_now(days: u16) -> (Date, Date) {
    let last = TimeZone::UTC.to_datetime(Timestamp::now()).date();
    (last.saturating_sub((i64::from(days) - 1).days()), last)
}

/// The costs that a user may see.
struct VisibleCosts {
    costs: Costs,
    /// Sums of the lanes, with the names of their places.
    lanes: Vec<(String, CostSum)>,
    /// The number of lanes that were not looked up.
    left_out: usize,
}

impl VisibleCosts {
    fn take(&mut self, lane: &Lane, costs: &Costs, place: &str) {
        let place = if place.is_empty() { lane.to_string() } else { place.to_owned() };
        self.lanes.push((place, costs.whole));
        self.costs.merge(costs);
    }
}

/// Sums up the lanes that the user may see. Owners see all lanes, other users the channels that
/// they can see in Discord.
async fn visible_costs(mut all: LaneCosts, user: &SignedIn) -> VisibleCosts {
    let owner = user.is_owner();
    let mut order: Vec<(u64, Lane)> = all
        .iter()
        .filter(|(lane, _)| owner || matches!(lane, Lane::Channel(_)))
        .map(|(lane, costs)| (costs.whole.turns, lane.clone()))
        .collect();
    order.sort_by(|one, other| other.cmp(one));
    let left_out = order.len().saturating_sub(ASKED);
    let mut seen = VisibleCosts { costs: Costs::default(), lanes: Vec::new(), left_out };
    let asked = order.into_iter().take(ASKED).map(|(_, lane)| (lane.clone(), lane));
    for (permissions, lane) in user.permissions_in_all(asked).await {
        // A lane whose lookup panicked stays in `all`, which is shown only to owners.
        if owner || permissions.sees {
            seen.take(&lane, &all.remove(&lane).unwrap_or_default(), &permissions.place);
        }
    }
    if owner {
        all.iter().for_each(|(lane, costs)| seen.take(lane, costs, ""));
        seen.left_out = 0;
    }
    seen
}

/// Shows the costs.
pub(super) async fn page(user: SignedIn, query: Fields) -> Response {
    let days = period(&query);
    let (from, to) = days_until_now(days);
    let all = user.services().history.turns().costs(from, to).await;
    let VisibleCosts { costs, lanes, left_out } = visible_costs(all, &user).await;
    let budgets = match user.is_owner() {
        true => user.services().budgets.uses().await,
        false => Vec::new(),
    };
    let periods = PERIODS.map(|other| {
        let link = Link::new(format!("Last {other} days"), format!("/costs?days={other}"));
        link.current("true", other == days)
    });
    let main = html! {
        (nav("Time", None, periods))
        @if costs.whole.turns == 0 {
            p { "No turn ended in this time in the channels that you can see." }
        } @else {
            (whole(&costs.whole))
            p { "Costs are list prices as agents report them; a subscription usually costs less. Days are in UTC. Nothing is estimated: values that an agent does not report are missing from the sums." }
            h2 { "By day" }
            (plotted(&costs, from, days))
            (tables(costs, lanes))
        }
        @if !budgets.is_empty() { (budget_table(&budgets)) }
        @if left_out > 0 { p { "Left out: " (counted(left_out, "channel")) " with fewer turns." } }
        @if user.is_owner() { p { a href={ "/costs.csv?days=" (days) } { "Download as CSV" } } }
    };
    layout::page(&user, MenuPage::Costs, false, &main)
}

/// Returns all turns as CSV, for owners.
pub(super) async fn csv(Owner(user): Owner, query: Fields) -> Response {
    let (from, to) = days_until_now(period(&query));
    let turns = user.services().history.turns();
    let sheet = turns.days(from, to, CostSheet::default(), |sheet, line| sheet.add(&line)).await;
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"aetheel-costs.csv\""),
    ];
    (headers, sheet.csv()).into_response()
}

fn whole(sum: &CostSum) -> Facts {
    let tokens = html! {
        (sum.tokens(sum.input)) " in, " (sum.tokens(sum.cached)) " of them cached; "
        (sum.tokens(sum.output)) " out, " (sum.tokens(sum.reasoning)) " of them thinking"
    };
    Facts::default()
        .row("Cost", sum.cost())
        .row("Turns", format!("{}, {} failed", sum.turns, sum.failed))
        .row("Agent hours", sum.hours())
        .row("Tokens", tokens)
}

/// Draws a bar for each day: its cost or, if no costs are known, its turns.
fn plotted(costs: &Costs, from: Date, days: u16) -> Markup {
    let priced = costs.whole.with_price > 0;
    let value = |sum: &CostSum| if priced { sum.cost_usd } else { sum.turns as f64 };
    let all: Vec<Date> = from.series(1.day()).take(days.into()).collect();
    let values: Vec<f64> = all.iter().map(|day| costs.days.get(day).map_or(0.0, value)).collect();
    let (most, day) = values.iter().zip(&all).fold((0.0, from), |most, (value, day)| {
        if *value > most.0 { (*value, *day) } else { most }
    });
    let (what, most) =
        if priced { ("Cost", format!("${most:.2}")) } else { ("Turns", format!("{most}")) };
    let last = all.last().copied().unwrap_or(from);
    let about = format!(
        "{what} of each day from {from} to {last}; highest {most} ({day}). The table below has the numbers."
    );
    html! {
        figure {
            (plot::bars(&values, &about))
            figcaption { (what) ", " (from) " to " (last) "; highest: " (most) " (" (day) ")" }
        }
    }
}

/// Shows the budgets that were used in their current period.
fn budget_table(uses: &[AccountUse]) -> Markup {
    let table = Table::wide("Budgets", &["Budget", "Used", "Cap", "Share", "Until (UTC)"]);
    html! {
        h2 { "Budgets" }
        p { "Each budget in its current period. Owners raise one with the buttons below its notice in Discord." }
        (table.rows(uses, |used| html! {
            (title_cell(short_line(&used.account.to_string(), NAME)))
            td { (used.rule.unit.describe(used.used)) }
            td { (used.rule.unit.describe(used.cap)) }
            td { (used.percent()) " %" }
            td { (used.span.end.strftime("%Y-%m-%d %H:%M")) }
        }))
    }
}

/// Shows the sums by day, latest first, and by everything else.
fn tables(costs: Costs, lanes: Vec<(String, CostSum)>) -> Markup {
    let days: Vec<_> =
        costs.days.into_iter().rev().map(|(day, sum)| (day.to_string(), sum)).collect();
    let people = costs.people.into_values().map(|person| (person.name, person.sum));
    let unknown = || "unknown".to_owned();
    let models = costs.models.into_iter().map(|(name, sum)| (name.unwrap_or_else(unknown), sum));
    html! {
        (table("Day", &days))
        h2 { "By channel" }
        (table("Channel", &top(lanes, ROWS)))
        h2 { "By person" }
        (table("Person", &top(people, ROWS)))
        h2 { "By backend" }
        (table("Backend", &top(costs.backends, ROWS)))
        h2 { "By model" }
        (table("Model", &top(models, ROWS)))
    }
}

fn table(what: &str, rows: &[(String, CostSum)]) -> Markup {
    let titles = [what, "Cost", "Turns", "Failed", "Hours", "In", "Cached", "Out", "Thinking"];
    let label = format!("Costs by {}", what.to_lowercase());
    Table::wide(label, &titles).rows(rows, |(name, sum)| html! {
        (title_cell(short_line(name, NAME)))
        td { (sum.cost()) } td { (sum.turns) } td { (sum.failed) } td { (sum.hours()) }
        @for count in [sum.input, sum.cached, sum.output, sum.reasoning] { td { (sum.tokens(count)) } }
    })
}
