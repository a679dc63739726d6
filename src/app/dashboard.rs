//! Starts the dashboard, and gives it access to Discord, the recordings and the operator's files.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::access::{Standing, Visitor};
use crate::app::health::ProgramHealth;
use crate::cli::exit;
use crate::config::Config;
use crate::discord::{Discord, SignIn};
use crate::dispatch::{Dispatcher, Retelling, ToldEnd};
use crate::event::{Lane, NewEvent};
use crate::kit::machine::{Film, Machine, Reading, retell};
use crate::plain::with_causes;
use crate::redact::Redactor;
use crate::schedule::Planned;
use crate::sources::{Plan, plan};
use crate::startup::Refused;
use crate::turn::Backends;
use crate::web::dashboard::{
    Bound, Dashboard, Drawn, Entry, House, Origin, RecordedTurn, Schedule, Schedules,
};
use crate::workspace::{Hook, SignIns, Workspace};

/// A bound dashboard that does not serve yet.
pub(super) struct Ready {
    bound: Bound,
    sign_ins: SignIns,
}

/// Binds the address and opens the file of sessions. Returns `None` if no dashboard is configured.
///
/// # Errors
/// Returns [`Refused`] if the address is invalid or taken, or if the file cannot be read.
pub(super) async fn bind(config: &Config, workspace: &Workspace) -> Result<Option<Ready>, Refused> {
    let Some(address) = config.dashboard_address else { return Ok(None) };
    let refused = |code, why: String| Refused::because(code, why);
    let origin = config.dashboard_url.as_deref().map(Origin::parse).transpose();
    let origin = origin.map_err(|why| refused(exit::CONFIG, format!("DASHBOARD_URL {why}")))?;
    let bound = Bound::take(address, origin).await.map_err(|error| {
        let hint = "choose another address, or end the program that listens there";
        let why = format!("DASHBOARD_ADDRESS: cannot listen at {address}: {error}; {hint}");
        refused(exit::UNAVAILABLE, why)
    })?;
    let sign_ins = workspace.sign_ins().await;
    let sign_ins = sign_ins.map_err(|error| refused(exit::UNAVAILABLE, with_causes(&error)))?;
    Ok(Some(Ready { bound, sign_ins }))
}

/// Starts the dashboard, and lets people sign in to it with `/dashboard` in Discord.
pub(super) fn open(
    Ready { bound, sign_ins }: Ready,
    dispatcher: &Dispatcher,
    house: Rooms,
    (health, sharing): (&ProgramHealth, bool),
) -> Dashboard {
    let discord = house.discord.clone();
    let (dispatcher, health) = (dispatcher.clone(), Arc::new(health.clone()));
    let dashboard = bound.serve(dispatcher, Arc::new(house), health, (sign_ins, sharing));
    discord.offer_sign_in(Arc::new(Doorkeeper(dashboard.entry())));
    dashboard
}

/// Implements [`House`] with Discord, the recordings and the operator's files.
pub(super) struct Rooms {
    pub(super) discord: Discord,
    pub(super) workspace: Workspace,
    /// Time zone of schedules without one.
    pub(super) zone: TimeZone,
    /// Whether `OUTPUT_CHANNEL_ID` is set, so that answers without a channel can be delivered.
    pub(super) placed: bool,
    pub(super) redactor: Redactor,
    /// Shows recorded turns step by step.
    pub(super) machine: Machine,
    pub(super) backends: Arc<dyn Backends>,
    /// Time limit of a turn, which the rendered answers name.
    pub(super) query_timeout: Duration,
}

impl Rooms {
    async fn plan(&self, now: Timestamp) -> Plan {
        let (heartbeats, jobs) =
            (self.workspace.heartbeats().await, self.workspace.cron_jobs().await);
        plan(heartbeats.as_deref(), &jobs, &self.zone, self.placed, now)
    }
}

#[async_trait]
impl House for Rooms {
    async fn standing(&self, user: u64, channel: u64) -> Result<Standing, String> {
        self.discord.standing(user, channel).await
    }

    async fn report(&self, channel: Option<u64>, who: &str, did: &str) -> Result<u64, String> {
        self.discord.report(channel, who, did).await
    }

    async fn repeat(&self, channel: u64, who: &str, words: &str) -> Result<u64, String> {
        self.discord.repeat(channel, who, words).await
    }

    async fn schedules(&self) -> Schedules {
        let now = Timestamp::now();
        let plan = self.plan(now).await;
        let clean = |text: &str| self.redactor.clean(text.to_owned());
        let schedule = |planned: &Planned| {
            let next = planned.rhythm.next(now, &planned.zone);
            let zoned = next.map(|next| next.to_zoned(planned.zone.clone()));
            Schedule {
                lane: planned.lane.clone(),
                rhythm: planned.words(),
                next: zoned.map(|next| next.strftime("%a %Y-%m-%d %H:%M %Z").to_string()),
                instruction: clean(plan.asks(&planned.lane).map_or("", |(asks, _)| asks)),
            }
        };
        let hooks = self.workspace.hooks().await;
        let hook = |hook: Hook| Some((hook.name().to_owned(), clean(&hooks.of(hook)?.text)));
        Schedules {
            schedules: plan.planned.iter().map(schedule).collect(),
            hooks: Hook::ALL.into_iter().filter_map(hook).collect(),
            warnings: plan.warnings.iter().map(|warning| clean(warning)).collect(),
        }
    }

    async fn now(&self, lane: &Lane) -> Option<(NewEvent, Option<u64>)> {
        let now = Timestamp::now();
        let plan = self.plan(now).await;
        Some((plan.event(lane, now)?, plan.asks(lane)?.1))
    }

    async fn recorded(&self, turn: &str) -> Option<RecordedTurn> {
        let line = self.workspace.turns().find(turn).await?;
        let recording = line.recording.map(|path| path.to_string_lossy().into_owned());
        Some(RecordedTurn { lane: line.lane, backend: line.backend, recording })
    }

    fn machine(&self) -> &Machine {
        &self.machine
    }

    async fn messages(
        &self,
        turn: &str,
        film: &Arc<Film>,
        step: usize,
        other: Option<Arc<Reading>>,
    ) -> Result<Drawn, String> {
        let name = film.facts().header.backend.clone();
        let label = self
            .backends
            .get(&name)
            .map_or(name, |backend| backend.descriptor().label().to_owned());
        let (film, turn) = (Arc::clone(film), turn.to_owned());
        let (discord, redactor) = (self.discord.clone(), self.redactor.clone());
        let timeout = self.query_timeout;
        let drawn = self.machine.work(move || {
            draw(&discord, &redactor, &film, step, other.as_deref(), (&turn, &label, timeout))
        });
        let drawn = drawn.await?;
        drawn.map_err(|error| format!("the recording cannot be read any more: {error}"))
    }
}

/// Renders the Discord messages of a recorded turn up to a step. `other` is the same recording as
/// another component reads it. Blocks.
fn draw(
    discord: &Discord,
    redactor: &Redactor,
    film: &Film,
    step: usize,
    other: Option<&Reading>,
    (turn, backend, timeout): (&str, &str, Duration),
) -> std::io::Result<Drawn> {
    let mut told = Retelling::new(redactor);
    retell(film, step, other, |action| {
        if film.is_ours(action) == Some(true) {
            told.action(action);
        }
    })?;
    let facts = film.facts();
    let last = step + 1 >= film.len() && facts.left_out == 0;
    let ended = facts.ended.as_ref().filter(|_| last);
    // If the host ended the turn, it would have done so with any component.
    let by_host = |how: &str| {
        ["interrupted", "shut-down", "timed-out", "silent", "limit"]
            .iter()
            .any(|word| how.starts_with(word))
    };
    let how = ended.map(|(how, _)| how.as_str()).filter(|how| other.is_none() || by_host(how));
    if ended.is_none() || (how.is_none() && !told.is_done()) {
        return Ok(Drawn { messages: discord.draw(told.shown(), None), ended: false });
    }
    let took = ended.map_or(0.0, |(_, took)| took / 1000.0);
    let took = Duration::try_from_secs_f64(took).unwrap_or_default();
    let shown = told.shown().clone();
    let answer = told.answer(&ToldEnd { turn, backend, how, took, timeout });
    Ok(Drawn { messages: discord.draw(&shown, Some(&answer)), ended: true })
}

struct Doorkeeper(Entry);

impl SignIn for Doorkeeper {
    fn link(&self, visitor: Visitor) -> Result<String, String> {
        self.0.link(visitor).map_err(|wait| {
            format!("You asked for too many links. Ask again in {} s.", wait.as_secs() + 1)
        })
    }

    fn revoke(&self, user: u64) -> usize {
        self.0.revoke(user)
    }
}
