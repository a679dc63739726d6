//! One login to Discord's gateway: a shard, with serenity on a thread of its own.
//!
//! serenity 0.12.5 can stall for more than a minute after an outage, spinning on its thread, and
//! its shutdown can do nothing while it reconnects, or spin forever if the stream has ended. So each
//! login has its own thread and runtime, which can be abandoned at any moment, and it is closed by
//! the message [`ShardRunnerMessage::Close`]. A runner that spins still reads its messages, and it
//! ends if it cannot send the close frame. serenity's `ShardRunner` is used here without
//! serenity's client. If a session is lost, the client would log in by itself, regardless of other
//! shards. Here the login ends instead, and `gateway` decides when the next one begins.

use std::collections::HashSet;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use serenity::all::{Cache, GatewayIntents, ShardId, ShardInfo};
use serenity::gateway::{
    ConnectionStage, GatewayError, Shard, ShardManager, ShardManagerOptions, ShardMessenger,
    ShardRunner, ShardRunnerInfo, ShardRunnerMessage, ShardRunnerOptions,
};
use serenity::http::HttpBuilder;
use serenity::prelude::{RawEventHandler, RwLock, TypeMap};
use tokio::sync::{oneshot, watch};
use tracing::{debug, info, warn};

use super::ConnectionContext;
use super::gateway_sink::GatewaySink;
use super::handler::Handler;
use super::phase::ConnectionPhase;
use crate::rest::http_client;
use crate::setup::start_error::StartError;

/// Interval of checks of serenity's connection, which reports nothing when it stalls.
pub(crate) const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// Time for serenity to close the connection.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// Interval of checks whether serenity has closed the connection.
const CLOSE_INTERVAL: Duration = Duration::from_millis(20);
/// Close code of a session that is over (RFC 6455, section 7.4.1).
const NORMAL_CLOSURE: u16 = 1000;
/// Time for serenity's thread to end after that.
const THREAD_END_TIMEOUT: Duration = Duration::from_secs(4);

/// One login on its thread.
pub(crate) struct Login {
    status: Arc<LoginStatus>,
    stop: Option<oneshot::Sender<()>>,
    /// Resolves when the login ends by itself.
    pub(crate) ended: oneshot::Receiver<LoginEnd>,
}

struct LoginStatus {
    /// When the login was last connected. Initially, the time of its start.
    connected: Mutex<Instant>,
    identified: AtomicBool,
    /// Reaches serenity's runner, once there is one.
    runner: Mutex<Option<ShardMessenger>>,
}

pub(crate) enum LoginEnd {
    Refused(StartError),
    /// An error that another login may resolve.
    Other(String),
}

pub(crate) struct LoginParams {
    pub(crate) shard: u32,
    pub(crate) count: u32,
    /// The generation of this login, and the current one of the shard.
    pub(crate) generation: (u64, Arc<AtomicU64>),
    pub(crate) phase: Arc<watch::Sender<ConnectionPhase>>,
}

impl Login {
    pub(crate) fn begin(
        inner: &Arc<ConnectionContext>,
        ear: Arc<dyn GatewaySink>,
        who: LoginParams,
        url: String,
    ) -> Self {
        let status = Arc::new(LoginStatus {
            connected: Mutex::new(Instant::now()),
            identified: AtomicBool::new(false),
            runner: Mutex::new(None),
        });
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (watched, inner) = (Arc::clone(&status), Arc::clone(inner));
        let run = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = end.send(LoginEnd::Other(error.to_string()));
                    return;
                }
            };
            let result = runtime.block_on(async {
                let takes = ear.open().map_err(|error| LoginEnd::Other(error.to_string()))?;
                let (generation, current) = who.generation;
                let handler = Handler {
                    generation,
                    current,
                    identity: Arc::clone(&inner.identity),
                    on_event: takes,
                    phase: who.phase,
                    warned: Mutex::new(HashSet::new()),
                };
                connect(&inner, handler, who.shard, who.count, url, &watched, stopped).await
            });
            runtime.shutdown_background();
            if let Err(why) = result {
                let _ = end.send(why);
            }
        };
        if let Err(error) =
            std::thread::Builder::new().name("discord-gateway".to_owned()).spawn(run)
        {
            warn!(%error, "cannot start the discord thread");
        }
        Self { status, stop: Some(stop), ended }
    }

    /// Returns how long ago the login was last connected.
    pub(crate) fn since_connected(&self) -> Duration {
        self.status.connected.lock().elapsed()
    }

    pub(crate) fn is_identified(&self) -> bool {
        self.status.identified.load(Ordering::SeqCst)
    }

    /// Abandons the login in any state. It ends as soon as its thread notices, and its events are
    /// ignored.
    pub(crate) fn abandon(mut self) {
        self.close();
    }

    pub(crate) async fn shut_down(mut self) {
        self.close();
        if tokio::time::timeout(THREAD_END_TIMEOUT, &mut self.ended).await.is_err() {
            debug!("the discord thread did not end in time; abandoning it");
        }
    }

    fn close(&mut self) {
        self.stop.take();
        if let Some(runner) = self.status.runner.lock().take() {
            runner.send_to_shard(ShardRunnerMessage::Close(NORMAL_CLOSURE, None));
        }
    }
}

/// Runs serenity until the session is over or `stopped` resolves.
async fn connect(
    inner: &Arc<ConnectionContext>,
    handler: Handler,
    shard: u32,
    count: u32,
    url: String,
    seen: &Arc<LoginStatus>,
    mut stopped: oneshot::Receiver<()>,
) -> Result<(), LoginEnd> {
    let other = |error: &dyn std::error::Error| LoginEnd::Other(error.to_string());
    // serenity uses the base address only without its own limiter. It sends no requests here.
    let http = HttpBuilder::new(inner.options.token.expose_secret())
        .proxy(inner.options.settings.api_base.as_str())
        .ratelimiter_disabled(true)
        .client(http_client(Duration::from_secs(10)).map_err(|error| other(&error))?)
        .build();
    let http = Arc::new(http);
    let mut settings = serenity::cache::Settings::default();
    settings.max_messages = 0;
    settings.cache_users = false;
    let cache = Arc::new(Cache::new_with_settings(settings));
    let mut intents =
        GatewayIntents::GUILDS | GatewayIntents::GUILD_MESSAGES | GatewayIntents::DIRECT_MESSAGES;
    if inner.identity.reads_all {
        intents |= GatewayIntents::MESSAGE_CONTENT;
    }
    let info: ShardInfo =
        serde_json::from_value(serde_json::json!([shard, count])).expect("a shard is two numbers");
    let (id, url) = (ShardId(shard), Arc::new(tokio::sync::Mutex::new(url)));
    let address = Arc::clone(&url);
    let handlers: Vec<Arc<dyn RawEventHandler>> = vec![Arc::new(handler)];
    let data = Arc::new(RwLock::new(TypeMap::new()));
    let (manager, _fates) = ShardManager::new(ShardManagerOptions {
        data: Arc::clone(&data),
        event_handlers: Vec::new(),
        raw_event_handlers: Vec::new(),
        shard_index: shard,
        shard_init: 1,
        shard_total: count,
        ws_url: Arc::clone(&url),
        cache: Arc::clone(&cache),
        http: Arc::clone(&http),
        intents,
        presence: None,
    });
    let opened = tokio::select! {
        opened = Shard::new(url, http.token(), info, intents, None) => opened,
        _ = &mut stopped => return Ok(()),
    };
    let mut runner = ShardRunner::new(ShardRunnerOptions {
        data,
        event_handlers: Vec::new(),
        raw_event_handlers: handlers,
        manager: Arc::clone(&manager),
        shard: opened.map_err(|error| other(&error))?,
        cache,
        http,
    });
    let messenger = ShardMessenger::new(&runner);
    *seen.runner.lock() = Some(messenger.clone());
    let shown =
        ShardRunnerInfo { latency: None, runner_tx: messenger, stage: ConnectionStage::Handshake };
    manager.runners.lock().await.insert(id, shown);
    let mut running = pin!(runner.run());
    let mut looks = tokio::time::interval(WATCH_INTERVAL);
    let ended = loop {
        tokio::select! {
            ended = &mut running => break ended,
            _ = &mut stopped => {
                // The runner has a message to close the connection, and would open another one.
                address.lock().await.clear();
                let left = async {
                    while stage(&manager, id).await == Some(ConnectionStage::Connected) {
                        tokio::time::sleep(CLOSE_INTERVAL).await;
                    }
                };
                let closed = async { tokio::select! { _ = running => {}, () = left => {} } };
                let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, closed).await;
                info!("disconnected from discord");
                return Ok(());
            }
            _ = looks.tick() => {
                match stage(&manager, id).await {
                    Some(ConnectionStage::Connected) => {
                        seen.identified.store(true, Ordering::SeqCst);
                        *seen.connected.lock() = Instant::now();
                        inner.shards.mark_connected(shard);
                    }
                    Some(ConnectionStage::Identifying) => {
                        seen.identified.store(true, Ordering::SeqCst);
                    }
                    _ => {}
                }
            }
        }
    };
    Err(match ended {
        Err(serenity::Error::Gateway(GatewayError::InvalidAuthentication)) => {
            LoginEnd::Refused(StartError::TokenRefused)
        }
        Err(serenity::Error::Gateway(GatewayError::InvalidGatewayIntents)) => {
            LoginEnd::Refused(StartError::Intents(4013))
        }
        Err(serenity::Error::Gateway(GatewayError::DisallowedGatewayIntents)) => {
            LoginEnd::Refused(StartError::Intents(4014))
        }
        Err(error) => other(&error),
        Ok(()) => LoginEnd::Other("the session is over".to_owned()),
    })
}

/// Returns the last stage of its connection that serenity's runner reported.
async fn stage(manager: &ShardManager, id: ShardId) -> Option<ConnectionStage> {
    manager.runners.lock().await.get(&id).map(|runner| runner.stage)
}
