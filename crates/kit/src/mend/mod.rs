//! Judges a changed version of a backend: whether it reads replies that the serving version lost,
//! and reads everything else as before.
//!
//! An agent wrote the change, so nothing about it is trusted. [`examine`] decides which files it may
//! change. [`judge`] tries the component that was built from them: first the rules that fail fast,
//! and the next stage only if the last one found nothing. Two stages compare with the serving
//! version on words that the author of the change cannot know ([`scramble`]), so that an answer
//! that is written into the sources is found. Tested by `tests/mending`.

mod patch;
mod scramble;
mod stages;
mod unknown_lines;

use std::time::Duration;

use self::scramble::{Scramble, positions_of_prose};
use self::stages::MendTrial;
use aetheel_model::agent::{HostCommand, Input, PromptPart};
use aetheel_recording::case::Case;
use aetheel_recording::{EntryKind, ParsedRecording, RecordingEntry, RolloutPair};

pub use self::patch::{PatchFault, SourceFiles, SourcePatch, examine};

/// Number of findings after which a stage stops.
const MAX_FINDINGS: usize = 10;
const JUDGE_TIMEOUT: Duration = Duration::from_secs(20 * 60);

/// A rule that a changed backend must follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MendRule {
    /// Its descriptor is that of the serving version.
    Descriptor,
    /// It reads the lost replies.
    Lost,
    /// A reply consists of the agent's words.
    Words,
    /// It has no other effects than the serving version.
    Effects,
    /// It returns the expected actions for all cases.
    Cases,
    /// It reports answers that it cannot read.
    Mutants,
    /// It reports lines of a kind that nobody knows.
    Unknown,
    /// It passes the check of the kit.
    Check,
}

impl MendRule {
    /// Returns the name of the rule in reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Descriptor => "descriptor",
            Self::Lost => "lost replies",
            Self::Words => "words",
            Self::Effects => "effects",
            Self::Cases => "cases",
            Self::Mutants => "changed recordings",
            Self::Unknown => "unknown output",
            Self::Check => "check",
        }
    }
}

/// A reason why a changed backend is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: {text}", .rule.word())]
pub struct MendFinding {
    /// The rule that it breaks.
    pub rule: MendRule,
    /// The reason. Contains no words of the lost turns, so that the author of the change may read it.
    pub text: String,
}

/// A turn whose reply the serving version cannot read.
#[derive(Clone, Debug)]
pub struct LostRecording {
    /// The id of the turn.
    pub turn: String,
    /// Its recording.
    pub case: Case,
}

/// The recordings with which a changed backend is tried. They must not come from its author.
#[derive(Clone, Debug, Default)]
pub struct MendEvidence {
    /// The cases of the operator.
    pub cases: Vec<Case>,
    /// The lost turns that it must read.
    pub lost: Vec<LostRecording>,
}

/// The effort of a judgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MendEffort {
    /// Selects the words that replace those of the recordings. Must not be predictable.
    pub seed: u64,
    /// Maximum number of changed recordings.
    pub mutants: usize,
}

/// A lost reply that the changed backend reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MendedReply {
    /// The id of the turn.
    pub turn: String,
    /// The reply.
    pub text: String,
}

/// The result of a judgement.
#[derive(Clone, Debug, Default)]
pub struct MendJudgement {
    /// The reasons why the backend is refused; empty if it may be offered to the operator.
    pub findings: Vec<MendFinding>,
    /// The lost replies that it reads.
    pub replies: Vec<MendedReply>,
    /// The number of cases that were compared.
    pub cases: usize,
    /// The number of changed recordings that were tried.
    pub mutants: usize,
}

impl MendJudgement {
    fn add(&mut self, rule: MendRule, text: impl Into<String>) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(MendFinding { rule, text: text.into() });
        }
    }
}

/// Judges the successor of a pair. Takes at most 20 minutes; dropping the future ends it.
pub async fn judge(
    pair: &RolloutPair,
    evidence: &MendEvidence,
    effort: MendEffort,
) -> MendJudgement {
    let mut judgement = MendJudgement::default();
    let trial = MendTrial { pair, evidence, effort };
    let judged = tokio::time::timeout(JUDGE_TIMEOUT, trial.run(&mut judgement)).await;
    match judged {
        Ok(Ok(())) => {}
        Ok(Err(failure)) => judgement.add(MendRule::Check, failure.to_string()),
        Err(_) => judgement.add(MendRule::Check, "it is too slow to be judged"),
    }
    judgement
}

/// Returns a recording for the author of a change: prose in the agent's output and in prompts has
/// other letters and digits, so that the author sees the format but not the conversation.
#[must_use]
pub fn without_words(tape: &ParsedRecording, seed: u64) -> ParsedRecording {
    let scramble = Scramble::new(seed);
    let mut entries = scramble.change(&tape.entries, &positions_of_prose(&tape.entries));
    for entry in &mut entries {
        let parts = match &mut entry.kind {
            EntryKind::In(Input::Command(HostCommand::StartTurn(start))) => {
                start.settings.system_prompt = None;
                &mut start.parts
            }
            EntryKind::In(Input::Command(HostCommand::Steer(steer))) => &mut steer.parts,
            _ => continue,
        };
        for part in parts {
            if let PromptPart::Text(text) = part {
                *text = scramble.apply(text);
            }
        }
    }
    // The other entries are not for the guest, and may contain the prompt.
    let is_kept = |entry: &RecordingEntry| {
        matches!(
            entry.kind,
            EntryKind::In(_)
                | EntryKind::Turn { .. }
                | EntryKind::Ending { .. }
                | EntryKind::Moved { .. }
        )
    };
    let all = entries.into_iter().zip(tape.lines.iter().copied());
    let (entries, lines) = all.filter(|(entry, _)| is_kept(entry)).unzip();
    ParsedRecording { header: tape.header.clone(), entries, lines }
}
