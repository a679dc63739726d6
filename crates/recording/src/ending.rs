//! Decides how a turn ended, from the host's point of view. Pure.

use std::fmt;

use super::{GuestFailure, reason};
use aetheel_model::agent::descriptor::StderrNoise;
use aetheel_model::agent::{AgentFailure, FailureKind, TurnOutcome, Usage};
use aetheel_model::fold::Transcript;
use aetheel_model::plain::clean_text;

/// Number of output tokens, without thinking, from which the agent must have written an answer. An
/// empty answer costs a few tokens.
const MIN_ANSWER_TOKENS: u32 = 32;
/// The failure message of a turn whose agent was lost for a reason outside the turn.
const ORPHANED: &str = "the agent was lost before it had answered";
/// Maximum number of unknown things named in a failure, and of characters of each.
const MAX_NAMED: usize = 5;
const MAX_NAME_CHARS: usize = 80;

/// How a turn ended. Every turn has exactly one ending.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The agent completed the turn.
    Completed,
    /// A person or a budget stopped the turn.
    Interrupted,
    /// The gateway's shutdown stopped the turn.
    ShutDown,
    /// The turn exceeded `QUERY_TIMEOUT_MS`.
    TimedOut,
    /// The agent was silent for longer than `IDLE_TIMEOUT_MS`.
    Silent,
    /// A limit of the agent or the host stopped the turn. Contains the name of the limit.
    Limit(String),
    /// The agent failed. Contains its own message or the end of its stderr.
    Agent(AgentFailure),
    /// The backend failed.
    Backend(GuestFailure),
    /// The agent exited successfully without any output. Contains the backend's message about it.
    Mute(String),
    /// The agent wrote output, but the backend found no answer in it. Contains what was not
    /// understood.
    Unread(String),
}

impl Ending {
    /// Decides the ending from the outcome that the guest reported, the failure of the guest, the
    /// reason for which the host stopped the turn, and the failure of the process.
    ///
    /// The agent's success wins over everything else. Otherwise the host's own reason explains
    /// best, then the guest's failure, then the agent's.
    #[must_use]
    pub fn of(
        outcome: Option<TurnOutcome>,
        guest: Option<GuestFailure>,
        stopped: Option<Self>,
        trouble: Option<AgentFailure>,
    ) -> Self {
        match (outcome, stopped, guest) {
            (Some(TurnOutcome::Completed), _, _) => Self::Completed,
            (_, Some(stopped), _) => stopped,
            (None, None, Some(guest)) => Self::Backend(guest),
            (Some(TurnOutcome::Interrupted), None, _) => Self::Interrupted,
            (Some(TurnOutcome::Limit(limit)), None, _) => Self::Limit(limit),
            // The message of a crash says more than the guest's "it ended without a result".
            (Some(TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure)), None, _) => {
                Self::Agent(failure)
            }
            (None, None, None) => Self::Agent(trouble.unwrap_or_else(|| AgentFailure {
                kind: FailureKind::Protocol,
                message: "the backend neither started the agent nor ended the turn".to_owned(),
                retry_after_ms: None,
            })),
        }
    }

    /// Replaces the message of an agent's failure by one for people, which contains only the reason
    /// from `stderr`, without the `noise` that the component lists.
    #[must_use]
    pub fn with_readable_message(mut self, stderr: &str, noise: &StderrNoise) -> Self {
        if let Self::Agent(failure) = &mut self {
            failure.message = reason::readable_message(&failure.message, stderr, noise);
        }
        self
    }

    /// Replaces a failure by [`ORPHANED`] if the agent was lost for a reason outside the turn, such
    /// as the end of the process that held it: then the agent did not fail by itself, and nothing
    /// that it wrote was unreadable.
    #[must_use]
    pub fn unless_orphaned(self, orphaned: bool) -> Self {
        match self {
            Self::Agent(_) | Self::Backend(_) if orphaned => Self::Agent(AgentFailure {
                kind: FailureKind::Crashed,
                message: ORPHANED.to_owned(),
                retry_after_ms: None,
            }),
            other => other,
        }
    }

    /// Replaces the ending by [`Ending::Unread`] if the agent wrote an answer that people could not
    /// read. `docs/drift.md` describes the rules.
    ///
    /// Anything that people saw (text, a tool, a notice, a plan, a question) counts as an answer,
    /// because many agents write nothing after a tool. But if unknown output followed the last
    /// tool, that output may have been the answer; beside unknown output, notices and plans do not
    /// count. If an agent succeeds without any sign of having written more, the empty turn is its
    /// answer.
    #[must_use]
    pub fn unless_unread(self, seen: &TurnEvidence<'_>) -> Self {
        let unknown = seen.transcript.unrecognised();
        let unread = match &self {
            Self::Completed if seen.lost.is_some() => true,
            Self::Agent(failure) if seen.lost.is_some() && seen.may_be_unread(failure) => true,
            _ if seen.has_answer() => false,
            // A blank text is readable, and it is the whole answer.
            Self::Completed => {
                !unknown.is_empty()
                    || (seen.unexplained_tokens() >= MIN_ANSWER_TOKENS
                        && !seen.transcript.is_blank())
            }
            Self::Agent(failure) if seen.may_be_unread(failure) => !unknown.is_empty(),
            _ => false,
        };
        if !unread {
            return match self.unless_mute(seen) {
                mute @ Self::Mute(_) => mute,
                other => other.unless_stopped(seen),
            };
        }
        if unknown.is_empty() {
            return Self::Unread(match seen.lost {
                Some(place) => format!("text at `{place}` that reached nobody"),
                None => format!("{} tokens of output and no text", seen.unexplained_tokens()),
            });
        }
        let brief = |what: &String| {
            clean_text(what)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(MAX_NAME_CHARS)
                .collect()
        };
        let mut named: Vec<String> = unknown.keys().take(MAX_NAMED).map(brief).collect();
        if unknown.len() > MAX_NAMED {
            named.push(format!("{} more", unknown.len() - MAX_NAMED));
        }
        Self::Unread(named.join(", "))
    }

    /// Changes a protocol failure to a crash if the agent exited with code 0, without a result, and
    /// all of its output was known. Something outside stopped it then: Droid 0.225.2 and Gemini CLI
    /// 0.61.0 exit like this at SIGTERM.
    fn unless_stopped(mut self, seen: &TurnEvidence<'_>) -> Self {
        if let Self::Agent(failure) = &mut self
            && failure.kind == FailureKind::Protocol
            && seen.observed.exited_well
            && seen.transcript.unrecognised().is_empty()
        {
            failure.kind = FailureKind::Crashed;
        }
        self
    }

    /// Replaces the ending by [`Ending::Mute`] if the agent exited with code 0 and wrote nothing at
    /// all, so that nothing can have been misunderstood.
    fn unless_mute(self, seen: &TurnEvidence<'_>) -> Self {
        if seen.has_visible_output() {
            return self;
        }
        match self {
            Self::Agent(AgentFailure {
                kind: FailureKind::Protocol | FailureKind::Crashed,
                message,
                ..
            }) if seen.observed.exited_well && !seen.observed.output => Self::Mute(message),
            other => other,
        }
    }

    /// Returns whether the answer could not be read, so that a newer backend may find it in the
    /// recording.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Unread(_) | Self::Backend(_) => true,
            Self::Agent(failure) => failure.kind == FailureKind::Protocol,
            _ => false,
        }
    }

    /// Returns the ending as one word for logs and metrics.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::Interrupted => "interrupted",
            Self::ShutDown => "shut-down",
            Self::TimedOut => "timed-out",
            Self::Silent => "silent",
            Self::Limit(_) => "limit",
            Self::Agent(_) => "agent-failure",
            Self::Backend(_) => "backend-failure",
            Self::Mute(_) => "mute",
            Self::Unread(_) => "unread",
        }
    }
}

impl Ending {
    /// Parses the text `how` of a recording's `ending` line, which [`Ending`]'s `Display` wrote.
    /// The kind of a failure comes from the guest's `outcome`.
    #[must_use]
    pub fn from_recording(how: &str, outcome: Option<&TurnOutcome>) -> Self {
        let (word, reason) = how.split_once(": ").unwrap_or((how, ""));
        let reason = reason.to_owned();
        match word {
            "completed" => Self::Completed,
            "interrupted" => Self::Interrupted,
            "shut-down" => Self::ShutDown,
            "timed-out" => Self::TimedOut,
            "silent" => Self::Silent,
            "limit" => Self::Limit(reason),
            "mute" => Self::Mute(reason),
            "unread" => Self::Unread(reason),
            "backend-failure" => Self::Backend(match reason.split_once(": ") {
                Some(("the backend crashed", why)) => GuestFailure::Trapped(why.to_owned()),
                Some(("the backend was cut off", why)) => GuestFailure::CutOff(why.to_owned()),
                Some(("the backend is paused", why)) => GuestFailure::Paused(why.to_owned()),
                Some((_, why)) => GuestFailure::Refused(why.to_owned()),
                None => GuestFailure::Refused(reason),
            }),
            _ => Self::Agent(match outcome {
                Some(TurnOutcome::Failed(failure) | TurnOutcome::Lost(failure)) => failure.clone(),
                _ => AgentFailure {
                    kind: FailureKind::Crashed,
                    message: reason,
                    retry_after_ms: None,
                },
            }),
        }
    }
}

/// Writes the word, and the reason after a colon if there is one. Recordings contain this text.
impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = self.word();
        match self {
            Self::Limit(reason) | Self::Mute(reason) | Self::Unread(reason) => {
                write!(f, "{word}: {reason}")
            }
            Self::Agent(failure) => write!(f, "{word}: {}", failure.message),
            Self::Backend(failure) => write!(f, "{word}: {failure}"),
            _ => f.write_str(word),
        }
    }
}

/// Observations of the host about a turn, independent of its backend.
#[derive(Clone, Copy, Debug, Default)]
pub struct TurnObservations {
    /// Whether the first text of the answer arrived.
    pub text: bool,
    /// Whether people were asked something.
    pub asked: bool,
    /// Whether the agent wrote anything, on any channel.
    pub output: bool,
    /// Whether the agent exited with code 0 before its backend ended the turn.
    pub exited_well: bool,
    /// Whether the agent was lost before that, for a reason outside the turn.
    pub orphaned: bool,
}

/// The facts from which [`Ending::unless_unread`] decides.
#[derive(Clone, Copy, Debug)]
pub struct TurnEvidence<'a> {
    /// The observations of the host.
    pub observed: TurnObservations,
    /// Everything that the guest reported.
    pub transcript: &'a Transcript,
    /// The text of the answer.
    pub text: &'a str,
    /// Tokens and costs, if the guest reported them.
    pub usage: Option<&'a Usage>,
    /// The path, in the agent's output, of an answer that people could not read.
    pub lost: Option<&'a str>,
}

impl TurnEvidence<'_> {
    fn has_visible_output(&self) -> bool {
        self.has_answer()
            || !self.transcript.notices().is_empty()
            || !self.transcript.plan().is_empty()
    }

    /// Returns whether people saw what may be the whole answer. A notice or a plan may be it only
    /// if the backend knew all of the output.
    fn has_answer(&self) -> bool {
        let Self { observed, transcript, text, .. } = self;
        let is_known = transcript.unrecognised().is_empty();
        observed.asked
            || !text.trim().is_empty()
            || !transcript.text().is_empty()
            || (!transcript.tools().is_empty() && !transcript.ends_unknown())
            || (is_known && !(transcript.notices().is_empty() && transcript.plan().is_empty()))
    }

    /// Returns whether the turn had no text, no file and no question.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        let Self { observed, transcript, text, .. } = self;
        !observed.asked
            && text.trim().is_empty()
            && transcript.text().is_empty()
            && transcript.artifacts().is_empty()
            && !transcript.is_blank()
    }

    /// Returns whether an agent that failed like this may have answered. An exit code of 0 is not a
    /// crash, whatever its backend reports.
    fn may_be_unread(&self, failure: &AgentFailure) -> bool {
        failure.kind == FailureKind::Protocol
            || (failure.kind == FailureKind::Crashed && self.observed.exited_well)
    }

    /// Returns the output tokens that nothing visible explains.
    fn unexplained_tokens(&self) -> u32 {
        if self.transcript.thinking().is_empty() {
            self.usage.map_or(0, |usage| usage.output.saturating_sub(usage.reasoning))
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(message: &str) -> AgentFailure {
        AgentFailure { kind: FailureKind::Other, message: message.into(), retry_after_ms: None }
    }

    #[test]
    fn success_wins_and_otherwise_the_best_reason_is_reported() {
        let trap = || Some(GuestFailure::Trapped("x".into()));
        let cases = [
            (Some(TurnOutcome::Completed), trap(), Some(Ending::TimedOut), Ending::Completed),
            (Some(TurnOutcome::Interrupted), None, Some(Ending::TimedOut), Ending::TimedOut),
            (
                Some(TurnOutcome::Failed(failure("a"))),
                None,
                Some(Ending::Interrupted),
                Ending::Interrupted,
            ),
            (Some(TurnOutcome::Failed(failure("a"))), None, None, Ending::Agent(failure("a"))),
            (None, trap(), None, Ending::Backend(GuestFailure::Trapped("x".into()))),
            (None, None, None, Ending::Agent(failure("died"))),
        ];
        for (outcome, guest, stopped, expected) in cases {
            assert_eq!(Ending::of(outcome, guest, stopped, Some(failure("died"))), expected);
        }
        assert!(
            matches!(Ending::of(None, None, None, None), Ending::Agent(failure) if failure.kind == FailureKind::Protocol)
        );
    }

    /// Builds the facts of a turn in which everything in the list happened.
    fn seen(what: &[&str]) -> (Transcript, Option<Usage>, TurnObservations) {
        use aetheel_model::agent::{
            AgentEventKind, PlanEntry, PlanStatus, TextEvent, ToolEnd, ToolStart, ToolStatus,
            Unrecognised,
        };
        let mut transcript = Transcript::default();
        let (mut usage, mut observed) = (None, TurnObservations::default());
        let spent =
            |output, reasoning| Some(Usage { input: 9, output, reasoning, ..Usage::default() });
        let text =
            |text: &str| TextEvent { part: 0, text: text.to_owned(), replace: false, parent: None };
        for what in what {
            match *what {
                "text" => transcript.apply(&AgentEventKind::Text(text("Hello"))),
                "blank" => transcript.apply(&AgentEventKind::Text(text(" \n"))),
                "thinking" => transcript.apply(&AgentEventKind::Thinking(text("Hm"))),
                "notice" => {
                    transcript.apply(&AgentEventKind::Notice("The model was changed.".into()))
                }
                "plan" => transcript.apply(&AgentEventKind::Plan(vec![PlanEntry {
                    text: "do it".to_owned(),
                    status: PlanStatus::Done,
                }])),
                "tool" => transcript.apply(&AgentEventKind::ToolStart(ToolStart {
                    id: "t".to_owned(),
                    parent: None,
                    kind: "bash".to_owned(),
                    native_name: "Bash".to_owned(),
                    title: String::new(),
                    target: None,
                    input: "{}".to_owned(),
                })),
                "tool end" => transcript.apply(&AgentEventKind::ToolEnd(ToolEnd {
                    id: "t".to_owned(),
                    status: ToolStatus::Ok,
                    output: None,
                    exit_code: None,
                    diffs: Vec::new(),
                })),
                "unknown" => {
                    let unknown = Unrecognised {
                        what: "line type \"foo\"".to_owned(),
                        path: None,
                        sample: String::new(),
                        ..Unrecognised::default()
                    };
                    transcript.apply(&AgentEventKind::Unrecognised(unknown));
                }
                "few" => usage = spent(4, 0),
                "many" => usage = spent(400, 0),
                "thought" => usage = spent(400, 390),
                "asked" => observed.asked = true,
                "output" => observed.output = true,
                "exited" => observed.exited_well = true,
                "lost" => {}
                other => panic!("{other}?"),
            }
        }
        (transcript, usage, observed)
    }

    fn read_as(ending: Ending, what: &[&str]) -> Ending {
        let (transcript, usage, observed) = seen(what);
        let text = transcript.text();
        ending.unless_unread(&TurnEvidence {
            observed,
            transcript: &transcript,
            text: &text,
            usage: usage.as_ref(),
            lost: what.contains(&"lost").then_some("words"),
        })
    }

    #[test]
    fn output_without_anything_readable_is_a_separate_failure() {
        let unknown = || Ending::Unread("line type \"foo\"".to_owned());
        let protocol =
            || Ending::Agent(AgentFailure { kind: FailureKind::Protocol, ..failure("no result") });
        let crashed =
            || Ending::Agent(AgentFailure { kind: FailureKind::Crashed, ..failure("no result") });
        let mute = || Ending::Mute("no result".to_owned());
        let lost = || Ending::Unread("text at `words` that reached nobody".to_owned());
        let cases: [(Ending, &[&str], Ending); 49] = [
            // The agent reports success.
            (Ending::Completed, &["output", "unknown"], unknown()),
            (Ending::Completed, &["output", "unknown", "blank"], unknown()),
            (Ending::Completed, &["output", "unknown", "thinking"], unknown()),
            (Ending::Completed, &["output", "unknown", "few"], unknown()),
            (
                Ending::Completed,
                &["output", "many"],
                Ending::Unread("400 tokens of output and no text".to_owned()),
            ),
            // A notice or a plan is not the answer that could not be read.
            (Ending::Completed, &["output", "unknown", "notice"], unknown()),
            (Ending::Completed, &["output", "plan", "unknown"], unknown()),
            // The agent ended without reporting success.
            (protocol(), &["output", "unknown"], unknown()),
            (protocol(), &["unknown"], unknown()),
            (protocol(), &["output"], protocol()),
            (protocol(), &["output", "lost"], lost()),
            (Ending::Completed, &["output", "lost"], lost()),
            (Ending::Completed, &["output", "few", "lost", "thinking"], lost()),
            (Ending::Completed, &["output", "lost", "plan", "notice", "asked"], lost()),
            (Ending::Completed, &["output", "text", "tool", "lost"], lost()),
            (Ending::TimedOut, &["output", "lost"], Ending::TimedOut),
            (protocol(), &["output", "thinking"], protocol()),
            (crashed(), &["output", "exited", "lost"], lost()),
            (crashed(), &["output", "lost"], crashed()),
            // The agent was stopped from outside before it answered.
            (crashed(), &["output", "exited"], crashed()),
            (protocol(), &["output", "exited"], crashed()),
            (crashed(), &["unknown", "exited"], unknown()),
            (crashed(), &["output", "unknown"], crashed()),
            (crashed(), &[], crashed()),
            // The agent wrote nothing at all.
            (protocol(), &[], protocol()),
            (protocol(), &["exited"], mute()),
            (crashed(), &["exited"], mute()),
            (crashed(), &["output", "exited", "text"], crashed()),
            (protocol(), &["output", "text"], protocol()),
            // The agent was stopped from outside.
            (protocol(), &["output", "text", "exited"], crashed()),
            (protocol(), &["output", "text", "unknown", "exited"], protocol()),
            (protocol(), &["output", "unknown", "tool"], protocol()),
            // The agent used a tool and then wrote something that could not be read.
            (Ending::Completed, &["output", "tool", "unknown"], unknown()),
            (
                Ending::Completed,
                &["output", "tool", "unknown", "tool", "unknown", "thinking"],
                unknown(),
            ),
            (protocol(), &["output", "tool", "unknown"], unknown()),
            (Ending::Completed, &["output", "text", "tool", "unknown"], Ending::Completed),
            (Ending::Completed, &["output", "tool", "unknown", "tool end"], Ending::Completed),
            // The agent had no answer to give.
            (Ending::Completed, &["output"], Ending::Completed),
            (Ending::Completed, &["output", "few"], Ending::Completed),
            (Ending::Completed, &["output", "many", "blank"], Ending::Completed),
            (Ending::Completed, &["output", "thought"], Ending::Completed),
            (Ending::Completed, &["output", "many", "thinking"], Ending::Completed),
            // People saw something.
            (Ending::Completed, &["output", "unknown", "many", "text"], Ending::Completed),
            (Ending::Completed, &["output", "unknown", "many", "tool"], Ending::Completed),
            (Ending::Completed, &["output", "many", "notice"], Ending::Completed),
            (Ending::Completed, &["output", "many", "plan"], Ending::Completed),
            (Ending::Completed, &["output", "unknown", "asked"], Ending::Completed),
            // Something else explains the ending.
            (Ending::TimedOut, &["output", "unknown", "many"], Ending::TimedOut),
            (
                Ending::Agent(failure("signed out")),
                &["output", "unknown"],
                Ending::Agent(failure("signed out")),
            ),
        ];
        for (ending, what, expected) in cases {
            assert_eq!(read_as(ending.clone(), what), expected, "{ending} with {what:?}");
        }
    }

    #[test]
    fn many_unknown_things_are_named_in_one_line() {
        let mut transcript = Transcript::default();
        for n in 0..40 {
            let unknown = aetheel_model::agent::Unrecognised {
                what: format!("{n:02}\n{}", "x".repeat(500)),
                path: None,
                sample: String::new(),
                ..aetheel_model::agent::Unrecognised::default()
            };
            transcript.apply(&aetheel_model::agent::AgentEventKind::Unrecognised(unknown));
        }
        let observed =
            TurnObservations { output: true, exited_well: true, ..TurnObservations::default() };
        let ending = Ending::Completed.unless_unread(&TurnEvidence {
            observed,
            transcript: &transcript,
            text: "",
            usage: None,
            lost: None,
        });
        let Ending::Unread(named) = ending else { panic!("{ending}") };
        assert!(
            named.len() < 500 && named.ends_with(", 35 more") && !named.contains('\n'),
            "{named}"
        );
    }

    #[test]
    fn an_ending_is_parsed_back_from_its_recording() {
        let failure = AgentFailure {
            kind: FailureKind::RateLimited,
            message: "no more: wait".to_owned(),
            retry_after_ms: Some(1_000),
        };
        let why = || "because: of this".to_owned();
        let endings = [
            Ending::Completed,
            Ending::Interrupted,
            Ending::ShutDown,
            Ending::TimedOut,
            Ending::Silent,
            Ending::Limit(why()),
            Ending::Mute(why()),
            Ending::Unread(why()),
            Ending::Backend(GuestFailure::Refused(why())),
            Ending::Backend(GuestFailure::Trapped(why())),
            Ending::Backend(GuestFailure::CutOff(why())),
            Ending::Agent(failure.clone()),
        ];
        for ending in endings {
            let outcome = TurnOutcome::Failed(failure.clone());
            assert_eq!(Ending::from_recording(&ending.to_string(), Some(&outcome)), ending);
        }
        let Ending::Agent(crashed) = Ending::from_recording("agent-failure: it is gone", None)
        else {
            panic!("it failed")
        };
        assert_eq!((crashed.kind, crashed.message.as_str()), (FailureKind::Crashed, "it is gone"));
    }
}
