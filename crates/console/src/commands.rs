//! The commands of the table that Discord uses, too: reads them from lines, and formats their
//! replies.

use jiff::Timestamp;

use aetheel_dispatch::{
    ClaimAuthor, CommandAction, CommandCaller, CommandError, CommandReply, Dispatcher, StatusRow,
    session_rows,
};
use aetheel_model::event::Lane;

/// The commands that are called by the name in the table.
const NAMED: [CommandAction; 8] = [
    CommandAction::Status,
    CommandAction::Queue,
    CommandAction::Usage,
    CommandAction::Sessions,
    CommandAction::Compact,
    CommandAction::Project,
    CommandAction::Claim,
    CommandAction::Recover,
];

/// A command with its arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TypedCommand {
    action: CommandAction,
    arguments: Vec<(String, String)>,
}

impl TypedCommand {
    /// Reads a line. Returns `None` if it is not a command of the table.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let line = line.strip_prefix('/')?;
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let with = |action, name: &str, value: &str| {
            let arguments = vec![(name.to_owned(), value.trim().to_owned())];
            Some(Self { action, arguments })
        };
        match name {
            "settings" if rest.is_empty() => with(CommandAction::Status, "", ""),
            // `/settings model opus`, `/settings model:opus` and `/model opus` are the same.
            "settings" => {
                let (setting, value) =
                    rest.split_once(|c: char| c == ':' || c.is_whitespace()).unwrap_or((rest, ""));
                let mut known = CommandAction::Settings.command().arguments.iter();
                known.find(|argument| argument.name == setting)?;
                with(CommandAction::Settings, setting, value)
            }
            "backend" | "model" | "thinking" | "safety" | "mode" => {
                with(CommandAction::Settings, name, rest)
            }
            "ping" => with(CommandAction::Status, "check", rest),
            name => {
                let mut named = NAMED.into_iter();
                let action = named.find(|action| action.command().name == name)?;
                let known = action.command().arguments;
                if let Some((argument, value)) = rest.split_once(char::is_whitespace)
                    && known.iter().any(|known| known.name == argument)
                {
                    return with(action, argument, value);
                }
                let first = known.first().filter(|_| !rest.is_empty());
                let first = first.map_or("", |argument| argument.name);
                match rest.rsplit_once(" for ").filter(|_| action == CommandAction::Claim) {
                    Some((paths, time)) => {
                        let mut command = with(action, first, paths)?;
                        command.arguments.push(("for".to_owned(), time.to_owned()));
                        Some(command)
                    }
                    None => with(action, first, rest),
                }
            }
        }
    }

    /// Carries out the command. Returns the text to print.
    ///
    /// # Errors
    /// Returns [`CommandError`] if the command is refused.
    pub(crate) async fn run(mut self, dispatcher: &Dispatcher) -> Result<String, CommandError> {
        let current = || dispatcher.settings.backend_of(&Lane::Console);
        if let [(name, value)] = &mut self.arguments[..]
            && name == "check"
            && value.is_empty()
        {
            *value = current().await;
        }
        let author = ClaimAuthor { lane: Lane::Console, person: None, name: None };
        let caller = CommandCaller { author, project_lane: Lane::Console, is_owner: true };
        Ok(match dispatcher.commands.run(self.action, &caller, &self.arguments).await? {
            CommandReply::Rows(rows) => join_rows(&rows),
            CommandReply::Conversations(found) => {
                join_rows(&session_rows(&found, Timestamp::now()))
            }
            CommandReply::Text { is_change: true, .. } if self.chooses_backend() => {
                format!("{} answers from now on", current().await)
            }
            CommandReply::Text { text, .. } => text,
        })
    }

    fn chooses_backend(&self) -> bool {
        self.action == CommandAction::Settings
            && self.arguments.iter().any(|(name, _)| name == "backend")
    }
}

/// Joins the rows of a view, one per line.
fn join_rows(rows: &[StatusRow]) -> String {
    let line = |row: &StatusRow| {
        if row.name.is_empty() { row.text.clone() } else { format!("{}: {}", row.name, row.text) }
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_belong_to_the_named_or_the_first_argument() {
        for (line, action, wanted) in [
            ("/settings", CommandAction::Status, &[("", "")][..]),
            ("/settings model:opus", CommandAction::Settings, &[("model", "opus")]),
            ("/settings mode plan", CommandAction::Settings, &[("mode", "plan")]),
            ("/thinking  LOW ", CommandAction::Settings, &[("thinking", "LOW")]),
            ("/model", CommandAction::Settings, &[("model", "")]),
            ("/ping", CommandAction::Status, &[("check", "")]),
            ("/status", CommandAction::Status, &[("", "")]),
            ("/sessions ab12", CommandAction::Sessions, &[("resume", "ab12")]),
            ("/sessions fork ab12", CommandAction::Sessions, &[("fork", "ab12")]),
            ("/project two words", CommandAction::Project, &[("directory", "two words")]),
            (
                "/claim src, a b for 2h",
                CommandAction::Claim,
                &[("paths", "src, a b"), ("for", "2h")],
            ),
            ("/claim release all", CommandAction::Claim, &[("release", "all")]),
            ("/compact", CommandAction::Compact, &[("", "")]),
        ] {
            let arguments =
                wanted.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let wanted = TypedCommand { action, arguments: arguments.collect() };
            assert_eq!(TypedCommand::parse(line), Some(wanted), "{line}");
        }
        for line in ["/settings fly", "/fly", "status", "/", ""] {
            assert_eq!(TypedCommand::parse(line), None, "{line}");
        }
    }
}
