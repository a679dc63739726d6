//! The matrix as a page for people.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use aetheel_model::choice::SandboxMode;
use aetheel_process::Sandbox;
use sha2::{Digest as _, Sha256};

use super::super::agents::{Agent, is_root};
use super::applies;
use super::backends::{BACKENDS, Backend};
use super::gateway::component;
use super::results::{self, CellResult, Verdict};
use super::scenarios::{About, SCENARIOS, Scenario, TRIES};

/// The saved results of all cells.
pub struct Report {
    agents: Vec<Agent>,
    cells: BTreeMap<(usize, usize), CellResult>,
    /// The results of agents that ran as root.
    as_root: BTreeMap<(usize, usize), CellResult>,
}

impl Report {
    /// Reads every result of the agents' present versions and the present components. Results of
    /// other builds are ignored.
    pub fn of_saved_results() -> Self {
        let agents = Agent::all();
        let digest = |name| {
            Some((name, format!("{:x}", Sha256::digest(std::fs::read(component(name)).ok()?))))
        };
        let digests: BTreeMap<&str, String> =
            BACKENDS.iter().filter_map(|backend| digest(backend.component)).collect();
        let kept = |as_root: bool| {
            let mut cells = BTreeMap::new();
            for (row, scenario) in SCENARIOS.iter().enumerate() {
                for (column, backend) in BACKENDS
                    .iter()
                    .enumerate()
                    .filter(|(_, backend)| applies(backend, scenario, as_root))
                {
                    let agent = agents.iter().find(|agent| agent.name == backend.agent);
                    let kept = agent.and_then(|agent| {
                        let now =
                            results::fingerprint(digests.get(backend.component)?, backend, agent);
                        results::read(backend, agent, as_root, scenario.name)
                            .filter(|kept| kept.fingerprint == now)
                    });
                    if let Some(kept) = kept {
                        cells.insert((row, column), kept);
                    }
                }
            }
            cells
        };
        let (cells, as_root) = (kept(false), kept(true));
        Self { agents, cells, as_root }
    }

    /// Returns the whole matrix as a markdown table with footnotes.
    pub fn table(&self) -> String {
        let columns: Vec<usize> =
            (0..BACKENDS.len()).filter(|column| !BACKENDS[*column].rights_only).collect();
        table(&self.cells, &columns, |scenario| {
            !matches!(scenario.about, About::Level(_) | About::Team)
        })
    }

    /// Returns the rows about several agents and people, and the figures that they measured.
    pub fn team_table(&self) -> String {
        let columns: Vec<usize> =
            (0..BACKENDS.len()).filter(|column| !BACKENDS[*column].rights_only).collect();
        let mut told = table(&self.cells, &columns, |scenario| scenario.about == About::Team);
        let titles: Vec<&str> = FIGURES.iter().map(|(.., title)| *title).collect();
        let line = "---|".repeat(titles.len());
        write!(told, "\n\n## Figures\n\n| | {} |\n|---|{line}\n", titles.join(" | ")).unwrap();
        for column in columns {
            let figures: Vec<&str> = FIGURES
                .iter()
                .map(|(name, finding, _)| {
                    let row = SCENARIOS.iter().position(|scenario| scenario.name == *name);
                    let kept = row.and_then(|row| self.cells.get(&(row, column)));
                    kept.and_then(|kept| kept.findings.get(*finding)).map_or("–", String::as_str)
                })
                .collect();
            writeln!(told, "| {} | {} |", BACKENDS[column].name, figures.join(" | ")).unwrap();
        }
        told
    }

    /// Returns the rights that root has and others have not, and the reverse.
    fn root_section(&self) -> String {
        let columns: Vec<usize> =
            (0..BACKENDS.len()).filter(|column| BACKENDS[*column].differs_for_root()).collect();
        let run = |scenario: &Scenario| {
            !matches!(scenario.about, About::Level(_))
                && applies(&BACKENDS[columns[0]], scenario, true)
        };
        format!("{}\n\n{}", table(&self.as_root, &columns, run), levels(&self.as_root))
    }

    /// Returns the output that the backends did not recognise, by column.
    fn unrecognised(&self) -> String {
        let mut told = String::new();
        for (column, backend) in BACKENDS.iter().enumerate() {
            let mut seen: BTreeMap<&str, (u32, Vec<&str>)> = BTreeMap::new();
            for ((row, _), kept) in self.cells.iter().filter(|((_, of), _)| *of == column) {
                for (what, count) in &kept.unrecognised {
                    let entry = seen.entry(what).or_default();
                    entry.0 += count;
                    entry.1.push(SCENARIOS[*row].name);
                }
            }
            for (what, (count, scenarios)) in seen {
                let what: String = what.replace('\n', " ").chars().take(300).collect();
                writeln!(
                    told,
                    "- {}, {count} times, in {}: `{}`",
                    backend.name,
                    scenarios.join(", "),
                    what.replace('`', "'")
                )
                .unwrap();
            }
        }
        if told.is_empty() { "Nothing.\n".to_owned() } else { told }
    }

    /// Returns the cells that failed, each with its failure.
    pub fn failed(&self, takes: impl Fn(&Backend, &Scenario) -> bool) -> Vec<String> {
        let cells = if is_root() { &self.as_root } else { &self.cells };
        let failed =
            cells.iter().filter(|((row, column), _)| takes(&BACKENDS[*column], &SCENARIOS[*row]));
        failed
            .filter_map(|((row, column), kept)| match &kept.verdict {
                Verdict::Failed { what } => {
                    let what: String = what.chars().take(1500).collect();
                    Some(format!("{} × {}: {what}", BACKENDS[*column].name, SCENARIOS[*row].name))
                }
                _ => None,
            })
            .collect()
    }

    /// Returns the cells of a page that have no result for the present agents and components.
    fn missing(&self, is_team: bool) -> Vec<String> {
        let mut missing = Vec::new();
        for (as_root, cells) in [(false, &self.cells), (true, &self.as_root)] {
            let rows = SCENARIOS.iter().enumerate();
            for (row, scenario) in
                rows.filter(|(_, scenario)| (scenario.about == About::Team) == is_team)
            {
                for (column, backend) in BACKENDS.iter().enumerate() {
                    if applies(backend, scenario, as_root) && !cells.contains_key(&(row, column)) {
                        let user = if as_root { " (as root)" } else { "" };
                        missing.push(format!("{} × {}{user}", backend.name, scenario.name));
                    }
                }
            }
        }
        missing
    }

    /// Writes the pages to `target/live/`, from where `scripts/live-cases` copies it to `docs/`,
    /// because the user of the cases may not write there.
    ///
    /// An incomplete page is not written, and an earlier one is removed, so that no result in
    /// `docs/` is ever replaced by "not run".
    pub fn save(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pinned = std::env::var("CLI_VERSIONS").map_or(true, |versions| versions != "latest");
        for (name, is_team) in [("compatibility", false), ("compatibility-team", true)] {
            let path = root.join(format!(
                "target/live/{name}{}{}.md",
                if pinned { "" } else { "-latest" },
                results::sandbox_suffix()
            ));
            self.save_page(&path, is_team);
        }
    }

    fn save_page(&self, path: &Path, is_team: bool) {
        let missing = self.missing(is_team);
        if !missing.is_empty() {
            let _ = std::fs::remove_file(path);
            println!(
                "\nnot written: {}: {} cells have no result for the present agents and components; \
                 run `make test-live` without BACKEND and CASE, as root. The first of them:\n{}",
                path.display(),
                missing.len(),
                missing.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
            );
            return;
        }
        let page = if is_team { self.team_page() } else { self.page() };
        std::fs::write(path, page).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("\nwritten: {}", path.display());
    }

    fn team_page(&self) -> String {
        let versions = self.versions();
        format!("{TEAM_HEAD}\n## Versions\n\n{versions}\n## Matrix\n\n{}", self.team_table())
    }

    /// Returns the table of the agents with their versions.
    fn versions(&self) -> String {
        let mut versions = String::from("| agent | version | columns |\n|---|---|---|\n");
        for agent in &self.agents {
            let columns: Vec<&str> = BACKENDS
                .iter()
                .filter(|backend| backend.agent == agent.name)
                .map(|backend| backend.name)
                .collect();
            writeln!(versions, "| {} | {} | {} |", agent.name, agent.version, columns.join(", "))
                .unwrap();
        }
        format!("{versions}\n{COMPONENTS}{}", components())
    }

    fn page(&self) -> String {
        let versions = self.versions();
        let sandbox = Sandbox::probe(SandboxMode::Auto).unwrap_or_default();
        let own = matches!(sandbox, Sandbox::Landlock { bubblewrap: Some(_), .. });
        let confined = format!(
            "{}{}",
            sandbox.describe(),
            if own { ", and bubblewrap for Codex" } else { "" }
        );
        format!(
            "{HEAD}\n## Versions\n\n{versions}\nConfined by {confined}.\n\n## Matrix\n\n{}\n\n## What agents may do\n\n{LEVELS}\n{}\n\
            ## As root\n\n{ROOT}\n{}\n## Not recognised\n\n\
            Output of the agents that the backends do not know (each piece is kept in the recording):\n\n{}",
            self.table(),
            levels(&self.cells),
            self.root_section(),
            self.unrecognised()
        )
    }
}

/// Returns the rows of the present components: name, version, digest, and the version again, which
/// `scripts/components` replaces when a later version is shipped.
fn components() -> String {
    let names: BTreeSet<&str> = BACKENDS.iter().map(|backend| backend.component).collect();
    let row = |name: &str| {
        let bytes = std::fs::read(component(name)).expect("the component that was tested");
        let digest = format!("{:x}", Sha256::digest(bytes));
        let descriptor = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("guest-backends/{name}/src/descriptor.json"));
        let descriptor = std::fs::read_to_string(descriptor).expect("its descriptor");
        let descriptor: serde_json::Value = serde_json::from_str(&descriptor).expect("JSON");
        let version = descriptor["version"].as_str().expect("its version");
        format!("| {name} | {version} | {} | {version} |\n", &digest[..12])
    };
    names.into_iter().map(row).collect()
}

/// Returns a table of some columns and rows, with footnotes.
fn table(
    cells: &BTreeMap<(usize, usize), CellResult>,
    columns: &[usize],
    takes: impl Fn(&Scenario) -> bool,
) -> String {
    let mut notes: Vec<String> = Vec::new();
    let mut table = String::from("| |");
    for column in columns {
        write!(table, " {} |", BACKENDS[*column].name).unwrap();
    }
    table.push_str("\n|---|");
    table.push_str(&"---|".repeat(columns.len()));
    for (row, scenario) in SCENARIOS.iter().enumerate().filter(|(_, scenario)| takes(scenario)) {
        write!(table, "\n| {} |", scenario.title).unwrap();
        for column in columns {
            let cell = match cells.get(&(row, *column)).map(|kept| &kept.verdict) {
                None => "not run".to_owned(),
                Some(Verdict::Passed) => "✓".to_owned(),
                Some(Verdict::NotApplicable { why }) => format!("n/a {}", note(&mut notes, why)),
                Some(Verdict::AgentFault { why, .. }) => format!("fault {}", note(&mut notes, why)),
                Some(Verdict::Failed { .. }) => "✗".to_owned(),
            };
            write!(table, " {cell} |").unwrap();
        }
    }
    table.push('\n');
    for (number, note) in notes.iter().enumerate() {
        write!(table, "\n{}. {note}", number + 1).unwrap();
    }
    table
}

/// Returns a table for each level with the outcome of each attempt, by column.
fn levels(cells: &BTreeMap<(usize, usize), CellResult>) -> String {
    let mut told = String::new();
    for (row, scenario) in SCENARIOS.iter().enumerate() {
        let About::Level(level) = scenario.about else { continue };
        let run: Vec<(&Backend, &CellResult)> = BACKENDS
            .iter()
            .enumerate()
            .filter_map(|(column, backend)| Some((backend, cells.get(&(row, column))?)))
            .collect();
        if run.is_empty() {
            continue;
        }
        writeln!(
            told,
            "### {level}\n\n| | {} |\n|---|{}",
            TRIES.join(" | "),
            "---|".repeat(TRIES.len())
        )
        .unwrap();
        let mut notes = Vec::new();
        for (backend, kept) in run {
            let mark = match &kept.verdict {
                Verdict::Failed { .. } => " ✗".to_owned(),
                Verdict::AgentFault { why, .. } | Verdict::NotApplicable { why } => {
                    format!(" {}", note(&mut notes, why))
                }
                Verdict::Passed => String::new(),
            };
            let came: Vec<&str> = TRIES
                .iter()
                .map(|name| kept.findings.get(*name).map_or("–", String::as_str))
                .collect();
            writeln!(told, "| {}{mark} | {} |", backend.name, came.join(" | ")).unwrap();
        }
        for (number, note) in notes.iter().enumerate() {
            write!(told, "\n{}. {note}", number + 1).unwrap();
        }
        told.push('\n');
    }
    told
}

fn note(notes: &mut Vec<String>, why: &str) -> String {
    let at = notes.iter().position(|note| note == why).unwrap_or_else(|| {
        notes.push(why.to_owned());
        notes.len() - 1
    });
    format!("[{}]", at + 1)
}

const COMPONENTS: &str = "\
## Components

The results are those of the components with these versions and digests. The middle number of a version changes when the component returns other
actions for a recording.

| component | tested | digest | shipped |
|---|---|---|---|
";

const LEVELS: &str = "\
By level of safety: `yes`: it does so by itself. `asks`: somebody is asked, and it was not done without leave. `no`: it cannot. Leave for something
outside the working directory has no effect, because the sandbox still refuses it.
";

const ROOT: &str = "\
Claude Code has rules of its own for root, which containers run as; `IS_SANDBOX=1` is set.
";

/// Measured figures: the row, the name of the finding, and the title of the column.
const FIGURES: &[(&str, &str, &str)] = &[
    ("limit-plan", "seconds", "seconds until the message about the limit of a plan"),
    ("limit-key", "seconds", "seconds until the message about the limit of a key"),
    ("budget-tokens", "requests", "requests to the model with a cap of tokens"),
    ("budget-dollars", "requests", "requests to the model with a cap of dollars"),
];

const TEAM_HEAD: &str = "\
# Compatibility of teams

Usage limits, budgets, switches between agents, collisions and the tools of the gateway, each run with the real agents as described in
[Compatibility](compatibility.md). `make test-live` writes this page. `make test-live BACKEND=codex CASE=limit` runs the rows of one agent.

The model service refuses requests with the headers and texts that the providers send. The limit of a plan is that of a Claude or ChatGPT
subscription or of a Google account, the limit of a key is that of requests to the provider's API. OpenCode and Factory Droid use keys only.
A turn of a budget's row makes six requests, and the third one reaches the cap. ✓ means
that the agent is stopped, or not, as [Budgets](budgets.md#how-each-amount-is-counted) says. In the row about other agents, each agent of the same kind of
run (live or one-shot) continues the conversation of the column's agent, which then returns.

✓: passed. n/a: does not apply, for the reason given. fault: the agent itself misbehaves, as described.
";

const HEAD: &str = "\
# Compatibility

Each backend is run with its real agent, through the whole gateway, against a scripted model service, without a network.
`make test-live` writes this page and runs the cells whose backend, profile or agent has changed. `make test-live BACKEND=codex CASE=resume` runs one
cell, `BACKEND='claude*'` the columns that begin so. `make test-live CLI_VERSIONS=latest` runs the newest releases instead of the pinned ones
(`scripts/agents.versions`) and writes `docs/compatibility-latest.md`: a cross there, or an entry in its last section, is what a release breaks.

The agents run as an ordinary user and confined as the gateway confines them by default (Landlock, and bubblewrap for Codex where it is installed).
With `AGENT_SANDBOX=off` the rows *cannot …* fail, as they should.

[Compatibility of teams](compatibility-team.md) has the rows about usage limits, budgets, switches between agents, collisions and the tools of
the gateway.

✓: passed. n/a: does not apply, for the reason given. fault: the agent itself misbehaves, as described; the result below `target/live/` has the evidence.
";
