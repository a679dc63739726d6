//! `aetheel costs`: what turns cost, at a terminal.

use std::io::Write as _;

use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan as _};

use crate::cli::exit;
use crate::config::LogFormat;
use crate::plain::{short_line, with_causes};
use crate::startup::Refused;
use crate::startup::settings::Settings;
use crate::telemetry;
use crate::terminal::fail;
use crate::workspace::costs::{Costs, LaneCosts, Sum, top};
use crate::workspace::{Sheet, Workspace};

/// Rows of a table; the others are added up.
const ROWS: usize = 20;
/// Characters of a name.
const NAME: usize = 40;

pub(super) async fn run(settings: Settings, days: u16, csv: bool) -> u8 {
    let Settings { config, redactor, .. } = settings;
    if let Err(fault) = telemetry::start(LogFormat::Human, "error", redactor.clone()) {
        fail(&fault);
        return exit::CONFIG;
    }
    let turns = match Workspace::open(&config.config_dir).await {
        Ok(workspace) => workspace.turns(),
        Err(error) => {
            let fault = format!("CONFIG_DIR: {}", with_causes(&error));
            return Refused::because(exit::CONFIG, fault).print();
        }
    };
    let to = TimeZone::UTC.to_datetime(Timestamp::now()).date();
    let from = to.saturating_sub((i64::from(days) - 1).days());
    let text = if csv {
        turns.days(from, to, Sheet::default(), |sheet, line| sheet.add(&line)).await.csv()
    } else {
        report(&turns.costs(from, to).await, from, to)
    };
    // A closed stdout has nobody to tell.
    let _ = std::io::stdout().write_all(redactor.clean(text).as_bytes());
    exit::OK
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
        table("lane", top(places, ROWS)),
        table("person", top(people, ROWS)),
        table("backend", top(backends, ROWS)),
        table("model", top(models, ROWS)),
    ]
    .join("\n")
}

/// The first column to the left, the others to the right.
fn table(what: &str, rows: Vec<(String, Sum)>) -> String {
    let head = [what, "cost", "turns", "failed", "hours", "in", "cached", "out", "thinking"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.into_iter().map(|(name, sum)| {
        let tokens = |count| sum.tokens(count);
        [
            short_line(&name, NAME),
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
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..head.len()).map(|column| width(column).unwrap_or(0)).collect();
    let mut text = String::new();
    for line in &lines {
        for (column, (cell, width)) in line.iter().zip(&widths).enumerate() {
            text.push_str(&match column {
                0 => format!("{cell:width$}"),
                _ => format!("  {cell:>width$}"),
            });
        }
        text.push('\n');
    }
    text
}
