//! Interprets the events of the gateway and passes each to the module that handles it.
//!
//! Reads events that any node received, in the runtime in which it is called. It never waits, so
//! that arrivals leave in the order of the events. Responses that Discord expects within three
//! seconds are sent from that runtime, over connections of its own.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::{info, warn};

use super::api::{Api, nonce};
use super::asker::Asker;
use super::asks::{Elsewhere, Press, Presses};
use super::commands::{self, Verb, Who};
use super::dashboard;
use super::heard::{Heard, PERMISSIONS, PRESS};
use super::interactions::Ack;
use super::panel::{Caller, Panels};
use super::receipt::Receipt;
use super::reception::{Arrival, CLOSING, Outcome, stop_text};
use super::rest::Timeouts;

use super::wire::{Edit, Message, Slash, age_by, id_in};
use super::{Accept, Inner};
use aetheel_dispatch::Dispatcher;
use aetheel_model::event::Lane;

/// Discord waits three seconds for the acknowledgement of an interaction.
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_500), Duration::from_millis(2_800));

/// The dependencies of a reader.
#[derive(Clone)]
pub(super) struct Parts {
    pub(super) inner: Arc<Inner>,
    pub(super) dispatcher: Dispatcher,
    pub(super) accept: Option<Accept>,
    pub(super) arrivals: mpsc::UnboundedSender<(Arrival, Receipt)>,
    /// Runs work that may outlive the reader's runtime.
    pub(super) runtime: Handle,
}

/// Reads events and passes them on.
pub(super) struct Reader {
    parts: Parts,
    /// Sends from the reader's runtime.
    api: Api,
    panels: Arc<Panels>,
    /// Asks the other nodes about buttons that are not known here. `None` if there are no other
    /// nodes.
    others: Option<mpsc::UnboundedSender<Heard>>,
}

impl Reader {
    /// Creates a reader with connections of its own. Its events must be read in one runtime.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub(super) fn new(
        parts: Parts,
        others: Option<mpsc::UnboundedSender<Heard>>,
    ) -> Result<Self, reqwest::Error> {
        let inner = &parts.inner;
        let api = Api::new(inner.api.rest.with_own_connections()?);
        let panels = Arc::new(Panels {
            api: api.clone(),
            sender: inner.api.clone(),
            identity: Arc::clone(&inner.identity),
            dispatcher: parts.dispatcher.clone(),
            runtime: parts.runtime.clone(),
            timeouts: inner.options.windows.send,
            alias: inner.options.command_alias.clone(),
            dashboard: inner.options.dashboard,
        });
        Ok(Self { parts, api, panels, others })
    }

    /// Returns how long ago Discord assigned an id, by Discord's clock.
    pub(super) fn age_of(&self, id: u64) -> Duration {
        age_by(id, self.parts.inner.api.rest.clock_ahead())
    }

    /// Reads an event and passes it on. Must be called within a Tokio runtime.
    pub(super) fn read(&self, heard: &Heard, receipt: Receipt) {
        let data = &heard.data;
        let arrival = match heard.name.as_str() {
            "READY" => {
                let user = data["user"].as_str().unwrap_or_default().to_owned();
                let guilds = data["guilds"].as_u64().unwrap_or(0);
                self.arrived(Arrival::LoggedIn { user, guilds }, receipt);
                return self.connected();
            }
            "RESUMED" => {
                info!("discord session resumed; nothing was missed");
                self.connected();
                None
            }
            "MESSAGE_CREATE" => Message::deserialize(data).ok().map(|message| Arrival::Message {
                message: Box::new(message),
                names: heard.names.clone(),
                parent: heard.parent,
            }),
            "MESSAGE_UPDATE" => Edit::deserialize(data)
                .ok()
                .map(|edit| Arrival::Edited(Box::new(edit), heard.names.clone())),
            "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
                let ids = data["ids"].as_array().into_iter().flatten();
                let ids = ids.chain(data.get("id")).filter_map(id_in).collect();
                id_in(&data["channel_id"]).map(|channel| Arrival::Deleted(channel, ids))
            }
            "INTERACTION_CREATE" => return self.interaction(data, receipt),
            PRESS => {
                self.pressed(data, Elsewhere::Passed);
                None
            }
            PERMISSIONS => {
                self.permissions_changed();
                None
            }
            _ => None,
        };
        match arrival {
            Some(arrival) => self.arrived(arrival, receipt),
            None => receipt.done(),
        }
    }

    fn arrived(&self, arrival: Arrival, receipt: Receipt) {
        // Sending fails only if the program ends.
        let _ = self.parts.arrivals.send((arrival, receipt));
    }

    fn interaction(&self, data: &Value, receipt: Receipt) {
        match data["type"].as_u64() {
            Some(2) => {
                if let Some(slash) = Slash::read(data) {
                    return self.slash(slash, receipt);
                }
            }
            Some(4) => self.panels.complete(data),
            Some(3 | 5) => self.press(data),
            _ => {}
        }
        // It is answered at once, so nothing has to be saved.
        receipt.done();
    }

    /// Wakes everything that waits because Discord was away. Permissions may have changed
    /// meanwhile.
    fn connected(&self) {
        self.parts.inner.api.rest.heard_of();
        self.permissions_changed();
    }

    fn permissions_changed(&self) {
        let inner = &self.parts.inner;
        inner.api.permissions_changed();
        inner.holding.permissions_changed();
        inner.standings.forget();
    }

    /// Answers a command that needs no saving. Returns the action of all others.
    fn answered_at_once(&self, slash: &Slash) -> Option<Verb> {
        let Parts { inner, dispatcher, .. } = &self.parts;
        let identity = &inner.identity;
        let alias = inner.options.command_alias.as_deref();
        let asker = Asker {
            user: slash.user.id,
            roles: slash.roles.clone(),
            channel: slash.channel,
            parent: slash.parent,
            guild: slash.guild,
            owner: identity.owners.contains(&slash.user.id),
        };
        let Some(command) = commands::command(&slash.name, alias) else {
            self.refuse(slash, "I do not know this command any more. Use `/ask`.");
            return None;
        };
        let verb = command.verb;
        if let Err(why) = identity.admit(&asker) {
            identity.log_refusal(&asker, slash.user.shown(), &why);
            self.refuse(slash, "You may not use me here.");
            return None;
        }
        if let Some(parent) = slash.parent {
            dispatcher.learn(slash.channel, parent);
        }
        if command.who == Who::Owners && !asker.owner {
            identity.log_refusal(
                &asker,
                slash.user.shown(),
                &format!("`/{}` is for owners", command.name),
            );
            self.refuse(slash, "Only my owner may do that.");
            return None;
        }
        if verb == Verb::Dashboard {
            self.tell_privately(slash, dashboard::carry_out(inner.sign_in.get(), slash));
            return None;
        }
        if let Verb::Panel(order) = verb {
            self.panels.slash(Caller::from(slash), order, slash.given.clone());
            return None;
        }
        Some(verb)
    }

    fn slash(&self, slash: Slash, receipt: Receipt) {
        let Some(verb) = self.answered_at_once(&slash) else { return receipt.done() };
        let Parts { inner, dispatcher, .. } = &self.parts;
        let windows = &inner.options.windows;
        let ack =
            inner.interactions.add(slash.interaction, slash.token.clone(), windows.interaction);
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        let (channel, timeouts) = (slash.channel, windows.send);
        let (kept, is_kept) = oneshot::channel();
        let interactions = Arc::clone(&inner.interactions);
        tokio::spawn(async move {
            let outcome = is_kept.await.unwrap_or_else(|_| Err(CLOSING.to_owned()));
            receipt.done();
            let sent = match outcome {
                Ok(Outcome::Kept) => None,
                Ok(Outcome::Done(answer)) => {
                    Some(
                        match api.answer_at_once(interaction, &token, &answer, ACK_TIMEOUTS).await {
                            // The action is done, even if the command cannot be answered any more.
                            Err(_) => {
                                api.post(channel, None, &nonce(), &answer, timeouts).await.map(drop)
                            }
                            sent => sent,
                        },
                    )
                }
                Err(why) => {
                    Some(api.answer_privately(interaction, &token, &why, ACK_TIMEOUTS).await)
                }
            };
            if let Some(sent) = sent {
                interactions.take(interaction);
                ack.send_replace(Ack::Lost);
                if let Err(error) = sent {
                    warn!(interaction, %error, "cannot answer a command");
                }
                return;
            }
            let taken = api.defer(interaction, &token, ACK_TIMEOUTS).await;
            if let Err(error) = &taken {
                warn!(interaction, %error, "cannot acknowledge a command in time; the answer comes as a message");
            }
            ack.send_replace(if taken.is_ok() { Ack::Taken } else { Ack::Lost });
        });
        if verb != Verb::Stop {
            let arrival = Arrival::Slash(Box::new(slash), verb, kept);
            return self.arrived(arrival, Receipt::none());
        }
        // Stopping does not wait in the queue. It is reported once it is on disk.
        let dispatcher = dispatcher.clone();
        tokio::spawn(async move {
            let stopped = dispatcher.stop_for_good(&Lane::Channel(channel)).await;
            let _ = kept.send(Ok(Outcome::Done(stop_text(stopped).into())));
        });
    }

    fn press(&self, value: &Value) {
        if self.panels.press(value) {
            return;
        }
        let elsewhere = self.others.clone().map_or(Elsewhere::Nobody, |others| {
            let asked = Heard::press(value.clone());
            // Sending fails only if the program ends.
            Elsewhere::Others(Box::new(move || drop(others.send(asked))))
        });
        self.pressed(value, elsewhere);
    }

    fn pressed(&self, value: &Value, elsewhere: Elsewhere) {
        let Some(press) = Press::read(value) else {
            return warn!("discord sent the press of a button in an unknown form");
        };
        let Parts { inner, dispatcher, accept, .. } = &self.parts;
        let presses = Presses {
            api: self.api.clone(),
            identity: Arc::clone(&inner.identity),
            asks: Arc::clone(&inner.asks),
            dispatcher: dispatcher.clone(),
            accept: accept.clone(),
        };
        tokio::spawn(async move { presses.answer(press, elsewhere).await });
    }

    fn refuse(&self, slash: &Slash, text: &str) {
        self.tell_privately(slash, text.to_owned());
    }

    fn tell_privately(&self, slash: &Slash, text: String) {
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        tokio::spawn(async move {
            if let Err(error) = api.answer_privately(interaction, &token, &text, ACK_TIMEOUTS).await
            {
                warn!(interaction, %error, "cannot answer a command");
            }
        });
    }
}
