//! Mends backends: an agent changes the sources of a backend so that it reads replies which were
//! lost, and the change is judged where the agent cannot reach.
//!
//! [`Mending::run`] alternates between rounds of the agent and judgements. A judgement compares the
//! copy with the operator's sources ([`aetheel_kit::mend::examine`]), builds the changed files, and
//! tries the component ([`aetheel_kit::mend::judge`]). Tested by `tests/mending`.
//!
//! | module | content |
//! |---|---|
//! | [`agent`] | one round of the agent, confined to a folder of its own |
//! | [`task`], [`files`] | that folder, with a copy of the sources |
//! | [`workshop`] | builds the changed files |
//! | [`evidence`] | the recordings that decide |

pub mod agent;
pub mod evidence;
pub mod files;
pub mod task;
pub mod workshop;

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::agent::{AgentRound, MendingAgent, RoundLimits};
use self::files::{LinkPolicy, SourceFolderError};
use self::task::TaskFacts;
use self::workshop::{BuildFailure, Workshop, WorkshopError};
use aetheel_kit::mend::{
    MendEffort, MendEvidence, MendJudgement, SourceFiles, SourcePatch, examine, judge,
};
use aetheel_model::plain::with_causes;
use aetheel_recording::{Backend, RolloutPair};
use aetheel_store::disk;
use aetheel_wasm::Engine;

/// The limits of a mending.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MendLimits {
    /// Maximum number of rounds of the agent.
    pub rounds: u32,
    /// Maximum time of all rounds and judgements.
    pub time: Duration,
    /// Maximum cost in US dollars, for agents that report it.
    pub cost_usd: Option<f64>,
    /// Maximum number of changed recordings per judgement.
    pub mutants: usize,
}

/// A backend to mend.
pub struct Mending {
    /// The version that serves.
    pub serving: Arc<dyn Backend>,
    /// The interfaces that it imports.
    pub imports: Vec<String>,
    /// Builds candidates.
    pub workshop: Workshop,
    /// Admits their components.
    pub engine: Engine,
    /// The recordings that decide.
    pub evidence: MendEvidence,
    /// The limits.
    pub limits: MendLimits,
    /// `aetheel-kit`, with which the agent checks its change.
    pub program: PathBuf,
}

/// A change that passed the judgement.
#[derive(Clone, Debug)]
pub struct MendedBackend {
    /// The component.
    pub component: Vec<u8>,
    /// The change of the sources.
    pub patch: SourcePatch,
    /// The judgement, without findings.
    pub judgement: MendJudgement,
    /// The rounds of the agent.
    pub rounds: Vec<AgentRound>,
}

impl MendedBackend {
    /// Returns the cost of all rounds in US dollars, if the agent reports it.
    #[must_use]
    pub fn cost_usd(&self) -> Option<f64> {
        cost_of(&self.rounds)
    }
}

/// The reason why a candidate is refused. One line each, for people and for the agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub Vec<String>);

/// The reason why no change was accepted.
#[derive(Debug, thiserror::Error)]
pub enum MendError {
    /// There is nothing to mend.
    #[error("no reply of this backend is lost; name a recording with --recording")]
    NothingLost,
    /// Nothing can be built.
    #[error(transparent)]
    Workshop(#[from] WorkshopError),
    /// A folder cannot be written.
    #[error(transparent)]
    Source(#[from] SourceFolderError),
    /// The agent's folder cannot be created.
    #[error("the agent's folder: {0}")]
    Folder(#[from] io::Error),
    /// All rounds were refused. Contains the reasons for the last one.
    #[error("no change was accepted in {rounds} rounds; the last one was refused: {}", reasons.join("; "))]
    Refused {
        /// The number of rounds.
        rounds: usize,
        /// The reasons.
        reasons: Vec<String>,
    },
    /// The time or cost limit was reached. Contains the reasons for the last refusal.
    #[error("the limit of {limit} was reached after {rounds} rounds")]
    Limit {
        /// The limit.
        limit: &'static str,
        /// The number of rounds.
        rounds: usize,
    },
}

impl Mending {
    /// Lets the agent change the sources until a change is accepted or a limit is reached. `report`
    /// is called with each refusal. Dropping the future ends everything.
    ///
    /// # Errors
    /// [`MendError`].
    pub async fn run(
        &self,
        agent: &MendingAgent,
        mut report: impl FnMut(&AgentRound, &Refused),
    ) -> Result<MendedBackend, MendError> {
        if self.evidence.lost.is_empty() {
            return Err(MendError::NothingLost);
        }
        let start = Instant::now();
        let folder = tempfile::Builder::new().prefix(&agent.launcher.scratch_prefix()).tempdir()?;
        let facts = TaskFacts {
            backend: &self.serving.descriptor().name,
            package: &self.workshop.package,
            sources: &self.workshop.sources(),
            program: &self.program,
            readable: &self.workshop.readable,
        };
        task::write(folder.path(), &facts, &self.workshop.original, &self.evidence, random())?;
        let mut readable = self.workshop.readable.clone();
        readable.push(self.program.clone());
        let mut rounds: Vec<AgentRound> = Vec::new();
        let mut reasons = Vec::new();
        for _ in 0..self.limits.rounds {
            let left = self.limits.time.saturating_sub(start.elapsed());
            let spent = cost_of(&rounds).unwrap_or(0.0);
            let limit = match self.limits.cost_usd {
                _ if left.is_zero() => Some("time"),
                Some(max) if spent >= max => Some("cost"),
                _ => None,
            };
            if let Some(limit) = limit {
                return Err(MendError::Limit { limit, rounds: rounds.len() });
            }
            let cost_usd = self.limits.cost_usd.map(|max| max - spent);
            let limits = RoundLimits { time: left, cost_usd };
            rounds.push(agent.work(folder.path(), (task::PROMPT, &readable), limits).await);
            let left = self.limits.time.saturating_sub(start.elapsed());
            let judging = tokio::time::timeout(left, self.judge_folder(folder.path()));
            // A timeout of zero would still let a judgement pass that is ready at its first poll.
            let judged = if left.is_zero() { None } else { judging.await.ok() };
            let Some(judged) = judged else {
                return Err(MendError::Limit { limit: "time", rounds: rounds.len() });
            };
            match judged? {
                Ok(mended) => return Ok(MendedBackend { rounds, ..mended }),
                Err(refused) => {
                    report(rounds.last().expect("a round was added"), &refused);
                    task::write_verdict(folder.path(), &refused.0)?;
                    reasons = refused.0;
                }
            }
        }
        Err(MendError::Refused { rounds: rounds.len(), reasons })
    }

    async fn judge_folder(
        &self,
        folder: &Path,
    ) -> Result<Result<MendedBackend, Refused>, MendError> {
        let folder = folder.join(task::SOURCES);
        let read = tokio::task::spawn_blocking(move || files::read(&folder, LinkPolicy::Refused));
        match read.await.map_err(io::Error::other)? {
            Ok(candidate) => self.judge(&candidate).await,
            Err(error) => Ok(Err(Refused(vec![error.to_string()]))),
        }
    }

    /// Judges a candidate: the files of the sources after the change.
    ///
    /// # Errors
    /// The candidate cannot be judged on this machine.
    pub async fn judge(
        &self,
        candidate: &SourceFiles,
    ) -> Result<Result<MendedBackend, Refused>, MendError> {
        let patch = match examine(&self.workshop.original, candidate, &self.workshop.sources()) {
            Ok(patch) => patch,
            Err(faults) => {
                return Ok(Err(Refused(faults.iter().map(ToString::to_string).collect())));
            }
        };
        let component = match self.workshop.build(&patch).await {
            Ok(component) => component,
            Err(BuildFailure::Workshop(error)) => return Err(error.into()),
            Err(failure) => return Ok(Err(Refused(vec![failure.to_string()]))),
        };
        let successor: Arc<dyn Backend> = match self.admit(&component).await? {
            Ok(backend) => backend,
            Err(refused) => return Ok(Err(refused)),
        };
        let pair = RolloutPair { serving: Arc::clone(&self.serving), successor };
        let effort = MendEffort { seed: random(), mutants: self.limits.mutants };
        let judgement = judge(&pair, &self.evidence, effort).await;
        if !judgement.findings.is_empty() {
            let lines = judgement.findings.iter().map(task::line_of).collect();
            return Ok(Err(Refused(lines)));
        }
        Ok(Ok(MendedBackend { component, patch, judgement, rounds: Vec::new() }))
    }

    /// Loads a component with the same checks as the gateway.
    async fn admit(
        &self,
        component: &[u8],
    ) -> Result<Result<Arc<dyn Backend>, Refused>, MendError> {
        let file = tempfile::Builder::new().suffix(".wasm").tempfile()?;
        std::fs::write(file.path(), component)?;
        Ok(match self.engine.open(file.path()).await {
            Ok((found, backend)) => {
                match found.imports.iter().find(|name| !self.imports.contains(name)) {
                    Some(import) => Err(Refused(vec![format!(
                        "the component imports `{import}`, which the serving version does not"
                    )])),
                    None => Ok(Arc::new(backend) as Arc<dyn Backend>),
                }
            }
            Err(error) => Err(Refused(vec![format!("the component {}", with_causes(&error))])),
        })
    }
}

/// Writes an accepted change: the component, and the difference of the sources. Readable by the
/// owner only. Blocks.
///
/// # Errors
/// A file cannot be written.
pub fn store(mended: &MendedBackend, component: &Path, difference: &Path) -> io::Result<()> {
    for (path, bytes) in
        [(component, &mended.component[..]), (difference, mended.patch.diff.as_bytes())]
    {
        if let Some(folder) = path.parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        }
        disk::replace(path, bytes)?;
    }
    Ok(())
}

fn cost_of(rounds: &[AgentRound]) -> Option<f64> {
    let costs: Vec<f64> = rounds.iter().filter_map(|round| round.cost_usd).collect();
    (!costs.is_empty()).then(|| costs.iter().sum())
}

/// Returns a number that nobody can predict.
fn random() -> u64 {
    uuid::Uuid::new_v4().as_u64_pair().0
}
