//! Tests that every damaged copy of a shipped backend is found while it is on rollout.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroU32;
use std::time::Duration;

use aetheel_model::agent::{Action, TurnKey};
use aetheel_model::limits::ResourceLimits;
use aetheel_model::rollout::Rollout;
use aetheel_recording::case::Case;
use aetheel_recording::comparison::compare;
use aetheel_recording::replay::{Batches, replay};
use aetheel_recording::{Backend, RecordingEntry, RolloutPair};
use aetheel_turn::Backends as _;
use aetheel_wasm::{Engine, LoadReport, Registry, RegistryOptions};
use tempfile::TempDir;
use tokio::sync::broadcast;

use super::faults::{FaultSites, rebuilt};
use crate::support::built;
use crate::support::recordings::cases;

/// The shipped backends with recordings, and the number of faults that each test puts into one.
const BACKENDS: [&str; 6] = ["acp", "claude", "codex", "droid", "gemini", "opencode"];
const FAULTS: usize = 10;
/// Maximum number of seeds that are tried for each fault. The others are refused at their
/// admission, or change nothing in any recording.
const SEEDS_PER_FAULT: usize = 12;

/// A registry with a shipped backend that serves, and its recordings as live turns.
struct Serving {
    name: &'static str,
    folder: TempDir,
    registry: Registry,
    news: broadcast::Receiver<LoadReport>,
    cases: Vec<Case>,
}

impl Serving {
    async fn new(name: &'static str) -> Self {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join(format!("{name}.wasm")), built(&format!("{name}.wasm")))
            .unwrap();
        let options = RegistryOptions {
            quiet: Duration::from_millis(5),
            rescan: Duration::from_secs(3600),
            rollout: Rollout::Shadow(NonZeroU32::MAX),
            ..RegistryOptions::new(folder.path())
        };
        // The copies share most of their functions, which are compiled once.
        let cache = folder.path().join("cache");
        let engine =
            Engine::new(&ResourceLimits::default(), Some(&cache), aetheel_settings::NAMES).unwrap();
        let (registry, reports) = Registry::start(engine, options).await;
        assert!(matches!(&reports[..], [LoadReport::Loaded { .. }]), "{reports:?}");
        let news = registry.subscribe();
        // Rollouts compare turns, so a recording of queries alone is never a live turn.
        let cases = cases(name).into_iter().filter(|case| !turns(case).is_empty()).collect();
        Self { name, folder, registry, news, cases }
    }

    /// Puts a file in place of the serving one. Returns false if it is refused.
    async fn put(&mut self, component: &[u8]) -> bool {
        let staged = self.folder.path().join("staged");
        fs::write(&staged, component).unwrap();
        fs::rename(staged, self.folder.path().join(format!("{}.wasm", self.name))).unwrap();
        loop {
            match self.news.recv().await.unwrap() {
                LoadReport::OnRollout { .. } => return true,
                LoadReport::Refused { .. } => return false,
                LoadReport::Unchanged { .. } => {}
                // Its name is damaged, so it is another backend.
                LoadReport::Loaded { name, .. } if name != self.name => return false,
                report => panic!("{}: it serves: {report:?}", self.name),
            }
        }
    }

    fn pair(&self) -> RolloutPair {
        self.registry.rollout(self.name).expect("it is on rollout")
    }

    fn texts(&self) -> Vec<String> {
        let text = |case: &Case| fs::read_to_string(&case.path).unwrap();
        self.cases.iter().map(text).collect()
    }
}

fn turns(case: &Case) -> BTreeSet<TurnKey> {
    case.tape.entries.iter().filter_map(RecordingEntry::turn_start).map(|it| it.turn).collect()
}

/// Returns the actions of a backend for a recording, without its log lines, or its failure.
async fn actions(backend: &dyn Backend, case: &Case) -> Result<Vec<Action>, String> {
    let replayed = replay(backend, &case.tape.entries, Batches::Single).await;
    let replayed = replayed.map_err(|failure| failure.to_string())?;
    match replayed.failure {
        Some((_, failure)) => Err(failure.to_string()),
        None => {
            let actions = replayed.actions().filter(|it| !matches!(it, Action::Diagnostic(_)));
            Ok(actions.cloned().collect())
        }
    }
}

/// Describes the first action in which two replays differ.
fn first_difference(
    before: &Result<Vec<Action>, String>,
    now: &Result<Vec<Action>, String>,
) -> String {
    let (Ok(before), Ok(now)) = (before, now) else { return format!("{now:?}") };
    let differs = |at: &usize| before.get(*at) != now.get(*at);
    let at = (0..before.len().max(now.len())).find(differs).unwrap_or_default();
    format!("{:?} became {:?}", before.get(at), now.get(at))
}

/// How the new version differs from the serving one in the recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Nothing,
    OnlyHarmless,
    Harmful,
}

/// Lets the new version read the recordings until it is found to be harmful. `expected` has the
/// actions of the serving version.
async fn verdict(
    pair: &RolloutPair,
    cases: &[Case],
    expected: &[Result<Vec<Action>, String>],
) -> Verdict {
    let mut verdict = Verdict::Nothing;
    for (case, expected) in cases.iter().zip(expected) {
        let now = actions(&*pair.successor, case).await;
        if now == *expected {
            continue;
        }
        verdict = Verdict::OnlyHarmless;
        // Shown if the test fails.
        println!("{}: {}", case.path.display(), first_difference(expected, &now));
        for turn in turns(case) {
            let found = compare(pair, &case.tape, turn).await.unwrap_or_default();
            if found.iter().any(|difference| difference.harmful) {
                return Verdict::Harmful;
            }
        }
    }
    verdict
}

async fn every_fault_is_found(name: &'static str) {
    let mut serving = Serving::new(name).await;
    let original = serving.registry.component(name).unwrap();
    let mut expected = Vec::new();
    for case in &serving.cases {
        expected.push(actions(&*original, case).await);
    }
    let component = built(&format!("{name}.wasm"));
    let sites = FaultSites::of(&component, &serving.texts());
    let (mut counted, mut tried) = (0, BTreeSet::new());
    for seed in 0..FAULTS * SEEDS_PER_FAULT {
        if counted == FAULTS {
            break;
        }
        let damaged = sites.damaged(seed);
        if !tried.insert(damaged.clone()) || !serving.put(&damaged).await {
            continue;
        }
        let found = verdict(&serving.pair(), &serving.cases, &expected).await;
        assert_ne!(found, Verdict::OnlyHarmless, "{name}, seed {seed}: a fault was not found");
        counted += usize::from(found == Verdict::Harmful);
        let now = serving.registry.component(name).unwrap();
        assert_eq!(now.generation(), original.generation(), "{name}, seed {seed}: it served");
    }
    assert_eq!(counted, FAULTS, "{name}: too few of {} places change anything", sites.len());
}

macro_rules! for_every_backend {
    ($($test:ident: $name:literal),*) => {$(
        #[tokio::test]
        async fn $test() {
            every_fault_is_found($name).await;
        }
    )*};
}

for_every_backend! {
    ten_faults_of_acp_are_found: "acp",
    ten_faults_of_claude_are_found: "claude",
    ten_faults_of_codex_are_found: "codex",
    ten_faults_of_droid_are_found: "droid",
    ten_faults_of_gemini_are_found: "gemini",
    ten_faults_of_opencode_are_found: "opencode"
}

#[tokio::test]
async fn a_rebuilt_backend_has_no_differences_and_is_promoted() {
    for name in BACKENDS {
        let mut serving = Serving::new(name).await;
        assert!(serving.put(&rebuilt(&built(&format!("{name}.wasm")))).await);
        let pair = serving.pair();
        for case in &serving.cases {
            for turn in turns(case) {
                if let Ok(found) = compare(&pair, &case.tape, turn).await {
                    assert_eq!(found, [], "{name}: {}", case.path.display());
                }
            }
        }
        let digest = pair.successor.generation().digest.clone();
        let generation = serving.registry.promote(name, &digest).await.unwrap();
        assert_eq!((generation.number, &generation.digest), (2, &digest));
        assert_eq!(serving.registry.component(name).unwrap().generation(), &generation);
        assert!(serving.registry.rollout(name).is_none());
    }
}
