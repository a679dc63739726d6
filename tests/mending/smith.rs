//! A bench at which changes of a shipped backend are judged.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use aetheel_kit::mend::{LostRecording, MendEvidence, SourceFiles};
use aetheel_mending::workshop::Workshop;
use aetheel_mending::{MendLimits, MendedBackend, Mending, Refused};
use aetheel_model::choice::SandboxMode;
use aetheel_model::limits::ResourceLimits;
use aetheel_process::{Custody, Means, Sandbox};
use aetheel_recording::Backend;
use aetheel_recording::case::Case;
use aetheel_wasm::Engine;

use crate::support::recordings::{cases, name as case_name};

/// Settings of cargo that make builds fast. Only the speed of components suffers.
const FAST_BUILD: [(&str, &str); 3] = [
    ("CARGO_PROFILE_RELEASE_LTO", "off"),
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16"),
];
/// Number of cases of the operator, evenly chosen.
const CASES: usize = 5;

/// Returns the sources of the shipped backends.
pub fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("guest-backends")
}

/// Returns a custody that confines agents and builds.
pub fn custody() -> Custody {
    let sandbox = Sandbox::probe(SandboxMode::Auto).expect("a sandbox");
    assert!(sandbox.is_on(), "this machine has no Landlock");
    Custody::confining(Means::Descent, sandbox).expect("custody")
}

/// A shipped backend whose changes are judged.
pub struct Bench {
    pub mending: Mending,
}

impl Bench {
    /// Opens the bench with some of the backend's recordings as cases.
    pub async fn open(name: &str) -> Self {
        let variables = std::env::vars().collect();
        let source = sources();
        let workshop =
            Workshop::open(custody(), Vec::new(), &variables, (&source, name), &FAST_BUILD).await;
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiled-backends");
        let engine =
            Engine::new(&ResourceLimits::default(), Some(&cache), aetheel_settings::NAMES).unwrap();
        let shipped =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("backends").join(format!("{name}.wasm"));
        let (found, backend) = engine.open(&shipped).await.unwrap();
        let serving: Arc<dyn Backend> = Arc::new(backend);
        let all: Vec<Case> =
            cases(name).into_iter().filter(|case| case.actions.is_some()).collect();
        let step = all.len().div_ceil(CASES);
        let chosen = all.into_iter().step_by(step).collect();
        Self {
            mending: Mending {
                serving,
                imports: found.imports,
                workshop: workshop.unwrap(),
                engine,
                evidence: MendEvidence { cases: chosen, lost: Vec::new() },
                limits: MendLimits {
                    rounds: 3,
                    time: Duration::from_secs(1800),
                    cost_usd: None,
                    mutants: 300,
                },
                program: std::env::current_exe().unwrap(),
            },
        }
    }

    pub fn serving(&self) -> &dyn Backend {
        &*self.mending.serving
    }

    pub fn original(&self) -> &SourceFiles {
        &self.mending.workshop.original
    }

    /// Makes this the turn that a change must read.
    pub fn lose(&mut self, lost: LostRecording) {
        self.mending.evidence.lost = vec![lost];
    }

    pub async fn judge(&self, candidate: &SourceFiles) -> Result<MendedBackend, Vec<String>> {
        let judged = self.mending.judge(candidate).await.expect("it can be judged");
        judged.map_err(|Refused(reasons)| reasons)
    }
}

/// Returns the case with this name.
pub fn case(backend: &str, wanted: &str) -> Case {
    let mut all = cases(backend).into_iter();
    all.find(|case| case_name(backend, case) == wanted).expect("the case")
}

/// Changes the sources of a backend so that it restores the former format of each line before it
/// reads it, as an agent might.
pub fn adapter(original: &SourceFiles, backend: &str, restore: &str) -> SourceFiles {
    let mut files = original.clone();
    let own = format!("{backend}/src/");
    for (name, bytes) in files.iter_mut().filter(|(name, _)| name.starts_with(&own)) {
        let text = String::from_utf8_lossy(bytes).into_owned();
        let mut changed = String::new();
        for line in text.lines() {
            changed.push_str(line);
            changed.push('\n');
            if line.trim_start().starts_with("fn line(&mut self, line: Line,") {
                assert!(line.ends_with('{'), "{name}: {line}");
                changed.push_str("        let line = crate::mended::restore(line);\n");
            }
            if line.starts_with("mod ")
                && name.ends_with("src/lib.rs")
                && !changed.contains("mod mended;")
            {
                changed.push_str("mod mended;\n");
            }
        }
        *bytes = changed.into_bytes();
    }
    let module = format!(
        "//! Restores the former format of lines of newer versions of the agent.

use aetheel_backend_sdk::wit::Line;
use serde_json::Value;

/// Returns a line as earlier versions of the agent print it.
pub fn restore(mut line: Line) -> Line {{
    let Ok(mut value) = serde_json::from_str::<Value>(&line.text) else {{ return line }};
    if change(&mut value) {{
        line.text = value.to_string();
    }}
    line
}}

fn change(value: &mut Value) -> bool {{
    {restore}
}}
"
    );
    files.insert(format!("{own}mended.rs"), module.into_bytes());
    files
}
