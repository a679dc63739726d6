//! `aetheel costs`: prints the costs of turns.

use std::collections::BTreeSet;

use clap::Args;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};
use serde_json::{Value, json};

use super::context::{block_on_command, if_sound_but_caps, start_log, with_console_settings};
use crate::cli::{Common, exit};
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, ColumnAlignment, aligned, print_stderr};
use aetheel_model::budget::{BudgetCap, CapError, ProjectedPeriod, SpentTurn, what_if};
use aetheel_model::plain::short_line;
use aetheel_model::suggest::nearest;
use aetheel_store::workspace::costs::{CostSum, Costs, LaneCosts, top};
use aetheel_store::workspace::{CostSheet, FinishedTurns, TurnLine};

/// Largest number of rows of a table; the remaining entries are summed up in one row.
const MAX_ROWS: usize = 20;
const MAX_NAME_CHARS: usize = 40;

/// Explains the column `cost`.
const LIST_PRICES: &str =
    "cost: list prices as agents report them; a subscription usually costs less";

/// Arguments of `aetheel costs`.
#[derive(Args, Debug)]
pub struct CostsArgs {
    /// Settings shared by all commands.
    #[command(flatten)]
    common: Common,
    /// Number of days, including today
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=3660))]
    days: u16,
    /// Print comma-separated values: a row for each day, lane, person and backend
    #[arg(long)]
    csv: bool,
    /// Print JSON, for programs
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Show which of these turns a cap would have stopped, such as `$5 a day for each person`
    #[arg(long, value_name = "CAP", conflicts_with_all = ["csv", "json"], value_parser = what_if_cap)]
    what_if: Option<BudgetCap>,
}

fn what_if_cap(text: &str) -> Result<BudgetCap, CapError> {
    BudgetCap::parse("what-if", text)
}

impl CostsArgs {
    pub(super) fn run(self) -> u8 {
        with_console_settings(&self.common, None, |settings| {
            if_sound_but_caps(settings, |settings| block_on_command(print(settings, &self)))
        })
    }
}

async fn print(settings: OperatorSettings, args: &CostsArgs) -> Result<u8, u8> {
    let OperatorSettings { config, redactor, .. } = settings;
    start_log(&redactor)?;
    let turns = FinishedTurns::of_folder(&config.config_dir);
    let to = TimeZone::UTC.to_datetime(Timestamp::now()).date();
    let from = to.saturating_sub((i64::from(args.days) - 1).days());
    let text = if let Some(cap) = &args.what_if {
        let add = |all: &mut Vec<SpentTurn>, line: TurnLine| all.extend(line.spent());
        let spent = turns.days(from, to, Vec::new(), add).await;
        for line in unknown_names(cap, &spent) {
            print_stderr(&format!("warning: {line}"));
        }
        let periods = what_if(cap, &config.time_zone, spent).periods;
        projection(cap, &config.time_zone, &periods)
    } else if args.csv {
        turns.days(from, to, CostSheet::default(), |sheet, line| sheet.add(&line)).await.csv()
    } else if args.json {
        as_json(&turns.costs(from, to).await, from, to)
    } else {
        report(&turns.costs(from, to).await, from, to)
    };
    terminal::print(&redactor.redact(text));
    Ok(exit::OK)
}

/// Returns the sums as JSON. Fields may be added, but never change or disappear.
fn as_json(lanes: &LaneCosts, from: Date, to: Date) -> String {
    let mut all = Costs::default();
    lanes.values().for_each(|costs| all.merge(costs));
    let people = all.people.values();
    let report = json!({
        "from": from.to_string(),
        "to": to.to_string(),
        "all": sum_json(&all.whole),
        "days": list(all.days.iter().map(|(day, sum)| row("day", day.to_string(), sum))),
        "lanes": list(lanes.iter().map(|(lane, costs)| row("lane", lane.to_string(), &costs.whole))),
        "people": list(people.map(|one| row("name", one.name.clone(), &one.sum))),
        "backends": list(all.backends.iter().map(|(name, sum)| row("backend", name.clone(), sum))),
        "models": list(all.models.iter().map(|(name, sum)| row("model", name.clone(), sum))),
    });
    serde_json::to_string_pretty(&report).unwrap_or_default() + "\n"
}

fn list(rows: impl Iterator<Item = Value>) -> Value {
    rows.collect()
}

fn row(name: &str, value: impl Into<Value>, sum: &CostSum) -> Value {
    let mut row = sum_json(sum);
    row[name] = value.into();
    row
}

/// Returns a sum as JSON. `reported` and `priced` count the turns whose tokens and price are known.
fn sum_json(sum: &CostSum) -> Value {
    json!({
        "turns": sum.turns,
        "failed": sum.failed,
        "took-ms": sum.took_ms,
        "reported": sum.with_tokens,
        "input": sum.input,
        "cached": sum.cached,
        "output": sum.output,
        "reasoning": sum.reasoning,
        "priced": sum.with_price,
        "cost-usd": sum.cost_usd,
    })
}

fn report(lanes: &LaneCosts, from: Date, to: Date) -> String {
    let mut all = Costs::default();
    lanes.values().for_each(|costs| all.merge(costs));
    if all.whole.turns == 0 {
        return format!("no turn ended from {from} to {to}\n");
    }
    let model = |name: &Option<String>| name.clone().unwrap_or_else(|| "unknown".to_owned());
    let places = lanes.iter().map(|(lane, costs)| (lane.to_string(), costs.whole));
    let people = all.people.values().map(|person| (person.name.clone(), person.sum));
    let backends = all.backends.iter().map(|(name, sum)| (name.clone(), *sum));
    let models = all.models.iter().map(|(name, sum)| (model(name), *sum));
    let days = all.days.iter().map(|(day, sum)| (day.to_string(), *sum)).collect();
    let whole = (format!("{from} to {to} (UTC)"), all.whole);
    [
        table("all", vec![whole]),
        table("day", days),
        table("lane", top(places, MAX_ROWS)),
        table("person", top(people, MAX_ROWS)),
        table("backend", top(backends, MAX_ROWS)),
        table("model", top(models, MAX_ROWS)),
        format!("{LIST_PRICES}\n"),
    ]
    .join("\n")
}

/// Returns a line for each name of a cap that no turn has, because it is probably misspelled.
fn unknown_names(cap: &BudgetCap, spent: &[SpentTurn]) -> Vec<String> {
    let unknown = cap.names().filter_map(|(key, name)| {
        let known: BTreeSet<&str> = spent
            .iter()
            .filter_map(|turn| match key {
                "project" => turn.subject.project.as_deref(),
                "backend" => Some(turn.subject.backend.as_str()),
                _ => turn.subject.schedule.as_deref(),
            })
            .collect();
        let is_known = known.contains(name);
        let meant = nearest(name, known).map(|meant| format!("; did you mean `{meant}`?"));
        let line =
            format!("no turn of these days has the {key} `{name}`{}", meant.unwrap_or_default());
        (!is_known).then_some(line)
    });
    unknown.collect()
}

/// Formats the effect that a cap would have had.
fn projection(cap: &BudgetCap, zone: &TimeZone, periods: &[ProjectedPeriod]) -> String {
    let stopped: u64 = periods.iter().map(|period| period.stopped).sum();
    let began: u64 = periods.iter().map(|period| period.began).sum();
    let amount = |sum: fn(&ProjectedPeriod) -> u64| {
        cap.unit.describe(periods.iter().map(sum).fold(0, u64::saturating_add))
    };
    let (used, allowed) = (amount(|period| period.used), amount(|period| period.allowed));
    let text = format!(
        "{}: {stopped} of {} turns would have waited, and {allowed} of {used} would have been used\n",
        cap.describe(),
        stopped + began,
    );
    let reached: Vec<&ProjectedPeriod> =
        periods.iter().filter(|period| period.reached.is_some()).collect();
    if reached.is_empty() {
        return text;
    }
    let mut lines = vec![["account", "from", "used", "reached at", "waiting"].map(str::to_owned)];
    let prefix = format!("{} {} {}", cap.name, cap.unit.word(), cap.period.word());
    lines.extend(reached.into_iter().map(|period| {
        let account = period.account.0.strip_prefix(&prefix).unwrap_or_default().trim();
        let at = |time: Timestamp| time.to_zoned(zone.clone());
        [
            short_line(if account.is_empty() { "all" } else { account }, MAX_NAME_CHARS),
            at(period.span.start).strftime("%Y-%m-%d").to_string(),
            cap.unit.describe(period.used),
            period
                .reached
                .map_or_else(String::new, |time| at(time).strftime("%Y-%m-%d %H:%M").to_string()),
            period.stopped.to_string(),
        ]
    }));
    text + "\n" + &joined(&lines)
}

fn table(what: &str, rows: Vec<(String, CostSum)>) -> String {
    let head = [what, "cost", "turns", "failed", "hours", "in", "cached", "out", "thinking"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.into_iter().map(|(name, sum)| {
        let tokens = |count| sum.tokens(count);
        [
            short_line(&name, MAX_NAME_CHARS),
            sum.cost(),
            sum.turns.to_string(),
            sum.failed.to_string(),
            sum.hours(),
            tokens(sum.input),
            tokens(sum.cached),
            tokens(sum.output),
            tokens(sum.reasoning),
        ]
    }));
    joined(&lines)
}

fn joined<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> String {
    aligned(rows, ColumnAlignment::Right).join("\n") + "\n"
}
