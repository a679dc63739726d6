//! The connection to Discord's gateway: serenity on a thread of its own, and what watches over it.
//!
//! serenity 0.12.5 can stall for more than a minute after an outage, spinning on its thread, and
//! its shutdown can hang or do nothing while it reconnects. So each login has its own thread and
//! runtime that can be given up at any moment, and a watch on the caller's runtime replaces a login
//! that was not connected for a while. Short interruptions are serenity's: it resumes the session
//! and nothing is lost. After every new login the reception catches up.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use secrecy::ExposeSecret;
use serenity::all::{GatewayIntents, ShardId};
use serenity::client::ClientBuilder;
use serenity::gateway::{ConnectionStage, GatewayError};
use serenity::http::HttpBuilder;
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{debug, error, info, warn};

use super::handler::{Handler, Takes};
use super::heard::Heard;
use super::permit::{Lost, Permit};
use super::reader::{Parts, Reader};
use super::receipt::Receipt;
use super::rest::{Timeouts, http_client};
use super::sharing::{Logins, Out};
use super::{Inner, StartError};
use crate::figures;

/// Between two looks at serenity's connection: it says nothing when it stalls.
const WATCH_INTERVAL: Duration = Duration::from_millis(250);
/// A connection that was not seen for so long is down.
pub(super) const CONNECTED_GRACE: Duration = Duration::from_secs(2);
/// For serenity to close the connection.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(3);
/// For its thread to end after that.
const THREAD_END_TIMEOUT: Duration = Duration::from_secs(4);
/// The longest pause between two logins.
const LOGIN_PAUSE_LIMIT: Duration = Duration::from_secs(60);
/// Discord resets the token of a bot that logs in more than 1,000 times a day; below this many left
/// we slow down.
const FEW_LOGINS: u64 = 50;
/// A program that dies and is started again and again logs in at most so often in so much time.
const LOGINS_MOST: usize = 20;
const LOGIN_SPAN: Duration = Duration::from_secs(600);

/// How far the connection is.
#[derive(Clone, Debug)]
pub(super) enum Phase {
    Starting,
    /// Logged in at least once.
    Ready,
    /// It will not work without a person.
    Failed(StartError),
}

/// One login on its thread.
struct Login {
    /// When it was last seen connected; at first, when it began.
    connected: Arc<Mutex<Instant>>,
    stop: Option<oneshot::Sender<()>>,
    ended: oneshot::Receiver<End>,
}

/// Why a login ended by itself.
enum End {
    Refused(StartError),
    Other(String),
}

/// Who takes what logins hear.
#[derive(Clone)]
pub(super) enum Ear {
    /// This node, in the login's own runtime.
    Here(Parts),
    /// Whoever has the channel.
    Nodes(mpsc::UnboundedSender<Heard>),
}

impl Ear {
    /// Opens it in the runtime of a login.
    fn open(self) -> Result<Takes, reqwest::Error> {
        Ok(match self {
            Self::Here(parts) => {
                let reader = Reader::new(parts, None)?;
                Box::new(move |heard| reader.read(&heard, Receipt::none()))
            }
            Self::Nodes(out) => {
                let out = Out::new(out);
                Box::new(move |heard| out.send(heard))
            }
        })
    }
}

/// Keeps the bot logged in while the permit says so.
pub(super) async fn keep_connected(
    inner: Arc<Inner>,
    ear: Ear,
    logins: Arc<dyn Logins>,
    phase: Arc<watch::Sender<Phase>>,
    mut permit: Permit,
) {
    let current = Arc::new(AtomicU64::new(0));
    let mut pause = Duration::from_secs(1);
    loop {
        inner.logs_in.store(permit.is_given(), Ordering::SeqCst);
        tokio::select! {
            given = permit.given() => if !given { return },
            () = inner.api.rest.token_refused() => return fail(&phase, StartError::TokenRefused),
        }
        inner.logs_in.store(true, Ordering::SeqCst);
        let url = tokio::select! {
            lost = permit.lost() => if lost == Lost::Stopped { return } else { continue },
            url = gateway_url(&inner) => url,
            () = inner.api.rest.token_refused() => Err(StartError::TokenRefused),
        };
        let url = match url {
            Ok(url) => url,
            Err(error) => return fail(&phase, error),
        };
        let now_ms = jiff::Timestamp::now().as_millisecond();
        let counted = async {
            let wait = too_soon(&logins.logins().await, now_ms);
            match wait {
                Some(wait) => {
                    warn!(
                        seconds = wait.as_secs(),
                        "many discord logins lately, perhaps by restarts in a row; waiting before the next"
                    );
                    tokio::time::sleep(wait).await;
                }
                None => logins.logging_in(now_ms).await,
            }
            wait.is_none()
        };
        let counted = tokio::select! {
            lost = permit.lost() => if lost == Lost::Stopped { return } else { continue },
            counted = counted => counted,
        };
        if !counted {
            continue;
        }
        let generation = current.fetch_add(1, Ordering::SeqCst) + 1;
        let began = Instant::now();
        figures::discord_login();
        let login = Login::begin(&inner, ear.clone(), &phase, url, generation, &current);
        match watch_over(login, &inner, &mut permit).await {
            Verdict::Lost(Lost::Stopped) => return,
            Verdict::Lost(Lost::Unseated) => {
                // Nobody listens to one that does not end.
                current.fetch_add(1, Ordering::SeqCst);
                continue;
            }
            Verdict::Fatal(error) => return fail(&phase, error),
            Verdict::Rebuild => {}
        }
        if began.elapsed() > LOGIN_PAUSE_LIMIT * 2 {
            pause = Duration::from_secs(1);
        }
        tokio::select! {
            lost = permit.lost() => if lost == Lost::Stopped { return },
            () = tokio::time::sleep(pause) => {}
        }
        pause = (pause * 2).min(LOGIN_PAUSE_LIMIT);
    }
}

/// How long to wait because of the logins so far; none: not at all.
fn too_soon(logins: &[i64], now_ms: i64) -> Option<Duration> {
    let span = LOGIN_SPAN.as_millis() as i64;
    // Clocks are set back, too: a login of the future counts as one of now.
    let mut lately: Vec<i64> =
        logins.iter().map(|at| (*at).min(now_ms)).filter(|at| *at > now_ms - span).collect();
    lately.sort_unstable();
    let first_that_counts = lately.len().checked_sub(LOGINS_MOST)?;
    let wait = lately[first_that_counts] + span - now_ms;
    Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
}

fn fail(phase: &watch::Sender<Phase>, error: StartError) {
    error!(%error, "discord refused the bot");
    phase.send_replace(Phase::Failed(error));
}

/// Asks for the gateway's address until there is one, minding how many logins are left today.
async fn gateway_url(inner: &Inner) -> Result<String, StartError> {
    let timeouts = Timeouts::new(Duration::from_secs(10), Duration::from_secs(30));
    loop {
        match inner.api.gateway(timeouts).await {
            Ok(gateway) => {
                let limit = gateway.session_start_limit;
                figures::discord_logins_left(limit.remaining);
                if limit.remaining > FEW_LOGINS {
                    return Ok(gateway.url);
                }
                let reset = Duration::from_millis(limit.reset_after);
                if limit.remaining > 0 {
                    warn!(
                        left = limit.remaining,
                        "few discord logins are left today; waiting five minutes before the next"
                    );
                    tokio::time::sleep(reset.min(Duration::from_secs(300))).await;
                    return Ok(gateway.url);
                }
                error!(
                    minutes = reset.as_secs() / 60,
                    "no discord logins are left today; waiting until discord allows more"
                );
                tokio::time::sleep(reset).await;
            }
            Err(super::rest::RestError::TokenRefused) => return Err(StartError::TokenRefused),
            Err(error) => {
                warn!(%error, "cannot ask discord for its gateway; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

enum Verdict {
    Lost(Lost),
    Fatal(StartError),
    Rebuild,
}

async fn watch_over(mut login: Login, inner: &Inner, permit: &mut Permit) -> Verdict {
    let mut was_up = false;
    loop {
        tokio::select! {
            lost = permit.lost() => {
                login.say_goodbye().await;
                return Verdict::Lost(lost);
            }
            () = inner.api.rest.token_refused() => {
                login.give_up();
                return Verdict::Fatal(StartError::TokenRefused);
            }
            end = &mut login.ended => return match end {
                Ok(End::Refused(error)) => Verdict::Fatal(error),
                Ok(End::Other(why)) => {
                    warn!(error = %why, "the discord connection ended; logging in again");
                    Verdict::Rebuild
                }
                Err(_) => Verdict::Rebuild,
            },
            () = tokio::time::sleep(WATCH_INTERVAL) => {}
        }
        let silent = login.connected.lock().elapsed();
        if silent < CONNECTED_GRACE {
            was_up = true;
        } else if was_up {
            was_up = false;
            warn!("discord connection lost; reconnecting");
        }
        if silent > inner.options.windows.reconnect {
            warn!(
                seconds = silent.as_secs(),
                "discord connection did not come back; logging in anew"
            );
            login.give_up();
            return Verdict::Rebuild;
        }
    }
}

impl Login {
    fn begin(
        inner: &Arc<Inner>,
        ear: Ear,
        phase: &Arc<watch::Sender<Phase>>,
        url: String,
        generation: u64,
        current: &Arc<AtomicU64>,
    ) -> Self {
        let connected = Arc::new(Mutex::new(Instant::now()));
        let (stop, stopped) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let (seen, inner) = (Arc::clone(&connected), Arc::clone(inner));
        let (phase, current) = (Arc::clone(phase), Arc::clone(current));
        let run = move || {
            let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => {
                    let _ = end.send(End::Other(error.to_string()));
                    return;
                }
            };
            let result = runtime.block_on(async {
                let takes = ear.open().map_err(|error| End::Other(error.to_string()))?;
                let handler = Handler {
                    generation,
                    current,
                    identity: Arc::clone(&inner.identity),
                    takes,
                    phase,
                    warned: Mutex::new(HashSet::new()),
                };
                connect(&inner, handler, url, seen, stopped).await
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
        Self { connected, stop: Some(stop), ended }
    }

    /// Lets it go, whatever state it is in: it ends as soon as its thread notices, and nobody
    /// listens to it any more.
    fn give_up(mut self) {
        self.stop.take();
    }

    async fn say_goodbye(mut self) {
        self.stop.take();
        if tokio::time::timeout(THREAD_END_TIMEOUT, &mut self.ended).await.is_err() {
            debug!("the discord thread did not end in time; leaving it behind");
        }
    }
}

/// Runs serenity until it ends or `stopped` resolves.
async fn connect(
    inner: &Inner,
    handler: Handler,
    url: String,
    connected: Arc<Mutex<Instant>>,
    stopped: oneshot::Receiver<()>,
) -> Result<(), End> {
    let other = |error: &dyn std::error::Error| End::Other(error.to_string());
    // Without its own limiter serenity honours the base address; it sends nothing but a question
    // for the gateway.
    let http = HttpBuilder::new(inner.options.token.expose_secret())
        .proxy(inner.options.api_base.as_str())
        .ratelimiter_disabled(true)
        .client(http_client(Duration::from_secs(10)).map_err(|error| other(&error))?)
        .build();
    let mut cache = serenity::cache::Settings::default();
    cache.max_messages = 0;
    cache.cache_users = false;
    let mut intents =
        GatewayIntents::GUILDS | GatewayIntents::GUILD_MESSAGES | GatewayIntents::DIRECT_MESSAGES;
    if inner.identity.reads {
        intents |= GatewayIntents::MESSAGE_CONTENT;
    }
    let building = ClientBuilder::new_with_http(http, intents)
        .cache_settings(cache)
        .raw_event_handler(handler);
    let mut client = building.await.map_err(|error| other(&error))?;
    *client.ws_url.lock().await = url;
    let shards = Arc::clone(&client.shard_manager);
    let (watched, seen) = (Arc::clone(&shards), Arc::clone(&inner.connected));
    let watching = tokio::spawn(async move {
        loop {
            if watched
                .runners
                .lock()
                .await
                .get(&ShardId(0))
                .is_some_and(|shard| shard.stage == ConnectionStage::Connected)
            {
                let now = Instant::now();
                *connected.lock() = now;
                *seen.lock() = Some(now);
            }
            tokio::time::sleep(WATCH_INTERVAL).await;
        }
    });
    let ended = tokio::select! {
        ended = client.start() => Some(ended),
        _ = stopped => None,
    };
    watching.abort();
    match ended {
        None => {
            let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, shards.shutdown_all()).await;
            info!("disconnected from discord");
            Ok(())
        }
        Some(Err(serenity::Error::Gateway(GatewayError::InvalidAuthentication))) => {
            Err(End::Refused(StartError::TokenRefused))
        }
        Some(Err(serenity::Error::Gateway(GatewayError::InvalidGatewayIntents))) => {
            Err(End::Refused(StartError::Intents(4013)))
        }
        Some(Err(serenity::Error::Gateway(GatewayError::DisallowedGatewayIntents))) => {
            Err(End::Refused(StartError::Intents(4014)))
        }
        Some(Err(error)) => Err(other(&error)),
        Some(Ok(())) => Err(End::Other("serenity stopped by itself".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twentieth_login_in_ten_minutes_is_the_last_until_the_first_is_ten_minutes_old() {
        let now = 1_800_000_000_000;
        let logins =
            |count: i64| (0..count).map(|number| now - number * 1_000).collect::<Vec<i64>>();
        assert_eq!(too_soon(&[], now), None);
        assert_eq!(too_soon(&logins(19), now), None);
        assert_eq!(too_soon(&logins(20), now), Some(Duration::from_secs(600 - 19)));
        assert_eq!(too_soon(&logins(30), now), Some(Duration::from_secs(600 - 19)));
        assert_eq!(too_soon(&logins(20), now + 600_000), None);
        assert!(
            too_soon(&logins(20), now - 60_000).is_some_and(|wait| wait <= LOGIN_SPAN),
            "a clock set back does not lock the bot out"
        );
    }
}
