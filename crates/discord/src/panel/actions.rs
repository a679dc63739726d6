//! The actions behind the commands.

use std::time::Duration;

use jiff::Timestamp;

use super::commands::{self, CommandAccess, PanelAction};
use super::scope::ChannelScope;
use super::{Response, later_turns, menu, page};
use aetheel_dispatch::{
    ClaimOrder, LaneRequestError, LaneStatus, ProjectBinding, Setting, StatusRow, session_rows,
    status_rows,
};
use aetheel_model::permission::READS_ONLY_IN_CHAT;

/// How long an agent may take to list its sessions.
const LISTING_TIMEOUT: Duration = Duration::from_secs(8);

/// The bot and the person, as far as the answer to a command depends on them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Surroundings {
    /// Whether the person may also write direct messages.
    pub(super) alone: bool,
    /// Whether the dashboard is enabled.
    pub(super) dashboard: bool,
    /// The time in which Discord answered a request a moment ago.
    pub(super) latency: Option<Duration>,
}

impl PanelAction {
    /// Returns whether a deferred answer is visible only to the person who asked. Discord needs to
    /// know this before the answer is ready.
    pub(super) fn is_private(self, given: &[(String, String)]) -> bool {
        if self == Self::Settings {
            return given.is_empty();
        }
        !matches!(self, Self::Compact | Self::Project | Self::Claim)
    }

    /// Carries out the command. `surroundings` describes the bot and the person.
    pub(super) async fn run(
        self,
        scope: &ChannelScope,
        surroundings: Surroundings,
        given: &[(String, String)],
    ) -> Response {
        let value = given.first().map(|(_, value)| value.trim()).filter(|value| !value.is_empty());
        let now = Timestamp::now();
        match (self, value) {
            (Self::Status, None) => {
                let mut rows = status_rows(&scope.view().await, scope.asker.owner, now);
                rows.push(connection_row(surroundings.latency));
                Response::private(page::from_rows(&rows))
            }
            (Self::Status, Some(_)) if !scope.asker.owner => {
                Response::private("Only my owner may check a backend.")
            }
            (Self::Status, Some(name)) => {
                let text = scope.ping(name).await.unwrap_or_else(|error| error.to_string());
                Response::private(page::escaped(&text))
            }
            (Self::Usage, _) => Response::private(page::shown(&scope.usage().await.join("\n"))),
            (Self::Sessions, None) => {
                let found = scope.conversations(LISTING_TIMEOUT).await;
                let hint = if found.all.is_empty() {
                    ""
                } else {
                    "\n-# `/sessions resume:` resumes one, `fork:` continues a copy."
                };
                Response::private(format!("{}{hint}", page::from_rows(&session_rows(&found, now))))
            }
            (Self::Sessions, Some(id)) if given.iter().any(|(name, _)| name == "fork") => {
                Response::changed(scope.fork(id).await.map(|text| page::escaped(&text)))
            }
            (Self::Sessions, Some(id)) => {
                Response::changed(scope.resume(id).await.map(|text| page::escaped(&text)))
            }
            (Self::Schedules, None) => later_turns::list(&scope.later_turns(), 0),
            (Self::Schedules, Some(id)) => {
                let id = id.trim_matches('`');
                match scope.remove_later_turn(id).await {
                    true => Response::changed(Ok::<_, LaneRequestError>(removed_text(id))),
                    false => Response::private(
                        "There is no such turn in this channel. `/schedules` lists them.",
                    ),
                }
            }
            (Self::Settings, None) => menu::settings(&scope.view().await),
            (Self::Settings, Some(_)) => choose_all(scope, given).await,
            (Self::Compact, _) => Response::changed(scope.compact().await),
            (Self::Project, None) => {
                let shown = scope.project(&ProjectBinding::default()).await;
                Response::private(shown.unwrap_or_else(|error| error.to_string()))
            }
            (Self::Project, Some(_)) => {
                let given_for = |name: &str| {
                    given.iter().find(|(given, _)| given == name).map(|(_, value)| value.trim())
                };
                let wanted = |name: &str| {
                    given_for(name).map(|value| {
                        if value == "unset" { String::new() } else { value.to_owned() }
                    })
                };
                Response::changed(
                    scope
                        .project(&ProjectBinding {
                            directory: wanted("directory"),
                            backend: wanted("backend"),
                        })
                        .await,
                )
            }
            (Self::Claim, value) => {
                let given_for = |name: &str| {
                    let given = given.iter().find(|(given, _)| given == name);
                    given
                        .map(|(_, value)| value.trim().to_owned())
                        .filter(|value| !value.is_empty())
                };
                if value.is_none() {
                    let listed = scope.claims().await;
                    return Response::private(match listed {
                        Ok(text) => page::escaped(&text),
                        Err(error) => error.to_string(),
                    });
                }
                let changed = match given_for("release") {
                    Some(id) => scope.release_claim(&id).await,
                    None => {
                        let paths = given_for("paths").unwrap_or_default();
                        let (time, reason) = (given_for("for"), given_for("reason"));
                        scope.claim(ClaimOrder { paths, time, reason }).await
                    }
                };
                Response::changed(changed.map(|text| page::escaped(&text)))
            }
            (Self::Help, _) => {
                Response::private(help(&scope.view().await, scope.asker.owner, surroundings))
            }
        }
    }
}

/// Chooses all given settings, the backend first, because the others belong to it. Everybody sees
/// what was changed, with the reason why something was not.
async fn choose_all(scope: &ChannelScope, given: &[(String, String)]) -> Response {
    let (mut changed, mut refused) = (Vec::new(), Vec::new());
    for setting in Setting::ALL {
        let named = given.iter().find(|(name, _)| name == menu::setting_name(setting));
        let Some(value) = named.map(|(_, value)| value.trim()) else { continue };
        match scope.choose(setting, Some(value)).await {
            Ok(text) => changed.push(text),
            Err(error) => refused.push(error.to_string()),
        }
    }
    if changed.is_empty() {
        return Response::private(refused.join("\n"));
    }
    changed.extend(refused);
    Response { private: false, ..Response::private(changed.join("\n")) }
}

/// Returns the line about the connection to Discord.
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
        command.needs.is_none_or(|feature| view.has(feature))
            && (owner || command.access == CommandAccess::Everyone)
    });
    let lines: Vec<String> =
        useful.map(|command| format!("`/{}` {}", command.name, command.description)).collect();
    let ways = if alone {
        "Mention me, answer me, or write to me in private."
    } else {
        "Mention me or answer me."
    };
    let notice = match view.reads_only {
        true => format!("\n⚠️ {}", page::escaped(READS_ONLY_IN_CHAT)),
        false => String::new(),
    };
    format!("{} answers here. {ways}{notice}\n{}", page::escaped(&view.label), lines.join("\n"))
}
