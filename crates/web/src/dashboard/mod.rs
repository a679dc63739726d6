//! The dashboard: pages that show people in a browser what the gateway does, and let them stop,
//! steer and answer, as buttons and commands in Discord do.
//!
//! Owns HTTP, HTML, links and sessions. What somebody may see and do is decided by Discord and the
//! operator's lists, behind [`House`], with every request; what is done goes to the
//! [`Dispatcher`], as from the other adapters. While nobody looks, nothing is made for anybody.
//! Pinned by `tests/gateway/dashboard/`.
//!
//! | room | owns |
//! |---|---|
//! | [`origin`] | the address under which people reach it |
//! | [`secret`], [`sessions`] | links that let somebody in once, and sessions |
//! | [`guard`] | what is checked of every request, and what every answer carries |
//! | [`once`] | forms that are sent twice in a moment, and done once |
//! | [`frame`], [`layout`] | what all pages share, for anybody and for somebody signed in |
//! | [`cards`] | running turns and waiting prompts as one person may see them |
//! | [`live`] | the same, sent while they change |
//! | [`entrance`], [`now`], [`channels`], [`costs`], [`components`], [`schedules`], [`health`] | the pages |
//! | [`transcripts`] | turns for people who look back, and read-only links to them |
//! | [`machine`] | a recorded turn, step by step |
//! | [`plot`] | drawings made of numbers |
//! | [`deeds`] | what the forms of running turns do |

mod cards;
mod channels;
mod components;
mod costs;
mod deeds;
mod entrance;
mod frame;
mod guard;
mod health;
mod layout;
mod live;
mod machine;
mod now;
mod once;
mod origin;
mod plot;
mod rendered;
mod schedules;
mod secret;
mod sessions;
mod transcripts;

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
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::origin::Origin;
use self::sessions::Sessions;
use self::transcripts::{list, sharing, turn};
use super::connection::{Caller, Door};
use super::status::Health;
use aetheel_dispatch::Dispatcher;
use aetheel_kit::machine::{Film, Machine, Reading};
use aetheel_model::access::{Standing, Visitor};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::vigil;
use aetheel_store::workspace::{Shares, SignIns};

/// Connections at the same time.
const CONNECTIONS: usize = 256;
/// Of these, pages that follow what changes.
const STREAMS: usize = 128;
/// Requests with a read-only link that are answered at the same time.
const OUTSIDERS: usize = 2;
/// Largest form, bytes.
const BODY: usize = 64 << 10;

/// Something that comes round by itself, without secrets.
#[derive(Clone, Debug)]
pub struct Schedule {
    /// The lane its events wait in.
    pub lane: Lane,
    /// Its rhythm and zone, in words.
    pub rhythm: String,
    /// When it comes next, in its own zone; none: never again.
    pub next: Option<String>,
    /// What its agent is asked.
    pub instruction: String,
}

/// What comes round, and what is asked around it, without secrets.
#[derive(Clone, Debug, Default)]
pub struct Schedules {
    /// Heartbeats and cron jobs.
    pub schedules: Vec<Schedule>,
    /// Hooks by name, with what is asked.
    pub hooks: Vec<(String, String)>,
    /// What is wrong with the files, one line each.
    pub warnings: Vec<String>,
}

/// What is known of a turn that ended.
#[derive(Clone, Debug)]
pub struct RecordedTurn {
    /// The lane it ran in.
    pub lane: Lane,
    /// The name of its backend.
    pub backend: String,
    /// Its recording, below the folder of recordings; none: there is none any more.
    pub recording: Option<String>,
}

/// Messages of a turn as Discord shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Drawn {
    /// The text of each, in order, without secrets.
    pub messages: Vec<String>,
    /// They are the answer; otherwise what there is of it so far.
    pub ended: bool,
}

/// What the dashboard asks of Discord and of the operator's files.
#[async_trait]
pub trait House: Send + Sync {
    /// What a user may in a channel now.
    ///
    /// # Errors
    /// Why that is not known, for the log; it counts as nothing.
    async fn standing(&self, user: u64, channel: u64) -> Result<Standing, String>;

    /// Says in a channel, or with none in the operator's output channel, what somebody did here, and
    /// returns the message's id.
    ///
    /// # Errors
    /// Why nobody there will see it.
    async fn report(&self, channel: Option<u64>, who: &str, did: &str) -> Result<u64, String>;

    /// Says in a channel what somebody wrote here for its agent, and returns the message's id.
    ///
    /// # Errors
    /// As [`House::report`].
    async fn repeat(&self, channel: u64, who: &str, words: &str) -> Result<u64, String>;

    /// What comes round by itself, as the files have it now.
    async fn schedules(&self) -> Schedules;

    /// The event of a schedule as if it came round now, and the channel of its answer; none: there
    /// is no such schedule.
    async fn now(&self, lane: &Lane) -> Option<(NewEvent, Option<u64>)>;

    /// The record of a turn that ended; none: there is none.
    async fn recorded(&self, turn: &str) -> Option<RecordedTurn>;

    /// Recorded turns, step by step.
    fn machine(&self) -> &Machine;

    /// The messages of a turn up to a step (index), as Discord would show them: as recorded, or as
    /// another component reads it.
    ///
    /// # Errors
    /// When the recording cannot be read any more.
    async fn messages(
        &self,
        turn: &str,
        film: &Arc<Film>,
        step: usize,
        other: Option<Arc<Reading>>,
    ) -> Result<Drawn, String>;
}

/// What all requests share.
struct Shared {
    dispatcher: Dispatcher,
    house: Arc<dyn House>,
    health: Arc<dyn Health>,
    sessions: Sessions,
    origin: Origin,
    /// The address of the listener: that of people on this machine, and of some proxies.
    local: Origin,
    streams: Arc<Semaphore>,
    turns: live::Turns,
    /// Whether people may make read-only links to turns.
    sharing: bool,
    /// Places of requests with such a link.
    outsiders: Semaphore,
    closing: CancellationToken,
}

/// A listener that does not answer yet.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    origin: Origin,
}

impl Bound {
    /// Takes an address; `origin` is the one under which people reach it, where that is another.
    ///
    /// # Errors
    /// What the system said.
    pub async fn take(address: SocketAddr, origin: Option<Origin>) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address, origin: origin.unwrap_or_else(|| Origin::of(address)) })
    }

    /// The address under which people reach it.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// Starts serving. Sessions are kept in `sign_ins`. `sharing`: people may make read-only links
    /// to turns.
    #[must_use]
    pub fn serve(
        self,
        dispatcher: Dispatcher,
        house: Arc<dyn House>,
        health: Arc<dyn Health>,
        (sign_ins, sharing): (SignIns, bool),
    ) -> Dashboard {
        let shared = Arc::new(Shared {
            dispatcher,
            house,
            health,
            sessions: Sessions::open(sign_ins, Instant::now(), Timestamp::now()),
            origin: self.origin,
            local: Origin::of(self.address),
            streams: Arc::new(Semaphore::new(STREAMS)),
            turns: live::Turns::default(),
            sharing,
            outsiders: Semaphore::new(OUTSIDERS),
            closing: CancellationToken::new(),
        });
        let service = router(Arc::clone(&shared)).into_make_service_with_connect_info::<Caller>();
        let door = Door::new(self.listener, CONNECTIONS);
        let server = vigil::task("dashboard", async move {
            if let Err(error) = axum::serve(door, service).await {
                tracing::error!(%error, "the dashboard is gone; start again");
            }
        });
        tracing::info!(address = %self.address, url = %shared.origin, "the dashboard is open");
        Dashboard { shared, server }
    }
}

/// A dashboard that answers. Dropping it closes it.
pub struct Dashboard {
    shared: Arc<Shared>,
    server: JoinHandle<()>,
}

impl Dashboard {
    /// Lets people in.
    #[must_use]
    pub fn entry(&self) -> Entry {
        let Shared { sessions, origin, dispatcher, .. } = &*self.shared;
        Entry {
            sessions: sessions.clone(),
            origin: origin.clone(),
            shares: dispatcher.shares().clone(),
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.shared.closing.cancel();
        self.server.abort();
    }
}

/// Makes links and ends sessions. Cheap to clone.
#[derive(Clone)]
pub struct Entry {
    sessions: Sessions,
    origin: Origin,
    shares: Shares,
}

impl Entry {
    /// Makes a link that lets somebody in once, within five minutes.
    ///
    /// # Errors
    /// The wait until that user may have another one.
    pub fn link(&self, visitor: Visitor) -> Result<String, Duration> {
        let secret = self.sessions.link(visitor, Instant::now())?;
        Ok(format!("{}/enter/{secret}", self.origin))
    }

    /// Ends all links and sessions of a user, and all read-only links that they made. Returns the
    /// number of sessions ended.
    #[must_use]
    pub fn revoke(&self, user: u64) -> usize {
        self.shares.end_of(user, Timestamp::now());
        self.sessions.revoke(user)
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(now::page))
        .route("/live", get(live::follow))
        .route("/live/once", get(live::once))
        .route("/turns/stop", post(deeds::stop))
        .route("/turns/steer", post(deeds::steer))
        .route("/turns", get(list::page))
        .route("/turns/{turn}", get(turn::page))
        .route("/turns/{turn}/part/{part}", get(turn::part))
        .route("/turns/{turn}/share", post(sharing::share))
        .route("/turns/{turn}/unshare", post(sharing::unshare))
        .route("/shared/{key}", get(sharing::page))
        .route("/shared/{key}/part/{part}", get(sharing::part))
        .route("/turns/{turn}/machine", get(machine::page))
        .route("/questions/answer", post(deeds::answer))
        .route("/channels", get(channels::list))
        .route("/channels/{channel}", get(channels::one))
        .route("/channels/choose", post(channels::choose))
        .route("/channels/reset", post(channels::reset))
        .route("/costs", get(costs::page))
        .route("/costs.csv", get(costs::csv))
        .route("/components", get(components::page))
        .route("/components/roll-back", post(components::roll_back))
        .route("/schedules", get(schedules::page))
        .route("/schedules/run", post(schedules::run))
        .route("/health", get(health::page))
        .route("/enter/{link}", get(entrance::door))
        .route("/enter", post(entrance::enter))
        .route("/leave", post(entrance::leave))
        .route("/style.css", get(frame::style))
        .route("/script.js", get(frame::script))
        .route("/icon.svg", get(frame::icon))
        .fallback(frame::nowhere)
        .method_not_allowed_fallback(frame::form_only)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(from_fn_with_state(Arc::clone(&shared), once::once))
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}
