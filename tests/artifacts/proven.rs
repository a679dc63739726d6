//! The page of proven versions, generated from the cases of the shipped backends and from the
//! results of the real agents.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use aetheel_model::limits::ResourceLimits;
use aetheel_wasm::Engine;
use sha2::{Digest as _, Sha256};
use tempfile::TempDir;

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
  them. `make test-live` runs them. In a *fault* the agent itself misbehaves. A version in brackets
  is that of an earlier component, which returned other actions for a recording.

A backend from a registry shows the same for [the cases that came with
it](backends.md#install-from-a-registry). The test `artifacts::proven` generates this page
(`UPDATE_GOLDEN=1`) and compares it. `scripts/components` compares versions and digests.

| backend | version | digest |
|---|---|---|
";

const PROOFS: &str = "
| backend | version | agent | agent version | cases | live |
|---|---|---|---|---|---|
";

/// The proof that a backend reads a version of an agent.
#[derive(Default)]
struct Proof {
    cases: usize,
    /// The scenarios that passed, and those in which the agent misbehaved.
    live: Option<LiveResult>,
}

/// The results of the real agents with a component.
#[derive(Clone, Default)]
struct LiveResult {
    /// The version of the component.
    tested: String,
    passed: usize,
    faults: usize,
}

impl LiveResult {
    /// Returns the text for the page, which shows the shipped version of the component.
    fn text(&self, shipped: &str) -> String {
        let behaviour =
            |version: &str| version.rsplit_once('.').map(|(begins, _)| begins.to_owned());
        let faults = match self.faults {
            0 => String::new(),
            1 => ", 1 fault".to_owned(),
            faults => format!(", {faults} faults"),
        };
        let is_earlier = behaviour(&self.tested) != behaviour(shipped);
        let tested = if is_earlier { format!(" ({})", self.tested) } else { String::new() };
        format!("{}{faults}{tested}", self.passed)
    }
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
    let engine = Engine::new(&ResourceLimits::default(), None, aetheel_settings::NAMES).unwrap();
    let mut versions = BTreeMap::new();
    for backend in BACKENDS {
        let path = docs.join(format!("../backends/{backend}.wasm"));
        let inspection = engine.inspect(&path).await;
        let inspection = inspection.unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let digest = format!("{:x}", Sha256::digest(fs::read(&path).unwrap()));
        for ((_, agent, _, version), _) in
            proofs.iter().filter(|(key, proof)| key.0 == backend && proof.live.is_some())
        {
            assert_ne!(
                inspection.descriptor.fits(version),
                Some(false),
                "a start with {agent} {version} warns although the real agent was tested"
            );
        }
        versions.insert(backend, (inspection.descriptor.version, digest));
    }
    let mut page = BEGINNING.to_owned();
    for (backend, (version, digest)) in &versions {
        let _ = writeln!(page, "| {backend} | {version} | {} |", &digest[..12]);
    }
    page.push_str(PROOFS);
    for ((backend, agent, _, version), proof) in &proofs {
        let (shipped, _) = &versions[backend.as_str()];
        let cases = if proof.cases == 0 { "–".to_owned() } else { proof.cases.to_string() };
        let live = proof.live.as_ref().map_or("–".to_owned(), |live| live.text(shipped));
        let _ =
            writeln!(page, "| {backend} | {shipped} | {agent} | {version} | {cases} | {live} |");
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
fn live_results(page: &str) -> BTreeMap<ProofKey, LiveResult> {
    let versions = table(page, "## Versions");
    let components = table(page, "## Components");
    let matrix = table(page, "## Matrix");
    assert!(versions.len() > 1 && matrix.len() > 1, "the page has no results");
    let mut results: BTreeMap<ProofKey, LiveResult> = BTreeMap::new();
    for row in &versions[1..] {
        let [agent, version, columns] = &row[..] else { panic!("{row:?}") };
        for column in columns.split(", ") {
            let Some(at) = matrix[0].iter().position(|head| head == column) else { continue };
            let backend = match column.strip_prefix("acp:") {
                Some(_) => "acp",
                None => column.split(' ').next().unwrap(),
            };
            let component = components.iter().find(|row| row[0] == backend).expect("its component");
            let result = results.entry(key(backend, agent, version)).or_default();
            result.tested.clone_from(&component[1]);
            for cells in &matrix[1..] {
                result.passed += usize::from(cells[at] == "✓");
                result.faults += usize::from(cells[at].starts_with("fault"));
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

/// Returns a clone with these files changed, which `scripts/components` can examine.
fn clone_with(changed: &[(&str, &[u8])]) -> TempDir {
    let clone = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["backends", "docs", "guest-backends", "tests/fixtures"] {
        let link = clone.path().join(folder);
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        symlink(root.join(folder), link).unwrap();
    }
    for (path, bytes) in changed {
        // Each folder above the file becomes a real one with links to its other entries.
        let mut folder = std::path::PathBuf::new();
        for part in Path::new(path).parent().unwrap() {
            folder.push(part);
            let link = clone.path().join(&folder);
            let Ok(target) = fs::read_link(&link) else { continue };
            fs::remove_file(&link).unwrap();
            fs::create_dir(&link).unwrap();
            for entry in fs::read_dir(target).unwrap().flatten() {
                symlink(entry.path(), link.join(entry.file_name())).unwrap();
            }
        }
        let file = clone.path().join(path);
        let _ = fs::remove_file(&file);
        fs::write(file, bytes).unwrap();
    }
    clone
}

/// Runs `scripts/components` on a clone. Returns its faults, or an empty text.
fn faults_of(clone: &Path, mode: &str) -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("scripts/components");
    let done = Command::new(script).arg(mode).env("AETHEEL_CLONE", clone).output().unwrap();
    String::from_utf8(done.stderr).unwrap()
}

#[test]
fn a_changed_component_needs_a_new_version_and_pages_name_what_was_tested() {
    assert_eq!(faults_of(clone_with(&[]).path(), "--check"), "");
    let built = clone_with(&[("backends/codex.wasm", b"changed")]);
    let faults = faults_of(built.path(), "--check");
    assert!(
        faults.contains("codex has changed since ") && faults.contains("the version"),
        "{faults}"
    );
    assert!(faults_of(built.path(), "--update").contains("codex has changed since "));

    let case = "tests/fixtures/codex/plain.actions.jsonl";
    let behaves = clone_with(&[(case, b"{}")]);
    let faults = faults_of(behaves.path(), "--check");
    assert!(faults.contains("other actions") && faults.contains("the middle number"), "{faults}");

    // A page that names a digest of the shipped version, but not the shipped digest.
    let page = "docs/compatibility.md";
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join(page)).unwrap();
    let row = table(&text, "## Components").into_iter().find(|row| row[0] == "codex").unwrap();
    let [name, tested, digest, shipped] = &row[..] else { panic!("{row:?}") };
    let line = format!("| {name} | {tested} | {digest} | {shipped} |");
    let other = text.replace(&line, &format!("| {name} | {shipped} | 012345678901 | {shipped} |"));
    let faults = faults_of(clone_with(&[(page, other.as_bytes())]).path(), "--check");
    assert!(
        faults.contains("docs/compatibility.md: codex") && faults.contains("digest"),
        "{faults}"
    );
    // A release needs pages about the present behaviour.
    let earlier = text.replace(&line, &format!("| {name} | 0.0.1 | {digest} | {shipped} |"));
    let clone = clone_with(&[(page, earlier.as_bytes())]);
    assert_eq!(faults_of(clone.path(), "--check"), "");
    let faults = faults_of(clone.path(), "--release");
    assert!(faults.contains("codex was tested at 0.0.1"), "{faults}");
}
