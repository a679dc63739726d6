//! The connection to Discord's gateway: a login for each shard, and what watches over it.
//!
//! A watch on the caller's runtime replaces a login that was not connected for a while, shard by
//! shard. Short interruptions are serenity's: it resumes the session and nothing is lost. After
//! every new login the reception catches up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{error, info, warn};

use super::ear::Ear;
use super::login::{End, Login, WATCH_INTERVAL, Who};
use super::permit::{Lost, Permit};
use super::phase::Phase;
use super::rest::{RestError, Timeouts};
use super::shards::{CONNECTED_GRACE, Pace, Slot};
use super::sharing::Logins;
use super::wire::GatewayBot;
use super::{Inner, StartError};
use aetheel_model::figures;

/// The longest pause between two logins.
const LOGIN_PAUSE_LIMIT: Duration = Duration::from_secs(60);
/// Discord resets the token of a bot that logs in more than 1,000 times a day; below this many left
/// we slow down.
const FEW_LOGINS: u64 = 50;
/// A program that dies and is started again and again logs in at most so often in so much time: in
/// logins, and in those of all shards.
const LOGINS_MOST: usize = 20;
const ROUNDS_MOST: usize = 5;
const LOGIN_SPAN: Duration = Duration::from_secs(600);

/// Keeps the bot logged in, with all its shards, while the permit says so.
pub(super) async fn keep_connected(
    inner: Arc<Inner>,
    ear: Ear,
    logins: Arc<dyn Logins>,
    phase: Arc<watch::Sender<Phase>>,
    mut permit: Permit,
) {
    let pace = Arc::new(Pace::new(inner.options.windows.identify));
    loop {
        inner.logs_in.store(permit.is_given(), Ordering::SeqCst);
        inner.shards.begin(0);
        tokio::select! {
            given = permit.given() => if !given { return },
            () = inner.api.rest.token_refused() => return fail(&phase, StartError::TokenRefused),
        }
        inner.logs_in.store(true, Ordering::SeqCst);
        inner.shards.begin(inner.options.shards.unwrap_or(1));
        let gateway = tokio::select! {
            lost = permit.lost() => if lost == Lost::Stopped { return } else { continue },
            gateway = gateway(&inner, true) => gateway,
            () = inner.api.rest.token_refused() => Err(StartError::TokenRefused),
        };
        let gateway = match gateway {
            Ok(gateway) => gateway,
            Err(error) => return fail(&phase, error),
        };
        let count = inner.options.shards.unwrap_or(gateway.shards);
        if count < gateway.shards {
            warn!(
                shards = count,
                recommended = gateway.shards,
                "discord recommends more shards than `SHARDS` says, and refuses one with more than 2,500 servers"
            );
        }
        inner.shards.begin(count);
        let (leave, leaving) = watch::channel(false);
        let mut keepers = JoinSet::new();
        for shard in 0..count {
            let keeper = Keeper {
                inner: Arc::clone(&inner),
                ear: ear.clone(),
                logins: Arc::clone(&logins),
                phase: Arc::clone(&phase),
                pace: Arc::clone(&pace),
                shard,
                count,
                lines: gateway.session_start_limit.max_concurrency.max(1),
                current: Arc::default(),
            };
            keepers.spawn(keeper.keep(gateway.url.clone(), leaving.clone()));
        }
        let ended = tokio::select! {
            lost = permit.lost() => Err(lost),
            Some(over) = keepers.join_next() => Ok(over),
        };
        leave.send_replace(true);
        while keepers.join_next().await.is_some() {}
        match ended {
            Err(Lost::Stopped) => return,
            Ok(Ok(Over::Refused(error))) => return fail(&phase, error),
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(Lost::Unseated) | Ok(_) => {}
        }
    }
}

/// Keeps one shard logged in.
struct Keeper {
    inner: Arc<Inner>,
    ear: Ear,
    logins: Arc<dyn Logins>,
    phase: Arc<watch::Sender<Phase>>,
    pace: Arc<Pace>,
    shard: u32,
    count: u32,
    /// So many shards may log in at the same time.
    lines: u32,
    /// Which of its logins counts.
    current: Arc<AtomicU64>,
}

/// Why a shard is not kept any more.
enum Over {
    /// It was told to leave.
    Left,
    /// Discord wants more shards: all have to log in anew.
    Recount,
    /// Discord will not have the bot.
    Refused(StartError),
}

impl Keeper {
    /// `url` is the gateway's address for the first login; `leaving` becomes true when all shards
    /// are to log out.
    async fn keep(self, url: String, mut leaving: watch::Receiver<bool>) -> Over {
        let (mut url, mut pause) = (Some(url), Duration::from_secs(1));
        loop {
            let may = tokio::select! {
                () = left(&mut leaving) => return Over::Left,
                may = self.may_log_in(url.take()) => may,
                () = self.inner.api.rest.token_refused() => {
                    Err(Over::Refused(StartError::TokenRefused))
                }
            };
            let (slot, address) = match may {
                Ok(may) => may,
                Err(over) => return over,
            };
            let began = Instant::now();
            figures::discord_login();
            let generation = self.current.fetch_add(1, Ordering::SeqCst) + 1;
            let who = Who {
                shard: (self.shard, self.count),
                generation: (generation, Arc::clone(&self.current)),
                phase: Arc::clone(&self.phase),
            };
            let login = Login::begin(&self.inner, self.ear.clone(), who, address);
            if let Some(over) = self.watch_over(login, slot, &mut leaving).await {
                // Nobody listens to one that does not end.
                self.current.fetch_add(1, Ordering::SeqCst);
                return over;
            }
            if began.elapsed() > LOGIN_PAUSE_LIMIT * 2 {
                pause = Duration::from_secs(1);
            }
            tokio::select! {
                () = left(&mut leaving) => return Over::Left,
                () = tokio::time::sleep(pause) => {}
            }
            pause = (pause * 2).min(LOGIN_PAUSE_LIMIT);
        }
    }

    /// Waits until it may log in, and has the login counted. Gives the right to, and the gateway's
    /// address: the one that is known, or else Discord is asked.
    async fn may_log_in(&self, known: Option<String>) -> Result<(Slot, String), Over> {
        let Keeper { inner, logins, count, .. } = self;
        let slot = self.pace.slot(self.shard % self.lines).await;
        let url = match known {
            Some(url) => url,
            None => {
                let gateway = gateway(inner, false).await.map_err(Over::Refused)?;
                if inner.options.shards.is_none() && gateway.shards > *count {
                    info!(
                        shards = gateway.shards,
                        "discord recommends more shards; logging in anew"
                    );
                    return Err(Over::Recount);
                }
                gateway.url
            }
        };
        loop {
            let now_ms = jiff::Timestamp::now().as_millisecond();
            let Some(wait) = too_soon(&logins.logins().await, *count as usize, now_ms) else {
                logins.logging_in(now_ms).await;
                return Ok((slot, url));
            };
            warn!(
                seconds = wait.as_secs(),
                "many discord logins lately, perhaps by restarts in a row; waiting before the next"
            );
            tokio::time::sleep(wait).await;
        }
    }

    /// Returns when a login is over; none: another one is to follow.
    async fn watch_over(
        &self,
        mut login: Login,
        slot: Slot,
        leaving: &mut watch::Receiver<bool>,
    ) -> Option<Over> {
        let (mut was_up, mut slot) = (false, Some(slot));
        // It goes without saying which shard it is where there is but one.
        let shard = (self.count > 1).then_some(self.shard);
        loop {
            tokio::select! {
                () = left(leaving) => {
                    login.say_goodbye().await;
                    return Some(Over::Left);
                }
                () = self.inner.api.rest.token_refused() => {
                    login.give_up();
                    return Some(Over::Refused(StartError::TokenRefused));
                }
                end = &mut login.ended => return match end {
                    Ok(End::Refused(error)) => Some(Over::Refused(error)),
                    Ok(End::Other(why)) => {
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
            let silent = login.silent();
            if silent < CONNECTED_GRACE {
                was_up = true;
            } else if was_up {
                was_up = false;
                warn!(shard, "discord connection lost; reconnecting");
            }
            if silent > self.inner.options.windows.reconnect {
                warn!(
                    shard,
                    seconds = silent.as_secs(),
                    "discord connection did not come back; logging in anew"
                );
                login.give_up();
                return None;
            }
        }
    }
}

/// Waits until all are to log out.
async fn left(leaving: &mut watch::Receiver<bool>) {
    // Without a sender nobody keeps them.
    let _ = leaving.wait_for(|leaving| *leaving).await;
}

/// How long to wait because of the logins so far, of a bot with so many shards; none: not at all.
fn too_soon(logins: &[i64], shards: usize, now_ms: i64) -> Option<Duration> {
    let span = LOGIN_SPAN.as_millis() as i64;
    // Clocks are set back, too: a login of the future counts as one of now.
    let mut lately: Vec<i64> =
        logins.iter().map(|at| (*at).min(now_ms)).filter(|at| *at > now_ms - span).collect();
    lately.sort_unstable();
    let first_that_counts = lately.len().checked_sub(LOGINS_MOST.max(ROUNDS_MOST * shards))?;
    let wait = lately[first_that_counts] + span - now_ms;
    Some(Duration::from_millis(u64::try_from(wait).unwrap_or(0)))
}

fn fail(phase: &watch::Sender<Phase>, error: StartError) {
    error!(%error, "discord refused the bot");
    phase.send_replace(Phase::Failed(error));
}

/// Asks how to log in until Discord says it, minding how many logins are left today: for one, or
/// for those of `all` shards.
async fn gateway(inner: &Inner, all: bool) -> Result<GatewayBot, StartError> {
    let timeouts = Timeouts::new(Duration::from_secs(10), Duration::from_secs(30));
    loop {
        match inner.api.gateway(timeouts).await {
            Ok(gateway) => {
                let limit = &gateway.session_start_limit;
                figures::discord_logins_left(limit.remaining);
                let shards = inner.options.shards.unwrap_or(gateway.shards);
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
        assert_eq!(too_soon(&[], 1, now), None);
        assert_eq!(too_soon(&logins(19), 1, now), None);
        assert_eq!(too_soon(&logins(20), 4, now), Some(Duration::from_secs(600 - 19)));
        assert_eq!(too_soon(&logins(30), 1, now), Some(Duration::from_secs(600 - 19)));
        assert_eq!(too_soon(&logins(20), 4, now + 600_000), None);
        assert_eq!(too_soon(&logins(39), 8, now), None, "five times all of eight shards");
        assert!(too_soon(&logins(40), 8, now).is_some());
        assert!(
            too_soon(&logins(20), 4, now - 60_000).is_some_and(|wait| wait <= LOGIN_SPAN),
            "a clock set back does not lock the bot out"
        );
    }
}
