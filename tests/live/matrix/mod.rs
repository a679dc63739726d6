//! Tests of every backend with its real agent: the matrix of `docs/compatibility.md`.
//!
//! `make test-live` runs the cells whose inputs have changed since their last run, and writes the
//! page. `BACKEND=` and `CASE=` name cells that are run in any case. One agent runs at a time,
//! confined as the gateway does it by default, as an ordinary user, for whom `scripts/live-cases`
//! starts it. Results are saved below `target/live/`.

mod backends;
mod exceptions;
mod gateway;
mod lives;
mod program;
mod report;
mod results;
mod scenarios;
mod stage;

use std::time::{Duration, Instant};

use aetheel_model::agent::descriptor::{Feature, LinkSharing};
use aetheel_model::limits::ResourceLimits;
use aetheel_store::workspace::Profiles;
use aetheel_wasm::{Engine, Inspection};

use self::backends::{BACKENDS, Backend};
use self::exceptions::Often;
use self::gateway::{Cell, component};
use self::results::{CellResult, Verdict};
use self::scenarios::{About, SCENARIOS, Scenario};
use super::agents::{Agent, is_root};

/// Time limit of a cell.
const CELL_LIMIT: Duration = Duration::from_secs(300);

/// Waits until the condition holds, with the time limit of all waits here.
async fn wait_until(what: &str, holds: impl Fn() -> bool) {
    wait_up_to(stage::PATIENCE, what, holds).await;
}

async fn wait_up_to(limit: Duration, what: &str, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < limit, "waited in vain until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The cells to run, from `BACKEND` and `CASE`.
struct Selection {
    backend: String,
    case: String,
}

impl Selection {
    fn named() -> Self {
        let variable = |name| std::env::var(name).unwrap_or_default();
        Self { backend: variable("BACKEND"), case: variable("CASE") }
    }

    /// A column is selected by its whole name with dashes for blanks, or by its beginning and a
    /// `*`.
    fn takes(&self, backend: &Backend, scenario: &Scenario) -> bool {
        if !applies(backend, scenario, is_root()) {
            return false;
        }
        let slug = results::slug(backend.name);
        let column = match self.backend.strip_suffix('*') {
            Some(beginning) => slug.starts_with(beginning),
            None => self.backend.is_empty() || slug == self.backend,
        };
        column && (self.case.is_empty() || scenario.name.contains(&self.case))
    }

    /// Returns whether cells are run again that have a result.
    fn reruns(&self) -> bool {
        !self.case.is_empty() || std::env::var_os("FRESH").is_some_and(|fresh| !fresh.is_empty())
    }
}

/// Returns whether a cell exists. Root has only the cells in which an agent may behave differently
/// for it.
fn applies(backend: &Backend, scenario: &Scenario, as_root: bool) -> bool {
    let rights = matches!(scenario.about, About::Level(_) | About::Boundary);
    let looked_at = rights || !backend.rights_only;
    looked_at
        && (!as_root
            || (scenario.about != About::Team
                && backend.differs_for_root()
                && (rights || scenario.needs.contains(&Feature::Permissions))))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs the real CLIs: make test-live"]
async fn every_cell_passes_or_has_a_reason() {
    let selection = Selection::named();
    let (mut run, mut unready) = (0, Vec::new());
    // The rows that start the program come first: once a gateway has run in this process, it kills
    // processes that it did not start.
    let of_the_program =
        |scenario: &Scenario| matches!(scenario.about, About::Boundary | About::Service);
    for (backend, programs) in [true, false]
        .into_iter()
        .flat_map(|programs| BACKENDS.iter().map(move |backend| (backend, programs)))
    {
        let takes = |scenario: &&Scenario| {
            of_the_program(scenario) == programs && selection.takes(backend, scenario)
        };
        let column: Vec<&Scenario> = SCENARIOS.iter().filter(takes).collect();
        if column.is_empty() {
            continue;
        }
        run += column.len();
        let (agent, inspection) = match ready(backend).await {
            Ok(ready) => ready,
            Err(missing) => {
                unready.push(format!("{} cannot be run: {missing}", backend.name));
                continue;
            }
        };
        for scenario in column {
            let fingerprint = results::fingerprint(&inspection.digest, backend, &agent);
            let kept = results::read(backend, &agent, is_root(), scenario.name)
                .filter(|kept| kept.fingerprint == fingerprint);
            let kept = kept.filter(|kept| {
                !selection.reruns()
                    && kept
                        .verdict
                        .is_final(exceptions::fault(backend, scenario.name).map(|(_, why)| why))
            });
            if let Some(kept) = kept {
                println!("{} × {}: {} (kept)", backend.name, scenario.name, kept.verdict);
                continue;
            }
            let begun = Instant::now();
            let cell = Cell::new(*backend, agent.clone(), inspection.descriptor.clone());
            let (verdict, unrecognised) = judge(scenario, cell.clone()).await;
            let seconds = (begun.elapsed().as_secs_f64() * 10.0).round() / 10.0;
            println!("{} × {}: {verdict} ({seconds} s)", backend.name, scenario.name);
            results::write(
                backend,
                &agent,
                scenario.name,
                &CellResult {
                    fingerprint,
                    verdict,
                    seconds,
                    unrecognised,
                    findings: cell.findings(),
                },
            );
        }
    }
    assert!(
        run > 0 || is_root(),
        "BACKEND={} and CASE={} name no cell",
        selection.backend,
        selection.case
    );
    let report = report::Report::of_saved_results();
    println!("\n{}\n\n{}", report.table(), report.team_table());
    report.save();
    assert!(unready.is_empty(), "{}", unready.join("\n"));
    let failed = report.failed(|backend, scenario| selection.takes(backend, scenario));
    assert!(failed.is_empty(), "{} cells failed:\n{}", failed.len(), failed.join("\n"));
}

/// Checks that the agent and the component of a column are present.
async fn ready(backend: &Backend) -> Result<(Agent, Inspection), String> {
    let agent = Agent::all()
        .into_iter()
        .find(|agent| agent.name == backend.agent)
        .filter(|agent| agent.program.is_file());
    let agent = agent.ok_or_else(|| {
        format!("`{}` is not installed (hint: `scripts/install-agents`)", backend.agent)
    })?;
    let path = component(backend.component);
    if !path.is_file() {
        return Err(format!("there is no backend at {} (hint: `make guests`)", path.display()));
    }
    let engine = Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES)
        .map_err(|error| error.to_string())?;
    let mut inspection = engine.inspect(&path).await.map_err(|error| error.to_string())?;
    if backend.backend != backend.component {
        let profiles = Profiles::parse(include_str!("../../../config/acp.md"));
        let profile = profiles
            .all
            .get(backend.backend)
            .ok_or_else(|| format!("`config/acp.md` has no profile `{}`", backend.backend))?;
        inspection.descriptor =
            profile.apply(&inspection.descriptor).map_err(|error| error.to_string())?;
    }
    if inspection.descriptor.sharing == LinkSharing::Turn && !backend.one_shot {
        return Err(format!("the backend `{}` has no long-lived form", backend.component));
    }
    Ok((agent, inspection))
}

/// Runs a scenario if it applies, and returns its verdict.
async fn judge(
    scenario: &Scenario,
    cell: Cell,
) -> (Verdict, std::collections::BTreeMap<String, u32>) {
    if let Some(feature) = scenario.needs.iter().find(|feature| !cell.has(**feature)) {
        let why = exceptions::lacking(&cell.backend, *feature);
        return (Verdict::NotApplicable { why }, Default::default());
    }
    if let Some(why) = exceptions::unable(&cell.backend, scenario.name) {
        return (Verdict::NotApplicable { why: why.to_owned() }, Default::default());
    }
    let told = run(scenario, &cell).await;
    let aftermath = cell.close().await;
    let told = told.and_then(|()| {
        if aftermath.faults.is_empty() { Ok(()) } else { Err(aftermath.faults.join("; ")) }
    });
    let verdict = match (told, exceptions::fault(&cell.backend, scenario.name)) {
        (Ok(()), None) => Verdict::Passed,
        (Err(evidence), Some((_, why))) => Verdict::AgentFault { why: why.to_owned(), evidence },
        (Ok(()), Some((Often::AtTimes, why))) => {
            Verdict::AgentFault { why: why.to_owned(), evidence: "not this time".to_owned() }
        }
        (Ok(()), Some((Often::Always, _))) => {
            Verdict::Failed { what: "it passes now: take it out of the agent's faults".to_owned() }
        }
        (Err(what), None) => Verdict::Failed { what },
    };
    (verdict, aftermath.unrecognised)
}

/// Runs a scenario, which keeps its folders until its gateways have ended.
async fn run(scenario: &Scenario, cell: &Cell) -> Result<(), String> {
    let task = tokio::spawn((scenario.run)(cell.clone()));
    let abort = task.abort_handle();
    match tokio::time::timeout(CELL_LIMIT, task).await {
        Ok(Ok(())) => Ok(()),
        Ok(Err(failed)) => match failed.try_into_panic() {
            Ok(panic) => {
                let said = panic
                    .downcast_ref::<String>()
                    .map(String::as_str)
                    .or(panic.downcast_ref::<&str>().copied());
                Err(said.unwrap_or("it panicked").to_owned())
            }
            Err(failed) => Err(failed.to_string()),
        },
        Err(_) => {
            abort.abort();
            Err(format!("it took longer than {} s", CELL_LIMIT.as_secs()))
        }
    }
}
