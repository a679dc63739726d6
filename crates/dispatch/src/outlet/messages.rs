//! The wording of refusals and failures.
//!
//! A message reports the problem and the next step, without internals. If something is broken, it
//! ends with a kind and an id.

use std::time::Duration;

use aetheel_model::agent::{AgentFailure, FailureKind};
use aetheel_model::event::{AgentCause, AgentRequest, Lane};
use aetheel_model::plain::counted;
use aetheel_model::queue::Rejection;
use aetheel_recording::Ending;

/// A notice below an answer for which the agent got the previous messages as text, because the
/// session is on another machine.
pub(crate) const MOVED_NOTICE: &str =
    "This conversation moved to another machine; I start again from the messages in this channel.";

/// A notice below the answer to a prompt that was written during an outage.
pub(crate) const LATE_NOTICE: &str = "I was away when you wrote this.";

/// A notice below the answer to a prompt that an agent wrote.
pub(crate) fn by_agent(request: &AgentRequest) -> String {
    let from = match &request.from {
        Lane::Channel(channel) => format!("<#{channel}>"),
        lane => lane.to_string(),
    };
    match request.cause {
        AgentCause::HandOff => {
            format!("An agent in {from} handed this over (hand-off {}).", request.hops)
        }
        AgentCause::Reminder => "The agent asked for this turn itself: a reminder.".to_owned(),
        AgentCause::Schedule => {
            "The agent asked for this turn itself: a schedule. `/schedules` shows and removes it."
                .to_owned()
        }
        AgentCause::Sleep => {
            "The agent asked for this turn itself: it continues its work.".to_owned()
        }
    }
}

/// Explains that an agent below full rights cannot run commands, because its own sandbox cannot
/// work.
pub(crate) fn own_sandbox_fails(label: &str) -> String {
    format!(
        "{label} runs its commands in a sandbox of its own, which cannot work on this machine, so at this safety level they fail. \
         The operator installs bubblewrap and allows user namespaces; `aetheel doctor` has the details."
    )
}

/// Explains that the agent may not report when its own sandbox stops a command.
pub(crate) fn own_sandbox_hides(label: &str) -> String {
    format!(
        "{label} runs its commands in a sandbox of its own at this safety level. It may not report a command that the sandbox stops: \
         ask it what failed, or choose another safety level with /settings."
    )
}

/// The reason why a prompt was not accepted, worded for its author.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PromptRefusal {
    /// All slots are in use.
    #[error("I am busy with {}. Please try again in a moment.", counted(*slots, "other conversation"))]
    Busy {
        /// The number of slots.
        slots: usize,
    },
    /// Too many events wait.
    #[error("Too many requests are waiting ({depth}). Please try again later.")]
    Full {
        /// The number of waiting events.
        depth: usize,
    },
    /// The gateway is stopping.
    #[error("I am restarting. Please try again in a minute.")]
    ShuttingDown,
    /// An event with the same key was accepted before.
    #[error("I already have this; it is answered once.")]
    Known,
    /// The event could not be saved.
    #[error("This could not be saved, so it was not taken. Please try again later. (storage)")]
    NotSaved,
    /// The prompt has more files than allowed.
    #[error("{}", if *limit == 0 { "Files are not accepted here. Write it as text.".to_owned() } else { format!("That is {count} files, at most {limit} are taken. Send fewer.") })]
    TooManyFiles {
        /// The number of files with the prompt.
        count: usize,
        /// The maximum number of files, `ATTACHMENTS_MAX`.
        limit: usize,
    },
    /// A file is larger than allowed.
    #[error("{name} is too large: {bytes} bytes, at most {limit} are taken. Send a smaller one.")]
    FileTooLarge {
        /// The file name in quotes, safe to show.
        name: String,
        /// The announced size in bytes.
        bytes: u64,
        /// The limit in bytes, `ATTACHMENT_LIMIT_BYTES`.
        limit: u64,
    },
    /// The author exceeds `USER_PROMPTS_PER_MINUTE`.
    #[error("You are asking faster than I may answer you. Please try again in {seconds} s.")]
    TooFast {
        /// The time until the next prompt is accepted, in seconds.
        seconds: u64,
    },
    /// The prompt is longer than allowed.
    #[error(
        "That is too long: {bytes} bytes, at most {limit} are taken. Send it in parts, or as a file."
    )]
    TooLong {
        /// The size of the prompt in bytes.
        bytes: usize,
        /// The limit in bytes, `PROMPT_LIMIT_BYTES`.
        limit: usize,
    },
}

impl From<Rejection> for PromptRefusal {
    fn from(rejection: Rejection) -> Self {
        match rejection {
            Rejection::Busy { slots } => Self::Busy { slots },
            Rejection::Full { depth } => Self::Full { depth },
            Rejection::ShuttingDown => Self::ShuttingDown,
        }
    }
}

/// The message about a prompt of the console that was not answered because the console ended.
const CONSOLE_ENDED: &str =
    "The console ended before this was answered. Please ask again in a new one.";

/// Returns the message about an event that the gateway does not keep when it stops.
#[must_use]
pub(crate) fn shutdown_message(lane: &Lane) -> String {
    match lane {
        Lane::Console => CONSOLE_ENDED.to_owned(),
        _ => PromptRefusal::ShuttingDown.to_string(),
    }
}

/// Returns the message about a turn that failed or was stopped, or `None` for one that completed.
/// The message includes the next step. If something is broken, it ends with the kind and the turn's
/// id, for the operator.
///
/// `lane` is the turn's lane if it is known, `timeout` the time limit of the turn, and `retry` the
/// failure after which the agent was retrying. `is_kept` means that the agent's unread output is
/// kept for a newer backend. `docs/messages.md` lists all messages.
#[must_use]
pub(crate) fn failure_message(
    ending: &Ending,
    lane: Option<&Lane>,
    timeout: Duration,
    retry: Option<&str>,
    is_kept: bool,
    id: &str,
) -> Option<String> {
    let (sentence, broken) = match ending {
        Ending::Completed => return None,
        Ending::Interrupted => ("Stopped.".to_owned(), None),
        Ending::ShutDown if lane == Some(&Lane::Console) => (CONSOLE_ENDED.to_owned(), None),
        Ending::ShutDown => ("I am restarting and had to stop here. Please ask again in a minute.".to_owned(), None),
        Ending::TimedOut if retry.is_some() => (
            format!("Query timed out after {}; the agent's service kept failing. Please try again later.", span(timeout)),
            Some("timeout"),
        ),
        Ending::TimedOut => (
            format!("Query timed out after {}, the limit here. Ask it to go on; the operator raises the limit with `QUERY_TIMEOUT_MS`.", span(timeout)),
            Some("timeout"),
        ),
        Ending::Silent => (
            "The agent said nothing for too long and was stopped. Ask it to go on; the operator raises the limit with `IDLE_TIMEOUT_MS`.".to_owned(),
            Some("idle timeout"),
        ),
        Ending::Limit(limit) => {
            (format!("The agent was stopped at a limit: {}. Please ask for less at a time.", first_line(limit)), None)
        }
        Ending::Agent(failure) => agent_failure(failure),
        Ending::Backend(failure) => (
            if is_kept {
                "The backend failed and could not read the agent's answer. The answer is kept until a newer version can; please tell the operator."
            } else {
                "The backend failed. Please ask again; if it happens again, tell the operator."
            }
            .to_owned(),
            Some(match failure.kind() {
                "refused" => "backend refused",
                "trapped" => "backend crashed",
                "paused" => "backend paused",
                _ => "backend cut off",
            }),
        ),
        Ending::Unread(_) => (
            "The agent answered, but in a form this version of its backend cannot read. The answer is kept until a newer one can; please tell the operator."
                .to_owned(),
            Some("unread"),
        ),
        Ending::Mute(_) => (
            "The agent ended without saying anything. Please ask again; if it happens again, tell the operator.".to_owned(),
            Some("no answer"),
        ),
    };
    Some(match broken {
        Some(kind) => format!("{sentence} ({kind}, {id})"),
        None => sentence,
    })
}

/// Returns the message for the author of a prompt that waits for a paused backend.
#[must_use]
pub(crate) fn paused_message(label: &str) -> String {
    format!(
        "{label} failed several times within a minute. Your message waits, and is answered when it works again. (backend paused)"
    )
}

/// Returns the reason for which a prompt waits for a paused backend, for a list of prompts.
pub(crate) fn paused_reason(label: &str) -> String {
    format!("waits until {label} works again")
}

/// Words in an agent's error that show a denied access.
const REFUSED_ACCESS: [&str; 6] = [
    "permission denied",
    "operation not permitted",
    "read-only file system",
    "eacces",
    "eperm",
    "erofs",
];

/// Returns a hint for the operator if a sandboxed agent may have failed because of a denied access.
#[must_use]
pub(crate) fn sandbox_hint(ending: &Ending) -> Option<&'static str> {
    let said = failure_detail(ending)?.to_lowercase();
    REFUSED_ACCESS.iter().any(|words| said.contains(words)).then_some(
        "the sandbox of agents may have refused this; grant the path with `AGENT_READ` or `AGENT_WRITE` (docs/sandbox.md)",
    )
}

/// Returns the details of a failure, for the operator at the terminal.
#[must_use]
pub(crate) fn failure_detail(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Agent(failure) => {
            Some(failure.message.clone()).filter(|message| !message.is_empty())
        }
        Ending::Backend(failure) => Some(failure.to_string()),
        Ending::Mute(what) | Ending::Unread(what) => Some(what.clone()),
        _ => None,
    }
}

/// Returns one sentence on what happened and one on the next step, and the kind if something is
/// broken.
fn agent_failure(failure: &AgentFailure) -> (String, Option<&'static str>) {
    let later = match failure.retry_after_ms {
        Some(ms) => format!("Try again in {}.", seconds(Duration::from_millis(ms.into()))),
        None => "Please try again later.".to_owned(),
    };
    const AGAIN: &str = "Please ask again; if it happens again, tell the operator.";
    let (happened, next, broken) = match failure.kind {
        FailureKind::NotFound => (
            "The agent's program is not installed on this machine.",
            "Choose another agent with `/settings`, or tell the operator.",
            Some("agent not found"),
        ),
        FailureKind::Authentication => (
            "The agent is not signed in, or its key was refused.",
            "Choose another agent with `/settings`, or tell the operator.",
            Some("authentication"),
        ),
        FailureKind::RateLimited => {
            ("The agent's service is limiting requests.", later.as_str(), None)
        }
        FailureKind::Overloaded => {
            ("The agent's service is overloaded or failing.", later.as_str(), None)
        }
        FailureKind::Quota => (
            "An allowance of the agent's account is used up.",
            "Choose another agent with `/settings`, or wait until it is renewed.",
            None,
        ),
        FailureKind::Network => {
            ("The agent cannot reach its service.", later.as_str(), Some("network"))
        }
        FailureKind::Configuration => (
            "The agent refuses its own configuration.",
            "Choose another agent with `/settings`, or ask the operator.",
            Some("agent configuration"),
        ),
        FailureKind::BadRequest => (
            "The agent, or its service, refused the request.",
            "Ask in other words, or begin a new conversation with `/reset`.",
            None,
        ),
        FailureKind::ModelNotFound => (
            "The chosen model does not exist or may not be used.",
            "Choose another one with `/settings`.",
            None,
        ),
        FailureKind::ContextFull => (
            "The conversation has become too long for the model.",
            "Start afresh with `/reset`.",
            None,
        ),
        FailureKind::SessionUnknown => (
            "The agent no longer knows this conversation; it has been forgotten here as well.",
            "Please ask again to start a new one.",
            None,
        ),
        FailureKind::Protocol => ("The agent sent an invalid message.", AGAIN, Some("protocol")),
        FailureKind::Crashed => ("The agent ended without a result.", AGAIN, Some("agent failure")),
        FailureKind::TimedOut => {
            ("The agent gave up waiting.", "Please ask again.", Some("agent timeout"))
        }
        FailureKind::Refused => ("The agent declined.", "Ask in other words.", None),
        FailureKind::Unsupported => (
            "This agent does not support that.",
            "Ask for it in another way, or choose another agent with `/settings`.",
            None,
        ),
        FailureKind::Other => ("The agent failed.", AGAIN, Some("agent failure")),
    };
    (format!("{happened} {next}"), broken)
}

fn seconds(time: Duration) -> String {
    if time.subsec_millis() == 0 {
        format!("{} s", time.as_secs())
    } else {
        format!("{:.1} s", time.as_secs_f64())
    }
}

/// Formats a limit in the most readable unit: `90 s`, `60 min`.
fn span(time: Duration) -> String {
    match time.as_secs() {
        minutes @ 300.. if minutes.is_multiple_of(60) => format!("{} min", minutes / 60),
        _ => seconds(time),
    }
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().chars().take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use aetheel_recording::GuestFailure;

    /// Returns all kinds. A new one must be added here, or this does not compile.
    fn kinds() -> Vec<FailureKind> {
        use FailureKind::*;
        let next = |kind| match kind {
            NotFound => Some(Authentication),
            Authentication => Some(RateLimited),
            RateLimited => Some(Quota),
            Quota => Some(Overloaded),
            Overloaded => Some(Network),
            Network => Some(Configuration),
            Configuration => Some(BadRequest),
            BadRequest => Some(ModelNotFound),
            ModelNotFound => Some(ContextFull),
            ContextFull => Some(SessionUnknown),
            SessionUnknown => Some(Protocol),
            Protocol => Some(Crashed),
            Crashed => Some(TimedOut),
            TimedOut => Some(Refused),
            Refused => Some(Unsupported),
            Unsupported => Some(Other),
            Other => None,
        };
        std::iter::successors(Some(NotFound), |kind| next(*kind)).collect()
    }

    fn endings() -> Vec<Ending> {
        let secret = "/home/operator/.claude: sk-123 at line 7";
        let agent = kinds().into_iter().map(|kind| {
            Ending::Agent(AgentFailure { kind, message: secret.into(), retry_after_ms: None })
        });
        agent
            .chain([
                Ending::ShutDown,
                Ending::TimedOut,
                Ending::Silent,
                Ending::Limit("more than 9 tool uses".to_owned()),
                Ending::Backend(GuestFailure::Trapped(secret.into())),
                Ending::Mute(secret.into()),
                Ending::Unread(secret.into()),
            ])
            .collect()
    }

    fn message(ending: &Ending) -> String {
        failure_message(ending, None, Duration::from_secs(120), None, true, "ab12")
            .expect("a failure")
    }

    #[test]
    fn every_failure_names_the_next_step_and_omits_the_agents_details() {
        for ending in endings() {
            let text = message(&ending);
            let next = ["Please ", "Try again", "Choose ", "Ask ", "Start afresh"];
            let sentences = text.split_inclusive(". ").collect::<Vec<_>>();
            assert!(
                sentences.len() > 1
                    && sentences[1..]
                        .iter()
                        .any(|sentence| next.iter().any(|next| sentence.starts_with(next))
                            || sentence.contains("please tell the operator")),
                "{text}"
            );
            assert!(!text.contains("/home") && !text.contains("line 7"), "{text}");
        }
    }

    #[test]
    fn only_messages_about_something_broken_have_an_id() {
        for ending in endings() {
            use FailureKind::*;
            let fine = match &ending {
                Ending::ShutDown | Ending::Limit(_) => true,
                Ending::Agent(failure) => matches!(
                    failure.kind,
                    RateLimited
                        | Quota
                        | Overloaded
                        | BadRequest
                        | ModelNotFound
                        | ContextFull
                        | SessionUnknown
                        | Refused
                        | Unsupported
                ),
                _ => false,
            };
            let text = message(&ending);
            assert_eq!(text.ends_with(", ab12)"), !fine, "{text}");
        }
        assert_eq!(message(&Ending::Interrupted), "Stopped.");
    }

    #[test]
    fn only_a_denied_access_hints_at_the_sandbox() {
        let failed = |message: &str| {
            let message = message.to_owned();
            Ending::Agent(AgentFailure {
                kind: FailureKind::Crashed,
                message,
                retry_after_ms: None,
            })
        };
        for said in [
            "Error: EACCES: permission denied, open '/srv/x'",
            "cat: /srv/x: Permission denied",
            "mkdir: cannot create directory: Read-only file system",
        ] {
            assert!(sandbox_hint(&failed(said)).is_some(), "{said}");
        }
        assert_eq!(sandbox_hint(&failed("it broke")), None);
        assert_eq!(sandbox_hint(&Ending::Completed), None);
    }

    #[test]
    fn the_documentation_lists_all_messages() {
        let page = include_str!("../../../../docs/messages.md");
        let plain = |text: &str| text.split(" (").next().unwrap_or_default().to_owned();
        let failures = endings().into_iter().map(|ending| {
            plain(&message(&ending)).replace("120 s", "N s").replace("9 tool uses", "N tool uses")
        });
        let refusals = [
            PromptRefusal::Busy { slots: 0 },
            PromptRefusal::Full { depth: 0 },
            PromptRefusal::ShuttingDown,
            PromptRefusal::Known,
            PromptRefusal::NotSaved,
            PromptRefusal::TooManyFiles { count: 0, limit: 0 },
            PromptRefusal::TooManyFiles { count: 0, limit: 1 },
            PromptRefusal::FileTooLarge { name: "NAME".to_owned(), bytes: 0, limit: 0 },
            PromptRefusal::TooFast { seconds: 0 },
            PromptRefusal::TooLong { bytes: 0, limit: 0 },
        ];
        let numbers = |text: String| text.replace(['0', '1'], "N");
        let unkept = Ending::Backend(GuestFailure::Trapped(String::new()));
        let unkept = failure_message(&unkept, None, Duration::ZERO, None, false, "x")
            .map(|text| plain(&text));
        let others = unkept
            .into_iter()
            .chain([plain(&paused_message("AGENT")), shutdown_message(&Lane::Console)]);
        for text in failures
            .chain(others)
            .chain(refusals.iter().map(|refusal| numbers(refusal.to_string())))
        {
            assert!(page.contains(&text), "docs/messages.md lacks: {text}");
        }
    }

    #[test]
    fn messages_contain_times() {
        assert!(message(&Ending::TimedOut).starts_with("Query timed out after 120 s, the limit"));
        let hour =
            failure_message(&Ending::TimedOut, None, Duration::from_secs(3_600), None, false, "x");
        assert!(hour.is_some_and(|text| text.starts_with("Query timed out after 60 min,")));
        let limited = Ending::Agent(AgentFailure {
            kind: FailureKind::RateLimited,
            message: String::new(),
            retry_after_ms: Some(1500),
        });
        assert!(message(&limited).contains("Try again in 1.5 s."));
        assert_eq!(
            failure_message(&Ending::Completed, None, Duration::ZERO, None, false, "x"),
            None
        );
    }
}
