//! The Discord adapter: prompts arrive by mention, reply, direct message and slash command, and
//! answers are delivered.
//!
//! Owns the connection to Discord, its requests and their limits, and the layout of messages,
//! questions and buttons. Must not decide anything about turns or sessions: the [`Dispatcher`]
//! does that, and [`aetheel_model::access`] decides who may use the bot. This is the only crate
//! that uses `serenity`, which keeps the gateway connection. Requests use the client in `rest`,
//! which explains why. `tests/discord/` tests this crate against a local Discord that checks every
//! request against Discord's own API description.
//!
//! ```text
//! gateway thread: serenity → handler ─(Heard)─▶ reader ─(in order)─▶ reception ─▶ Dispatcher
//!                                                 ├─(buttons)─▶ asks ──▶ Dispatcher
//!                                                 └─(menus, most commands)─▶ panel ──▶ Dispatcher
//! several nodes:  serenity → handler ─(Heard)─▶ Sharing::out ┄▶ Sharing::from ─▶ reader
//! other runtime:  Outlet::open → reply (one task per turn) ─▶ live messages ─▶ api → rest
//! ```
//!
//! With several nodes, the reader runs in the caller's runtime, like everything in the last line.

mod api;
mod asker;
mod asks;
mod below;
mod checkup;
mod clock;
mod commands;
mod dashboard;
mod deferred;
mod drawn;
mod ear;
mod edits;
mod files;
mod flow;
mod gateway;
mod handler;
mod heading;
mod heard;
mod holding;
mod interactions;
mod limits;
mod live;
mod login;
mod mention;
mod moving;
mod notes;
mod notices;
mod nowhere;
mod options;
mod outlet;
mod panel;
mod permissions;
mod permit;
mod phase;
mod pulses;
mod reader;
mod recap;
mod receipt;
mod reception;
mod reply;
mod rest;
mod running;
mod servers;
mod shards;
mod sharing;
mod standing;
mod stopping;
mod threads;
mod token;
mod typing;
mod waiting;
mod wire;

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

pub use checkup::{Checkup, Known, Owner, Place};
pub use clock::Clock;
pub use dashboard::SignIn;
pub use heard::{Heard, Parent};
pub use options::{Options, Windows};
pub use permissions::Missing;
pub use pulses::Pulses;
pub use receipt::Receipt;
pub use sharing::{Logins, Sharing};
pub use token::bot_of;

use aetheel_dispatch::{Again, AgainRefusal, Dispatcher, Person};
use aetheel_model::config::AllowLists;
use aetheel_model::vigil;
use aetheel_store::workspace::DiscordNotes;
use api::Api;
use asks::Asks;
use ear::Ear;
use files::Fetcher;
use holding::Holding;
use interactions::Interactions;
use notes::Notes;
use permit::Permit;
use phase::Phase;
use reader::{Parts, Reader};
use reception::people::People;
use reception::{Arrival, Closing, Lines, Reception};
use rest::{Rest, RestError};
use shards::Shards;
use standing::Standings;
use waiting::Waiting;

/// Why the bot cannot work. Each reason needs an action of the operator.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// No token was configured.
    #[error(
        "`DISCORD_BOT_TOKEN` is not set\nhint: copy the token from https://discord.com/developers/applications, your application, page Bot"
    )]
    NoToken,
    /// The configured text cannot be a token, with the reason.
    #[error(
        "`DISCORD_BOT_TOKEN` does not look like a bot token: {0}\nhint: copy the token from https://discord.com/developers/applications, your application, page Bot"
    )]
    BadToken(&'static str),
    /// Discord does not accept the token.
    #[error(
        "discord refused `DISCORD_BOT_TOKEN`: it is wrong or was reset\nhint: make a new one at https://discord.com/developers/applications, your application, page Bot"
    )]
    TokenRefused,
    /// Discord refused the intents, with close code 4013 or 4014.
    #[error(
        "discord refused the gateway intents (close code {0})\nhint: the bot asks for guilds, guild messages and direct messages, and for message content if it is switched on; see https://discord.com/developers/applications, your application, page Bot, Privileged Gateway Intents"
    )]
    Intents(u16),
    /// The certificate of the server is not trusted.
    #[error(
        "cannot trust discord at {base}: {why}\nhint: if a proxy or firewall inspects TLS, set `SSL_CERT_FILE` to a PEM file with its certificate authority; otherwise check the clock of this machine"
    )]
    Untrusted {
        /// The address, as configured in `DISCORD_API_BASE`.
        base: String,
        /// The fault of the certificate.
        why: String,
    },
    /// Discord did not answer within a minute.
    #[error(
        "cannot reach discord at {base}: {why}\nhint: check the network and `DISCORD_API_BASE`"
    )]
    Unreachable {
        /// The address, as configured in `DISCORD_API_BASE`.
        base: String,
        /// The error of the last attempt.
        why: String,
    },
}

/// Accepts offers that the dispatcher does not know, when a person presses their button.
#[derive(Clone)]
pub struct Accept(Arc<dyn Fn(String, Person) -> Accepting + Send + Sync>);

/// Resolves to the result, or to `None` if it is another offer.
type Accepting = Pin<Box<dyn Future<Output = Option<Result<Again, AgainRefusal>>> + Send>>;

impl Accept {
    /// Creates a handler from a function that takes the id of an offer and the person who pressed.
    pub fn new<F>(press: impl Fn(String, Person) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Option<Result<Again, AgainRefusal>>> + Send + 'static,
    {
        Self(Arc::new(move |id, person| -> Accepting { Box::pin(press(id, person)) }))
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
    reads: bool,
    refusals: Mutex<HashMap<u64, Instant>>,
}

struct Inner {
    options: Options,
    api: Api,
    identity: Arc<Identity>,
    interactions: Arc<Interactions>,
    waiting: Arc<Waiting>,
    files: Fetcher,
    asks: Arc<Asks>,
    notes: Arc<Notes>,
    holding: Holding,
    standings: Standings,
    /// The channels, members and roles that were looked up.
    people: Arc<People>,
    lines: Arc<Lines>,
    /// Whether this node should be logged in.
    logs_in: AtomicBool,
    /// Sends arrivals to `reception`, once [`Discord::listen`] was called.
    arrivals: OnceLock<mpsc::UnboundedSender<(Arrival, Receipt)>>,
    /// Signs people in to the dashboard, once it is available.
    sign_in: OnceLock<Arc<dyn SignIn>>,
    /// Which shards are connected.
    shards: Shards,
    /// When this process connected, in milliseconds since 1970.
    began_ms: i64,
}

/// A bot with an accepted token. Delivers answers, and receives events once [`Discord::listen`] is
/// called.
#[derive(Clone)]
pub struct Discord {
    inner: Arc<Inner>,
}

impl Discord {
    /// Checks the token, requests the bot's account, registers the slash commands, and reads the
    /// notes of the previous process. Can be cancelled without side effects other than registered
    /// commands.
    ///
    /// # Errors
    /// [`StartError`], after about a minute if Discord is not reachable.
    pub async fn connect(options: Options, notes: DiscordNotes) -> Result<Self, StartError> {
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
            options.windows.clock(),
            options.lease.clone(),
        )
        .map_err(|error| unreachable(error.to_string()))?;
        let files =
            Fetcher::new(&options.api_base).map_err(|error| unreachable(error.to_string()))?;
        let api = Api::new(rest);
        let timeouts = options.windows.send;
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
        let reads = application.reads();
        servers::warn_without_any(&api, application.id, timeouts).await;
        let identity = Arc::new(Identity {
            id: me.id,
            application: application.id,
            owners,
            allowed: options.allowed.clone(),
            reads,
            refusals: Mutex::default(),
        });
        let notes = Arc::new(Notes::read(notes).await);
        let asks = Arc::new(Asks::new(Arc::clone(&notes)));
        let (interactions, waiting) = (Arc::default(), Arc::default());
        let began_ms = jiff::Timestamp::now().as_millisecond();
        Ok(Self {
            inner: Arc::new(Inner {
                options,
                api,
                identity,
                interactions,
                waiting,
                files,
                asks,
                notes,
                holding: Holding::default(),
                standings: Standings::default(),
                people: Arc::default(),
                lines: Arc::default(),
                logs_in: AtomicBool::new(true),
                arrivals: OnceLock::new(),
                sign_in: OnceLock::new(),
                shards: Shards::default(),
                began_ms,
            }),
        })
    }

    /// Returns whether the bot can read messages that do not mention it.
    #[must_use]
    pub fn reads_everything(&self) -> bool {
        self.inner.identity.reads
    }

    /// Logs in to the gateway and accepts prompts from then on. Returns when the bot is ready, and
    /// keeps trying while Discord is not reachable. Dropping the future disconnects. With
    /// `sharing`, it processes the events that come from there, returns at once, and logs in while
    /// this node is the leader.
    ///
    /// # Errors
    /// [`StartError`] if Discord refuses the bot.
    pub async fn listen(
        &self,
        dispatcher: Dispatcher,
        accept: Option<Accept>,
        sharing: Option<Sharing>,
    ) -> Result<Listening, StartError> {
        let inner = Arc::clone(&self.inner);
        // In a task of its own, because Discord may be slow and prompts should not wait for old
        // questions.
        vigil::errand("old questions", async move {
            inner.asks.close_earlier(&inner.api, inner.options.windows.send).await
        });
        let notes = Arc::clone(&self.inner.notes);
        let saving = vigil::task("notes", async move { notes.keep_saving().await });
        let (arrivals, taken) = mpsc::unbounded_channel();
        let phase = Arc::new(watch::channel(Phase::Starting).0);
        let closing = Arc::<Closing>::default();
        let reception = Reception::new(
            self.inner.api.clone(),
            Arc::clone(&self.inner.identity),
            (
                Arc::clone(&self.inner.interactions),
                Arc::clone(&self.inner.waiting),
                Arc::clone(&self.inner.asks),
            ),
            (dispatcher.clone(), Arc::clone(&self.inner.notes), Arc::clone(&self.inner.people)),
            Arc::clone(&self.inner.lines),
            Arc::clone(&closing),
            (self.inner.options.windows.send, self.inner.options.redactor.clone()),
        );
        let reception = vigil::task("reception", reception.run(taken));
        let (stop, stopped) = oneshot::channel();
        let pulses = Pulses::through(arrivals.clone());
        let _ = self.inner.arrivals.set(arrivals.clone());
        let parts = Parts {
            inner: Arc::clone(&self.inner),
            dispatcher,
            accept,
            arrivals,
            runtime: Handle::current(),
        };
        let (ear, seat, logins, letters): (_, _, Arc<dyn Logins>, _) = match sharing {
            None => (Ear::Here(parts), None, Arc::clone(&self.inner.notes) as _, None),
            Some(Sharing { out, from, seat, logins }) => {
                let base = &self.inner.options.api_base;
                let reader = Reader::new(parts, Some(out.clone())).map_err(|error| {
                    StartError::Unreachable { base: base.clone(), why: error.to_string() }
                })?;
                phase.send_replace(Phase::Ready);
                let letters = vigil::errand("node events", sharing::follow(reader, from));
                (Ear::Nodes(out), Some(seat), logins, Some(letters))
            }
        };
        let permit = Permit::new(stopped, seat);
        self.inner.logs_in.store(permit.is_given(), Ordering::SeqCst);
        let gateway = vigil::errand(
            "discord",
            gateway::keep_connected(
                Arc::clone(&self.inner),
                ear,
                logins,
                Arc::clone(&phase),
                permit,
            ),
        );
        let inner = Arc::clone(&self.inner);
        let listening = Listening {
            phase,
            closing,
            stop: Some(stop),
            gateway: Some(gateway),
            letters,
            reception,
            saving,
            pulses,
            inner,
        };
        match listening.settled(|phase| !matches!(phase, Phase::Starting)).await {
            Phase::Failed(error) => Err(error),
            Phase::Starting | Phase::Ready => Ok(listening),
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

/// A bot that receives events. Dropping it disconnects without waiting.
pub struct Listening {
    phase: Arc<watch::Sender<Phase>>,
    closing: Arc<Closing>,
    stop: Option<oneshot::Sender<()>>,
    gateway: Option<JoinHandle<()>>,
    /// Reads the events that come from other nodes.
    letters: Option<JoinHandle<()>>,
    reception: JoinHandle<()>,
    saving: JoinHandle<()>,
    pulses: Pulses,
    inner: Arc<Inner>,
}

impl Listening {
    /// Returns the sender of health probes.
    #[must_use]
    pub fn pulses(&self) -> Pulses {
        self.pulses.clone()
    }

    /// Stops accepting prompts, which the next process will find, and refuses commands. Authors of
    /// prompts get a notice of that, unless `silently` is set because the next process follows at
    /// once. Can be called again to change `silently`.
    pub fn stop_intake(&self, silently: bool) {
        self.closing.begin(silently);
    }

    /// Resolves when Discord refuses the bot permanently, because of a revoked token or refused
    /// intents.
    pub async fn failed(&self) -> StartError {
        match self.settled(|phase| matches!(phase, Phase::Failed(_))).await {
            Phase::Failed(error) => error,
            Phase::Starting | Phase::Ready => std::future::pending().await,
        }
    }

    /// Removes the marks of prompts that still wait, disconnects, and saves the notes. Removing
    /// marks and disconnecting take at most five seconds each, even during a reconnect.
    pub async fn close(mut self) {
        if !self.closing.is_begun() {
            self.stop_intake(false);
        }
        let Inner { waiting, api, identity, .. } = &*self.inner;
        if tokio::time::timeout(Duration::from_secs(5), waiting.leave(api, identity.application))
            .await
            .is_err()
        {
            debug!("could not remove all marks of waiting prompts from discord in time");
        }
        self.stop.take();
        if let Some(gateway) = self.gateway.take()
            && tokio::time::timeout(Duration::from_secs(5), gateway).await.is_err()
        {
            warn!("the discord connection did not close in time");
        }
        self.saving.abort();
        self.inner.notes.save().await;
    }

    async fn settled(&self, wanted: impl Fn(&Phase) -> bool) -> Phase {
        let mut phase = self.phase.subscribe();
        // The sender is in `self`.
        phase.wait_for(|phase| wanted(phase)).await.map_or(Phase::Starting, |phase| phase.clone())
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        // The gateway task notices that its stop signal is gone. Events that it already received
        // are not processed any more.
        if let Some(letters) = &self.letters {
            letters.abort();
        }
        self.reception.abort();
        self.saving.abort();
    }
}
