//! The dashboard: pages that show the gateway's activity in a browser. Users can stop and steer
//! turns and answer questions, as with buttons and commands in Discord.
//!
//! Owns HTTP, HTML, sign-in links and sessions. With every request it asks [`DashboardApi`] for the
//! user's permissions, which come from Discord and the operator's lists. Actions go to the
//! services of the [`Dispatcher`], as from other adapters. Nothing is rendered while no page is
//! open. Tested by `tests/gateway/dashboard/`.
//!
//! | module | content |
//! |---|---|
//! | [`origin`] | the public address of the dashboard |
//! | [`secret`], [`sessions`] | sign-in links that work once, and sessions |
//! | [`middleware`] | the checks of every request, and the headers of every response |
//! | [`access`] | signed-in users and their permissions |
//! | [`fields`], [`repeated_forms`] | the fields of requests, the results of forms, and repeated forms |
//! | [`frame`], [`layout`] | the layout of pages, for anybody and for signed-in users |
//! | [`components`] | the parts of pages: lists, forms, tables and cards |
//! | [`cards`] | running turns and waiting prompts, as one user may see them |
//! | [`live`] | streams their changes |
//! | [`sign_in`], [`overview`], [`channels`], [`costs`] | the pages for all users |
//! | [`backends`], [`schedules`], [`audit`], [`health`] | the pages for owners |
//! | [`waits`], [`claims`], [`later_turns`] | parts of pages: lanes that wait, reserved files, and turns that agents asked for |
//! | [`transcripts`] | finished turns, and read-only links to them |
//! | [`step_viewer`] | a recorded turn, step by step |
//! | [`plot`] | charts |
//! | [`times`], [`url`], [`paging`], [`rendered`] | times, addresses, cut texts, and Markdown |
//! | [`actions`] | the forms of running turns |

mod access;
mod actions;
mod audit;
mod backends;
mod cards;
mod channels;
mod claims;
mod components;
mod costs;
mod fields;
mod frame;
mod health;
mod later_turns;
mod layout;
mod live;
mod middleware;
mod origin;
mod overview;
mod paging;
mod plot;
mod rendered;
mod repeated_forms;
mod schedules;
mod secret;
mod sessions;
mod sign_in;
mod step_viewer;
mod times;
mod transcripts;
mod url;
mod waits;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use jiff::Timestamp;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

pub use self::origin::DashboardOrigin;
use self::sessions::Sessions;
use self::transcripts::{list, sharing, turn};
use super::connection::{BoundAddress, BoundedListener, HttpCaller, ServerTask};
use super::status::HealthSource;
use aetheel_dispatch::Dispatcher;
use aetheel_kit::step_viewer::{StepViewer, StepViewerError, TurnSteps};
use aetheel_model::access::{LanePermissions, SignInRequest};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_store::workspace::{AuditReader, SavedSignIn, Shares, StateFile};

/// The largest number of simultaneous connections.
const CONNECTIONS: usize = 256;
/// The largest number of connections that stream changes.
const STREAMS: usize = 128;
/// The largest number of simultaneous requests with a read-only link.
const MAX_LINK_REQUESTS: usize = 2;
/// Largest form in bytes.
const MAX_FORM_BYTES: usize = 64 << 10;

/// A heartbeat or a cron job, without secrets.
#[derive(Clone, Debug)]
pub struct ScheduleView {
    /// The lane of the schedule's events.
    pub lane: Lane,
    /// The times and the time zone, in words.
    pub rhythm: String,
    /// The next run, in the time zone of the schedule. `None` if the schedule does not run again.
    pub next: Option<String>,
    /// The prompt.
    pub instruction: String,
}

/// All schedules and hooks, without secrets.
#[derive(Clone, Debug, Default)]
pub struct ScheduleOverview {
    /// Heartbeats and cron jobs.
    pub schedules: Vec<ScheduleView>,
    /// Hooks: name and prompt.
    pub hooks: Vec<(String, String)>,
    /// The problems in the files, one line each.
    pub warnings: Vec<String>,
}

/// The recording of a finished turn, and the facts that decide who may see it.
#[derive(Clone, Debug)]
pub struct RecordedTurn {
    /// The lane that the turn ran in.
    pub lane: Lane,
    /// The name of the turn's backend.
    pub backend: String,
    /// The path of the recording in the folder of recordings, or `None` if it was deleted.
    pub recording: Option<String>,
}

/// The messages of a turn as Discord shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessagePreview {
    /// The texts of the messages, in order, without secrets.
    pub messages: Vec<String>,
    /// Whether the messages are the complete answer. Otherwise the turn is still running at this
    /// point.
    pub ended: bool,
}

/// The data for the dashboard from the chat platform and from the operator's files.
#[async_trait]
pub trait DashboardApi: Send + Sync {
    /// Returns the current permissions of a user in a channel.
    ///
    /// # Errors
    /// Returns the reason, for the log, if the permissions are unknown. The user then counts as
    /// having none.
    async fn permissions(
        &self,
        user: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, String>;

    /// Posts a message about an action of a user in the dashboard. Without a channel, it is posted
    /// in the operator's output channel. Returns the message's id.
    ///
    /// # Errors
    /// Returns the reason if the message could not be posted.
    async fn post_action(
        &self,
        channel: Option<ChannelId>,
        who: &str,
        did: &str,
    ) -> Result<MessageId, String>;

    /// Posts the text that a user sent from the dashboard to a channel's agent. Returns the
    /// message's id.
    ///
    /// # Errors
    /// Same as [`DashboardApi::post_action`].
    async fn post_prompt(
        &self,
        channel: ChannelId,
        who: &str,
        words: &str,
    ) -> Result<MessageId, String>;

    /// Returns the schedules and hooks that the files contain now.
    async fn schedules(&self) -> ScheduleOverview;

    /// Returns the event of a schedule as if it were due now, and the channel of its answer.
    /// Returns `None` if the schedule does not exist.
    async fn schedule_event(&self, lane: &Lane) -> Option<(NewEvent, Option<ChannelId>)>;

    /// Returns the reader of the audit log.
    fn audit(&self) -> &AuditReader;

    /// Returns the record of a finished turn, or `None` if it is unknown.
    async fn recorded_turn(&self, turn: &str) -> Option<RecordedTurn>;

    /// Returns the viewer for recorded turns.
    fn step_viewer(&self) -> &StepViewer;

    /// Returns the messages of a turn up to the step with this index, as Discord would show them.
    ///
    /// # Errors
    /// Returns an error if the recording cannot be read any more.
    async fn messages(
        &self,
        turn: &str,
        steps: &Arc<TurnSteps>,
        step: usize,
    ) -> Result<MessagePreview, StepViewerError>;
}

/// The state that all requests share.
struct DashboardState {
    services: Dispatcher,
    api: Arc<dyn DashboardApi>,
    health: Arc<dyn HealthSource>,
    sessions: Sessions,
    origin: DashboardOrigin,
    /// The listener's address. Users on this machine and some proxies send requests to it.
    local: DashboardOrigin,
    streams: Arc<Semaphore>,
    turns: live::LiveTexts,
    /// Whether users may create read-only links to turns.
    sharing: bool,
    /// Limits the simultaneous requests with read-only links.
    link_requests: Semaphore,
    closing: CancellationToken,
}

/// A bound listener that does not answer yet.
pub struct DashboardListener {
    bound: BoundAddress,
    origin: DashboardOrigin,
}

impl DashboardListener {
    /// Binds an address. `origin` is the public address, if it differs from `address`.
    ///
    /// # Errors
    /// Returns the system's error.
    pub async fn take(address: SocketAddr, origin: Option<DashboardOrigin>) -> io::Result<Self> {
        let bound = BoundAddress::bind(address).await?;
        let origin = origin.unwrap_or_else(|| DashboardOrigin::of(bound.address));
        Ok(Self { bound, origin })
    }

    /// Returns the public address.
    #[must_use]
    pub fn origin(&self) -> &DashboardOrigin {
        &self.origin
    }

    /// Starts serving. Sessions are saved in `sign_ins`. With `sharing`, users may create read-only
    /// links to turns.
    #[must_use]
    pub fn serve(
        self,
        dispatcher: &Dispatcher,
        api: Arc<dyn DashboardApi>,
        health: Arc<dyn HealthSource>,
        sign_ins: StateFile<SavedSignIn>,
        sharing: bool,
    ) -> Dashboard {
        let shared = Arc::new(DashboardState {
            services: dispatcher.clone(),
            api,
            health,
            sessions: Sessions::open(sign_ins, Instant::now(), Timestamp::now()),
            origin: self.origin,
            local: DashboardOrigin::of(self.bound.address),
            streams: Arc::new(Semaphore::new(STREAMS)),
            turns: live::LiveTexts::new(dispatcher.observer.clone()),
            sharing,
            link_requests: Semaphore::new(MAX_LINK_REQUESTS),
            closing: CancellationToken::new(),
        });
        let service =
            router(Arc::clone(&shared)).into_make_service_with_connect_info::<HttpCaller>();
        let listener = BoundedListener::new(self.bound.listener, CONNECTIONS);
        let server = ServerTask::spawn("dashboard", axum::serve(listener, service));
        tracing::info!(address = %self.bound.address, url = %shared.origin, "the dashboard is open");
        Dashboard { shared, _server: server }
    }
}

/// The running dashboard. Dropping it closes it.
pub struct Dashboard {
    shared: Arc<DashboardState>,
    _server: ServerTask,
}

impl Dashboard {
    /// Returns a handle that creates sign-in links.
    #[must_use]
    pub fn sign_in_links(&self) -> SignInLinks {
        let DashboardState { sessions, origin, services, .. } = &*self.shared;
        SignInLinks {
            sessions: sessions.clone(),
            origin: origin.clone(),
            shares: services.history.shares().clone(),
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.shared.closing.cancel();
    }
}

/// Creates sign-in links and ends sessions. Cheap to clone.
#[derive(Clone)]
pub struct SignInLinks {
    sessions: Sessions,
    origin: DashboardOrigin,
    shares: Shares,
}

impl SignInLinks {
    /// Creates a link that signs a user in. It works once, within five minutes.
    ///
    /// # Errors
    /// Returns the time until the user may request another link.
    pub fn link(&self, visitor: SignInRequest) -> Result<String, Duration> {
        let secret = self.sessions.link(visitor, Instant::now())?;
        Ok(format!("{}/enter/{secret}", self.origin))
    }

    /// Ends all links and sessions of a user, and all read-only links that the user created.
    /// Returns the number of sessions.
    #[must_use]
    pub fn revoke(&self, user: UserId) -> usize {
        self.shares.end_all_of(user, Timestamp::now());
        self.sessions.revoke(user)
    }
}

fn router(shared: Arc<DashboardState>) -> Router {
    Router::new()
        .route("/", get(overview::page))
        .route("/live", get(live::follow))
        .route("/live/once", get(live::once))
        .route("/turns/stop", post(actions::stop))
        .route("/turns/steer", post(actions::steer))
        .route("/turns", get(list::page))
        .route("/turns/{turn}", get(turn::page))
        .route("/turns/{turn}/part/{part}", get(turn::part))
        .route("/turns/{turn}/share", post(sharing::share))
        .route("/turns/{turn}/unshare", post(sharing::unshare))
        .route("/shared/{key}", get(sharing::page))
        .route("/shared/{key}/part/{part}", get(sharing::part))
        .route("/turns/{turn}/machine", get(step_viewer::page))
        .route("/questions/answer", post(actions::answer))
        .route("/waits/decide", post(waits::decide))
        .route("/claims/release", post(claims::release))
        .route("/channels", get(channels::list))
        .route("/channels/{channel}", get(channels::one))
        .route("/channels/choose", post(channels::choose))
        .route("/channels/reset", post(channels::reset))
        .route("/costs", get(costs::page))
        .route("/costs.csv", get(costs::csv))
        .route("/components", get(backends::page))
        .route("/components/roll-back", post(backends::roll_back))
        .route("/components/rollout", post(backends::decide))
        .route("/schedules", get(schedules::page))
        .route("/schedules/run", post(schedules::run))
        .route("/schedules/remove", post(later_turns::remove))
        .route("/audit", get(audit::page))
        .route("/audit/check", post(audit::check))
        .route("/health", get(health::page))
        .route("/enter/{link}", get(sign_in::door))
        .route("/enter", post(sign_in::enter))
        .route("/leave", post(sign_in::leave))
        .route("/style.css", get(frame::style))
        .route("/script.js", get(frame::script))
        .route("/icon.svg", get(frame::icon))
        .fallback(frame::not_found)
        .method_not_allowed_fallback(frame::form_only)
        .layer(DefaultBodyLimit::max(MAX_FORM_BYTES))
        .layer(from_fn_with_state(Arc::clone(&shared), repeated_forms::once))
        .layer(from_fn_with_state(Arc::clone(&shared), middleware::check_request))
        .with_state(shared)
}
