//! How a turn ended, as the host sees it. Pure. Pinned by the tests below.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use super::{Generation, GuestFailure, StopReason, reason};
use crate::agent::{Failure, FailureKind, Outcome, SessionReady, Usage};
use crate::fold::Transcript;
use crate::plain::clean_text;

/// Tokens of output that are not thinking, from which on there was an answer: an empty one costs a
/// few.
const SPENT: u32 = 32;
/// Unknown things named in a failure, and characters of each.
const NAMED: usize = 5;
const BRIEF: usize = 80;

/// How a turn ended. Exactly one a turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Ending {
    /// The agent is done.
    Completed,
    /// A person stopped it.
    Interrupted,
    /// The gateway's shutdown stopped it.
    ShutDown,
    /// `QUERY_TIMEOUT_MS` is over.
    TimedOut,
    /// `IDLE_TIMEOUT_MS` without output is over.
    Silent,
    /// A limit of the agent or the host stopped it; which one.
    Limit(String),
    /// The agent failed, in its own words or those of its stderr.
    Agent(Failure),
    /// The backend failed.
    Backend(GuestFailure),
    /// The agent ended without a failure and without a word; what its backend says of that.
    Mute(String),
    /// The agent said something, but the backend found no answer in it; what it did not know.
    Unread(String),
}

impl Ending {
    /// Decides among what the guest said, what became of the guest, what the host did and what
    /// happened to the process.
    ///
    /// The agent's success stands whatever came after; otherwise the host's own reason explains
    /// best, then the guest's failure, then the agent's.
    #[must_use]
    pub fn of(
        outcome: Option<Outcome>,
        guest: Option<GuestFailure>,
        stopped: Option<Self>,
        trouble: Option<Failure>,
    ) -> Self {
        match (outcome, stopped, guest) {
            (Some(Outcome::Completed), _, _) => Self::Completed,
            (_, Some(stopped), _) => stopped,
            (None, None, Some(guest)) => Self::Backend(guest),
            (Some(Outcome::Interrupted), None, _) => Self::Interrupted,
            (Some(Outcome::Limit(limit)), None, _) => Self::Limit(limit),
            // A crash's own last words say more than the guest's "it ended without a result".
            (Some(Outcome::Failed(failure) | Outcome::Lost(failure)), None, _) => {
                Self::Agent(failure)
            }
            (None, None, None) => Self::Agent(trouble.unwrap_or_else(|| Failure {
                kind: FailureKind::Protocol,
                message: "the backend neither started the agent nor ended the turn".to_owned(),
                retry_after_ms: None,
            })),
        }
    }

    /// The same with the agent's failure in words for people, who are told nothing of `stderr` but
    /// the reason.
    #[must_use]
    pub fn in_words(mut self, stderr: &str) -> Self {
        if let Self::Agent(failure) = &mut self {
            failure.message = reason::in_words(&failure.message, stderr);
        }
        self
    }

    /// What remains of it when it is seen what people got to see: an agent that had something to
    /// say, of which nothing could be read, has not answered. `docs/drift.md` says it in words.
    ///
    /// Whatever people saw (text, a tool, a notice, a plan, a question) is an answer: many agents
    /// say nothing after a tool. But where something unknown came after the last tool, that may
    /// have been the answer. So is nothing at all from an agent that says it is done and gives no
    /// sign of having said more.
    #[must_use]
    pub fn unless_unread(self, seen: &Seen<'_>) -> Self {
        let unknown = seen.transcript.unrecognised();
        let unread = match &self {
            _ if seen.is_anything() => false,
            // A blank text was read, and is all there was.
            Self::Completed => {
                !unknown.is_empty() || (seen.spent() >= SPENT && !seen.transcript.is_blank())
            }
            // With an exit code of 0 it did not crash, whatever its backend makes of that.
            Self::Agent(failure)
                if failure.kind == FailureKind::Protocol
                    || (failure.kind == FailureKind::Crashed && seen.left) =>
            {
                !unknown.is_empty() || seen.said
            }
            _ => false,
        };
        if !unread {
            return if seen.is_anything() {
                self.unless_stopped(seen)
            } else {
                self.unless_mute(seen)
            };
        }
        if unknown.is_empty() {
            return Self::Unread(match self {
                Self::Agent(failure) => failure.message,
                _ => format!("{} tokens of output and no text", seen.spent()),
            });
        }
        let brief = |what: &String| {
            clean_text(what)
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .chars()
                .take(BRIEF)
                .collect()
        };
        let mut named: Vec<String> = unknown.keys().take(NAMED).map(brief).collect();
        if unknown.len() > NAMED {
            named.push(format!("{} more", unknown.len() - NAMED));
        }
        Self::Unread(named.join(", "))
    }

    /// An agent that leaves well without a result, all of whose words were known, was stopped from
    /// outside, as Droid 0.225.2 and Gemini CLI 0.61.0 leave at SIGTERM: nothing of it was
    /// unreadable.
    fn unless_stopped(mut self, seen: &Seen<'_>) -> Self {
        if let Self::Agent(failure) = &mut self
            && failure.kind == FailureKind::Protocol
            && seen.left
            && seen.transcript.unrecognised().is_empty()
        {
            failure.kind = FailureKind::Crashed;
        }
        self
    }

    /// The agent has left, and nothing at all came: there is nothing that anybody could have
    /// misunderstood.
    fn unless_mute(self, seen: &Seen<'_>) -> Self {
        match self {
            Self::Agent(Failure {
                kind: FailureKind::Protocol | FailureKind::Crashed,
                message,
                ..
            }) if seen.left && !seen.heard => Self::Mute(message),
            other => other,
        }
    }

    /// Whether the answer could not be read, so that a newer backend may find it in the recording.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self {
            Self::Unread(_) | Self::Backend(_) => true,
            Self::Agent(failure) => failure.kind == FailureKind::Protocol,
            _ => false,
        }
    }

    /// One word for logs and metrics.
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

impl From<StopReason> for Ending {
    fn from(reason: StopReason) -> Self {
        match reason {
            StopReason::User => Self::Interrupted,
            StopReason::Shutdown => Self::ShutDown,
        }
    }
}

/// The word and, where there is one, the reason: what recordings say.
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

/// What there was to see of a turn.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// The turn as told.
    pub transcript: &'a Transcript,
    /// The answer.
    pub text: &'a str,
    /// People were asked something.
    pub asked: bool,
    /// What it cost.
    pub usage: Option<&'a Usage>,
    /// An agent that ran for this turn only said something on its stdout.
    pub said: bool,
    /// It has exited before its backend ended the turn, and calls that a success.
    pub left: bool,
    /// The agent said anything in it, by whatever way, understood or not.
    pub heard: bool,
}

impl Seen<'_> {
    fn is_anything(&self) -> bool {
        let Self { transcript, text, asked, .. } = self;
        *asked
            || !text.trim().is_empty()
            || !transcript.text().is_empty()
            || (!transcript.tools().is_empty() && !transcript.ends_unknown())
            || !transcript.notices().is_empty()
            || !transcript.plan().is_empty()
    }

    /// Tokens of output that nothing visible explains.
    fn spent(&self) -> u32 {
        if self.transcript.thinking().is_empty() {
            self.usage.map_or(0, |usage| usage.output.saturating_sub(usage.reasoning))
        } else {
            0
        }
    }
}

/// What a turn came to.
#[derive(Clone, Debug)]
pub struct TurnResult {
    /// Id of the link it ran on: the name of its recording.
    pub link: String,
    /// Where that is written.
    pub recording: PathBuf,
    /// The generation it ran on.
    pub generation: Generation,
    /// What was known of the agent's version at its start.
    pub agent_version: Option<String>,
    /// Whether the agent said anything in it, understood or not.
    pub heard: bool,
    /// How it ended.
    pub ending: Ending,
    /// The agent's answer, or what there was of it.
    pub text: String,
    /// The agent's session, if it told one.
    pub session: Option<SessionReady>,
    /// Tokens and money.
    pub usage: Option<Usage>,
    /// The whole turn as told.
    pub transcript: Transcript,
    /// From its start to its end.
    pub took: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(message: &str) -> Failure {
        Failure { kind: FailureKind::Other, message: message.into(), retry_after_ms: None }
    }

    #[test]
    fn success_stands_and_otherwise_the_best_reason_is_told() {
        let trap = || Some(GuestFailure::Trapped("x".into()));
        let cases = [
            (Some(Outcome::Completed), trap(), Some(Ending::TimedOut), Ending::Completed),
            (Some(Outcome::Interrupted), None, Some(Ending::TimedOut), Ending::TimedOut),
            (
                Some(Outcome::Failed(failure("a"))),
                None,
                Some(Ending::Interrupted),
                Ending::Interrupted,
            ),
            (Some(Outcome::Failed(failure("a"))), None, None, Ending::Agent(failure("a"))),
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

    /// What there was to see, in words: what stands in the list happened.
    fn seen(what: &[&str]) -> (Transcript, Option<Usage>, [bool; 3]) {
        use crate::agent::{
            EventKind, PlanEntry, PlanStatus, Text, ToolEnd, ToolStart, ToolStatus, Unrecognised,
        };
        let mut transcript = Transcript::default();
        let (mut usage, mut asked, mut said, mut left) = (None, false, false, false);
        let spent =
            |output, reasoning| Some(Usage { input: 9, output, reasoning, ..Usage::default() });
        let text =
            |text: &str| Text { part: 0, text: text.to_owned(), replace: false, parent: None };
        for what in what {
            match *what {
                "text" => transcript.apply(&EventKind::Text(text("Hello"))),
                "blank" => transcript.apply(&EventKind::Text(text(" \n"))),
                "thinking" => transcript.apply(&EventKind::Thinking(text("Hm"))),
                "notice" => {
                    transcript.apply(&EventKind::Notice("The model was changed.".to_owned()))
                }
                "plan" => transcript.apply(&EventKind::Plan(vec![PlanEntry {
                    text: "do it".to_owned(),
                    status: PlanStatus::Done,
                }])),
                "tool" => transcript.apply(&EventKind::ToolStart(ToolStart {
                    id: "t".to_owned(),
                    parent: None,
                    kind: "bash".to_owned(),
                    native_name: "Bash".to_owned(),
                    title: String::new(),
                    target: None,
                    input: "{}".to_owned(),
                })),
                "tool end" => transcript.apply(&EventKind::ToolEnd(ToolEnd {
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
                    };
                    transcript.apply(&EventKind::Unrecognised(unknown));
                }
                "few" => usage = spent(4, 0),
                "many" => usage = spent(400, 0),
                "thought" => usage = spent(400, 390),
                "asked" => asked = true,
                "said" => said = true,
                "left" => left = true,
                "heard" => {}
                other => panic!("{other}?"),
            }
        }
        (transcript, usage, [asked, said, left])
    }

    fn read_as(ending: Ending, what: &[&str]) -> Ending {
        let (transcript, usage, [asked, said, left]) = seen(what);
        let text = transcript.text();
        // What it says on its stdout is heard; what came by other ways is said here.
        let heard = said || what.contains(&"heard");
        ending.unless_unread(&Seen {
            transcript: &transcript,
            text: &text,
            asked,
            usage: usage.as_ref(),
            said,
            left,
            heard,
        })
    }

    #[test]
    fn output_without_anything_readable_is_a_failure_of_its_own() {
        let unknown = || Ending::Unread("line type \"foo\"".to_owned());
        let protocol =
            || Ending::Agent(Failure { kind: FailureKind::Protocol, ..failure("no result") });
        let crashed =
            || Ending::Agent(Failure { kind: FailureKind::Crashed, ..failure("no result") });
        let mute = || Ending::Mute("no result".to_owned());
        let cases: [(Ending, &[&str], Ending); 40] = [
            // It says that it is done.
            (Ending::Completed, &["said", "unknown"], unknown()),
            (Ending::Completed, &["said", "unknown", "blank"], unknown()),
            (Ending::Completed, &["said", "unknown", "thinking"], unknown()),
            (Ending::Completed, &["said", "unknown", "few"], unknown()),
            (
                Ending::Completed,
                &["said", "many"],
                Ending::Unread("400 tokens of output and no text".to_owned()),
            ),
            // It ended without saying so.
            (protocol(), &["said", "unknown"], unknown()),
            (protocol(), &["unknown"], unknown()),
            (protocol(), &["said"], Ending::Unread("no result".to_owned())),
            (protocol(), &["heard"], protocol()),
            (protocol(), &["heard", "thinking"], protocol()),
            (crashed(), &["said", "left"], Ending::Unread("no result".to_owned())),
            (crashed(), &["unknown", "left"], unknown()),
            (crashed(), &["said", "unknown"], crashed()),
            (crashed(), &["heard", "left"], crashed()),
            (crashed(), &[], crashed()),
            // It said nothing at all.
            (protocol(), &[], protocol()),
            (protocol(), &["left"], mute()),
            (crashed(), &["left"], mute()),
            (crashed(), &["said", "left", "text"], crashed()),
            (protocol(), &["said", "text"], protocol()),
            // It was stopped from outside.
            (protocol(), &["said", "text", "left"], crashed()),
            (protocol(), &["said", "text", "unknown", "left"], protocol()),
            (protocol(), &["said", "unknown", "tool"], protocol()),
            // It used a tool, and then said something that nobody could read.
            (Ending::Completed, &["said", "tool", "unknown"], unknown()),
            (
                Ending::Completed,
                &["said", "tool", "unknown", "tool", "unknown", "thinking"],
                unknown(),
            ),
            (protocol(), &["said", "tool", "unknown"], unknown()),
            (Ending::Completed, &["said", "text", "tool", "unknown"], Ending::Completed),
            (Ending::Completed, &["said", "tool", "unknown", "tool end"], Ending::Completed),
            // It had nothing to say.
            (Ending::Completed, &["said"], Ending::Completed),
            (Ending::Completed, &["said", "few"], Ending::Completed),
            (Ending::Completed, &["said", "many", "blank"], Ending::Completed),
            (Ending::Completed, &["said", "thought"], Ending::Completed),
            (Ending::Completed, &["said", "many", "thinking"], Ending::Completed),
            // People saw something.
            (Ending::Completed, &["said", "unknown", "many", "text"], Ending::Completed),
            (Ending::Completed, &["said", "unknown", "many", "tool"], Ending::Completed),
            (Ending::Completed, &["said", "unknown", "notice"], Ending::Completed),
            (Ending::Completed, &["said", "unknown", "plan"], Ending::Completed),
            (Ending::Completed, &["said", "unknown", "asked"], Ending::Completed),
            // Something else explains it.
            (Ending::TimedOut, &["said", "unknown", "many"], Ending::TimedOut),
            (
                Ending::Agent(failure("signed out")),
                &["said", "unknown"],
                Ending::Agent(failure("signed out")),
            ),
        ];
        for (ending, what, expected) in cases {
            assert_eq!(read_as(ending.clone(), what), expected, "{ending} with {what:?}");
        }
    }

    #[test]
    fn many_unknown_things_are_named_in_a_line() {
        let mut transcript = Transcript::default();
        for n in 0..40 {
            let unknown = crate::agent::Unrecognised {
                what: format!("{n:02}\n{}", "x".repeat(500)),
                path: None,
                sample: String::new(),
            };
            transcript.apply(&crate::agent::EventKind::Unrecognised(unknown));
        }
        let ending = Ending::Completed.unless_unread(&Seen {
            transcript: &transcript,
            text: "",
            asked: false,
            usage: None,
            said: true,
            left: true,
            heard: true,
        });
        let Ending::Unread(named) = ending else { panic!("{ending}") };
        assert!(
            named.len() < 500 && named.ends_with(", 35 more") && !named.contains('\n'),
            "{named}"
        );
    }
}
