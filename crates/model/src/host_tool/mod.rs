//! The names of the host's tools in settings, and the question of the tool that asks people.

mod ask;

pub use ask::{AskPeople, answer_text};

/// Declares the tools with their names, their effects in words for people, and whether they are
/// opt-in.
macro_rules! host_tools {
    ($($(#[$doc:meta])* $kind:ident = $name:literal, $words:literal, opt_in: $opt_in:literal;)*) => {
        /// A tool of the host that agents may call.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum HostToolKind {
            $($(#[$doc])* $kind,)*
        }

        impl HostToolKind {
            /// All tools.
            pub const ALL: [Self; [$($name),*].len()] = [$(Self::$kind),*];
            /// All tools with their names.
            pub const WORDS: [(&str, Self); Self::ALL.len()] = [$(($name, Self::$kind)),*];

            /// Returns the name by which agents call the tool.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)*
                }
            }

            /// Returns what the tool does in words for people, after "The agent could not".
            #[must_use]
            pub const fn in_words(self) -> &'static str {
                match self {
                    $(Self::$kind => $words,)*
                }
            }

            /// Returns whether a channel has the tool only if `channels.md` names it there, because
            /// its effect goes beyond the turn and the channel that called it.
            #[must_use]
            pub const fn is_opt_in(self) -> bool {
                match self {
                    $(Self::$kind => $opt_in,)*
                }
            }
        }
    };
}

host_tools! {
    /// Attaches a file to the answer.
    PostFile = "aetheel_post_file", "post a file", opt_in: false;
    /// Asks people a question.
    Ask = "aetheel_ask", "ask a question", opt_in: false;
    /// Reserves files for the conversation.
    Claim = "aetheel_claim", "reserve files", opt_in: false;
    /// Gives the agent a turn at a later time.
    Remind = "aetheel_remind", "set a reminder", opt_in: true;
    /// Gives the agent a turn at the times of a cron expression.
    Schedule = "aetheel_schedule", "set a schedule", opt_in: true;
    /// Ends the turn and continues it later.
    SleepUntil = "aetheel_sleep_until", "continue later", opt_in: true;
    /// Lists the agents and channels that work can be handed over to.
    ListAgents = "aetheel_list_agents", "list the agents", opt_in: true;
    /// Hands work over to another agent or channel.
    HandOff = "aetheel_handoff", "hand work over", opt_in: true;
    /// Reads the latest messages of a channel.
    ReadChannel = "aetheel_read_channel", "read a channel", opt_in: true;
}

/// The beginning of each tool's name.
const PREFIX: &str = "aetheel_";

impl HostToolKind {
    /// Returns the tool with a name, which may be without `aetheel_` and have `-` for `_`.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        let word = word.to_ascii_lowercase().replace('-', "_");
        let short = word.strip_prefix(PREFIX).unwrap_or(&word);
        Self::ALL.into_iter().find(|kind| kind.name().strip_prefix(PREFIX) == Some(short))
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
