//! Interprets the events of the gateway and passes each to the module that handles it.
//!
//! The events may have been received by any node. They are processed in the runtime of the caller,
//! without waiting, so that they are passed on in order. Responses that Discord expects within
//! three seconds are sent from that runtime, over connections of their own.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, warn};

use super::{CommandOutcome, CommandRefusal, InboundContext, InboundEvent, stop_text};
use crate::access::asker::Asker;
use crate::api::interactions::Ack;
use crate::api::{Api, nonce};
use crate::connection::gateway_event::{FORWARDED_PRESS, GatewayEvent, PERMISSIONS_CHANGED};
use crate::connection::gateway_sink::{EventCallback, GatewaySink};
use crate::connection::receipt::Receipt;
use crate::delivery::context::BotContext;
use crate::ids;
use crate::panel::commands::{self, Verb};
use crate::panel::dashboard;
use crate::panel::{InteractionCaller, Panels};
use crate::questions::{OfferHandler, OtherNodes, Press, PressHandler};
use crate::rest::Timeouts;
use crate::wire::{Message, MessageEdit, SlashInteraction, age_by_discord, id_in};
use aetheel_dispatch::{CommandAccess, Dispatcher};
use aetheel_model::audit::{AuditEntry, AuditKind};
use aetheel_model::id::{ChannelId, UserId};

/// Time limits of the acknowledgement of an interaction, for which Discord waits three seconds.
const ACK_TIMEOUTS: Timeouts =
    Timeouts::new(Duration::from_millis(1_500), Duration::from_millis(2_800));
/// Maximum age of an interaction. Discord waits three seconds for the answer. A person has seen
/// that an older one failed, so it must not be carried out later.
const INTERACTION_AGE: Duration = Duration::from_secs(10);

/// The dependencies of an [`EventRouter`].
#[derive(Clone)]
pub(crate) struct RouterDeps {
    pub(crate) inner: Arc<BotContext>,
    pub(crate) shared: Arc<InboundContext>,
    pub(crate) services: Dispatcher,
    pub(crate) accept: Option<OfferHandler>,
    pub(crate) inbound: mpsc::UnboundedSender<(InboundEvent, Receipt)>,
    /// Runs work that may outlive the runtime in which events are routed.
    pub(crate) runtime: Handle,
}

impl GatewaySink for RouterDeps {
    fn open(&self) -> Result<EventCallback, reqwest::Error> {
        let router = EventRouter::new(self.clone(), None)?;
        Ok(Box::new(move |event| router.route(&event, Receipt::none())))
    }
}

/// Interprets events and passes them on.
pub(crate) struct EventRouter {
    parts: RouterDeps,
    /// Sends requests from the runtime in which events are routed.
    api: Api,
    panels: Arc<Panels>,
    /// Asks the other nodes about buttons that are not known here. `None` if there are no other
    /// nodes.
    others: Option<mpsc::UnboundedSender<GatewayEvent>>,
}

impl EventRouter {
    /// Creates a router with connections of its own. [`EventRouter::route`] must always be called
    /// in the same runtime.
    ///
    /// # Errors
    /// If the HTTP client cannot be created.
    pub(crate) fn new(
        parts: RouterDeps,
        others: Option<mpsc::UnboundedSender<GatewayEvent>>,
    ) -> Result<Self, reqwest::Error> {
        let inner = &parts.inner;
        let api = Api::new(inner.api.rest.with_own_connections()?);
        let panels = Arc::new(Panels {
            api: api.clone(),
            sender: inner.api.clone(),
            identity: Arc::clone(&inner.identity),
            dispatcher: parts.services.clone(),
            runtime: parts.runtime.clone(),
            timeouts: inner.options.time_limits.send,
            alias: inner.options.command_alias.clone(),
            dashboard: inner.options.dashboard,
        });
        Ok(Self { parts, api, panels, others })
    }

    /// Processes the events for this node until the sender is dropped.
    pub(crate) async fn read_incoming(
        self,
        mut from: mpsc::UnboundedReceiver<(GatewayEvent, Receipt)>,
    ) {
        while let Some((event, receipt)) = from.recv().await {
            let late = event.interaction_id().filter(|id| self.age_of(*id) > INTERACTION_AGE);
            if let Some(interaction) = late {
                debug!(interaction, "an interaction came too late to be answered; it is left out");
                receipt.done();
                continue;
            }
            self.route(&event, receipt);
        }
    }

    /// Returns how long ago Discord assigned an id, by Discord's clock.
    fn age_of(&self, id: u64) -> Duration {
        age_by_discord(id, self.parts.inner.api.rest.clock_ahead())
    }

    /// Interprets an event and passes it on. Must be called within a Tokio runtime.
    fn route(&self, event: &GatewayEvent, receipt: Receipt) {
        let data = &event.data;
        let arrival = match event.name.as_str() {
            "READY" => {
                let user = data["user"].as_str().unwrap_or_default().to_owned();
                let guilds = data["guilds"].as_u64().unwrap_or(0);
                self.send_inbound(InboundEvent::LoggedIn { user, guilds }, receipt);
                return self.connected();
            }
            "RESUMED" => {
                info!("discord session resumed; nothing was missed");
                self.connected();
                None
            }
            "MESSAGE_CREATE" => {
                Message::deserialize(data).ok().map(|message| InboundEvent::Message {
                    message: Box::new(message),
                    names: event.names.clone(),
                    parent: event.parent,
                })
            }
            "MESSAGE_UPDATE" => MessageEdit::deserialize(data)
                .ok()
                .map(|edit| InboundEvent::Edited(Box::new(edit), event.names.clone())),
            "MESSAGE_DELETE" | "MESSAGE_DELETE_BULK" => {
                let ids = data["ids"].as_array().into_iter().flatten();
                let ids = ids.chain(data.get("id")).filter_map(id_in).collect();
                id_in(&data["channel_id"]).map(|channel| InboundEvent::Deleted(channel, ids))
            }
            "INTERACTION_CREATE" => return self.interaction(data, receipt),
            FORWARDED_PRESS => {
                self.pressed(data, OtherNodes::Forwarded);
                None
            }
            PERMISSIONS_CHANGED => {
                self.permissions_changed();
                None
            }
            _ => None,
        };
        match arrival {
            Some(arrival) => self.send_inbound(arrival, receipt),
            None => receipt.done(),
        }
    }

    fn send_inbound(&self, arrival: InboundEvent, receipt: Receipt) {
        // Sending fails only if the program ends.
        let _ = self.parts.inbound.send((arrival, receipt));
    }

    fn interaction(&self, data: &Value, receipt: Receipt) {
        match data["type"].as_u64() {
            Some(2) => {
                if let Some(slash) = SlashInteraction::read(data) {
                    return self.slash(slash, receipt);
                }
            }
            Some(4) => self.panels.complete(data),
            Some(3 | 5) => self.press(data),
            _ => {}
        }
        // The interaction is answered at once, so nothing has to be saved.
        receipt.done();
    }

    /// Wakes everything that waits because Discord was not reachable. Permissions may have changed
    /// meanwhile.
    fn connected(&self) {
        self.parts.inner.api.rest.note_recovery();
        self.permissions_changed();
    }

    fn permissions_changed(&self) {
        let inner = &self.parts.inner;
        inner.api.permissions_changed();
        inner.delivery_queues.permissions_changed();
        self.parts.shared.permission_cache.forget();
    }

    /// Answers a command that does not have to be saved. Returns the action of any other command.
    fn answer_at_once(&self, slash: &SlashInteraction) -> Option<Verb> {
        let RouterDeps { inner, shared, services, .. } = &self.parts;
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
            let text = match commands::replacement(&slash.name) {
                Some(now) => format!("`/{}` is now `{now}`.", slash.name),
                None => "I do not know this command any more. Use `/ask`.".to_owned(),
            };
            self.refuse(slash, &text);
            return None;
        };
        let verb = command.action;
        if let Err(why) = identity.admit(&asker) {
            identity.log_refusal(&asker, slash.user.display_name(), why);
            self.refuse(slash, "You may not use me here.");
            return None;
        }
        if let Some(parent) = slash.parent {
            services
                .settings
                .learn_parent(ChannelId::discord(slash.channel), ChannelId::discord(parent));
        }
        if command.access == CommandAccess::Owners && !asker.owner {
            identity.log_refusal(
                &asker,
                slash.user.display_name(),
                format!("`/{}` is for owners", command.name),
            );
            self.refuse(slash, "Only my owner may do that.");
            return None;
        }
        if verb == Verb::Dashboard {
            self.answer_privately(slash, dashboard::run_command(shared.sign_in.get(), slash));
            return None;
        }
        if let Verb::Panel(order) = verb {
            self.panels.slash(InteractionCaller::from(slash), order, slash.options.clone());
            return None;
        }
        Some(verb)
    }

    fn slash(&self, slash: SlashInteraction, receipt: Receipt) {
        let Some(verb) = self.answer_at_once(&slash) else { return receipt.done() };
        let RouterDeps { inner, services, .. } = &self.parts;
        let windows = &inner.options.time_limits;
        let ack =
            inner.interactions.add(slash.interaction, slash.token.clone(), windows.interaction);
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        let (channel, timeouts) = (slash.channel, windows.send);
        let (outcome_sender, outcome) = oneshot::channel();
        let interactions = Arc::clone(&inner.interactions);
        tokio::spawn(async move {
            let outcome = outcome.await.unwrap_or(Err(CommandRefusal::Closing));
            receipt.done();
            let sent = match outcome {
                Ok(CommandOutcome::Kept) => None,
                Ok(CommandOutcome::Done(answer)) => {
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
                    let text = why.to_string();
                    Some(api.answer_privately(interaction, &token, &text, ACK_TIMEOUTS).await)
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
            ack.send_replace(if taken.is_ok() { Ack::Accepted } else { Ack::Lost });
        });
        if verb != Verb::Stop {
            let arrival = InboundEvent::Slash(Box::new(slash), verb, outcome_sender);
            return self.send_inbound(arrival, Receipt::none());
        }
        // Stopping does not wait in the queue. It is reported once it is on disk.
        let turns = services.turns.clone();
        let asked = AuditEntry::new(AuditKind::TurnStopped)
            .by(Some(UserId::discord(slash.user.id)), Some(slash.user.display_name()))
            .in_lane(&ids::lane(channel));
        tokio::spawn(async move {
            let stopped = turns.stop_durably(&ids::lane(channel)).await;
            if stopped.any() {
                let running = if stopped.running { "yes" } else { "no" };
                asked.with("running", running).with("waiting", stopped.waiting).note();
            }
            let _ = outcome_sender.send(Ok(CommandOutcome::Done(stop_text(stopped).into())));
        });
    }

    fn press(&self, value: &Value) {
        if self.panels.press(value) {
            return;
        }
        let elsewhere = self.others.clone().map_or(OtherNodes::SingleNode, |others| {
            let asked = GatewayEvent::forwarded_press(value.clone());
            // Sending fails only if the program ends.
            OtherNodes::Forward(Box::new(move || drop(others.send(asked))))
        });
        self.pressed(value, elsewhere);
    }

    fn pressed(&self, value: &Value, elsewhere: OtherNodes) {
        let Some(press) = Press::read(value) else {
            return warn!("discord sent the press of a button in an unknown form");
        };
        let RouterDeps { inner, services, accept, .. } = &self.parts;
        let presses = PressHandler {
            api: self.api.clone(),
            identity: Arc::clone(&inner.identity),
            asks: Arc::clone(&inner.questions),
            questions: Arc::clone(&services.questions),
            recovery: services.recovery.clone(),
            wait_choices: services.wait_choices.clone(),
            turns: services.turns.clone(),
            accept: accept.clone(),
            mutes: services.mutes.clone(),
        };
        tokio::spawn(async move { presses.answer(press, elsewhere).await });
    }

    fn refuse(&self, slash: &SlashInteraction, text: &str) {
        self.answer_privately(slash, text.to_owned());
    }

    fn answer_privately(&self, slash: &SlashInteraction, text: String) {
        let (api, interaction, token) = (self.api.clone(), slash.interaction, slash.token.clone());
        tokio::spawn(async move {
            if let Err(error) = api.answer_privately(interaction, &token, &text, ACK_TIMEOUTS).await
            {
                warn!(interaction, %error, "cannot answer a command");
            }
        });
    }
}
