//! One line of `state/queue.md`.
//!
//! An accepted event is an open task (`- [ ]`), a finished event is a completed task (`- [x]`), and
//! each change in between has a line of its own. A line ends with a checksum of the text before it.
//! A line without a checksum was written by hand and is accepted.

use std::fmt::Write as _;

use super::checksum::{check, content_of, with_checksum};
use super::newer::NewerEvent;
use crate::workspace::state_file::{EntryError, Token, code, parse_tokens};
use aetheel_model::event::{BLOCK_BITS, Event, EventOrigin, Sequence};
use aetheel_model::id::{ChannelId, MessageId};

/// The reason why a line of the journal is left out.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordError {
    /// The line was changed, or only a part of it was written.
    #[error("its checksum does not match; remove the checksum if the line was edited by hand")]
    Checksum,
    #[error("it does not begin with a number")]
    NumberMissing,
    #[error("its event cannot be read: {0}")]
    InvalidEvent(#[source] serde_json::Error),
    /// The number of the event differs from that of the line.
    #[error("its event is number {0}")]
    OtherEvent(Sequence),
    /// The words of the line are not those of a [`JournalMark`].
    #[error("it is not a known kind of record")]
    UnknownKind,
    #[error(transparent)]
    Entry(#[from] EntryError),
}

/// Something that happened to an event.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Record {
    /// An accepted event, and its answer if that is already known; then its agent does not run.
    Accepted(Box<Event>, Option<String>),
    Newer(Box<NewerEvent>),
    Mark(Sequence, JournalMark),
}

/// A step in the progress of an event.
#[derive(Clone, Debug, PartialEq)]
pub enum JournalMark {
    /// Its turn begins; each mark of this kind counts one start.
    Started,
    /// Its agent used a tool.
    UsedTool,
    /// Its agent may have used a tool without being observed.
    Doubtful,
    /// Its turn is about to be stopped because a budget is used up, so that the next gateway process
    /// does not take that for the request of a person.
    CutOff,
    /// The messages of its reply, by id.
    Posted(Vec<MessageId>),
    /// Its answer, as the dispatcher encoded it, before it is delivered.
    Answered(String),
    /// Its turn was interrupted, does not count as started, and will begin again with the next
    /// gateway process.
    Waiting,
    /// It was passed to the agent of this event's running turn.
    JoinedTurn(Sequence),
    /// People were asked at this time whether to repeat it.
    Offered {
        /// In milliseconds since 1970.
        at_ms: i64,
        /// Whether it was set aside because the gateway crashed too often while it ran.
        aside: bool,
    },
    /// A person requested that it is repeated. It waits as if it were new, except that it keeps the
    /// messages of its reply. If this cannot be written, [`Journal::restore`](super::Journal::restore)
    /// restores the entry.
    Retry,
    /// It is finished.
    Finished(FinishedEvent),
    /// Another node has it now, and this node forgets it.
    Moved,
    /// Lines that another node exported. They are one line of this journal, so that either all of
    /// them are in the file or none.
    Imported(String),
    /// The highest sequence number that was assigned.
    Last,
}

/// The part of a finished event that is remembered.
#[derive(Clone, Debug, PartialEq)]
pub struct FinishedEvent {
    pub(super) at_ms: i64,
    pub(super) key: Option<String>,
    /// Channel and id of the message that it came from.
    pub(super) message: Option<(ChannelId, MessageId)>,
}

impl FinishedEvent {
    pub(super) fn of(event: &Event, at_ms: i64) -> Self {
        let message = match event.origin {
            EventOrigin::Message { channel, message } => Some((channel, message)),
            _ => None,
        };
        Self { at_ms, key: event.key.clone(), message }
    }
}

impl Record {
    pub(super) fn sequence(&self) -> Sequence {
        match self {
            Self::Accepted(event, _) => event.sequence,
            Self::Newer(event) => event.sequence,
            Self::Mark(sequence, _) => *sequence,
        }
    }

    /// Moves the number of an event into a block, if the event comes from a gateway that was not
    /// part of a cluster. The buttons of an earlier offer to repeat the event contain the old
    /// number, so the offer is dropped and people are asked again.
    pub(super) fn with_block(self, first: Sequence) -> Self {
        let lift =
            |number: Sequence| if number >> BLOCK_BITS == 0 { number | first } else { number };
        match self {
            Self::Accepted(event, answer) => {
                let sequence = lift(event.sequence);
                Self::Accepted(Box::new(Event { sequence, ..*event }), answer)
            }
            Self::Newer(event) => Self::Newer(Box::new(event.with_block(first))),
            Self::Mark(number, mark) => {
                let mark = match mark {
                    JournalMark::JoinedTurn(turn) => JournalMark::JoinedTurn(lift(turn)),
                    JournalMark::Offered { .. } if lift(number) != number => JournalMark::UsedTool,
                    mark => mark,
                };
                Self::Mark(lift(number), mark)
            }
        }
    }

    /// Returns the line with its end.
    pub(super) fn write(&self) -> String {
        let number = code(&self.sequence().to_string());
        let mut line = match self {
            Self::Newer(event) => return event.text(),
            Self::Accepted(event, answer) => {
                let json = serde_json::to_string(event).expect("an event is plain data");
                let answered = answer
                    .as_ref()
                    .map(|answer| format!(" answered {}", code(answer)))
                    .unwrap_or_default();
                format!(
                    "- [ ] {number} in {}{answered}: {}",
                    code(&event.lane.to_string()),
                    code(&json)
                )
            }
            Self::Mark(_, mark) => match mark {
                JournalMark::Started => format!("- {number} started"),
                JournalMark::UsedTool => format!("- {number} used a tool"),
                JournalMark::Doubtful => format!("- {number} perhaps used a tool"),
                JournalMark::CutOff => format!("- {number} cut off"),
                JournalMark::Posted(ids) => {
                    let ids: Vec<String> = ids.iter().map(MessageId::to_string).collect();
                    format!("- {number} posted {}", code(&ids.join(" ")))
                }
                JournalMark::Answered(answer) => format!("- {number} answered {}", code(answer)),
                JournalMark::Waiting => format!("- {number} waits"),
                JournalMark::JoinedTurn(turn) => {
                    format!("- {number} heard by {}", code(&turn.to_string()))
                }
                JournalMark::Offered { at_ms, aside: false } => {
                    format!("- {number} offered {}", code(&at_ms.to_string()))
                }
                JournalMark::Offered { at_ms, aside: true } => {
                    format!("- {number} aside {}", code(&at_ms.to_string()))
                }
                JournalMark::Retry => format!("- {number} again"),
                JournalMark::Moved => format!("- {number} given"),
                JournalMark::Imported(lines) => format!("- {number} absorbed {}", code(lines)),
                JournalMark::Last => format!("- {number} last"),
                JournalMark::Finished(FinishedEvent { at_ms, key, message }) => {
                    let mut line = format!("- [x] {number} at {}", code(&at_ms.to_string()));
                    if let Some((channel, message)) = message {
                        let _ = write!(line, " message {}", code(&format!("{channel}/{message}")));
                    }
                    if let Some(key) = key {
                        let _ = write!(line, " key {}", code(key));
                    }
                    line
                }
            },
        };
        line = with_checksum(line);
        line.push('\n');
        line
    }

    /// Parses a line without its end. Returns `None` if it is not an entry.
    pub(super) fn read(line: &str) -> Option<Result<Self, RecordError>> {
        let item = line.trim_end().strip_prefix("- ")?;
        let (task, rest) = match (item.strip_prefix("[ ] "), item.strip_prefix("[x] ")) {
            (Some(rest), _) => (Some(false), rest),
            (_, Some(rest)) => (Some(true), rest),
            _ => (None, item),
        };
        let plain = format!("- {rest}");
        let tokens = match parse_tokens(&plain)? {
            Ok(tokens) => tokens,
            Err(error) => return Some(Err(error.into())),
        };
        Some(read(line.trim_end(), task, &tokens))
    }
}

fn read(line: &str, task: Option<bool>, tokens: &[Token]) -> Result<Record, RecordError> {
    let mut tokens = tokens;
    if let Some((Token::Code(last), before)) = tokens.split_last()
        && let Some(noted) = last.strip_prefix('#')
    {
        if noted != check(content_of(line)) {
            return Err(RecordError::Checksum);
        }
        tokens = before;
    }
    let number = |text: &str| text.parse::<u64>().map_err(|_| EntryError::code(text, "a number"));
    let message_id =
        |text: &str| text.parse::<MessageId>().map_err(|_| EntryError::code(text, "a number"));
    let time = |text: &str| {
        text.parse::<i64>().map_err(|_| EntryError::code(text, "a time in milliseconds"))
    };
    let [Token::Code(sequence), rest @ ..] = tokens else {
        return Err(RecordError::NumberMissing);
    };
    let sequence = number(sequence)?;
    let words: Vec<&str> = rest
        .iter()
        .filter_map(|token| if let Token::Word(word) = token { Some(word.as_str()) } else { None })
        .collect();
    let codes: Vec<&str> = rest
        .iter()
        .filter_map(|token| if let Token::Code(code) = token { Some(code.as_str()) } else { None })
        .collect();
    let mark = match (task, words.first().copied(), codes.as_slice()) {
        (Some(false), _, [.., json]) => {
            let event: Event = match serde_json::from_str(json) {
                Ok(event) => event,
                Err(error) => {
                    let newer = NewerEvent::read(line, sequence, json, &error);
                    let newer = newer.map(|event| Record::Newer(Box::new(event)));
                    return newer.ok_or(RecordError::InvalidEvent(error));
                }
            };
            if event.sequence != sequence {
                return Err(RecordError::OtherEvent(event.sequence));
            }
            let answer =
                if let (true, [_, answer, _]) = (words.contains(&"answered"), codes.as_slice()) {
                    Some(*answer)
                } else {
                    None
                };
            return Ok(Record::Accepted(Box::new(event), answer.map(str::to_owned)));
        }
        (Some(true), ..) => {
            let after = |word: &str| {
                let at = rest.iter().position(|token| *token == Token::Word(word.to_owned()))?;
                if let Some(Token::Code(code)) = rest.get(at + 1) {
                    Some(code.as_str())
                } else {
                    None
                }
            };
            let message = after("message").map(|both| {
                both.split_once('/').ok_or_else(|| EntryError::code(both, "`channel/message`"))
            });
            let message = message
                .transpose()?
                .map(|(channel, message)| {
                    let channel =
                        channel.parse().map_err(|_| EntryError::code(channel, "a number"))?;
                    Ok::<_, EntryError>((channel, message_id(message)?))
                })
                .transpose()?;
            let at_ms = after("at").map_or(Ok(0), time)?;
            JournalMark::Finished(FinishedEvent {
                at_ms,
                key: after("key").map(str::to_owned),
                message,
            })
        }
        (None, Some("started"), []) => JournalMark::Started,
        (None, Some("used"), []) => JournalMark::UsedTool,
        (None, Some("perhaps"), []) => JournalMark::Doubtful,
        (None, Some("cut"), []) => JournalMark::CutOff,
        (None, Some("posted"), [ids]) => {
            JournalMark::Posted(ids.split_whitespace().map(message_id).collect::<Result<_, _>>()?)
        }
        (None, Some("answered"), [answer]) => JournalMark::Answered((*answer).to_owned()),
        (None, Some("waits"), []) => JournalMark::Waiting,
        (None, Some("heard"), [turn]) => JournalMark::JoinedTurn(number(turn)?),
        (None, Some("offered"), [at]) => JournalMark::Offered { at_ms: time(at)?, aside: false },
        (None, Some("aside"), [at]) => JournalMark::Offered { at_ms: time(at)?, aside: true },
        (None, Some("again"), []) => JournalMark::Retry,
        (None, Some("given"), []) => JournalMark::Moved,
        (None, Some("absorbed"), [lines]) => JournalMark::Imported((*lines).to_owned()),
        (None, Some("last"), []) => JournalMark::Last,
        _ => return Err(RecordError::UnknownKind),
    };
    Ok(Record::Mark(sequence, mark))
}
