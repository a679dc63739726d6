//! Runs the agent that changes a backend's sources: one turn per round, in a folder of its own.
//!
//! The agent is confined like every agent, and more: besides its own state and temporary folder it
//! can write only to that folder, whatever AGENT_WRITE allows. It may use all of its tools without
//! asking people. It gets none of the gateway's variables but those that its backend declares.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use aetheel_model::agent::{Ask, AskDecision, AskKind, Safety, StartTurn};
use aetheel_model::event::Lane;
use aetheel_model::fold::Transcript;
use aetheel_recording::{Backend, Recorder};
use aetheel_turn::{
    Answerer, Audience, Host, Launcher, Links, OnUnknown, ReachPolicy, StopReason, TurnNews,
    TurnRequest, run,
};

const MAX_TOOL_USES: u32 = 300;

/// The agent of the operator's choice.
#[derive(Clone)]
pub struct MendingAgent {
    /// Its backend.
    pub backend: Arc<dyn Backend>,
    /// The operator's settings for agents.
    pub host: Host,
    /// Starts its processes in the sandbox.
    pub launcher: Arc<dyn Launcher>,
    /// Records its turns.
    pub recorder: Recorder,
    /// The model, or `None` for the agent's default.
    pub model: Option<String>,
}

/// The limits of one round.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoundLimits {
    /// The longest time.
    pub time: Duration,
    /// The largest cost in US dollars, for agents that report it.
    pub cost_usd: Option<f64>,
}

/// The result of a round.
#[derive(Clone, Debug, PartialEq)]
pub struct AgentRound {
    /// How the turn ended, as in logs.
    pub ending: &'static str,
    /// The end's reason, or the beginning of the agent's last words.
    pub said: String,
    /// The cost in US dollars, if the agent reports it.
    pub cost_usd: Option<f64>,
    /// Tokens that the agent read and wrote.
    pub tokens: u64,
    /// The id of the recording.
    pub recording: String,
}

impl MendingAgent {
    /// Lets the agent work in a folder. Dropping the future ends the agent.
    pub async fn work(
        &self,
        folder: &Path,
        (prompt, readable): (&str, &[std::path::PathBuf]),
        limits: RoundLimits,
    ) -> AgentRound {
        let mut host = self.host.clone();
        host.reach_policy = host.reach_policy.map(|policy| ReachPolicy {
            read: policy.read.into_iter().chain(readable.iter().cloned()).collect(),
            write: Vec::new(),
            ..policy
        });
        host.cwd = folder.to_owned();
        host.limits.query_timeout = limits.time;
        host.max_turns = MAX_TOOL_USES;
        let (unasked, _turns_by_itself) = mpsc::unbounded_channel();
        let on_unknown: OnUnknown = Arc::new(|_| {});
        let links = Links::new(
            Arc::new(host),
            Arc::clone(&self.launcher),
            self.recorder.clone(),
            unasked,
            on_unknown,
        );
        let mut start = StartTurn::plain(prompt, Safety::Danger);
        start.cwd = folder.display().to_string();
        start.fresh_id = uuid::Uuid::new_v4().to_string();
        start.settings.model.clone_from(&self.model);
        start.settings.options = self.backend.options().to_owned();
        let mut id = uuid::Uuid::new_v4().simple().to_string();
        id.truncate(8);
        let (stop, stopped) = watch::channel(None);
        let (_nobody, steers) = mpsc::unbounded_channel();
        let request = TurnRequest {
            id,
            event: 0,
            lane: Lane::Hook("mend".to_owned()),
            backend: Arc::clone(&self.backend),
            start,
            blobs: Vec::new(),
            stop: stopped,
            steers,
            continued: None,
        };
        let mut audience = Unattended { max_cost_usd: limits.cost_usd, stop };
        let result = run(request, &links, &mut audience).await;
        // A link waits for the slots of its turns before it closes.
        drop(result.slot);
        links.close().await;
        let usage = result.usage.or_else(|| result.transcript.usage());
        let tokens = usage.as_ref().map_or(0, |usage| {
            u64::from(usage.input) + u64::from(usage.output) + u64::from(usage.cached)
        });
        let said = aetheel_model::plain::short_line(&result.text, 300);
        AgentRound {
            ending: result.ending.word(),
            said,
            cost_usd: usage.and_then(|usage| usage.cost_usd),
            tokens,
            recording: result.link,
        }
    }
}

/// Answers the agent's questions, because nobody watches, and stops it at its cost limit.
struct Unattended {
    max_cost_usd: Option<f64>,
    stop: watch::Sender<Option<StopReason>>,
}

impl Audience for Unattended {
    fn on(&mut self, _: &TurnNews, transcript: &Transcript) {
        let cost = transcript.usage().and_then(|usage| usage.cost_usd);
        if let (Some(cost), Some(max_cost_usd)) = (cost, self.max_cost_usd)
            && cost > max_cost_usd
        {
            // An error means that the turn has ended.
            let _ = self.stop.send(Some(StopReason::Shutdown));
        }
    }

    fn ask(&mut self, ask: &Ask, _time: u32, answer: Answerer) {
        match &ask.kind {
            AskKind::Permission(_) | AskKind::PlanApproval(_) => {
                answer.decide(AskDecision::AllowOnce);
            }
            // Dropping the answerer dismisses the question.
            AskKind::Questions(_) | AskKind::SignIn(_) => {}
        }
    }
}
