//! The actions behind the commands.

use std::time::Duration;

use jiff::Timestamp;

use super::commands::{self, PanelAction};
use super::scope::ChannelScope;
use super::{Response, later_turns, menu, page};
use aetheel_dispatch::{
    CommandAccess, CommandAction, CommandError, CommandReply, LaneStatus, StatusRow, session_rows,
};
use aetheel_model::permission::READS_ONLY_IN_CHAT;

/// The bot and the person, as far as the answer to a command depends on them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// Whether the person may also write direct messages.
    pub(super) alone: bool,
    pub(super) dashboard: bool,
    /// The time in which Discord answered a request a moment ago.
    pub(super) latency: Option<Duration>,
}

impl PanelAction {
    /// Returns whether a deferred answer is visible only to the person who asked. Discord needs to
    /// know this before the answer is ready.
    pub(super) fn is_private(self, given: &[(String, String)]) -> bool {
        match self {
            Self::Shared(CommandAction::Settings) => given.is_empty(),
            Self::Shared(action) => !matches!(
                action,
                CommandAction::Compact | CommandAction::Project | CommandAction::Claim
            ),
            Self::Schedules | Self::Help => true,
        }
    }

    /// Carries out the command. `surroundings` describes the bot and the person.
    pub(super) async fn run(
        self,
        scope: &ChannelScope,
        surroundings: Surroundings,
        given: &[(String, String)],
    ) -> Response {
        let value = given.first().map(|(_, value)| value.trim()).filter(|value| !value.is_empty());
        match (self, value) {
            (Self::Schedules, None) => later_turns::list(&scope.later_turns(), 0),
            (Self::Schedules, Some(id)) => {
                let id = id.trim_matches('`');
                match scope.remove_later_turn(id).await {
                    true => Response::changed(Ok::<_, CommandError>(removed_text(id))),
                    false => Response::private(
                        "There is no such turn in this channel. `/schedules` lists them.",
                    ),
                }
            }
            (Self::Help, _) => {
                Response::private(help(&scope.view().await, scope.asker.owner, surroundings))
            }
            (Self::Shared(CommandAction::Settings), None) => menu::settings(&scope.view().await),
            (Self::Shared(action), _) => match scope.run(action, given).await {
                Ok(CommandReply::Rows(mut rows)) => {
                    if action == CommandAction::Status {
                        rows.push(connection_row(surroundings.latency));
                    }
                    Response::private(page::from_rows(&rows))
                }
                Ok(CommandReply::Conversations(found)) => {
                    let hint = match found.all.is_empty() {
                        true => "",
                        false => "\n-# `/sessions resume:` resumes one, `fork:` continues a copy.",
                    };
                    let rows = session_rows(&found, Timestamp::now());
                    Response::private(format!("{}{hint}", page::from_rows(&rows)))
                }
                Ok(CommandReply::Text { text, quotes, is_change }) => {
                    let text = if quotes { page::escaped(&text) } else { text };
                    Response { private: !is_change, ..Response::private(text) }
                }
                Err(CommandError::Ping(error)) => {
                    Response::private(page::escaped(&error.to_string()))
                }
                Err(error) => Response::private(error.to_string()),
            },
        }
    }
}

fn connection_row(latency: Option<Duration>) -> StatusRow {
    let text = match latency {
        Some(latency) => format!("Discord answers in {} ms", latency.as_millis()),
        None => "Discord answers slowly".to_owned(),
    };
    StatusRow { name: "Connection", text }
}

/// Returns the text that a turn which an agent asked for was removed.
pub(super) fn removed_text(id: &str) -> String {
    format!("Removed: the agent gets no turn for `{}` any more.", page::escaped(id))
}

/// Returns the help, with the commands that are useful here.
fn help(view: &LaneStatus, owner: bool, surroundings: Surroundings) -> String {
    let Surroundings { alone, dashboard, .. } = surroundings;
    let useful = commands::all(dashboard).filter(|command| {
        command.needs.is_none_or(|feature| view.backend.has(feature))
            && (owner || command.access == CommandAccess::Everyone)
    });
    let lines: Vec<String> =
        useful.map(|command| format!("`/{}` {}", command.name, command.description)).collect();
    let ways = match alone {
        true => "Mention me, answer me, or write to me in private.",
        false => "Mention me or answer me.",
    };
    let notice = match view.reads_only {
        true => format!("\n⚠️ {}", page::escaped(READS_ONLY_IN_CHAT)),
        false => String::new(),
    };
    let label = page::escaped(&view.backend.label);
    format!("{label} answers here. {ways}{notice}\n{}", lines.join("\n"))
}
