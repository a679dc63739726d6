//! The page of proven versions, generated from the cases of the shipped backends and from the
//! results of the real agents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use aetheel::backend::Engine;
use aetheel::config::ResourceLimits;

use crate::support::recordings::cases;

/// The shipped backends that read a real agent.
const BACKENDS: [&str; 6] = ["acp", "claude", "codex", "droid", "gemini", "opencode"];

/// The agents of the cases of `acp`, by the beginning of a case's name.
const ACP_AGENTS: [(&str, &str); 4] = [
    ("claude-", "claude-agent-acp"),
    ("codex-", "codex-acp"),
    ("droid-", "droid"),
    ("opencode-", "opencode"),
];

/// The pages with the results of the real agents. The first one with a version counts.
const RESULTS: [&str; 2] = ["compatibility.md", "compatibility-latest.md"];

const BEGINNING: &str = "# Proven versions

This page says with which versions of its agent each shipped backend was proven, and by what:

- **Cases** are [recordings](recordings.md) of that version in `tests/fixtures`, with the actions
  that the backend must return. `make test` replays all of them with the shipped components.
- **Live** is the number of scenarios that passed with the real program of that version, as
  [compatibility.md](compatibility.md) or [compatibility-latest.md](compatibility-latest.md) lists
  them. `make test-live` runs them. In a *fault* the agent itself misbehaves.

A backend from a registry shows the same for [the cases that came with
it](backends.md#install-from-a-registry). The test `artifacts::proven` generates this page
(`UPDATE_GOLDEN=1`) and compares it.

| backend | version | agent | agent version | cases | live |
|---|---|---|---|---|---|
";

/// The proof that a backend reads a version of an agent.
#[derive(Default)]
struct Proof {
    cases: usize,
    /// The scenarios that passed, and those in which the agent misbehaved.
    live: Option<(usize, usize)>,
}

/// Backend, agent, and version of the agent, also as numbers for the order.
type ProofKey = (String, String, Vec<u64>, String);

fn key(backend: &str, agent: &str, version: &str) -> ProofKey {
    let numbers = version.split('.').filter_map(|number| number.parse().ok()).collect();
    (backend.to_owned(), agent.to_owned(), numbers, version.to_owned())
}

#[tokio::test]
async fn the_page_lists_every_version_with_what_proves_it() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut proofs: BTreeMap<ProofKey, Proof> = BTreeMap::new();
    for backend in BACKENDS {
        for case in cases(backend) {
            let name = case.path.file_name().unwrap().to_string_lossy();
            let named = ACP_AGENTS.into_iter().find(|(begins, _)| name.starts_with(begins));
            let agent = match backend {
                "acp" => named.expect("a case of acp begins with its agent").1,
                own => own,
            };
            let version = case.tape.header.agent_version.clone().unwrap_or_else(|| {
                panic!("{}: its header names no `agent-version`", case.path.display())
            });
            proofs.entry(key(backend, agent, &version)).or_default().cases +=
                usize::from(case.actions.is_some());
        }
    }
    for page in RESULTS {
        let text = fs::read_to_string(docs.join(page)).unwrap();
        for (key, live) in live_results(&text) {
            proofs.entry(key).or_default().live.get_or_insert(live);
        }
    }
    let engine = Engine::new(&ResourceLimits::default(), None).unwrap();
    let mut versions = BTreeMap::new();
    for backend in BACKENDS {
        let path = docs.join(format!("../backends/{backend}.wasm"));
        let inspection = engine.inspect(&path).await;
        let inspection = inspection.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        versions.insert(backend, inspection.descriptor.version);
    }
    let mut page = BEGINNING.to_owned();
    for ((backend, agent, _, version), proof) in &proofs {
        let of = &versions[backend.as_str()];
        let cases = if proof.cases == 0 { "–".to_owned() } else { proof.cases.to_string() };
        let live = match proof.live {
            None => "–".to_owned(),
            Some((passed, 0)) => format!("{passed}"),
            Some((passed, 1)) => format!("{passed}, 1 fault"),
            Some((passed, faults)) => format!("{passed}, {faults} faults"),
        };
        let _ = writeln!(page, "| {backend} | {of} | {agent} | {version} | {cases} | {live} |");
    }
    let path = docs.join("proven.md");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == page,
        "docs/proven.md is out of date; generate it with UPDATE_GOLDEN=1"
    );
}

/// Reads the results of each backend and agent from a page: those of all its columns together.
fn live_results(page: &str) -> BTreeMap<ProofKey, (usize, usize)> {
    let versions = table(page, "## Versions");
    let matrix = table(page, "## Matrix");
    assert!(versions.len() > 1 && matrix.len() > 1, "the page has no results");
    let mut results: BTreeMap<ProofKey, (usize, usize)> = BTreeMap::new();
    for row in &versions[1..] {
        let [agent, version, columns] = &row[..] else { panic!("{row:?}") };
        for column in columns.split(", ") {
            let Some(at) = matrix[0].iter().position(|head| head == column) else { continue };
            let backend = match column.strip_prefix("acp:") {
                Some(_) => "acp",
                None => column.split(' ').next().unwrap(),
            };
            let sum = results.entry(key(backend, agent, version)).or_default();
            for cells in &matrix[1..] {
                sum.0 += usize::from(cells[at] == "✓");
                sum.1 += usize::from(cells[at].starts_with("fault"));
            }
        }
    }
    results
}

/// Returns the cells of the first table below a heading, without the line of dashes.
fn table(page: &str, heading: &str) -> Vec<Vec<String>> {
    let below = page.split(&format!("\n{heading}\n")).nth(1).unwrap_or_default();
    let lines = below.lines().skip_while(|line| !line.starts_with('|'));
    let rows = lines.take_while(|line| line.starts_with('|'));
    rows.filter(|line| !line.starts_with("|---"))
        .map(|line| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect())
        .collect()
}
