//! The costs of turns: sums by day, channel, person, backend and model, of the turns that the user
//! may see. Owners also see the budgets, and can download all turns as a table.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::extract::{Query, State};
use axum::http::header;
use axum::response::{IntoResponse, Response};
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use maud::{Markup, html};
use tokio::task::JoinSet;

use super::layout::{self, MenuPage};
use super::middleware::SignedIn;
use super::{DashboardState, frame, plot};
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
fn period(query: &[(String, String)]) -> u16 {
    let asked =
        query.iter().find(|(name, _)| name == "days").and_then(|(_, days)| days.parse().ok());
    asked.filter(|days| PERIODS.contains(days)).unwrap_or(DEFAULT_PERIOD)
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
async fn visible_costs(
    shared: &Arc<DashboardState>,
    guest: &SignedIn,
    mut all: LaneCosts,
) -> VisibleCosts {
    let owner = guest.standing.owner;
    let mut order: Vec<(u64, Lane)> = all
        .iter()
        .filter(|(lane, _)| owner || matches!(lane, Lane::Channel(_)))
        .map(|(lane, costs)| (costs.whole.turns, lane.clone()))
        .collect();
    order.sort_by(|one, other| other.cmp(one));
    let left_out = order.len().saturating_sub(ASKED);
    let mut asking = JoinSet::new();
    for (_, lane) in order.drain(..order.len().min(ASKED)) {
        let (shared, guest) = (Arc::clone(shared), guest.clone());
        asking.spawn(async move { (guest.permissions_in(&shared, &lane).await, lane) });
    }
    let mut seen = VisibleCosts { costs: Costs::default(), lanes: Vec::new(), left_out };
    while let Some(answered) = asking.join_next().await {
        // A lane whose task panicked stays in `all`, which is shown only to owners.
        if let Some((standing, lane)) = answered.ok().filter(|(it, _)| owner || it.sees) {
            seen.take(&lane, &all.remove(&lane).unwrap_or_default(), &standing.place);
        }
    }
    if owner {
        all.iter().for_each(|(lane, costs)| seen.take(lane, costs, ""));
        seen.left_out = 0;
    }
    seen
}

/// Shows the costs.
pub(super) async fn page(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    let days = period(&query);
    let (from, to) = days_until_now(days);
    let all = shared.services.history.turns().costs(from, to).await;
    let VisibleCosts { costs, lanes, left_out } = visible_costs(&shared, &guest, all).await;
    let people = costs.people.values().map(|person| (person.name.clone(), person.sum));
    let backends = costs.backends.iter().map(|(name, sum)| (name.clone(), *sum));
    let unknown = || "unknown".to_owned();
    let models =
        costs.models.iter().map(|(name, sum)| (name.clone().unwrap_or_else(unknown), *sum));
    let budgets = match guest.standing.owner {
        true => shared.services.budgets.uses().await,
        false => Vec::new(),
    };
    let main = html! {
        nav aria-label="Time" {
            ul {
                @for other in PERIODS {
                    li { a href={ "/costs?days=" (other) } aria-current=[(other == days).then_some("true")] { "Last " (other) " days" } }
                }
            }
        }
        @if costs.whole.turns == 0 {
            p { "No turn ended in this time in the channels that you can see." }
        } @else {
            (whole(&costs.whole))
            p { "Costs are list prices as agents report them; a subscription usually costs less. Days are in UTC. Nothing is estimated: values that an agent does not report are missing from the sums." }
            h2 { "By day" }
            (plotted(&costs, from, days))
            (table("Day", &by_day(&costs.days)))
            h2 { "By channel" }
            (table("Channel", &top(lanes, ROWS)))
            h2 { "By person" }
            (table("Person", &top(people, ROWS)))
            h2 { "By backend" }
            (table("Backend", &top(backends, ROWS)))
            h2 { "By model" }
            (table("Model", &top(models, ROWS)))
        }
        @if !budgets.is_empty() { (budget_table(&budgets)) }
        @if left_out > 0 { p { "Left out: " (counted(left_out, "channel")) " with fewer turns." } }
        @if guest.standing.owner { p { a href={ "/costs.csv?days=" (days) } { "Download as CSV" } } }
    };
    layout::page(&guest, MenuPage::Costs, false, &main)
}

/// Returns all turns as CSV, for owners.
pub(super) async fn csv(
    State(shared): State<Arc<DashboardState>>,
    guest: SignedIn,
    Query(query): Query<Vec<(String, String)>>,
) -> Response {
    if !guest.standing.owner {
        return frame::not_found().await;
    }
    let (from, to) = days_until_now(period(&query));
    let sheet = shared
        .services
        .history
        .turns()
        .days(from, to, CostSheet::default(), |sheet, line| sheet.add(&line))
        .await;
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"aetheel-costs.csv\""),
    ];
    (headers, sheet.csv()).into_response()
}

fn whole(sum: &CostSum) -> Markup {
    html! {
        dl {
            dt { "Cost" } dd { (sum.cost()) }
            dt { "Turns" } dd { (sum.turns) ", " (sum.failed) " failed" }
            dt { "Agent hours" } dd { (sum.hours()) }
            dt { "Tokens" } dd {
                (sum.tokens(sum.input)) " in, " (sum.tokens(sum.cached)) " of them cached; "
                (sum.tokens(sum.output)) " out, " (sum.tokens(sum.reasoning)) " of them thinking"
            }
        }
    }
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
    html! {
        h2 { "Budgets" }
        p { "Each budget in its current period. Owners raise one with the buttons below its notice in Discord." }
        div.wide tabindex="0" role="region" aria-label="Budgets" {
            table {
                thead { tr {
                    @for title in ["Budget", "Used", "Cap", "Share", "Until (UTC)"] { th scope="col" { (title) } }
                } }
                tbody {
                    @for used in uses {
                        tr {
                            th scope="row" { (short_line(&used.account.to_string(), NAME)) }
                            td { (used.rule.unit.describe(used.used)) }
                            td { (used.rule.unit.describe(used.cap)) }
                            td { (used.percent()) " %" }
                            td { (used.span.end.strftime("%Y-%m-%d %H:%M")) }
                        }
                    }
                }
            }
        }
    }
}

/// Returns the sums by day, latest first.
fn by_day(days: &BTreeMap<Date, CostSum>) -> Vec<(String, CostSum)> {
    days.iter().rev().map(|(day, sum)| (day.to_string(), *sum)).collect()
}

fn table(what: &str, rows: &[(String, CostSum)]) -> Markup {
    html! {
        div.wide tabindex="0" role="region" aria-label={ "Costs by " (what.to_lowercase()) } {
            table {
                thead { tr {
                    @for title in [what, "Cost", "Turns", "Failed", "Hours", "In", "Cached", "Out", "Thinking"] {
                        th scope="col" { (title) }
                    }
                } }
                tbody {
                    @for (name, sum) in rows {
                        tr {
                            th scope="row" { (short_line(name, NAME)) }
                            td { (sum.cost()) } td { (sum.turns) } td { (sum.failed) } td { (sum.hours()) }
                            @for count in [sum.input, sum.cached, sum.output, sum.reasoning] { td { (sum.tokens(count)) } }
                        }
                    }
                }
            }
        }
    }
}
