//! The commands that show or change something in a lane, as one table for Discord and the console.
//!
//! A front end parses the arguments, calls [`Commands::run`] and renders the reply.

mod table;

use std::time::Duration;

pub use self::table::{ArgumentKind, Command, CommandAccess, CommandAction, CommandArgument};
use crate::channel::error::LaneRequestError;
use crate::channel::options::Setting;
use crate::channel::projects::ProjectBinding;
use crate::channel::sessions::{ConversationList, Conversations};
use crate::channel::settings::Settings;
use crate::claims::{ClaimAuthor, ClaimDesk, ClaimError, ClaimOrder};
use crate::recovery::redeliver::Redelivery;
use crate::status::Observer;
use crate::status::backends::{BackendControl, PingError};
use crate::status::render::{StatusRow, queue_rows, status_rows};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::event::Lane;
use aetheel_runtime::clock::Clock;

/// How long an agent may take to list its sessions.
const LISTING_TIMEOUT: Duration = Duration::from_secs(8);
/// The value that removes a choice.
const UNSET: &str = "unset";

/// The person who enters a command, and the place.
#[derive(Clone, Debug)]
pub struct CommandCaller {
    /// The lane and the person. The person at the console has no id.
    pub author: ClaimAuthor,
    /// The lane whose project is shown and bound: that of the channel of a thread.
    pub project_lane: Lane,
    /// Whether the person may do what only owners may.
    pub is_owner: bool,
}

impl CommandCaller {
    /// Begins an entry of the audit log.
    #[must_use]
    pub fn entry(&self, kind: AuditKind) -> AuditEntry {
        let ClaimAuthor { lane, person, name } = &self.author;
        AuditEntry::new(kind).by(*person, name.as_deref()).in_lane(lane)
    }
}

/// The reply to a command.
#[derive(Clone, Debug)]
pub enum CommandReply {
    /// Rows that show something.
    Rows(Vec<StatusRow>),
    /// Conversations that can be resumed.
    Conversations(ConversationList),
    /// A text.
    Text {
        /// The text.
        text: String,
        /// Whether it may quote people and agents. Otherwise it is Markdown.
        quotes: bool,
        /// Whether it reports a change, which concerns everybody in the lane.
        is_change: bool,
    },
}

impl CommandReply {
    fn shown(text: String, quotes: bool) -> Self {
        Self::Text { text, quotes, is_change: false }
    }

    fn changed(text: String, quotes: bool) -> Self {
        Self::Text { text, quotes, is_change: true }
    }
}

/// The reason why a command is refused. The texts are for the person who entered it.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The request does not fit the lane or its backend.
    #[error(transparent)]
    Request(#[from] LaneRequestError),
    /// The request about reserved files is refused.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The backend does not work.
    #[error(transparent)]
    Ping(#[from] PingError),
    /// The person is not an owner.
    #[error("Only my owner may check a backend.")]
    OwnersOnly,
    /// No setting was changed. Contains the reasons, one on each line.
    #[error("{0}")]
    Settings(String),
}

/// Carries out commands.
#[derive(Clone)]
pub struct Commands {
    pub(crate) clock: Clock,
    pub(crate) observer: Observer,
    pub(crate) settings: Settings,
    pub(crate) conversations: Conversations,
    pub(crate) backends: BackendControl,
    pub(crate) claims: ClaimDesk,
    pub(crate) redelivery: Redelivery,
}

impl Commands {
    /// Carries out a command. `arguments` are names with values; an empty value counts as missing,
    /// except for a setting, whose values it shows.
    ///
    /// # Errors
    /// Returns [`CommandError`] if the command is refused. Nothing was changed then.
    pub async fn run(
        &self,
        action: CommandAction,
        caller: &CommandCaller,
        arguments: &[(String, String)],
    ) -> Result<CommandReply, CommandError> {
        let given = |name: &str| {
            let given = arguments.iter().find(|(given, _)| given == name);
            given.map(|(_, value)| value.trim()).filter(|value| !value.is_empty())
        };
        let (lane, now) = (&caller.author.lane, self.clock.now());
        let user = caller.author.person.map(tracing::field::display);
        Ok(match action {
            CommandAction::Status => match given("check") {
                None => {
                    let view = self.observer.lane_status(lane).await;
                    CommandReply::Rows(status_rows(&view, caller.is_owner, now))
                }
                Some(_) if !caller.is_owner => return Err(CommandError::OwnersOnly),
                Some(name) => CommandReply::shown(self.backends.ping(name).await?, true),
            },
            CommandAction::Queue => {
                CommandReply::Rows(queue_rows(&self.observer.queue_of(lane), now))
            }
            CommandAction::Usage => {
                let person = caller.author.person;
                let lines = self.observer.usage(lane, person).await.into_iter();
                CommandReply::Rows(lines.map(|line| StatusRow::new("", line)).collect())
            }
            CommandAction::Sessions => match (given("resume"), given("fork")) {
                (None, None) => {
                    let owner = caller.is_owner;
                    let found = self.conversations.list(lane, owner, LISTING_TIMEOUT).await;
                    CommandReply::Conversations(found)
                }
                (_, Some(id)) => self.resume(caller, id, true).await?,
                (Some(id), _) => self.resume(caller, id, false).await?,
            },
            CommandAction::Settings => self.choose_all(caller, arguments).await?,
            CommandAction::Compact => {
                let text = self.conversations.compact(lane).await?;
                caller.entry(AuditKind::ConversationCompacted).note();
                CommandReply::changed(text, false)
            }
            CommandAction::Project => {
                let wanted = |name| {
                    given(name).map(|value| if value == UNSET { "" } else { value }.to_owned())
                };
                let (directory, backend) = (wanted("directory"), wanted("backend"));
                self.bind_project(caller, ProjectBinding { directory, backend }).await?
            }
            CommandAction::Claim => {
                if arguments.iter().all(|(_, value)| value.trim().is_empty()) {
                    return Ok(CommandReply::shown(self.claims.list(lane).await?, true));
                }
                let text = match given("release") {
                    Some(id) => {
                        let owner = caller.is_owner;
                        let text = self.claims.release(&caller.author, id, owner).await?;
                        tracing::info!(%lane, user, claim = id, "a person released reserved files");
                        text
                    }
                    None => {
                        let own = |name| given(name).map(str::to_owned);
                        let paths = own("paths").unwrap_or_default();
                        let order = ClaimOrder { paths, time: own("for"), reason: own("reason") };
                        self.claims.take(caller.author.clone(), order).await?
                    }
                };
                CommandReply::changed(text, true)
            }
            CommandAction::Recover => {
                CommandReply::shown(self.redelivery.recover_lane(lane).await, true)
            }
        })
    }

    async fn resume(
        &self,
        caller: &CommandCaller,
        id: &str,
        as_copy: bool,
    ) -> Result<CommandReply, LaneRequestError> {
        let (lane, owner) = (&caller.author.lane, caller.is_owner);
        let conversations = &self.conversations;
        let text = match as_copy {
            true => conversations.fork(lane, id, owner, LISTING_TIMEOUT).await?,
            false => conversations.resume(lane, id, owner, LISTING_TIMEOUT).await?,
        };
        let user = caller.author.person.map(tracing::field::display);
        tracing::info!(%lane, user, session = id, as_copy, "a conversation was resumed");
        let entry = caller.entry(AuditKind::ConversationResumed).with("session", id);
        entry.with_known("copy", as_copy.then_some("yes")).note();
        Ok(CommandReply::changed(text, true))
    }

    /// Chooses all given settings, the backend first, because the others belong to it. The reply
    /// also says why a setting was not changed.
    async fn choose_all(
        &self,
        caller: &CommandCaller,
        arguments: &[(String, String)],
    ) -> Result<CommandReply, CommandError> {
        let (mut replies, mut refused, mut is_change) = (Vec::new(), Vec::new(), false);
        for setting in Setting::ALL {
            let given = arguments.iter().find(|(name, _)| name == setting.argument());
            let Some(value) = given.map(|(_, value)| value.trim()) else { continue };
            match self.choose(caller, setting, Some(value).filter(|it| !it.is_empty())).await {
                Ok(text) => {
                    replies.push(text);
                    is_change |= !value.is_empty();
                }
                Err(error) => refused.push(error.to_string()),
            }
        }
        if replies.is_empty() && !refused.is_empty() {
            return Err(CommandError::Settings(refused.join("\n")));
        }
        replies.append(&mut refused);
        Ok(CommandReply::Text { text: replies.join("\n"), quotes: false, is_change })
    }

    /// Chooses a setting and notes that in the log and the audit log. Without a value, shows the
    /// setting.
    ///
    /// # Errors
    /// Returns the reason why the value is refused.
    pub async fn choose(
        &self,
        caller: &CommandCaller,
        setting: Setting,
        value: Option<&str>,
    ) -> Result<String, LaneRequestError> {
        let lane = &caller.author.lane;
        if (setting, value) == (Setting::Backend, None) {
            let current = self.settings.backend_of(lane).await;
            let names = self.settings.backend_names(lane).await.join(", ");
            return Ok(format!("{current} of {names}"));
        }
        let report = self.settings.choose(lane, setting, value).await?;
        if let Some(value) = value {
            let user = caller.author.person.map(tracing::field::display);
            tracing::info!(%lane, user, "{report}");
            let entry = caller.entry(AuditKind::SettingChanged).with("setting", setting.name());
            entry.with("value", value).note();
        }
        Ok(report)
    }

    async fn bind_project(
        &self,
        caller: &CommandCaller,
        project: ProjectBinding,
    ) -> Result<CommandReply, LaneRequestError> {
        let lane = &caller.project_lane;
        let text = self.settings.bind_project(lane, None, &project).await?;
        let ProjectBinding { directory, backend } = project;
        if directory.is_none() && backend.is_none() {
            return Ok(CommandReply::shown(text, false));
        }
        let entry =
            caller.entry(AuditKind::SettingChanged).in_lane(lane).with("setting", "project");
        entry.with_known("value", directory).with_known("backend", backend).note();
        Ok(CommandReply::changed(text, false))
    }
}
