//! The actions behind the commands.

use std::time::Duration;

use jiff::Timestamp;

use super::commands::{self, CommandAccess, PanelAction};
use super::scope::ChannelScope;
use super::{Response, later_turns, menu, page};
use aetheel_dispatch::{
    ClaimOrder, LaneRequestError, LaneStatus, ProjectBinding, queue_rows, session_rows, status_rows,
};
use aetheel_model::config::READS_ONLY_IN_CHAT;

/// How long an agent may take to list its sessions.
const LISTING_TIMEOUT: Duration = Duration::from_secs(8);

impl PanelAction {
    /// Returns whether a deferred answer is visible only to the person who asked. Discord needs to
    /// know this before the answer is ready.
    pub(super) fn is_private(self) -> bool {
        !matches!(self, Self::Set(_) | Self::Compact | Self::Project | Self::Claim)
    }

    /// Carries out the command. `alone` means that the person may also write direct messages, and
    /// `dashboard` that the dashboard is enabled.
    pub(super) async fn run(
        self,
        scope: &ChannelScope,
        (alone, dashboard): (bool, bool),
        given: &[(String, String)],
    ) -> Response {
        let value = given.first().map(|(_, value)| value.trim()).filter(|value| !value.is_empty());
        let now = Timestamp::now();
        match (self, value) {
            (Self::Status, _) => Response::private(page::from_rows(&status_rows(
                &scope.view().await,
                scope.asker.owner,
                now,
            ))),
            (Self::Queue, _) => {
                Response::private(page::from_rows(&queue_rows(&scope.queue(), now)))
            }
            (Self::Usage, _) => Response::private(page::escaped(&scope.usage().await.join("\n"))),
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
            (Self::Settings, _) => menu::settings(&scope.view().await),
            (Self::Set(setting), None) => {
                let shown = scope.choose(setting, None).await;
                Response::private(shown.unwrap_or_else(|error| error.to_string()))
            }
            (Self::Set(setting), Some(value)) => {
                Response::changed(scope.choose(setting, Some(value)).await)
            }
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
            (Self::Ping, name) => {
                let text = scope.ping(name).await.unwrap_or_else(|error| error.to_string());
                Response::private(page::escaped(&text))
            }
            (Self::Help, _) => {
                let of = (alone, dashboard);
                Response::private(help(&scope.view().await, scope.asker.owner, of))
            }
        }
    }
}

/// Returns the text that a turn which an agent asked for was removed.
pub(super) fn removed_text(id: &str) -> String {
    format!("Removed: the agent gets no turn for `{}` any more.", page::escaped(id))
}

/// Returns the help, with the commands that are useful here. See [`PanelAction::run`] for `alone`
/// and `dashboard`.
fn help(view: &LaneStatus, owner: bool, (alone, dashboard): (bool, bool)) -> String {
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
