//! Commands and menus that show or change something, such as `/status` and `/settings`.
//!
//! This module acknowledges each command in time and renders the answer; the dispatcher carries
//! out the change. A change is visible to everybody. Failures, and answers that change nothing, are
//! visible only to the person who asked. Tested by `tests/discord/panel.rs`.

mod actions;
pub(crate) mod commands;
pub(crate) mod dashboard;
mod later_turns;
mod menu;
mod page;
mod scope;
mod suggestions;

use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::runtime::Handle;
use tokio::time::{sleep, timeout};
use tracing::{debug, warn};

use scope::ChannelScope;

use crate::access::asker::Asker;
use crate::access::identity::Identity;
use crate::api::endpoints::Endpoint;
use crate::api::{Api, nonce};
use crate::button::Button;
use crate::rest::Timeouts;
use crate::setup::options::DiscordOptions;
use crate::wire::{Interaction, User};
use actions::Surroundings;
use aetheel_dispatch::{CommandAccess, CommandAction, Dispatcher, LaneRequestError, Setting};
use commands::PanelAction;

/// The time after which an answer is deferred: acknowledged, and sent later. Discord waits three
/// seconds for the acknowledgement.
const ANSWER_GRACE: Duration = Duration::from_millis(1_200);
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_200), Duration::from_millis(1_700));
/// Time limit of the request whose time `/status` shows.
const LATENCY_TIMEOUT: Duration = Duration::from_millis(500);
/// Time limit of suggestions, which cannot be deferred.
const SUGGESTION_TIMEOUT: Duration = Duration::from_millis(1_500);

#[derive(Clone, Debug, PartialEq)]
struct Response {
    text: String,
    /// Whether only the person who asked can see it.
    private: bool,
    /// Menus and buttons, or null.
    components: Value,
}

impl Response {
    fn private(text: impl Into<String>) -> Self {
        Self { text: page::cut_to_page(&text.into()), private: true, components: Value::Null }
    }

    /// Returns the answer to a change. It is public, or private with the reason if nothing was
    /// changed.
    fn changed<E: Display>(result: Result<String, E>) -> Self {
        match result {
            Ok(text) => Self { private: false, ..Self::private(text) },
            Err(why) => Self::private(why.to_string()),
        }
    }

    fn data(&self) -> Value {
        let mut data = json!({"content": self.text, "allowed_mentions": {"parse": []}});
        if self.private {
            data["flags"] = json!(64);
        }
        if !self.components.is_null() {
            data["components"] = self.components.clone();
        }
        data
    }
}

/// The result of a menu or button: a report for the channel if something was changed, and the new
/// content of the message.
type PressResult = (Result<Option<String>, ChoiceError>, Response);

/// The reason why a press changed nothing, worded for the person who pressed.
#[derive(Debug, thiserror::Error)]
enum ChoiceError {
    #[error(transparent)]
    Refused(#[from] LaneRequestError),
    /// The turn that an agent asked for was removed before, or has begun.
    #[error("There is no such turn in this channel any more. `/schedules` lists the others.")]
    NoLaterTurn,
    /// The task that carries out the choice panicked.
    #[error("That went wrong. (internal)")]
    Lost,
}

pub(super) struct Panels {
    /// Sends requests from the runtime in which events are routed.
    pub(super) api: Api,
    /// Sends requests from `runtime`.
    pub(super) sender: Api,
    pub(super) identity: Arc<Identity>,
    pub(super) dispatcher: Dispatcher,
    /// Runs work that may outlive the runtime in which events are routed.
    pub(super) runtime: Handle,
    pub(super) options: Arc<DiscordOptions>,
}

impl Panels {
    /// Answers a command of a person who may use the bot. Called in the runtime in which events are
    /// routed.
    pub(super) fn slash(self: &Arc<Self>, caller: Interaction, order: PanelAction) {
        let (this, given) = (Arc::clone(self), caller.options());
        tokio::spawn(async move {
            let asker = Asker::of(&caller, &this.identity);
            let alone =
                this.identity.admit(&Asker { guild: None, parent: None, ..asker.clone() }).is_ok();
            let scope = ChannelScope::new(&this.dispatcher, asker, &caller.name());
            let (dashboard, sender) = (this.options.dashboard, this.sender.clone());
            let private = order.is_private(&given);
            let mut work = this.runtime.spawn(async move {
                let status = PanelAction::Shared(CommandAction::Status);
                let measured = order == status && given.is_empty();
                let latency = if measured { latency(&sender).await } else { None };
                let surroundings = Surroundings { alone, dashboard, latency };
                order.run(&scope, surroundings, &given).await
            });
            let response = tokio::select! {
                response = &mut work => response.unwrap_or_else(|_| Response::private("That went wrong. (internal)")),
                () = sleep(ANSWER_GRACE) => return this.answer_later(caller, private, work).await,
            };
            if !this.acknowledge(&caller, json!({"type": 4, "data": response.data()})).await
                && !response.private
            {
                // A change is always reported, if necessary as a message.
                let sender = Arc::clone(&this);
                this.runtime
                    .spawn(async move { sender.post(caller.channel, &response.text).await });
            }
        });
    }

    /// Defers an answer, and sends it when it is ready.
    async fn answer_later(
        self: Arc<Self>,
        caller: Interaction,
        private: bool,
        work: tokio::task::JoinHandle<Response>,
    ) {
        let mut data = json!({"allowed_mentions": {"parse": []}});
        if private {
            data["flags"] = json!(64);
        }
        let announced = self.acknowledge(&caller, json!({"type": 5, "data": data})).await;
        let this = Arc::clone(&self);
        self.runtime.spawn(async move {
            let response =
                work.await.unwrap_or_else(|_| Response::private("That went wrong. (internal)"));
            if announced {
                this.put_original(&caller, &response).await;
            } else if !response.private {
                this.post(caller.channel, &response.text).await;
            }
        });
    }

    /// Answers a menu or button of `/settings` or `/schedules`. Returns `false` for any other menu or
    /// button. Called in the runtime in which events are routed.
    pub(super) fn press(self: &Arc<Self>, press: &Interaction) -> bool {
        let Some(button) = Button::read(&press.data.custom_id) else { return false };
        let chosen = press.data.values.first().map(String::as_str);
        let work = match button {
            Button::Setting(setting, pressed) => {
                let chosen = chosen.or(pressed).unwrap_or(menu::UNSET).to_owned();
                PanelChoice::Setting(setting, chosen)
            }
            Button::LaterTurns(page) => PanelChoice::LaterTurns { page, remove: None },
            Button::RemoveLaterTurn(page, id) => {
                PanelChoice::LaterTurns { page, remove: Some(id.to_owned()) }
            }
            Button::Ask(..) | Button::Offer(_) | Button::Stop(_) => return false,
        };
        let (this, caller) = (Arc::clone(self), press.clone());
        tokio::spawn(async move { this.change(caller, |scope| work.carry_out(scope)).await });
        true
    }

    /// Carries out a press, if the person may use the bot here, and answers it.
    async fn change<F>(
        self: Arc<Self>,
        caller: Interaction,
        work: impl FnOnce(ChannelScope) -> F + Send,
    ) where
        F: Future<Output = PressResult> + Send + 'static,
    {
        let asker = Asker::of(&caller, &self.identity);
        if let Err(why) = self.identity.admit(&asker) {
            self.identity.log_refusal(&asker, &caller.name(), why);
            self.acknowledge(
                &caller,
                json!({"type": 4, "data": Response::private("You may not use me here.").data()}),
            )
            .await;
            return;
        }
        let scope = ChannelScope::new(&self.dispatcher, asker, &caller.name());
        let mut work = self.runtime.spawn(work(scope));
        let lost = |_| (Err(ChoiceError::Lost), Response::private("…"));
        tokio::select! {
            done = &mut work => {
                let (chosen, shown) = done.unwrap_or_else(lost);
                let body = match &chosen {
                    Ok(_) => json!({"type": 7, "data": {"content": shown.text, "components": shown.components, "allowed_mentions": {"parse": []}}}),
                    Err(why) => json!({"type": 4, "data": Response::private(why.to_string()).data()}),
                };
                self.acknowledge(&caller, body).await;
                if let Ok(Some(text)) = chosen {
                    self.announce(&caller, &text);
                }
            }
            () = sleep(ANSWER_GRACE) => {
                self.acknowledge(&caller, json!({"type": 6})).await;
                let this = Arc::clone(&self);
                self.runtime.spawn(async move {
                    let (chosen, shown) = work.await.unwrap_or_else(lost);
                    this.put_original(&caller, &shown).await;
                    match chosen {
                        Ok(Some(text)) => this.announce(&caller, &text),
                        Ok(None) => {}
                        Err(why) => this.note(&caller, &why.to_string()).await,
                    }
                });
            }
        }
    }

    /// Reports a change to the channel, because only one person sees the menu. `text` ends with the
    /// word before the name of the person.
    fn announce(self: &Arc<Self>, caller: &Interaction, text: &str) {
        let (this, channel) = (Arc::clone(self), caller.channel);
        let name = page::escaped(&caller.name());
        let text = page::cut_to_page(&format!("-# ⚙️ {text} {name})"));
        self.runtime.spawn(async move { this.post(channel, &text).await });
    }

    /// Suggests values for an option. Called in the runtime in which events are routed.
    pub(super) fn complete(self: &Arc<Self>, caller: Interaction) {
        let Some(typed) = suggestions::typed_option(&caller.data) else { return };
        let this = Arc::clone(self);
        tokio::spawn(async move {
            let asker = Asker::of(&caller, &this.identity);
            let alias = this.options.settings.command_alias.as_deref();
            let verb = commands::command(&typed.command, alias).and_then(|command| {
                let may = command.access == CommandAccess::Everyone || asker.owner;
                Some(command.action).filter(|_| may)
            });
            // People get no suggestions for commands that they may not use.
            let admitted = this.identity.admit(&asker).is_ok();
            let choices = match verb.filter(|_| admitted) {
                None => Vec::new(),
                Some(verb) => {
                    let scope = ChannelScope::new(&this.dispatcher, asker, &caller.name());
                    let work = this
                        .runtime
                        .spawn(async move { suggestions::choices(&scope, verb, &typed).await });
                    timeout(SUGGESTION_TIMEOUT, work)
                        .await
                        .ok()
                        .and_then(Result::ok)
                        .unwrap_or_default()
                }
            };
            if let Err(error) = this
                .api
                .responses
                .callback(
                    caller.id,
                    &caller.token,
                    json!({"type": 8, "data": {"choices": choices}}),
                    ACK_TIMEOUTS,
                )
                .await
            {
                debug!(interaction = caller.id, %error, "suggestions came too late");
            }
        });
    }

    /// Responds within Discord's three seconds. Returns `false` if Discord did not accept the
    /// response.
    async fn acknowledge(&self, caller: &Interaction, body: Value) -> bool {
        match self.api.responses.callback(caller.id, &caller.token, body, ACK_TIMEOUTS).await {
            Ok(()) => true,
            Err(error) => {
                warn!(interaction = caller.id, %error, "cannot answer a command or a menu in time");
                false
            }
        }
    }

    async fn put_original(&self, caller: &Interaction, response: &Response) {
        let timeouts = self.options.time_limits.send;
        if let Err(error) = self
            .sender
            .responses
            .edit(
                self.identity.application,
                caller.id,
                &caller.token,
                &response.text,
                &response.components,
                timeouts,
            )
            .await
        {
            warn!(channel = caller.channel, length = response.text.chars().count(), %error, "cannot answer a command");
        }
    }

    async fn note(&self, caller: &Interaction, text: &str) {
        let text = page::cut_to_page(text);
        if let Err(error) = self
            .sender
            .responses
            .follow_up_privately(
                self.identity.application,
                caller.id,
                &caller.token,
                &text,
                self.options.time_limits.send,
            )
            .await
        {
            warn!(channel = caller.channel, %error, "cannot report why a choice was refused");
        }
    }

    async fn post(&self, channel: u64, text: &str) {
        if let Err(error) =
            self.sender.post(channel, None, &nonce(), text, self.options.time_limits.send).await
        {
            warn!(channel, length = text.chars().count(), %error, "cannot report a choice in the channel");
        }
    }
}

/// Measures the time in which Discord answers a request. Returns `None` if that takes longer than
/// [`LATENCY_TIMEOUT`].
async fn latency(api: &Api) -> Option<Duration> {
    let start = tokio::time::Instant::now();
    let answered = timeout(LATENCY_TIMEOUT, api.get::<User>(Endpoint::Me {}, ACK_TIMEOUTS)).await;
    answered.ok()?.ok().map(|_| start.elapsed())
}

/// A choice in the menus of `/settings` and in the list of `/schedules`.
enum PanelChoice {
    Setting(Setting, String),
    /// Shows a page of the later turns, after one was removed.
    LaterTurns {
        page: usize,
        remove: Option<String>,
    },
}

impl PanelChoice {
    async fn carry_out(self, scope: ChannelScope) -> PressResult {
        match self {
            Self::Setting(setting, value) => {
                let chosen = scope.choose(setting, &value).await;
                let report =
                    chosen.map(|text| Some(format!("{} (chosen by", page::one_line(&text))));
                (report.map_err(ChoiceError::from), menu::settings(&scope.view().await))
            }
            Self::LaterTurns { page, remove } => {
                let report = match remove {
                    None => Ok(None),
                    Some(id) if scope.remove_later_turn(&id).await => {
                        Ok(Some(format!("{} (removed by", actions::removed_text(&id))))
                    }
                    Some(_) => Err(ChoiceError::NoLaterTurn),
                };
                (report, later_turns::list(&scope.later_turns(), page))
            }
        }
    }
}
