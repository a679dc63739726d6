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
//! | [`frame`], [`layout`] | what all pages share, for anybody and for somebody signed in |
//! | [`cards`] | running turns and waiting prompts as one person may see them |
//! | [`live`] | the same, sent while they change |
//! | [`entrance`], [`now`], [`channels`], [`costs`], [`components`], [`schedules`], [`health`] | the pages |
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
mod now;
mod origin;
mod plot;
mod schedules;
mod secret;
mod sessions;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub use self::origin::Origin;
use self::sessions::Sessions;
use super::connection::{Caller, Door};
use super::status::Health;
use crate::access::{Standing, Visitor};
use crate::dispatch::Dispatcher;
use crate::event::{Lane, NewEvent};
use crate::vigil;

/// Connections at the same time.
const CONNECTIONS: usize = 256;
/// Of these, pages that follow what changes.
const STREAMS: usize = 128;
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

    /// Begins to answer.
    #[must_use]
    pub fn serve(
        self,
        dispatcher: Dispatcher,
        house: Arc<dyn House>,
        health: Arc<dyn Health>,
    ) -> Dashboard {
        let shared = Arc::new(Shared {
            dispatcher,
            house,
            health,
            sessions: Sessions::default(),
            origin: self.origin,
            local: Origin::of(self.address),
            streams: Arc::new(Semaphore::new(STREAMS)),
            turns: live::Turns::default(),
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
        Entry { sessions: self.shared.sessions.clone(), origin: self.shared.origin.clone() }
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

    /// Ends all links and sessions of a user; returns how many sessions there were.
    #[must_use]
    pub fn revoke(&self, user: u64) -> usize {
        self.sessions.revoke(user)
    }
}

fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(now::page))
        .route("/live", get(live::follow))
        .route("/turns/stop", post(deeds::stop))
        .route("/turns/steer", post(deeds::steer))
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
        .layer(DefaultBodyLimit::max(BODY))
        .layer(from_fn_with_state(Arc::clone(&shared), guard::guard))
        .with_state(shared)
}
