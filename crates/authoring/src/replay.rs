//! `aetheel backend replay`: shows the actions of a component for a recording, or compares two
//! components.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::{guest_output, resolve};
use crate::open::{self, OpenedComponent};
use aetheel::cli::{ReplayArgs, exit};
use aetheel::commands::kit::KitError;
use aetheel::terminal::{self, OutputStyle};
use aetheel_kit::summary;
use aetheel_model::plain::counted;
use aetheel_recording::case::Case;
use aetheel_recording::replay::{Batches, ReplayResult, replay};
use aetheel_settings::Config;

pub(crate) async fn run(config: Config, args: &ReplayArgs) -> u8 {
    let done = async {
        let component = resolve::component_path(&args.component, &config)?;
        let recording = resolve::recording_path(&args.recording, &config)?;
        match &args.diff {
            None => show(&component, recording, args.json).await,
            Some(other) => {
                let other = resolve::component_path(other, &config)?;
                compare(&component, &other, recording, args.json).await
            }
        }
    };
    done.await.unwrap_or_else(|unable| unable.report())
}

async fn replay_case(component: &Path, case: &Case) -> Result<ReplayResult, KitError> {
    let opened: OpenedComponent = open::component(&open::explaining_engine()?, component).await?;
    let replayed = replay(&opened.backend, &case.tape.entries, Batches::Single).await;
    replayed.map_err(|failure| {
        KitError::failed(format!("{}: no guest can be opened: {failure}", component.display()))
    })
}

async fn show(component: &Path, recording: PathBuf, json: bool) -> Result<u8, KitError> {
    let (case, printed) = (open::case(recording).await?, guest_output::capture());
    let replayed = replay_case(component, &case).await?;
    if json {
        for step in &replayed.steps {
            let (line, t) = (case.tape.lines[step.entry], case.tape.entries[step.entry].t);
            step.actions.iter().for_each(|action| {
                terminal::json_line(&json!({ "line": line, "t": t, "action": action }))
            });
        }
        for at in &replayed.withheld {
            terminal::json_line(
                &json!({ "line": case.tape.lines[*at], "t": case.tape.entries[*at].t, "withheld": true }),
            );
        }
        for lost in aetheel_kit::unread(&case.tape.entries, &replayed) {
            let (line, t) = (case.tape.lines[lost.entry], case.tape.entries[lost.entry].t);
            let unread = json!({
                "turn": lost.turn,
                "position": lost.position,
                "text": lost.text,
                "reason": lost.reason,
            });
            terminal::json_line(&json!({ "line": line, "t": t, "unread": unread }));
        }
        if let Some((at, failure)) = &replayed.failure {
            let (line, t) = (case.tape.lines[*at], case.tape.entries[*at].t);
            terminal::json_line(
                &json!({ "line": line, "t": t, "failure": { "kind": failure.kind(), "message": failure.to_string() } }),
            );
        }
        printed.lines().iter().for_each(|line| terminal::json_line(&json!({ "printed": line })));
    } else {
        print(&case, &replayed);
        printed.print();
    }
    Ok(if replayed.failure.is_none() { exit::OK } else { exit::FAILED })
}

fn print(case: &Case, replayed: &ReplayResult) {
    let page = OutputStyle::for_stdout();
    let rows = summary::summarize(&case.tape, replayed);
    let mut turns: Vec<u32> = rows.iter().filter_map(|row| row.turn).collect();
    turns.dedup();
    let (many, mut shown) = (turns.len() > 1, None);
    for row in &rows {
        if many && row.turn.is_some() && row.turn != shown {
            shown = row.turn;
            terminal::line(&page.bold(&format!("turn {}", row.turn.unwrap_or_default())));
        }
        let mut lines = row.text.lines();
        let first = lines.next().unwrap_or_default();
        let seconds = format!("{:>8.1}s", row.t / 1000.0);
        terminal::line(&format!(
            "{} {} {}",
            page.dim(&seconds),
            page.bold(&format!("{:<11}", row.what)),
            page.style(row.style, first)
        ));
        lines
            .for_each(|line| terminal::line(&format!("{:>22}{}", "", page.style(row.style, line))));
    }
    if !replayed.withheld.is_empty() {
        let places = replayed
            .withheld
            .iter()
            .map(|at| case.tape.lines[*at].to_string())
            .take(8)
            .collect::<Vec<_>>()
            .join(", ");
        terminal::line(&format!(
            "note: skipped {} with keys that this backend never created (lines {places})",
            counted(replayed.withheld.len(), "input")
        ));
    }
    if let Some(why) = case.tape.cut() {
        terminal::line(
            &page.bad(&format!("note: the recording was cut, the rest is missing: {why}")),
        );
    }
    if let Some((at, _)) = &replayed.failure {
        terminal::line(&page.bad(&format!("the backend failed at {}", case.position(*at))));
    }
}

async fn compare(
    component: &Path,
    other: &Path,
    recording: PathBuf,
    json: bool,
) -> Result<u8, KitError> {
    let case = open::case(recording).await?;
    let (first, second) = (replay_case(component, &case).await?, replay_case(other, &case).await?);
    let apart = aetheel_recording::comparison::by_line(&case.tape, &first, &second);
    if json {
        apart.iter().for_each(terminal::json_line);
    } else {
        let page = OutputStyle::for_stdout();
        if !apart.is_empty() {
            terminal::line(&page.bad(&format!("--- {}", component.display())));
            terminal::line(&page.good(&format!("+++ {}", other.display())));
        }
        for found in &apart {
            let place = format!("{}:{}", case.path.display(), found.line);
            terminal::line(&format!(
                "{} {}",
                page.bold(&place),
                page.dim(&aetheel_model::plain::shortened(&found.input, 200))
            ));
            let written = |actions: &[aetheel_model::agent::Action],
                           failure: &Option<String>|
             -> Vec<String> {
                let mut lines: Vec<String> = actions
                    .iter()
                    .filter_map(|action| serde_json::to_string(action).ok())
                    .collect();
                lines.extend(failure.clone());
                lines
            };
            let (ones, others) = (
                written(&found.first, &found.failures[0]),
                written(&found.second, &found.failures[1]),
            );
            ones.iter().for_each(|line| terminal::line(&page.bad(&format!("  - {line}"))));
            others.iter().for_each(|line| terminal::line(&page.good(&format!("  + {line}"))));
        }
        terminal::line(&match apart.len() {
            0 => page.good("both read it alike"),
            1 => page.bad("1 line is read differently"),
            many => page.bad(&format!("{many} lines are read differently")),
        });
    }
    Ok(if apart.is_empty() { exit::OK } else { exit::FAILED })
}
