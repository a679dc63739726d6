//! The dashboard: what it asks of Discord, and how people get into it.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::access::{Standing, Visitor};
use crate::app::health::ProgramHealth;
use crate::cli::exit;
use crate::config::Config;
use crate::discord::{Discord, SignIn};
use crate::dispatch::Dispatcher;
use crate::event::{Lane, NewEvent};
use crate::plain::with_causes;
use crate::redact::Redactor;
use crate::schedule::Planned;
use crate::sources::{Plan, plan};
use crate::startup::Refused;
use crate::web::dashboard::{
    Bound, Dashboard, Entry, House, Origin, Push, PushServices, Schedule, Schedules,
};
use crate::workspace::{Hook, Workspace};

/// Takes the address and what pushes need, if the operator wants a dashboard.
///
/// # Errors
/// When it cannot be had.
pub(super) async fn bind(
    config: &Config,
    workspace: &Workspace,
) -> Result<Option<(Bound, Option<Push>)>, Refused> {
    let Some(address) = config.dashboard_address else { return Ok(None) };
    let refused = |code, why: String| Refused::because(code, why);
    let origin = config.dashboard_url.as_deref().map(Origin::parse).transpose();
    let origin = origin.map_err(|why| refused(exit::CONFIG, format!("DASHBOARD_URL {why}")))?;
    let bound = Bound::take(address, origin).await.map_err(|error| {
        let hint = "choose another address, or end whatever listens there";
        let why = format!("DASHBOARD_ADDRESS: cannot listen at {address}: {error}; {hint}");
        refused(exit::UNAVAILABLE, why)
    })?;
    let services = PushServices::parse(&config.push_services);
    let services =
        services.map_err(|why| refused(exit::CONFIG, format!("PUSH_SERVICES: {why}")))?;
    if services.is_empty() {
        return Ok(Some((bound, None)));
    }
    let failed = |why: String| refused(exit::UNAVAILABLE, why);
    let notes = workspace.push_notes().await.map_err(|error| failed(with_causes(&error)))?;
    let (contact, lifetime) = (config.push_contact.clone(), config.ask_timeout);
    let push = Push::open(notes, services, contact, bound.origin(), lifetime).await;
    Ok(Some((bound, Some(push.map_err(failed)?))))
}

/// Opens it, and has `/dashboard` let people in.
pub(super) fn open(
    (bound, push): (Bound, Option<Push>),
    dispatcher: &Dispatcher,
    house: Rooms,
    (health, sharing): (&ProgramHealth, bool),
) -> Dashboard {
    let discord = house.discord.clone();
    let (dispatcher, health) = (dispatcher.clone(), Arc::new(health.clone()));
    let dashboard = bound.serve(dispatcher, Arc::new(house), health, push, sharing);
    discord.offer_sign_in(Arc::new(Doorkeeper(dashboard.entry())));
    dashboard
}

/// What the dashboard may ask.
pub(super) struct Rooms {
    pub(super) discord: Discord,
    pub(super) workspace: Workspace,
    /// The time zone of entries that name none.
    pub(super) zone: TimeZone,
    /// Whether answers without a channel have a place.
    pub(super) placed: bool,
    pub(super) redactor: Redactor,
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
}

struct Doorkeeper(Entry);

impl SignIn for Doorkeeper {
    fn link(&self, visitor: Visitor) -> Result<String, String> {
        self.0.link(visitor).map_err(|wait| {
            format!("You asked for many links. Ask again in {} s.", wait.as_secs() + 1)
        })
    }

    fn revoke(&self, user: u64) -> usize {
        self.0.revoke(user)
    }
}
