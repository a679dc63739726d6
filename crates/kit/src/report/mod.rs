//! Reports: recordings that are reduced to the lines that still show a fault, without words of
//! people, so that anybody can reproduce the fault.
//!
//! [`make_report`] finds a fault, removes lines and fields by delta debugging while the same fault
//! still shows, and replaces words by placeholders. The result depends only on the recording and
//! the component, unless the time limit is reached. [`reproduce`] checks a report with any
//! component. Tested by `tests/kit/report.rs` and `tests/proof/reports.rs`.
//!
//! | module | content |
//! |---|---|
//! | [`fault`] | the faults that a replay shows |
//! | [`ddmin`] | delta debugging |
//! | [`trials`] | replays that check for the fault, with a limit |
//! | [`lines`] | removes lines and parts of lines |
//! | [`words`] | replaces words by placeholders |
//! | [`mod@file`] | the format of a report |

mod ddmin;
mod fault;
mod file;
mod lines;
mod trials;
mod words;

use std::collections::BTreeMap;
use std::time::Duration;

use self::fault::FaultSearch;
pub use self::fault::{Fault, FaultKind, UnknownFaultKind};
pub use self::file::{FaultFacts, REPORT_FORMAT, ReportFacts, ReportReadError, ReportedLimits};
use self::trials::FaultTrials;
pub use self::words::NeededWord;
use self::words::WordSources;
use aetheel_model::agent::TurnKey;
use aetheel_model::plain::shortened;
use aetheel_model::redact::Redactor;
use aetheel_recording::replay::{Batches, ReplayResult, endings, replay};
use aetheel_recording::{
    Backend, Ending, FORMAT, GuestFailure, Header, ParsedRecording, RecordingEntry, brief,
};

/// The id in the header of every report, in place of the turn's.
const LINK: &str = "report";
/// Longest version of an agent that is copied to a report, in bytes.
const MAX_AGENT_VERSION: usize = 60;

/// The limits of the search for a small recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReportLimits {
    /// Maximum number of replays.
    pub replays: usize,
    /// Maximum time.
    pub time: Duration,
}

impl Default for ReportLimits {
    fn default() -> Self {
        Self { replays: 4_000, time: Duration::from_secs(120) }
    }
}

/// Selects the fault to report, and limits the search.
#[derive(Clone, Debug, Default)]
pub struct ReportOptions {
    /// The id of the turn, or `None` for all turns of the recording.
    pub turn: Option<String>,
    /// The kind of fault, or `None` for the most serious one.
    pub kind: Option<FaultKind>,
    /// A text that should be in the answer.
    pub expected: Option<String>,
    /// Whether words may be kept that the fault needs, and that may come from people.
    pub keep_text: bool,
    /// The limits of the search.
    pub limits: ReportLimits,
    /// Words that must not be in the report, even if they look like names of fields.
    pub private: Vec<String>,
    /// The file of the component, whose messages are not words of people.
    pub component: Vec<u8>,
    /// Removes known secrets.
    pub redactor: Redactor,
}

/// The facts about the program and the component that only the caller knows.
#[derive(Clone, Debug)]
pub struct ReportOrigin {
    /// The version of the program.
    pub aetheel: String,
    /// The contract that the component implements.
    pub contract: String,
    /// The limits with which it ran.
    pub limits: ReportedLimits,
}

/// A report that was made.
#[derive(Clone, Debug)]
pub struct FaultReport {
    /// The content of the file.
    pub text: String,
    /// The field `report` of the file.
    pub facts: ReportFacts,
    /// Other faults of the recording.
    pub others: Vec<Fault>,
    /// The number of lines, with the header.
    pub lines: usize,
    /// The number of replays.
    pub replays: usize,
    /// Whether the limit was reached before the report was as small as possible.
    pub is_cut_short: bool,
}

/// The reason why there is no report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// No guest can be opened or started anew.
    #[error("no guest can be opened: {0}")]
    Guest(#[from] GuestFailure),
    /// The turn is not in the recording.
    #[error("the recording does not contain the turn `{0}`")]
    NoTurn(String),
    /// The replay shows no fault. Contains the endings of the turns.
    #[error("this backend shows no fault in the recording; {0}")]
    NoFault(String),
    /// The replay shows no fault of the requested kind, but others.
    #[error("this backend shows no fault of the kind `{0}`; there are: {1}")]
    OtherFaults(FaultKind, String),
    /// The expected text is in the answer, or the agent did not print it.
    #[error(
        "no answer lacks the text: it is in the answer, or the agent did not print it in one text"
    )]
    NotMissing,
    /// The fault needs words that may come from people. Contains the line of the recording and the
    /// words.
    #[error("the fault needs text that may come from people: {0}")]
    NeedsText(String),
    /// A limit was reached before all words were replaced.
    #[error(
        "the limit of {} replays or {} s was reached before all words were replaced",
        .0.replays, .0.time.as_secs()
    )]
    Exhausted(ReportLimits),
    /// The fault does not show every time.
    #[error("the fault does not show each time, so it cannot be reported")]
    Unstable,
}

/// Makes a report of a fault that a backend shows for a recording.
///
/// # Errors
/// [`ReportError`].
pub async fn make_report(
    backend: &dyn Backend,
    tape: &ParsedRecording,
    origin: &ReportOrigin,
    options: &ReportOptions,
) -> Result<FaultReport, ReportError> {
    let entries = prepared(tape, options)?;
    let (fault, others) = find(backend, tape, &entries, options).await?;
    let expected = options.expected.as_deref().filter(|_| fault.kind == FaultKind::Missing);
    let ReportLimits { replays, time } = options.limits;
    // A part of the replays is left for the words.
    let first = ReportLimits { replays: replays - replays / 4, time: time - time / 4 };
    let mut trials = FaultTrials::new(backend, &fault, expected, first);
    let mut entries = lines::remove_lines(&mut trials, entries, fault.entry).await;
    lines::shrink_lines(&mut trials, &mut entries).await;
    let is_cut_short = trials.is_exhausted();
    trials.raise(options.limits);
    let mut timeless = entries.clone();
    (0_u32..).zip(&mut timeless).for_each(|(at, entry)| entry.t = f64::from(at));
    if trials.show(&timeless).await {
        entries = timeless;
    }
    let sources = WordSources { private: &options.private, component: &options.component };
    let words = words::replace_words(&mut trials, &entries, expected, sources).await;
    if trials.is_exhausted() {
        return Err(ReportError::Exhausted(options.limits));
    }
    if !words.needed.is_empty() && !options.keep_text {
        return Err(ReportError::NeedsText(describe_needed(&words.needed, &entries)));
    }
    let fault = trials.fault_now(&words.entries).await.ok_or(ReportError::Unstable)?;
    let facts = ReportFacts {
        format: REPORT_FORMAT,
        aetheel: origin.aetheel.clone(),
        contract: origin.contract.clone(),
        os: std::env::consts::OS.to_owned(),
        arch: std::env::consts::ARCH.to_owned(),
        limits: origin.limits,
        // The header is line 1.
        fault: FaultFacts {
            kind: fault.kind,
            place: fault.place,
            line: fault.entry + 2,
            expected: words.expected,
        },
        kept_text: !words.needed.is_empty(),
    };
    let text = file::to_text(&header(backend, tape, &options.private), &facts, &words.entries);
    let text = options.redactor.redact(text);
    let (lines, replays) = (text.lines().count(), trials.replays);
    Ok(FaultReport { text, facts, others, lines, replays, is_cut_short })
}

/// Returns the entries up to the end of the turn, without known secrets.
fn prepared(
    tape: &ParsedRecording,
    options: &ReportOptions,
) -> Result<Vec<RecordingEntry>, ReportError> {
    let mut entries = tape.entries.clone();
    if let Some(id) = &options.turn {
        if tape.beginning_of(id).is_none() {
            return Err(ReportError::NoTurn(id.clone()));
        }
        if let Some(end) = entries.iter().position(|entry| entry.is_end_of(id)) {
            entries.truncate(end + 1);
        }
    }
    for entry in &mut entries {
        let Ok(text) = serde_json::to_string(entry) else { continue };
        if let Ok(redacted) = serde_json::from_str(&options.redactor.redact(text)) {
            *entry = redacted;
        }
    }
    Ok(entries)
}

/// Returns the fault to report, and the other faults.
async fn find(
    backend: &dyn Backend,
    tape: &ParsedRecording,
    entries: &[RecordingEntry],
    options: &ReportOptions,
) -> Result<(Fault, Vec<Fault>), ReportError> {
    let replayed = replay(backend, entries, Batches::Single).await?;
    let search = FaultSearch {
        descriptor: backend.descriptor(),
        expected: options.expected.as_deref().filter(|text| !text.is_empty()),
    };
    let mut faults = search.all(entries, &replayed);
    let turn = options.turn.as_ref().and_then(|id| Some(tape.beginning_of(id)?.0));
    if let Some(turn) = turn {
        faults.retain(|fault| fault.turn.is_none_or(|of| of == turn));
    }
    let kind = match options.kind {
        None if options.expected.is_some() => Some(FaultKind::Missing),
        kind => kind,
    };
    let chosen = faults.iter().position(|fault| kind.is_none_or(|kind| fault.kind == kind));
    match (chosen, kind) {
        (Some(chosen), _) => {
            let fault = faults.remove(chosen);
            Ok((fault, faults))
        }
        (None, Some(FaultKind::Missing)) => Err(ReportError::NotMissing),
        (None, Some(kind)) if !faults.is_empty() => {
            let mut kinds: Vec<FaultKind> = faults.iter().map(|fault| fault.kind).collect();
            kinds.dedup();
            let kinds: Vec<&str> = kinds.into_iter().map(FaultKind::word).collect();
            Err(ReportError::OtherFaults(kind, kinds.join(", ")))
        }
        (None, _) => Err(ReportError::NoFault(describe_endings(&endings(entries, &replayed)))),
    }
}

fn describe_endings(endings: &BTreeMap<TurnKey, Ending>) -> String {
    let ends = endings.iter().map(|(turn, ending)| format!("turn {turn}: {}", ending.word()));
    match ends.collect::<Vec<_>>().join(", ") {
        none if none.is_empty() => "it has no turns".to_owned(),
        ends => ends,
    }
}

fn describe_needed(needed: &[NeededWord], entries: &[RecordingEntry]) -> String {
    let mut lines: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for word in needed {
        lines.entry(word.entry).or_default().push(&word.word);
    }
    let lines = lines.into_iter().map(|(at, words)| {
        let words: Vec<String> =
            words.iter().take(8).map(|word| format!("`{}`", shortened(word, 60))).collect();
        let input = entries.get(at).and_then(RecordingEntry::input).map(brief);
        format!("{} in {}", words.join(", "), input.unwrap_or_default())
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// Returns the first line of the report. It has the day of the recording, and names the component
/// that showed the fault.
fn header(backend: &dyn Backend, tape: &ParsedRecording, private: &[String]) -> Header {
    let descriptor = backend.descriptor();
    let is_plain = |version: &&String| {
        version.len() <= MAX_AGENT_VERSION
            && version.chars().all(|c| c.is_ascii_alphanumeric() || " .-+()_".contains(c))
            && !private.iter().any(|word| version.contains(word.as_str()))
    };
    let day = tape.header.started.get(..10).unwrap_or_default();
    Header {
        aetheel_recording: FORMAT,
        link: LINK.to_owned(),
        backend: descriptor.name.clone(),
        backend_version: descriptor.version.clone(),
        generation: 1,
        digest: backend.generation().digest.clone(),
        agent_version: tape.header.agent_version.as_ref().filter(is_plain).cloned(),
        started: format!("{day}T00:00:00Z"),
    }
}

/// The result of a replay of a report.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// The reported fault, if it shows.
    pub fault: Option<Fault>,
    /// The other faults that the replay shows.
    pub others: Vec<Fault>,
    /// The endings of the turns.
    pub endings: BTreeMap<TurnKey, Ending>,
    /// The replay.
    pub replayed: ReplayResult,
}

/// Replays a report and searches for its fault.
///
/// # Errors
/// Returns the failure if no guest can be opened.
pub async fn reproduce(
    backend: &dyn Backend,
    tape: &ParsedRecording,
    fault: &FaultFacts,
) -> Result<Reproduction, GuestFailure> {
    let replayed = replay(backend, &tape.entries, Batches::Single).await?;
    let expected = fault.expected.as_deref();
    let search = FaultSearch { descriptor: backend.descriptor(), expected };
    let mut others = search.all(&tape.entries, &replayed);
    let found = others.iter().position(|found| found.is_same(fault.kind, &fault.place));
    let fault = found.map(|at| others.remove(at));
    let endings = endings(&tape.entries, &replayed);
    Ok(Reproduction { fault, others, endings, replayed })
}

#[cfg(test)]
mod tests;
