//! The names of the host's tools in settings, and the question of the tool that asks people.

mod ask;

pub use ask::{AskPeople, MAX_ASK_OPTIONS, answer_text};

/// A tool of the host that agents may call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostToolKind {
    /// Attaches a file to the answer.
    PostFile,
    /// Asks people a question.
    Ask,
    /// Reserves files for the conversation.
    Claim,
    /// Gives the agent a turn at a later time.
    Remind,
    /// Gives the agent a turn at the times of a cron expression.
    Schedule,
    /// Ends the turn and continues it later.
    SleepUntil,
    /// Lists the agents and channels that work can be handed over to.
    ListAgents,
    /// Hands work over to another agent or channel.
    HandOff,
    /// Reads the latest messages of a channel.
    ReadChannel,
}

/// The beginning of each tool's name.
const PREFIX: &str = "aetheel_";

impl HostToolKind {
    /// All tools.
    pub const ALL: [Self; 9] = [
        Self::PostFile,
        Self::Ask,
        Self::Claim,
        Self::Remind,
        Self::Schedule,
        Self::SleepUntil,
        Self::ListAgents,
        Self::HandOff,
        Self::ReadChannel,
    ];
    /// All tools with their names.
    pub const WORDS: [(&str, Self); 9] = [
        (Self::PostFile.name(), Self::PostFile),
        (Self::Ask.name(), Self::Ask),
        (Self::Claim.name(), Self::Claim),
        (Self::Remind.name(), Self::Remind),
        (Self::Schedule.name(), Self::Schedule),
        (Self::SleepUntil.name(), Self::SleepUntil),
        (Self::ListAgents.name(), Self::ListAgents),
        (Self::HandOff.name(), Self::HandOff),
        (Self::ReadChannel.name(), Self::ReadChannel),
    ];

    /// Returns the name by which agents call the tool.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::PostFile => "aetheel_post_file",
            Self::Ask => "aetheel_ask",
            Self::Claim => "aetheel_claim",
            Self::Remind => "aetheel_remind",
            Self::Schedule => "aetheel_schedule",
            Self::SleepUntil => "aetheel_sleep_until",
            Self::ListAgents => "aetheel_list_agents",
            Self::HandOff => "aetheel_handoff",
            Self::ReadChannel => "aetheel_read_channel",
        }
    }

    /// Returns what the tool does in words for people, after "The agent could not".
    #[must_use]
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::PostFile => "post a file",
            Self::Ask => "ask a question",
            Self::Claim => "reserve files",
            Self::Remind => "set a reminder",
            Self::Schedule => "set a schedule",
            Self::SleepUntil => "continue later",
            Self::ListAgents => "list the agents",
            Self::HandOff => "hand work over",
            Self::ReadChannel => "read a channel",
        }
    }

    /// Returns the tool with a name, which may be without `aetheel_` and have `-` for `_`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase().replace('-', "_");
        let short = word.strip_prefix(PREFIX).unwrap_or(&word);
        Self::ALL.into_iter().find(|kind| kind.name().strip_prefix(PREFIX) == Some(short))
    }

    /// Returns whether a channel has the tool only if `channels.md` names it there, because its
    /// effect goes beyond the turn and the channel that called it.
    #[must_use]
    pub const fn is_opt_in(self) -> bool {
        !matches!(self, Self::PostFile | Self::Ask | Self::Claim)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_found_by_its_long_and_its_short_name() {
        for kind in HostToolKind::ALL {
            assert_eq!(HostToolKind::parse(kind.name()), Some(kind));
        }
        assert_eq!(HostToolKind::parse("Sleep-Until"), Some(HostToolKind::SleepUntil));
        assert_eq!(HostToolKind::parse("handoff"), Some(HostToolKind::HandOff));
        assert_eq!(HostToolKind::parse("aetheel_"), None);
        assert_eq!(HostToolKind::parse("shell"), None);
    }
}
