//! Starts the dashboard, and gives it access to Discord, the recordings and the operator's files.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::core::Core;
use crate::cli::exit;
use crate::sources::{SchedulePlan, plan};
use crate::startup::StartRefusal;
use aetheel_discord::{Discord, SignInService, TooManyLinks};
use aetheel_dispatch::{RecordedEnd, TurnRenderer};
use aetheel_kit::step_viewer::{StepViewer, StepViewerError, TurnSteps};
use aetheel_model::access::{LanePermissions, SignInRequest};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId, UserId};
use aetheel_model::redact::Redactor;
use aetheel_model::schedule::ScheduleEntry;
use aetheel_settings::Config;
use aetheel_store::workspace::{AuditReader, Hook, SavedSignIn, StateFile, Workspace};
use aetheel_turn::Backends;
pub(super) use aetheel_web::dashboard::Dashboard;
use aetheel_web::dashboard::{
    DashboardApi, DashboardListener, DashboardOrigin, MessagePreview, RecordedTurn,
    ScheduleOverview, ScheduleView, SignInLinks,
};

/// A bound dashboard that does not serve yet.
pub(super) struct BoundDashboard {
    bound: DashboardListener,
    redactor: Redactor,
    sign_ins: StateFile<SavedSignIn>,
}

/// Binds the address and opens the file of sessions. Returns `None` if no dashboard is configured.
///
/// # Errors
/// Returns [`StartRefusal`] if the address is invalid or taken, or if the file cannot be read.
pub(super) async fn bind(
    config: &Config,
    workspace: &Workspace,
    redactor: &Redactor,
) -> Result<Option<BoundDashboard>, StartRefusal> {
    let Some(address) = config.dashboard_address else { return Ok(None) };
    let refused = |code, why: String| StartRefusal::because(code, why);
    let origin = config.dashboard_url.as_deref().map(DashboardOrigin::parse).transpose();
    let origin = origin.map_err(|why| refused(exit::CONFIG, format!("DASHBOARD_URL {why}")))?;
    let bound = DashboardListener::take(address, origin)
        .await
        .map_err(|error| StartRefusal::of_address("DASHBOARD_ADDRESS", address, &error))?;
    let sign_ins = StateFile::load(workspace.folder()).await;
    let sign_ins = sign_ins.map_err(|error| StartRefusal::of_file(&error))?;
    Ok(Some(BoundDashboard { bound, sign_ins, redactor: redactor.clone() }))
}

impl BoundDashboard {
    /// Starts the dashboard, and lets people sign in to it with `/dashboard` in Discord.
    pub(super) fn open(
        self,
        core: &Core,
        discord: Discord,
        backends: Arc<dyn Backends>,
    ) -> Dashboard {
        let redactor = self.redactor;
        let data = DashboardData {
            discord: discord.clone(),
            workspace: core.workspace.clone(),
            zone: core.config.time_zone.clone(),
            has_output_channel: core.config.discord.output_channel.is_some(),
            step_viewer: StepViewer::new(core.drain.recorder(), redactor.clone()),
            backends,
            query_timeout: core.config.agents.query_timeout,
            audit: AuditReader::new(&core.config.config_dir),
            redactor,
        };
        let health = Arc::new(core.process.health.clone());
        let (data, sharing) = (Arc::new(data), core.config.dashboard_sharing);
        let dashboard = self.bound.serve(&core.dispatcher, data, health, self.sign_ins, sharing);
        discord.set_sign_in(Arc::new(DashboardSignIn(dashboard.sign_in_links())));
        dashboard
    }
}

/// Provides the data of the dashboard from Discord, the recordings and the operator's files.
struct DashboardData {
    discord: Discord,
    workspace: Workspace,
    /// Time zone of schedules without one.
    zone: TimeZone,
    /// Whether `OUTPUT_CHANNEL_ID` is set, so that answers without a channel can be delivered.
    has_output_channel: bool,
    redactor: Redactor,
    audit: AuditReader,
    /// Shows recorded turns step by step.
    step_viewer: StepViewer,
    backends: Arc<dyn Backends>,
    /// Time limit of a turn, which the rendered answers name.
    query_timeout: Duration,
}

impl DashboardData {
    async fn plan(&self, now: Timestamp) -> SchedulePlan {
        let (heartbeats, jobs) =
            (self.workspace.heartbeats().await, self.workspace.cron_jobs().await);
        plan(heartbeats.as_deref(), &jobs, &self.zone, self.has_output_channel, now)
    }
}

#[async_trait]
impl DashboardApi for DashboardData {
    async fn permissions(
        &self,
        user: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, String> {
        self.discord.user_permissions(user, channel).await.map_err(|error| error.to_string())
    }

    async fn post_action(
        &self,
        channel: Option<ChannelId>,
        who: &str,
        did: &str,
    ) -> Result<MessageId, String> {
        self.discord.report(channel, who, did).await.map_err(|error| error.to_string())
    }

    async fn post_prompt(
        &self,
        channel: ChannelId,
        who: &str,
        words: &str,
    ) -> Result<MessageId, String> {
        self.discord.report_message(channel, who, words).await.map_err(|error| error.to_string())
    }

    async fn schedules(&self) -> ScheduleOverview {
        let now = Timestamp::now();
        let plan = self.plan(now).await;
        let clean = |text: &str| self.redactor.redact(text.to_owned());
        let schedule = |planned: &ScheduleEntry| {
            let next = planned.rhythm.next(now, &planned.zone);
            let zoned = next.map(|next| next.to_zoned(planned.zone.clone()));
            ScheduleView {
                lane: planned.lane.clone(),
                rhythm: planned.description(),
                next: zoned.map(|next| next.strftime("%a %Y-%m-%d %H:%M %Z").to_string()),
                instruction: clean(plan.instruction(&planned.lane).map_or("", |(asks, _)| asks)),
            }
        };
        let hooks = self.workspace.hooks().await;
        let hook = |hook: Hook| Some((hook.name().to_owned(), clean(&hooks.of(hook)?.text)));
        ScheduleOverview {
            schedules: plan.planned.iter().map(schedule).collect(),
            hooks: Hook::ALL.into_iter().filter_map(hook).collect(),
            warnings: plan.warnings.iter().map(|warning| clean(warning)).collect(),
        }
    }

    async fn schedule_event(&self, lane: &Lane) -> Option<(NewEvent, Option<ChannelId>)> {
        let now = Timestamp::now();
        let plan = self.plan(now).await;
        Some((plan.event(lane, now)?, plan.instruction(lane)?.1))
    }

    fn audit(&self) -> &AuditReader {
        &self.audit
    }

    async fn recorded_turn(&self, turn: &str) -> Option<RecordedTurn> {
        let line = self.workspace.turns().find(turn).await?;
        let recording = line.recording.map(|path| path.to_string_lossy().into_owned());
        Some(RecordedTurn { lane: line.lane, backend: line.backend, recording })
    }

    fn step_viewer(&self) -> &StepViewer {
        &self.step_viewer
    }

    async fn messages(
        &self,
        turn: &str,
        film: &Arc<TurnSteps>,
        step: usize,
    ) -> Result<MessagePreview, StepViewerError> {
        let name = film.facts().header.backend.clone();
        let label = self
            .backends
            .get(&name)
            .map_or(name, |backend| backend.descriptor().label().to_owned());
        let (film, turn) = (Arc::clone(film), turn.to_owned());
        let (discord, redactor) = (self.discord.clone(), self.redactor.clone());
        let timeout = self.query_timeout;
        let drawn = self
            .step_viewer
            .run_blocking(move || draw(&discord, &redactor, &film, step, (&turn, &label, timeout)));
        drawn.await?.map_err(StepViewerError::Reread)
    }
}

/// Renders the Discord messages of a recorded turn up to a step. Blocks.
fn draw(
    discord: &Discord,
    redactor: &Redactor,
    film: &TurnSteps,
    step: usize,
    (turn, backend, timeout): (&str, &str, Duration),
) -> std::io::Result<MessagePreview> {
    let mut renderer = TurnRenderer::new(redactor);
    film.actions(step, |action| {
        if film.is_ours(&action) == Some(true) {
            renderer.action(&action);
        }
    })?;
    let facts = film.facts();
    let last = step + 1 >= film.len() && facts.left_out == 0;
    let ended = facts.ended.as_ref().filter(|_| last);
    let how = ended.map(|(how, _)| how.as_str());
    if ended.is_none() {
        return Ok(MessagePreview {
            messages: discord.preview(renderer.shown(), None),
            ended: false,
        });
    }
    let took = ended.map_or(0.0, |(_, took)| took / 1000.0);
    let took = Duration::try_from_secs_f64(took).unwrap_or_default();
    let shown = renderer.shown().clone();
    let answer = renderer.answer(&RecordedEnd { turn, backend, ending: how, took, timeout });
    Ok(MessagePreview { messages: discord.preview(&shown, Some(&answer)), ended: true })
}

struct DashboardSignIn(SignInLinks);

impl SignInService for DashboardSignIn {
    fn link(&self, visitor: SignInRequest) -> Result<String, TooManyLinks> {
        self.0.link(visitor).map_err(TooManyLinks)
    }

    fn revoke(&self, user: UserId) -> usize {
        self.0.revoke(user)
    }
}
