//! The Discord adapter: prompts arrive by mention, reply, direct message and slash command, and
//! answers are delivered.
//!
//! Owns the connection to Discord, its requests and their limits, and the layout of messages,
//! questions and buttons. Must not decide anything about turns or sessions: the [`Dispatcher`]
//! does that, and [`aetheel_model::access`] decides who may use the bot. This is the only crate
//! that uses `serenity`, which keeps the gateway connection. Requests use the client in `rest`,
//! which explains why. `tests/discord/` tests this crate against a simulated Discord server, which
//! checks every request against Discord's own API description.
//!
//! ```text
//! gateway thread: serenity → handler ─(GatewayEvent)─▶ router ─(in order)─▶ inbound ─▶ Dispatcher
//!                                                        ├─(buttons)─▶ questions ─▶ Dispatcher
//!                                                        └─(menus, commands)─▶ panel ─▶ Dispatcher
//! several nodes:  serenity → handler ─(GatewayEvent)─▶ EventSharing::outgoing
//!                                    EventSharing::incoming ─(GatewayEvent)─▶ router
//! other runtime:  Outlet::open → reply (one task per turn) ─▶ live (messages) ─▶ api → rest
//! ```
//!
//! With several nodes, `router` runs in the caller's runtime, as everything in the last line does.

mod api;
mod asker;
mod checkup;
mod clock;
mod commands;
mod dashboard;
mod deferred;
mod delivery_queue;
mod edits;
mod files;
mod footer;
mod gateway;
mod gateway_event;
mod gateway_sink;
mod handler;
mod inbound;
mod interactions;
mod listener;
mod live;
mod login;
mod mention;
mod notes;
mod notices;
mod null_reply;
mod options;
mod outlet;
mod panel;
mod permissions;
mod permit;
mod phase;
mod preview;
mod probes;
mod questions;
mod queue_marker;
mod quote;
mod rate_limits;
mod rate_share;
mod recap;
mod receipt;
mod reply;
mod rest;
mod router;
mod running;
mod servers;
mod shards;
mod sharing;
mod start_error;
mod stop_button;
mod threads;
mod token;
mod transfer;
mod typing;
mod user_permissions;
mod wire;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};

pub use checkup::{ApplicationOwner, BotProfile, ChannelCheck, Checkup};
pub use clock::OffsetClock;
pub use dashboard::SignInService;
pub use gateway_event::{GatewayEvent, Parent};
pub use listener::GatewayListener;
pub use options::{DiscordOptions, TimeLimits};
pub use permissions::MissingPermissions;
pub use probes::ProbeSender;
pub use receipt::Receipt;
pub use sharing::{EventSharing, LoginHistory};
pub use start_error::StartError;
pub use token::bot_id_of;

use aetheel_dispatch::{Dispatcher, OfferEffect, OfferRefusal, Person};
use aetheel_model::config::AllowLists;
use aetheel_model::supervisor;
use aetheel_store::workspace::DiscordNotes;
use api::Api;
use delivery_queue::DeliveryQueues;
use files::Fetcher;
use gateway_sink::GatewaySink;
use inbound::lookups::LookupCache;
use inbound::{ChannelQueues, InboundEvent, InboundProcessor, InboundServices, IntakeState};
use interactions::Interactions;
use notes::NotesCache;
use permit::Permit;
use phase::ConnectionPhase;
use questions::QuestionBoard;
use queue_marker::QueueMarkers;
use rest::{Rest, RestError};
use router::{EventRouter, RouterDeps};
use shards::Shards;
use user_permissions::PermissionCache;

/// Accepts offers that the dispatcher does not know, when a person presses their button.
#[derive(Clone)]
pub struct OfferHandler(Arc<dyn Fn(String, Person) -> OfferFuture + Send + Sync>);

/// Resolves to the result, or to `None` if the handler does not know the offer.
type OfferFuture = Pin<Box<dyn Future<Output = Option<Result<OfferEffect, OfferRefusal>>> + Send>>;

impl OfferHandler {
    /// Creates a handler from a function that takes the id of an offer and the person who pressed.
    pub fn new<F>(press: impl Fn(String, Person) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<Result<OfferEffect, OfferRefusal>>> + Send + 'static,
    {
        Self(Arc::new(move |id, person| -> OfferFuture { Box::pin(press(id, person)) }))
    }
}

/// The bot's account and application, its owners, and the access lists.
#[derive(Debug)]
pub(crate) struct Identity {
    id: u64,
    application: u64,
    owners: Vec<u64>,
    /// The people and places that may use the bot.
    allowed: AllowLists,
    /// Whether the bot can read messages that do not mention it.
    reads_all: bool,
    refusals: Mutex<HashMap<u64, Instant>>,
}

struct BotContext {
    options: DiscordOptions,
    api: Api,
    identity: Arc<Identity>,
    interactions: Arc<Interactions>,
    queue_markers: Arc<QueueMarkers>,
    files: Fetcher,
    questions: Arc<QuestionBoard>,
    notes: Arc<NotesCache>,
    delivery_queues: DeliveryQueues,
    permission_cache: PermissionCache,
    /// The cache of channels, members and roles.
    lookups: Arc<LookupCache>,
    channel_queues: Arc<ChannelQueues>,
    /// Whether this node should be logged in.
    logs_in: AtomicBool,
    /// Sends events to the module `inbound`. Set by [`Discord::listen`].
    inbound: OnceLock<mpsc::UnboundedSender<(InboundEvent, Receipt)>>,
    /// Signs people in to the dashboard. Set by [`Discord::set_sign_in`].
    sign_in: OnceLock<Arc<dyn SignInService>>,
    /// Which shards are connected.
    shards: Shards,
    /// When this process connected, in milliseconds since 1970.
    started_ms: i64,
}

/// A bot with an accepted token. Delivers answers, and receives events once [`Discord::listen`] is
/// called.
#[derive(Clone)]
pub struct Discord {
    inner: Arc<BotContext>,
}

impl Discord {
    /// Checks the token, requests the bot's account, registers the slash commands, and reads the
    /// notes of the previous process. Can be cancelled without side effects other than registered
    /// commands.
    ///
    /// # Errors
    /// [`StartError`], after about a minute if Discord is not reachable.
    pub async fn connect(options: DiscordOptions, notes: DiscordNotes) -> Result<Self, StartError> {
        token::check_shape(options.token.expose_secret())?;
        let unreachable =
            |why: String| StartError::Unreachable { base: options.api_base.clone(), why };
        let refused = |error: RestError| match error {
            RestError::TokenRefused => StartError::TokenRefused,
            RestError::Untrusted(why) => {
                StartError::Untrusted { base: options.api_base.clone(), why }
            }
            other => unreachable(other.to_string()),
        };
        let rest = Rest::new(
            &options.api_base,
            options.token.clone(),
            options.requests_per_second,
            options.time_limits.clock(),
            options.lease.clone(),
        )
        .map_err(|error| unreachable(error.to_string()))?;
        let files =
            Fetcher::new(&options.api_base).map_err(|error| unreachable(error.to_string()))?;
        let api = Api::new(rest);
        let timeouts = options.time_limits.send;
        let me = api.me(timeouts).await.map_err(refused)?;
        let application = api.application(timeouts).await.map_err(refused)?;
        let team =
            application.team.iter().flat_map(|team| &team.members).map(|member| member.user.id);
        let owners = application
            .owner
            .iter()
            .map(|owner| owner.id)
            .chain(team)
            .chain(options.owners.iter().copied())
            .collect();
        let offered = (options.command_alias.as_deref(), options.dashboard);
        commands::register(&api, application.id, offered, timeouts).await;
        let reads = application.reads_all();
        servers::warn_without_any(&api, application.id, timeouts).await;
        let identity = Arc::new(Identity {
            id: me.id,
            application: application.id,
            owners,
            allowed: options.allowed.clone(),
            reads_all: reads,
            refusals: Mutex::default(),
        });
        let notes = Arc::new(NotesCache::read(notes).await);
        let asks = Arc::new(QuestionBoard::new(Arc::clone(&notes)));
        let (interactions, waiting) = (Arc::default(), Arc::default());
        let began_ms = jiff::Timestamp::now().as_millisecond();
        Ok(Self {
            inner: Arc::new(BotContext {
                options,
                api,
                identity,
                interactions,
                queue_markers: waiting,
                files,
                questions: asks,
                notes,
                delivery_queues: DeliveryQueues::default(),
                permission_cache: PermissionCache::default(),
                lookups: Arc::default(),
                channel_queues: Arc::default(),
                logs_in: AtomicBool::new(true),
                inbound: OnceLock::new(),
                sign_in: OnceLock::new(),
                shards: Shards::default(),
                started_ms: began_ms,
            }),
        })
    }

    /// Returns whether the bot can read messages that do not mention it.
    #[must_use]
    pub fn reads_everything(&self) -> bool {
        self.inner.identity.reads_all
    }

    /// Logs in to the gateway and accepts prompts from then on. Returns when the bot is ready, and
    /// keeps trying while Discord is not reachable. Dropping the future disconnects. With
    /// `sharing`, it returns at once, processes the events of [`EventSharing::incoming`], and is
    /// logged in while this node is the leader.
    ///
    /// # Errors
    /// [`StartError`] if Discord refuses the bot.
    pub async fn listen(
        &self,
        dispatcher: Dispatcher,
        accept: Option<OfferHandler>,
        sharing: Option<EventSharing>,
    ) -> Result<GatewayListener, StartError> {
        let inner = Arc::clone(&self.inner);
        // Old questions are closed in a task of its own, because Discord may be slow and prompts
        // should not wait for that.
        supervisor::spawn_finite("old questions", async move {
            inner.questions.close_stale(&inner.api, inner.options.time_limits.send).await
        });
        let notes = Arc::clone(&self.inner.notes);
        let saving = supervisor::spawn("notes", async move { notes.keep_saving().await });
        let (arrivals, taken) = mpsc::unbounded_channel();
        let phase = Arc::new(watch::channel(ConnectionPhase::Starting).0);
        let closing = Arc::<IntakeState>::default();
        let reception = InboundProcessor::new(
            self.inner.api.clone(),
            Arc::clone(&self.inner.identity),
            (
                Arc::clone(&self.inner.interactions),
                Arc::clone(&self.inner.queue_markers),
                Arc::clone(&self.inner.questions),
            ),
            (
                InboundServices::of(&dispatcher),
                Arc::clone(&self.inner.notes),
                Arc::clone(&self.inner.lookups),
            ),
            Arc::clone(&self.inner.channel_queues),
            Arc::clone(&closing),
            (self.inner.options.time_limits.send, self.inner.options.redactor.clone()),
        );
        let reception = supervisor::spawn("reception", reception.run(taken));
        let (stop, stopped) = oneshot::channel();
        let pulses = ProbeSender::new(arrivals.clone());
        let _ = self.inner.inbound.set(arrivals.clone());
        let parts = RouterDeps {
            inner: Arc::clone(&self.inner),
            dispatcher,
            accept,
            inbound: arrivals,
            runtime: Handle::current(),
        };
        let (sink, leader, logins, reader_task): (_, _, Arc<dyn LoginHistory>, _) = match sharing {
            None => (GatewaySink::Local(parts), None, Arc::clone(&self.inner.notes) as _, None),
            Some(EventSharing { outgoing: out, incoming: from, leader, logins }) => {
                let base = &self.inner.options.api_base;
                let reader = EventRouter::new(parts, Some(out.clone())).map_err(|error| {
                    StartError::Unreachable { base: base.clone(), why: error.to_string() }
                })?;
                phase.send_replace(ConnectionPhase::Ready);
                let reader_task =
                    supervisor::spawn_finite("node events", sharing::read_incoming(reader, from));
                (GatewaySink::Cluster(out), Some(leader), logins, Some(reader_task))
            }
        };
        let permit = Permit::new(stopped, leader);
        self.inner.logs_in.store(permit.is_given(), Ordering::SeqCst);
        let gateway = supervisor::spawn_finite(
            "discord",
            gateway::keep_connected(
                Arc::clone(&self.inner),
                sink,
                logins,
                Arc::clone(&phase),
                permit,
            ),
        );
        let inner = Arc::clone(&self.inner);
        let listening = GatewayListener {
            phase,
            closing,
            stop: Some(stop),
            gateway: Some(gateway),
            incoming: reader_task,
            reception,
            saving,
            probe_sender: pulses,
            inner,
        };
        match listening.wait_for_phase(|phase| !matches!(phase, ConnectionPhase::Starting)).await {
            ConnectionPhase::Failed(error) => Err(error),
            ConnectionPhase::Starting | ConnectionPhase::Ready => Ok(listening),
        }
    }

    /// Returns whether this node should be logged in. Always `true` if nodes do not share the bot.
    #[must_use]
    pub fn has_login(&self) -> bool {
        self.inner.logs_in.load(Ordering::SeqCst)
    }

    /// Returns the number of answers with 401, 403 or 429 in the last ten minutes. Discord bans an
    /// address after 10,000.
    #[must_use]
    pub fn invalid_requests(&self) -> usize {
        self.inner.api.rest.invalid_requests()
    }
}
