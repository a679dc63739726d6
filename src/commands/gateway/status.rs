//! `aetheel status`: whether a gateway runs, and what it does.

use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde_json::json;

use crate::cli::exit;
use crate::commands::health;
use crate::startup::settings::OperatorSettings;
use crate::terminal::{self, Verbosity, line};
use aetheel_model::plain::counted;
use aetheel_store::workspace::{GatewayReport, GatewayWork, LockOwner};

/// Prints the status, and returns the exit code.
pub(super) fn run(settings: &OperatorSettings, json: bool) -> u8 {
    let folder = &settings.config.config_dir;
    let (owner, report) = (LockOwner::current(folder), GatewayReport::read(folder));
    let problem = owner.as_ref().and_then(|_| health::problem(&settings.config));
    let problem = problem.map(|problem| settings.redactor.redact(problem));
    let code = match (&owner, &problem) {
        (None, _) => exit::NOT_RUNNING,
        (Some(_), Some(_)) => exit::FAILED,
        (Some(_), None) => exit::OK,
    };
    let age = LockOwner::age_of_last_sign(folder);
    if json {
        let report = report.unwrap_or_default();
        terminal::json(&json!({
            "running": owner.is_some(),
            "config-dir": folder,
            "process": owner.as_ref().map(|owner| owner.pid),
            "version": owner.as_ref().and_then(|owner| owner.version.clone()),
            "problem": problem,
            "since": Timestamp::from_second(report.since).map(|since| since.to_string()).ok(),
            "unit": report.unit,
            "log": report.log,
            "work": report.work,
            "seconds-since-report": age.map(|age| age.as_secs()),
            "problems": report.problems,
        }));
        return code;
    }
    if terminal::verbosity() == Verbosity::Quiet && code == exit::OK {
        return code;
    }
    let Some(owner) = owner else {
        line(&format!("gateway:  not running: no gateway serves `{}`", folder.display()));
        if let Some(age) = age {
            line(&format!("          the last one was active {} ago", duration(age)));
        }
        line("          start it with `aetheel run`, or its service");
        return code;
    };
    let version = owner.version.as_deref().unwrap_or("unknown");
    let state = problem
        .as_deref()
        .map_or_else(|| "running".to_owned(), |problem| format!("not responding: {problem}"));
    line(&format!("gateway:  {state} (process {}, version {version})", owner.pid));
    line(&format!("folder:   {}", folder.display()));
    match report {
        Some(report) => report_lines(&report, age).iter().for_each(|text| line(text)),
        None => line("          an earlier version, which reports nothing else"),
    }
    code
}

fn report_lines(report: &GatewayReport, age: Option<Duration>) -> Vec<String> {
    let mut lines = Vec::new();
    if let Ok(since) = Timestamp::from_second(report.since) {
        let local = since.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z");
        let running = Timestamp::now().duration_since(since).unsigned_abs();
        lines.push(format!("since:    {local} ({})", duration(running)));
    }
    lines.push(match (&report.unit, &report.log) {
        (Some(unit), _) => format!("started:  by systemd, {}; log: `aetheel logs`", unit.name),
        (None, Some(log)) => format!("started:  without a service; log: {}", log.display()),
        (None, None) => "started:  without a service".to_owned(),
    });
    let Some(GatewayWork { discord: (connected, all), running, waiting, questions }) = &report.work
    else {
        lines.push("work:     starting".to_owned());
        return lines;
    };
    lines.push(match (connected, all) {
        (_, 0) => "discord:  not used".to_owned(),
        (0, _) => "discord:  not connected".to_owned(),
        (connected, all) if connected < all => {
            format!("discord:  {connected} of {all} shards are connected")
        }
        _ => "discord:  connected".to_owned(),
    });
    let age = age.map(|age| format!(" ({} ago)", duration(age))).unwrap_or_default();
    lines.push(format!(
        "work:     {} running, {} waiting, {} open{age}",
        counted(*running, "turn"),
        counted(*waiting, "prompt"),
        counted(*questions, "question")
    ));
    if report.problems.is_empty() {
        lines.push("problems: none in the log".to_owned());
    } else {
        lines.push("problems: the last warnings and errors of the log".to_owned());
        lines.extend(report.problems.iter().map(|problem| format!("          {problem}")));
    }
    lines
}

/// Formats a duration with its two largest units, such as `2 h 5 min`.
fn duration(time: Duration) -> String {
    let seconds = time.as_secs();
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3_600 => format!("{} min", seconds / 60),
        3_600..86_400 => format!("{} h {} min", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{} d {} h", seconds / 86_400, seconds / 3_600 % 24),
    }
}
