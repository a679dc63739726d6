//! The connection to Discord's gateway: a login for each shard, and its supervision.
//!
//! Each shard has a [`ShardKeeper`], which runs on the caller's runtime and replaces a login that
//! was not connected for a while. serenity handles short interruptions: it resumes the session, and
//! no event is lost. After every new login, the module `inbound` catches up with missed messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::ConnectionContext;
use super::gateway_sink::GatewaySink;
use super::login::{Login, LoginEnd, LoginParams, WATCH_INTERVAL};
use super::permit::{Permit, PermitLoss};
use super::phase::ConnectionPhase;
use super::shards::{CONNECTED_GRACE, LoginPace, LoginSlot};
use crate::api::endpoints::Endpoint;
use crate::rest::{RestError, Timeouts};
use crate::setup::start_error::StartError;
use crate::wire::GatewayBot;
use aetheel_dispatch::LoginHistory;
use aetheel_runtime::figures;

/// The longest pause between two logins.
const LOGIN_PAUSE_LIMIT: Duration = Duration::from_secs(60);
/// The number of remaining logins below which the bot logs in less often. Discord resets the token
/// of a bot that logs in more than 1,000 times a day.
const FEW_LOGINS: u64 = 50;
/// Limits for a program that crashes and is restarted repeatedly: single logins, and rounds of
/// logins of all shards, within [`LOGIN_SPAN`].
const MAX_LOGINS: usize = 20;
const MAX_ROUNDS: usize = 5;
const LOGIN_SPAN: Duration = Duration::from_secs(600);

/// Keeps all shards of the bot logged in while the permit is given.
pub(crate) async fn keep_connected(
    inner: Arc<ConnectionContext>,
    ear: Arc<dyn GatewaySink>,
    logins: Arc<dyn LoginHistory>,
    phase: Arc<watch::Sender<ConnectionPhase>>,
    mut permit: Permit,
) {
    let pace = Arc::new(LoginPace::new(inner.options.time_limits.identify));
    loop {
        inner.logs_in.store(permit.is_given(), Ordering::SeqCst);
        inner.shards.reset(0);
        tokio::select! {
            given = permit.wait_until_given() => if !given { return },
            () = inner.api.rest.token_refused() => return fail(&phase, StartError::TokenRefused),
        }
        inner.logs_in.store(true, Ordering::SeqCst);
        inner.shards.reset(inner.options.settings.shards.unwrap_or(1));
        let gateway = tokio::select! {
            lost = permit.wait_until_lost() => if lost == PermitLoss::Stopped { return } else { continue },
            gateway = gateway(&inner, true) => gateway,
            () = inner.api.rest.token_refused() => Err(StartError::TokenRefused),
        };
        let gateway = match gateway {
            Ok(gateway) => gateway,
            Err(error) => return fail(&phase, error),
        };
        let count = inner.options.settings.shards.unwrap_or(gateway.shards);
        if count < gateway.shards {
            warn!(
                shards = count,
                recommended = gateway.shards,
                "discord recommends more shards than `SHARDS` says, and refuses one with more than 2,500 servers"
            );
        }
        inner.shards.reset(count);
        let (leave, leaving) = watch::channel(false);
        let mut keepers = JoinSet::new();
        for shard in 0..count {
            let keeper = ShardKeeper {
                inner: Arc::clone(&inner),
                ear: Arc::clone(&ear),
                logins: Arc::clone(&logins),
                phase: Arc::clone(&phase),
                pace: Arc::clone(&pace),
                shard,
                count,
                max_concurrency: gateway.session_start_limit.max_concurrency.max(1),
                current: Arc::default(),
            };
            keepers.spawn(keeper.keep(gateway.url.clone(), leaving.clone()));
        }
        let ended = tokio::select! {
            lost = permit.wait_until_lost() => Err(lost),
            Some(over) = keepers.join_next() => Ok(over),
        };
        leave.send_replace(true);
        while keepers.join_next().await.is_some() {}
        match ended {
            Err(PermitLoss::Stopped) => return,
            Ok(Ok(KeeperEnd::Refused(error))) => return fail(&phase, error),
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(PermitLoss::NotLeader) | Ok(_) => {}
        }
    }
}

struct ShardKeeper {
    inner: Arc<ConnectionContext>,
    ear: Arc<dyn GatewaySink>,
    logins: Arc<dyn LoginHistory>,
    phase: Arc<watch::Sender<ConnectionPhase>>,
    pace: Arc<LoginPace>,
    shard: u32,
    count: u32,
    /// How many shards may log in at the same time.
    max_concurrency: u32,
    /// The generation of the current login. Events of older logins are ignored.
    current: Arc<AtomicU64>,
}

/// The reason why a shard is no longer kept logged in.
enum KeeperEnd {
    /// All shards log out.
    Left,
    /// Discord recommends more shards, so all shards have to log in again.
    Recount,
    Refused(StartError),
}

impl ShardKeeper {
    /// Keeps the shard logged in until all shards should log out. `url` is the gateway's address
    /// for the first login; `leaving` becomes true when all shards should log out.
    async fn keep(self, url: String, mut leaving: watch::Receiver<bool>) -> KeeperEnd {
        let (mut url, mut pause) = (Some(url), Duration::from_secs(1));
        loop {
            let may = tokio::select! {
                () = wait_to_leave(&mut leaving) => return KeeperEnd::Left,
                may = self.may_log_in(url.take()) => may,
                () = self.inner.api.rest.token_refused() => {
                    Err(KeeperEnd::Refused(StartError::TokenRefused))
                }
            };
            let (slot, address) = match may {
                Ok(may) => may,
                Err(over) => return over,
            };
            let began = Instant::now();
            figures::discord_login();
            let generation = self.current.fetch_add(1, Ordering::SeqCst) + 1;
            let who = LoginParams {
                shard: self.shard,
                count: self.count,
                generation: (generation, Arc::clone(&self.current)),
                phase: Arc::clone(&self.phase),
            };
            let login = Login::begin(&self.inner, Arc::clone(&self.ear), who, address);
            if let Some(over) = self.watch_over(login, slot, &mut leaving).await {
                // Events of a login that does not end are ignored.
                self.current.fetch_add(1, Ordering::SeqCst);
                return over;
            }
            if began.elapsed() > LOGIN_PAUSE_LIMIT * 2 {
                pause = Duration::from_secs(1);
            }
            tokio::select! {
                () = wait_to_leave(&mut leaving) => return KeeperEnd::Left,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LOGIN_PAUSE_LIMIT);
        }
    }

    /// Waits until the shard may log in, and records the login. Returns the permission, and the
    /// gateway's address: the known one, or else the one that Discord returns.
    async fn may_log_in(&self, known: Option<String>) -> Result<(LoginSlot, String), KeeperEnd> {
        let ShardKeeper { inner, logins, count, .. } = self;
        let slot = self.pace.slot(self.shard % self.max_concurrency).await;
        let url = match known {
            Some(url) => url,
            None => {
                let gateway = gateway(inner, false).await.map_err(KeeperEnd::Refused)?;
                if inner.options.settings.shards.is_none() && gateway.shards > *count {
                    info!(
                        shards = gateway.shards,
                        "discord recommends more shards; logging in again"
                    );
                    return Err(KeeperEnd::Recount);
                }
                gateway.url
            }
        };
        loop {
            let now_ms = jiff::Timestamp::now().as_millisecond();
            let Some(wait) = login_wait(&logins.logins().await, *count as usize, now_ms) else {
                logins.record_login(now_ms).await;
                return Ok((slot, url));
            };
            warn!(
                seconds = wait.as_secs(),
                "many recent discord logins, perhaps because of repeated restarts; waiting before the next"
            );
            tokio::time::sleep(wait).await;
        }
    }

    /// Watches a login until it ends. Returns `None` if another login should follow.
    async fn watch_over(
        &self,
        mut login: Login,
        slot: LoginSlot,
        leaving: &mut watch::Receiver<bool>,
    ) -> Option<KeeperEnd> {
        let (mut was_up, mut slot) = (false, Some(slot));
        // The number is not logged if there is only one shard.
        let shard = (self.count > 1).then_some(self.shard);
        loop {
            tokio::select! {
                () = wait_to_leave(leaving) => {
                    login.shut_down().await;
                    return Some(KeeperEnd::Left);
                }
                () = self.inner.api.rest.token_refused() => {
                    login.abandon();
                    return Some(KeeperEnd::Refused(StartError::TokenRefused));
                }
                end = &mut login.ended => return match end {
                    Ok(LoginEnd::Refused(error)) => Some(KeeperEnd::Refused(error)),
                    Ok(LoginEnd::Other(why)) => {
                        warn!(shard, error = %why, "the discord connection ended; logging in again");
                        None
                    }
                    Err(_) => None,
                },
                () = tokio::time::sleep(WATCH_INTERVAL) => {}
            }
            if login.is_identified() {
                slot.take();
            }
            let silent = login.since_connected();
            if silent < CONNECTED_GRACE {
                was_up = true;
            } else if was_up {
                was_up = false;
                warn!(shard, "discord connection lost; reconnecting");
            }
            if silent > self.inner.options.time_limits.reconnect {
                warn!(
                    shard,
                    seconds = silent.as_secs(),
                    "discord connection did not come back; logging in again"
                );
                login.abandon();
                return None;
            }
        }
    }
}

/// Waits until all shards should log out.
async fn wait_to_leave(leaving: &mut watch::Receiver<bool>) {
    // If the sender was dropped, `keep_connected` has ended, so the shard leaves too.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// Returns how long a bot with `shards` shards has to wait because of its recent logins, or `None`
/// if it may log in now.
fn login_wait(logins: &[i64], shards: usize, now_ms: i64) -> Option<Duration> {
    let span = LOGIN_SPAN.as_millis() as i64;
    // The clock may have been set back: a login in the future counts as one now.
    let mut lately: Vec<i64> =
        logins.iter().map(|at| (*at).min(now_ms)).filter(|at| *at > now_ms - span).collect();
    lately.sort_unstable();
    let first_that_counts = lately.len().checked_sub(MAX_LOGINS.max(MAX_ROUNDS * shards))?;
    let wait = lately[first_that_counts] + span - now_ms;
    Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
}

fn fail(phase: &watch::Sender<ConnectionPhase>, error: StartError) {
    error!(%error, "discord refused the bot");
    phase.send_replace(ConnectionPhase::Failed(error));
}

/// Requests the gateway's address until Discord returns it, and until enough logins are left today:
/// one, or with `all` one for each shard.
async fn gateway(inner: &ConnectionContext, all: bool) -> Result<GatewayBot, StartError> {
    let timeouts = Timeouts::new(Duration::from_secs(10), Duration::from_secs(30));
    loop {
        match inner.api.get::<GatewayBot>(Endpoint::Gateway {}, timeouts).await {
            Ok(gateway) => {
                let limit = &gateway.session_start_limit;
                figures::discord_logins_left(limit.remaining);
                let shards = inner.options.settings.shards.unwrap_or(gateway.shards);
                let wanted = if all { u64::from(shards) } else { 1 };
                if limit.remaining >= wanted + FEW_LOGINS {
                    return Ok(gateway);
                }
                let reset = Duration::from_millis(limit.reset_after);
                if limit.remaining >= wanted {
                    warn!(
                        left = limit.remaining,
                        "few discord logins are left today; waiting five minutes before the next"
                    );
                    tokio::time::sleep(reset.min(Duration::from_secs(300))).await;
                    return Ok(gateway);
                }
                error!(
                    left = limit.remaining,
                    wanted,
                    minutes = reset.as_secs() / 60,
                    "too few discord logins are left today; waiting until discord allows more"
                );
                tokio::time::sleep(reset).await;
            }
            Err(RestError::TokenRefused) => return Err(StartError::TokenRefused),
            Err(error) => {
                warn!(%error, "cannot ask discord for its gateway; trying again");
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
        }
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
        assert_eq!(login_wait(&[], 1, now), None);
        assert_eq!(login_wait(&logins(19), 1, now), None);
        assert_eq!(login_wait(&logins(20), 4, now), Some(Duration::from_secs(600 - 19)));
        assert_eq!(login_wait(&logins(30), 1, now), Some(Duration::from_secs(600 - 19)));
        assert_eq!(login_wait(&logins(20), 4, now + 600_000), None);
        assert_eq!(login_wait(&logins(39), 8, now), None, "five times all of eight shards");
        assert!(login_wait(&logins(40), 8, now).is_some());
        assert!(
            login_wait(&logins(20), 4, now - 60_000).is_some_and(|wait| wait <= LOGIN_SPAN),
            "a clock set back does not lock the bot out"
        );
    }
}
