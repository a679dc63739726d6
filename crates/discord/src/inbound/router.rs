//! Passes each event of the gateway to the module that handles it.
//!
//! The events may have been received by any node. They are processed in the runtime of the caller,
//! without waiting, so that they are passed on in order. Responses that Discord expects within
//! three seconds are sent from that runtime, over connections of their own.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tracing::{debug, info, warn};

use super::{CommandOutcome, CommandRefusal, InboundContext, InboundEvent, stop_text};
use crate::access::asker::Asker;
use crate::api::interactions::Ack;
use crate::api::{Api, nonce};
use crate::connection::gateway_event::{EventContent, GatewayEvent};
use crate::connection::gateway_sink::{EventCallback, GatewaySink};
use crate::connection::receipt::Receipt;
use crate::delivery::context::BotContext;
use crate::ids;
use crate::panel::commands::{self, Verb};
use crate::panel::{Panels, dashboard};
use crate::questions::{OfferHandler, OtherNodes, PressHandler};
use crate::rest::Timeouts;
use crate::wire::{Interaction, age_by_discord};
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
        Ok(Box::new(move |event| router.route(event, Receipt::none())))
    }
}

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
            options: Arc::clone(&inner.options),
        });
        Ok(Self { parts, api, panels, others })
    }

    /// Processes the events for this node until the sender is dropped.
    pub(crate) async fn read_incoming(
        self,
        mut from: mpsc::UnboundedReceiver<(GatewayEvent, Receipt)>,
    ) {
        while let Some((event, receipt)) = from.recv().await {
            if let EventContent::Interaction(late) = &event.content
                && self.age_of(late.id) > INTERACTION_AGE
            {
                debug!(
                    interaction = late.id,
                    "an interaction came too late to be answered; it is left out"
                );
                receipt.done();
                continue;
            }
            self.route(event, receipt);
        }
    }

    /// Returns how long ago Discord assigned an id, by Discord's clock.
    fn age_of(&self, id: u64) -> Duration {
        age_by_discord(id, self.parts.inner.api.rest.clock_ahead())
    }

    /// Passes an event on. Must be called within a Tokio runtime.
    fn route(&self, event: GatewayEvent, receipt: Receipt) {
        let GatewayEvent { content, names, parent, .. } = event;
        let arrival = match content {
            EventContent::Ready { user, guilds } => {
                self.send_inbound(InboundEvent::LoggedIn { user, guilds }, receipt);
                return self.connected();
            }
            EventContent::Message(message) => InboundEvent::Message { message, names, parent },
            EventContent::Edited(edit) => InboundEvent::Edited(edit, names),
            EventContent::Deleted(deletion) => InboundEvent::Deleted(deletion),
            EventContent::Interaction(interaction) => {
                return self.interaction(interaction, receipt);
            }
            EventContent::Resumed(()) => {
                info!("discord session resumed; nothing was missed");
                self.connected();
                return receipt.done();
            }
            EventContent::ForwardedPress(press) => {
                self.pressed(*press, OtherNodes::Forwarded);
                return receipt.done();
            }
            EventContent::PermissionsChanged(()) => {
                self.permissions_changed();
                return receipt.done();
            }
            EventContent::RecentChannels(_) => return receipt.done(),
        };
        self.send_inbound(arrival, receipt);
    }

    fn send_inbound(&self, arrival: InboundEvent, receipt: Receipt) {
        // Sending fails only if the program ends.
        let _ = self.parts.inbound.send((arrival, receipt));
    }

    fn interaction(&self, interaction: Box<Interaction>, receipt: Receipt) {
        match interaction.kind {
            2 => return self.slash(interaction, receipt),
            4 => self.panels.complete(*interaction),
            3 | 5 => self.press(*interaction),
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
    fn answer_at_once(&self, slash: &Interaction) -> Option<Verb> {
        let RouterDeps { inner, shared, services, .. } = &self.parts;
        let identity = &inner.identity;
        let alias = inner.options.settings.command_alias.as_deref();
        let asker = Asker::of(slash, identity);
        let Some(command) = commands::command(&slash.data.name, alias) else {
            let text = match commands::replacement(&slash.data.name) {
                Some(now) => format!("`/{}` is now `{now}`.", slash.data.name),
                None => "I do not know this command any more. Use `/ask`.".to_owned(),
            };
            self.refuse(slash, &text);
            return None;
        };
        let verb = command.action;
        if let Err(why) = identity.admit(&asker) {
            identity.log_refusal(&asker, slash.user().display_name(), why);
            self.refuse(slash, "You may not use me here.");
            return None;
        }
        if let Some(parent) = slash.parent() {
            services
                .settings
                .learn_parent(ChannelId::discord(slash.channel), ChannelId::discord(parent));
        }
        if command.access == CommandAccess::Owners && !asker.owner {
            identity.log_refusal(
                &asker,
                slash.user().display_name(),
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
            self.panels.slash(slash.clone(), order);
            return None;
        }
        Some(verb)
    }

    fn slash(&self, slash: Box<Interaction>, receipt: Receipt) {
        let Some(verb) = self.answer_at_once(&slash) else { return receipt.done() };
        let RouterDeps { inner, services, .. } = &self.parts;
        let windows = &inner.options.time_limits;
        let ack = inner.interactions.add(slash.id, slash.token.clone(), windows.interaction);
        let (api, interaction, token) = (self.api.clone(), slash.id, slash.token.clone());
        let (channel, timeouts) = (slash.channel, windows.send);
        let (outcome_sender, outcome) = oneshot::channel();
        let interactions = Arc::clone(&inner.interactions);
        tokio::spawn(async move {
            let outcome = outcome.await.unwrap_or(Err(CommandRefusal::Closing));
            receipt.done();
            let sent = match outcome {
                Ok(CommandOutcome::Kept) => None,
                Ok(CommandOutcome::Done(answer)) => {
                    let answered =
                        api.responses.answer_at_once(interaction, &token, &answer, ACK_TIMEOUTS);
                    Some(match answered.await {
                        // The action is done, even if the command cannot be answered any more.
                        Err(_) => {
                            api.post(channel, None, &nonce(), &answer, timeouts).await.map(drop)
                        }
                        sent => sent,
                    })
                }
                Err(why) => {
                    let text = why.to_string();
                    let responses = &api.responses;
                    Some(responses.answer_privately(interaction, &token, &text, ACK_TIMEOUTS).await)
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
            let deferred = api.responses.defer(interaction, &token, ACK_TIMEOUTS).await;
            if let Err(error) = &deferred {
                warn!(interaction, %error, "cannot acknowledge a command in time; the answer comes as a message");
            }
            ack.send_replace(if deferred.is_ok() { Ack::Accepted } else { Ack::Lost });
        });
        if verb != Verb::Stop {
            let arrival = InboundEvent::Slash(slash, verb, outcome_sender);
            return self.send_inbound(arrival, Receipt::none());
        }
        // Stopping does not wait in the queue. It is reported once it is on disk.
        let turns = services.turns.clone();
        let asked = AuditEntry::new(AuditKind::TurnStopped)
            .by(Some(UserId::discord(slash.user().id)), Some(slash.user().display_name()))
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

    fn press(&self, press: Interaction) {
        if self.panels.press(&press) {
            return;
        }
        let elsewhere = self.others.clone().map_or(OtherNodes::SingleNode, |others| {
            let content = EventContent::ForwardedPress(Box::new(press.clone()));
            let asked = GatewayEvent::for_all(content);
            // Sending fails only if the program ends.
            OtherNodes::Forward(Box::new(move || drop(others.send(asked))))
        });
        self.pressed(press, elsewhere);
    }

    fn pressed(&self, press: Interaction, elsewhere: OtherNodes) {
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

    fn refuse(&self, slash: &Interaction, text: &str) {
        self.answer_privately(slash, text.to_owned());
    }

    fn answer_privately(&self, slash: &Interaction, text: String) {
        let (api, interaction) = (self.api.responses.clone(), slash.id);
        let token = slash.token.clone();
        tokio::spawn(async move {
            if let Err(error) = api.answer_privately(interaction, &token, &text, ACK_TIMEOUTS).await
            {
                warn!(interaction, %error, "cannot answer a command");
            }
        });
    }
}
