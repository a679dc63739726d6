//! The matrix as people read it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::super::agents::Agent;
use super::backends::{BACKENDS, Backend};
use super::gateway::component;
use super::results::{self, Kept, Verdict};
use super::scenarios::{SCENARIOS, Scenario};

/// What is known of all cells.
pub struct Report {
    agents: Vec<Agent>,
    cells: BTreeMap<(usize, usize), Kept>,
}

impl Report {
    /// Reads every result of the agents' present versions and the present components: what another build reached counts for
    /// nothing.
    pub fn of_what_is_kept() -> Self {
        let agents = Agent::all();
        let digest = |name| Some((name, format!("{:x}", Sha256::digest(std::fs::read(component(name)).ok()?))));
        let digests: BTreeMap<&str, String> = BACKENDS.iter().filter_map(|backend| digest(backend.component)).collect();
        let mut cells = BTreeMap::new();
        for (row, scenario) in SCENARIOS.iter().enumerate() {
            for (column, backend) in BACKENDS.iter().enumerate() {
                let agent = agents.iter().find(|agent| agent.name == backend.agent);
                let kept = agent.and_then(|agent| {
                    let now = results::fingerprint(digests.get(backend.component)?, agent);
                    results::read(backend, agent, scenario.name).filter(|kept| kept.fingerprint == now)
                });
                if let Some(kept) = kept {
                    cells.insert((row, column), kept);
                }
            }
        }
        Self { agents, cells }
    }

    /// The whole as a markdown table with its footnotes.
    pub fn table(&self) -> String {
        let mut notes: Vec<String> = Vec::new();
        let mut table = String::from("| |");
        for backend in BACKENDS {
            write!(table, " {} |", backend.name).unwrap();
        }
        table.push_str("\n|---|");
        table.push_str(&"---|".repeat(BACKENDS.len()));
        for (row, scenario) in SCENARIOS.iter().enumerate() {
            write!(table, "\n| {} |", scenario.title).unwrap();
            for column in 0..BACKENDS.len() {
                let cell = match self.cells.get(&(row, column)).map(|kept| &kept.verdict) {
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

    /// What the backends did not recognise, by column.
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
                writeln!(told, "- {}, {count} times, in {}: `{}`", backend.name, scenarios.join(", "), what.replace('`', "'")).unwrap();
            }
        }
        if told.is_empty() { "Nothing.\n".to_owned() } else { told }
    }

    /// The cells that failed, each with what happened.
    pub fn failed(&self, takes: impl Fn(&Backend, &Scenario) -> bool) -> Vec<String> {
        let failed = self.cells.iter().filter(|((row, column), _)| takes(&BACKENDS[*column], &SCENARIOS[*row]));
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

    /// Writes the page: the published one for the pinned versions, one below `target/live/` for others.
    pub fn save(&self) {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let pinned = std::env::var("CLI_VERSIONS").map_or(true, |versions| versions != "latest");
        let path = root.join(if pinned { "docs/compatibility.md" } else { "target/live/latest.md" });
        std::fs::write(&path, self.page()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        println!("\nwritten: {}", path.display());
    }

    fn page(&self) -> String {
        let mut versions = String::new();
        for agent in &self.agents {
            let columns: Vec<&str> = BACKENDS.iter().filter(|backend| backend.agent == agent.name).map(|backend| backend.name).collect();
            writeln!(versions, "| {} | {} | {} |", agent.name, agent.version, columns.join(", ")).unwrap();
        }
        format!(
            "{HEAD}\n## Versions\n\n| agent | version | columns |\n|---|---|---|\n{versions}\n## Matrix\n\n{}\n\n## Not recognised\n\n\
            What the agents said and the backends do not know (each such piece is kept in the recording):\n\n{}",
            self.table(),
            self.unrecognised()
        )
    }
}

fn note(notes: &mut Vec<String>, why: &str) -> String {
    let at = notes.iter().position(|note| note == why).unwrap_or_else(|| {
        notes.push(why.to_owned());
        notes.len() - 1
    });
    format!("[{}]", at + 1)
}

const HEAD: &str = "\
# Compatibility

Every backend with the real program it drives, through the whole gateway, against a scripted model service, without a network. Written
by `make test-live`, which runs what changed since the last time; `make test-live BACKEND=codex CASE=resume` runs one cell, and
`BACKEND='claude*'` the columns that begin so. `make test-live CLI_VERSIONS=latest` takes the newest releases instead of the pinned ones
(`scripts/agents.versions`) and writes to `target/live/latest.md`: what a new release breaks is a cross there, or an entry in the last
section.

✓ passed; n/a: does not apply, for the reason given; fault: the agent itself does it wrong, as described; the evidence is in the result
below `target/live/`.
";
