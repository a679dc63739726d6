//! An agent, its backend and its outlet in this process, to test the dispatcher and the driver
//! without components, processes or Discord.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_dispatch::{
    ChannelError, Choices, DeliveryError, Dispatcher, DispatcherDeps, Notice, OpenQuestion,
    OpenedThread, Outlet, PriorDelivery, QuestionDismissal, RecapMessage, Reply, Router,
    Settlement, TurnAnswer, TurnPart,
};
use aetheel_model::access::LanePermissions;
use aetheel_model::agent::{
    Action, AgentEvent, AgentEventKind, AgentFailure, AllowedTools, ArgumentValue, Chunk,
    Descriptor, Exit, FailureKind, HostCommand, Input, Mode, Pipe, PromptPart, Safety,
    SessionReady, Signal, Spawn, StartTurn, StopProcess, TextEvent, TimedInput, TurnDone,
    TurnOutcome,
};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{AttachedFile, Event, EventKind as Asked, EventOrigin, Lane, NewEvent};
use aetheel_model::fold::Transcript;
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::id::{ChannelId, MessageId, UserId, UserOrRoleId};
use aetheel_model::limits::{AgentLimits, ResourceLimits};
use aetheel_model::policy::PolicyCeiling;
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_recording::{
    Backend, Generation, Guest, GuestFailure, Recorder, RecordingLimits, RolloutPair,
};
use aetheel_runtime::clock::Clock;
use aetheel_store::workspace::Workspace;
use aetheel_turn::{
    AgentProcess, Agents, Backends, Host, Launch, LaunchError, Launcher, NoObservers, NoPolicies,
    OutputLine, Policies, ProcessCommand, ProcessEvent, ToolLimits, TurnObservers, VersionError,
};
use async_trait::async_trait;
use tokio::sync::{mpsc, watch};

/// The function that answers the inputs of a guest.
pub type Understanding =
    Arc<dyn Fn(&mut GuestState, &Input) -> Result<Vec<Action>, GuestFailure> + Send + Sync>;

/// The state of an [`Understanding`].
#[derive(Default)]
pub struct GuestState {
    pub start: Option<StartTurn>,
}

pub struct ScriptedBackend {
    descriptor: Descriptor,
    generation: Generation,
    understanding: Understanding,
}

impl ScriptedBackend {
    pub fn new(understanding: Understanding) -> Self {
        Self::with_feature(understanding, None)
    }

    pub fn with_feature(understanding: Understanding, feature: Option<&str>) -> Self {
        let json = r#"{"name":"scripted","version":"1","features":["resume","system-prompt","streaming"],"expands":["at-path","slash-command"],
            "programs":[{"name":"agent","flags":[{"name":"--resume","value":"one"},{"name":"--danger","safety":"danger"}]}],"write-tools":["Write"]}"#;
        let json = json.replace(
            r#""streaming"]"#,
            &format!(
                r#""streaming"{}]"#,
                feature.map_or_else(String::new, |name| format!(r#","{name}""#))
            ),
        );
        Self::described(understanding, &json)
    }

    /// Makes a backend with this descriptor.
    pub fn described(understanding: Understanding, descriptor: &str) -> Self {
        Self {
            descriptor: Descriptor::parse(descriptor).unwrap(),
            generation: Generation { number: 1, digest: "0".repeat(64) },
            understanding,
        }
    }

    /// Makes this backend appear as another generation.
    pub fn of_generation(mut self, number: u32, digest: &str) -> Arc<Self> {
        self.generation = Generation { number, digest: digest.repeat(64) };
        Arc::new(self)
    }
}

#[async_trait]
impl Backend for ScriptedBackend {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        &self.generation
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        Ok(Box::new(ScriptedGuest {
            state: GuestState::default(),
            understanding: self.understanding.clone(),
        }))
    }
}

struct ScriptedGuest {
    state: GuestState,
    understanding: Understanding,
}

#[async_trait]
impl Guest for ScriptedGuest {
    async fn handle(&mut self, inputs: Vec<TimedInput>) -> Result<Vec<Action>, GuestFailure> {
        let mut actions = Vec::new();
        for input in &inputs {
            actions.extend((self.understanding)(&mut self.state, &input.input)?);
        }
        Ok(actions)
    }

    async fn save(&mut self) -> Result<Option<String>, GuestFailure> {
        Ok(None)
    }

    async fn load(&mut self, _: &str, _: &str) -> Result<(), GuestFailure> {
        Err(GuestFailure::Refused("it loads no state".to_owned()))
    }
}

/// A set of backends with only one backend.
pub struct OneBackend(pub Arc<dyn Backend>);

impl Backends for OneBackend {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        (self.0.descriptor().name == name).then(|| self.0.clone())
    }

    fn names(&self) -> Vec<String> {
        vec![self.0.descriptor().name.clone()]
    }
}

/// A backend that tests replace, and that can be rolled back.
#[derive(Default)]
pub struct Replaceable {
    loads: Mutex<Vec<Arc<ScriptedBackend>>>,
    /// The reason why nothing is rolled back.
    pub refusal: Option<&'static str>,
    pub rolled_back: watch::Sender<Vec<Generation>>,
    /// The new version on rollout.
    pub successor: Mutex<Option<Arc<dyn Backend>>>,
    /// The digests of the versions that were promoted.
    pub promoted: watch::Sender<Vec<String>>,
    /// The digests of the versions that were withdrawn.
    pub withdrawn: watch::Sender<Vec<String>>,
}

impl Replaceable {
    pub fn load(&self, backend: Arc<ScriptedBackend>) {
        self.loads.lock().unwrap().push(backend);
    }
}

#[async_trait]
impl Backends for Replaceable {
    fn get(&self, _: &str) -> Option<Arc<dyn Backend>> {
        self.loads.lock().unwrap().last().map(|backend| backend.clone() as Arc<dyn Backend>)
    }

    fn names(&self) -> Vec<String> {
        vec!["scripted".to_owned()]
    }

    fn rollout(&self, name: &str) -> Option<RolloutPair> {
        let successor = self.successor.lock().unwrap().clone()?;
        Some(RolloutPair { serving: self.get(name)?, successor })
    }

    async fn promote(&self, _: &str, digest: &str) -> Result<Generation, VersionError> {
        let successor = self.successor.lock().unwrap().take();
        let successor =
            successor.ok_or_else(|| VersionError::NoSuchVersion("scripted".to_owned()))?;
        self.promoted.send_modify(|all| all.push(digest.to_owned()));
        Ok(successor.generation().clone())
    }

    fn successor(&self, _: &str) -> Option<Arc<dyn Backend>> {
        self.successor.lock().unwrap().clone()
    }

    async fn withdraw(&self, name: &str, digest: &str) -> Result<PathBuf, VersionError> {
        if self.successor.lock().unwrap().take().is_none() {
            return Err(VersionError::NoSuchVersion(name.to_owned()));
        }
        self.withdrawn.send_modify(|all| all.push(digest.to_owned()));
        Ok(PathBuf::from("moved"))
    }

    async fn roll_back(&self, _: &str, from: &Generation) -> Result<Generation, VersionError> {
        self.rolled_back.send_modify(|all| all.push(from.clone()));
        if let Some(refusal) = self.refusal {
            return Err(VersionError::Component(refusal.into()));
        }
        let mut loads = self.loads.lock().unwrap();
        let [.., before, now] = &loads[..] else {
            return Err(VersionError::NoEarlier("scripted".to_owned()));
        };
        assert_eq!(now.generation, *from, "another generation is serving");
        let generation =
            Generation { number: from.number + 1, digest: before.generation.digest.clone() };
        let (descriptor, understanding) = (before.descriptor.clone(), before.understanding.clone());
        loads.push(Arc::new(ScriptedBackend {
            descriptor,
            generation: generation.clone(),
            understanding,
        }));
        Ok(generation)
    }
}

/// Parses the lines `text X`, `notice X`, `session ID`, `unknown-session` and `done`, and starts
/// the agent with the prompt on stdin.
pub fn plain() -> Understanding {
    Arc::new(|state, input| {
        Ok(match input {
            Input::Command(HostCommand::StartTurn(start)) => {
                state.start = Some(start.clone());
                vec![spawn(start, &[])]
            }
            Input::Command(HostCommand::Interrupt(_)) => {
                vec![Action::Stop(StopProcess {
                    proc: 1,
                    signal: Signal::Interrupt,
                    grace_ms: 1000,
                })]
            }
            Input::Line(line) => match line.text.split_once(' ').unwrap_or((&line.text, "")) {
                ("text", text) => vec![event(text_event(text))],
                ("notice", text) => vec![event(AgentEventKind::Notice(text.into()))],
                ("session", id) => {
                    vec![Action::SessionReady(SessionReady {
                        session: 1,
                        native_id: id.to_owned(),
                        model: None,
                        title: None,
                        tools: vec![],
                    })]
                }
                ("done", _) => vec![done(TurnOutcome::Completed)],
                ("unknown-session", _) => {
                    vec![done(TurnOutcome::Failed(failure(FailureKind::SessionUnknown)))]
                }
                _ => vec![],
            },
            _ => vec![],
        })
    })
}

pub fn spawn(start: &StartTurn, arguments: &[&str]) -> Action {
    let mut arguments: Vec<ArgumentValue> =
        arguments.iter().map(|text| ArgumentValue::Text((*text).to_owned())).collect();
    if let Some(id) = &start.native_id {
        arguments
            .extend([ArgumentValue::Text("--resume".to_owned()), ArgumentValue::Text(id.clone())]);
    }
    let stdin = start
        .parts
        .iter()
        .filter_map(|part| {
            if let PromptPart::Text(text) = part { Some(Chunk::Text(text.clone())) } else { None }
        })
        .collect();
    let (session, turn) = (Some(start.session), Some(start.turn));
    Action::Spawn(Spawn {
        proc: 1,
        program: "agent".into(),
        arguments,
        environment: vec![],
        stdin,
        keep_open: false,
        listens: false,
        basic_auth: None,
        session,
        turn,
    })
}

pub fn event(kind: AgentEventKind) -> Action {
    Action::Event(AgentEvent { session: 1, turn: 1, kind })
}

pub fn text_event(text: &str) -> AgentEventKind {
    AgentEventKind::Text(TextEvent { part: 0, text: text.to_owned(), replace: false, parent: None })
}

pub fn done(outcome: TurnOutcome) -> Action {
    Action::TurnDone(TurnDone { session: 1, turn: 1, outcome, text: None, usage: None })
}

pub fn failure(kind: FailureKind) -> AgentFailure {
    AgentFailure { kind, message: "inner words /etc/secret".into(), retry_after_ms: None }
}

/// An in-process agent, as seen by its own code.
pub struct Agent {
    pub launch: Launch,
    pub prompt: String,
    events: mpsc::Sender<ProcessEvent>,
    pub commands: mpsc::UnboundedReceiver<ProcessCommand>,
}

impl Agent {
    pub async fn say(&self, lines: &[&str]) {
        let lines = lines
            .iter()
            .map(|text| OutputLine {
                pipe: Pipe::Stdout,
                text: (*text).to_owned(),
                truncated: false,
            })
            .collect();
        // The driver may have dropped the process already.
        let _ = self.events.send(ProcessEvent::Lines(lines)).await;
    }

    pub async fn exit(self, how: Exit, stderr: &str) {
        let _ =
            self.events.send(ProcessEvent::Exited { how, stderr_tail: stderr.to_owned() }).await;
    }
}

type Behaviour = Arc<dyn Fn(Agent) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send + Sync>;

/// Starts in-process agents and remembers their launches.
pub struct ScriptedLauncher {
    behaviour: Behaviour,
    pub launches: Mutex<Vec<Launch>>,
}

impl ScriptedLauncher {
    pub fn new<F: Future<Output = ()> + Send + 'static>(
        behaviour: impl Fn(Agent) -> F + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            behaviour: Arc::new(move |agent| Box::pin(behaviour(agent))),
            launches: Mutex::default(),
        })
    }

    pub fn prompts(&self) -> Vec<String> {
        self.launches
            .lock()
            .unwrap()
            .iter()
            .map(|launch| String::from_utf8(launch.stdin.clone()).unwrap())
            .collect()
    }
}

#[async_trait]
impl Launcher for ScriptedLauncher {
    async fn launch(&self, launch: Launch) -> Result<AgentProcess, LaunchError> {
        let (events, received) = mpsc::channel(16);
        let (commands, receiver) = mpsc::unbounded_channel();
        self.launches.lock().unwrap().push(launch.clone());
        let prompt = String::from_utf8_lossy(&launch.stdin).into_owned();
        tokio::spawn((self.behaviour)(Agent { launch, prompt, events, commands: receiver }));
        Ok(AgentProcess { events: received, commands, pid: None, held: false })
    }
}

/// An outlet that collects everything for tests to inspect.
#[derive(Default)]
pub struct Collected {
    answers: watch::Sender<Vec<(Event, TurnAnswer)>>,
    /// Sequence numbers of events in the order in which their turns began.
    pub begun: Mutex<Vec<u64>>,
    /// The events that were shown while turns ran.
    pub shown: Mutex<Vec<AgentEventKind>>,
    questions: watch::Sender<Vec<OpenQuestion>>,
    settled: watch::Sender<Vec<(String, Settlement)>>,
    /// Whether questions cannot be shown to anybody.
    pub blind: AtomicBool,
    /// Files that can be fetched, by their source.
    pub files: Mutex<HashMap<String, Vec<u8>>>,
    /// The traces of earlier processes, of all replies that were opened.
    pub traces: Mutex<Vec<PriorDelivery>>,
    notices: watch::Sender<Vec<Notice>>,
    /// The topics of waits that ended, with their lines.
    pub ended_waits: watch::Sender<Vec<(String, String)>>,
    /// Whether notices are posted, but the responses to them are held back.
    pub holds_responses: watch::Sender<bool>,
    /// Messages that were reported as unfinished.
    pub unfinished: Mutex<Vec<MessageId>>,
    /// Events for which a thread was requested.
    pub threads: watch::Sender<Vec<u64>>,
    /// The result of opening a thread. `None`: Discord never answers.
    pub thread: Mutex<Option<Result<OpenedThread, String>>>,
    /// Questions of an earlier process that stay open.
    pub continued: Mutex<Vec<String>>,
    /// Messages before the event, for recaps.
    pub said: Mutex<Vec<RecapMessage>>,
    /// The channels that each user may read and write, by ids in Discord.
    pub permitted: Mutex<Vec<(u64, u64)>>,
    /// The number of interruptions before a restart that people saw.
    pub interrupted: Mutex<usize>,
    /// Called with everything that is shown.
    pub look: OnceLock<Look>,
}

/// The function in [`Collected::look`].
pub type Look = Box<dyn Fn(&AgentEventKind) + Send + Sync>;

impl Collected {
    /// Waits for `count` answers and returns them.
    pub async fn answers(&self, count: usize) -> Vec<(Event, TurnAnswer)> {
        all(&self.answers, count, "answers").await
    }

    /// Waits for `count` questions of agents and returns them.
    pub async fn questions(&self, count: usize) -> Vec<OpenQuestion> {
        all(&self.questions, count, "questions").await
    }

    /// Waits for `count` notices and returns them.
    pub async fn notices(&self, count: usize) -> Vec<Notice> {
        all(&self.notices, count, "notices").await
    }

    /// Waits for `count` settlements of questions and returns them.
    pub async fn settled(&self, count: usize) -> Vec<(String, Settlement)> {
        all(&self.settled, count, "settlements").await
    }
}

async fn all<T: Clone>(list: &watch::Sender<Vec<T>>, count: usize, what: &str) -> Vec<T> {
    let mut so_far = list.subscribe();
    let enough =
        tokio::time::timeout(Duration::from_secs(120), so_far.wait_for(|list| list.len() >= count))
            .await;
    match enough {
        Ok(found) => found.unwrap().clone(),
        Err(_) => panic!("only {} of {count} {what} came", list.borrow().len()),
    }
}

/// [`Collected`] as an outlet.
pub struct CollectingOutlet(pub Arc<Collected>);

#[async_trait]
impl Outlet for CollectingOutlet {
    fn continue_questions(&self, ids: &[String]) {
        self.0.continued.lock().unwrap().extend_from_slice(ids);
    }

    fn open_tracked(&self, event: &Event, traces: PriorDelivery) -> Box<dyn Reply> {
        self.0.traces.lock().unwrap().push(traces);
        self.open(event)
    }

    async fn open_thread(&self, event: &Event, _: PriorDelivery) -> Result<OpenedThread, String> {
        self.0.threads.send_modify(|threads| threads.push(event.sequence));
        let opened = self.0.thread.lock().unwrap().clone();
        match opened {
            Some(opened) => opened,
            None => std::future::pending().await,
        }
    }

    async fn give_up_reply(
        &self,
        _: &Event,
        notice: Notice,
        traces: PriorDelivery,
    ) -> Result<(), DeliveryError> {
        self.0.unfinished.lock().unwrap().extend(traces.posted);
        self.notify(notice).await
    }

    async fn recap(&self, _: &Event) -> Vec<RecapMessage> {
        self.0.said.lock().unwrap().clone()
    }

    async fn permissions(
        &self,
        user: UserId,
        channel: ChannelId,
    ) -> Result<LanePermissions, ChannelError> {
        let permitted = self.0.permitted.lock().unwrap();
        let may = permitted.iter().any(|(known, of)| {
            user == UserId::discord(*known) && channel == ChannelId::discord(*of)
        });
        let place = format!("#room-{channel}");
        Ok(LanePermissions { sees: may, acts: may, place, ..LanePermissions::default() })
    }

    async fn read_channel(
        &self,
        _: ChannelId,
        most: usize,
    ) -> Result<Vec<RecapMessage>, ChannelError> {
        Ok(self.0.said.lock().unwrap().iter().take(most).cloned().collect())
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        self.0.notices.send_modify(|notices| notices.push(notice));
        let _ = self.0.holds_responses.subscribe().wait_for(|holds| !*holds).await;
        Ok(())
    }

    fn end_wait(&self, topic: &str, line: &str) {
        let ended = (topic.to_owned(), line.to_owned());
        self.0.ended_waits.send_modify(|waits| waits.push(ended));
    }

    fn open(&self, event: &Event) -> Box<dyn Reply> {
        self.0.begun.lock().unwrap().push(event.sequence);
        Box::new(CollectingReply { collected: self.0.clone(), event: event.clone() })
    }

    async fn fetch(&self, attached: &AttachedFile, _: u64) -> Result<Vec<u8>, String> {
        self.0
            .files
            .lock()
            .unwrap()
            .get(&attached.source)
            .cloned()
            .ok_or_else(|| "the file is gone".to_owned())
    }
}

struct CollectingReply {
    collected: Arc<Collected>,
    event: Event,
}

#[async_trait]
impl Reply for CollectingReply {
    fn update(&mut self, event: &AgentEventKind, _: &Transcript) {
        assert_ne!(*event, text_event("panic"), "the test requested a panic");
        if let Some(look) = self.collected.look.get() {
            look(event);
        }
        self.collected.shown.lock().unwrap().push(event.clone());
    }

    fn was_interrupted(&mut self) {
        *self.collected.interrupted.lock().unwrap() += 1;
    }

    fn ask(&mut self, question: &OpenQuestion, unseen: QuestionDismissal) {
        if self.collected.blind.load(Ordering::SeqCst) {
            unseen.dismiss();
        }
        self.collected.questions.send_modify(|questions| questions.push(question.clone()));
    }

    fn question_settled(&mut self, id: &str, how: &Settlement) {
        self.collected.settled.send_modify(|settled| settled.push((id.to_owned(), how.clone())));
    }

    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        self.collected.answers.send_modify(|answers| answers.push((self.event.clone(), answer)));
        Ok(())
    }
}

/// A dispatcher with scripted parts, in its own folder.
pub struct Desk {
    pub dispatcher: Dispatcher,
    pub collected: Arc<Collected>,
    pub launcher: Arc<ScriptedLauncher>,
    pub recorder: Recorder,
    pub folder: tempfile::TempDir,
}

/// How a [`Desk`] differs from the default.
pub struct DeskOptions {
    pub understanding: Understanding,
    pub backend: Option<Arc<dyn Backend>>,
    pub slots: usize,
    pub depth: usize,
    pub query_timeout: Duration,
    pub safety: Safety,
    pub mode: Mode,
    pub secret: Option<String>,
    pub approvers: Vec<UserOrRoleId>,
    pub allowed_tools: AllowedTools,
    pub policies: Arc<dyn Policies>,
    pub observers: Arc<dyn TurnObservers>,
    pub parts: Vec<Arc<dyn TurnPart>>,
    pub policy_allow: PolicyCeiling,
    pub host_tools: Vec<HostToolKind>,
    pub tool_limits: ToolLimits,
    /// One more feature that the backend declares.
    pub feature: Option<&'static str>,
    pub router: Option<Arc<dyn Router>>,
    pub machine: Option<&'static str>,
    /// The working directory, if it is not one of the desk.
    pub cwd: Option<PathBuf>,
    /// Set if the agent confines its own commands. The value is whether that is possible here.
    pub own_sandbox: Option<bool>,
    pub clock: Clock,
}

impl Default for DeskOptions {
    fn default() -> Self {
        Self {
            understanding: plain(),
            backend: None,
            slots: 5,
            depth: 100,
            query_timeout: Duration::from_secs(30),
            safety: Safety::Edit,
            mode: Mode::Build,
            secret: None,
            approvers: vec![],
            allowed_tools: AllowedTools::All,
            policies: Arc::new(NoPolicies),
            observers: Arc::new(NoObservers),
            parts: turn_parts(),
            policy_allow: PolicyCeiling::All,
            host_tools: HostToolKind::ALL.to_vec(),
            tool_limits: ToolLimits::default(),
            feature: None,
            router: None,
            machine: None,
            cwd: None,
            own_sandbox: None,
            clock: Clock::system(),
        }
    }
}

impl Desk {
    pub async fn new(launcher: Arc<ScriptedLauncher>, desk_options: DeskOptions) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut backend =
            ScriptedBackend::with_feature(desk_options.understanding.clone(), desk_options.feature);
        backend.descriptor.own_sandbox = desk_options.own_sandbox.is_some();
        let backend = desk_options.backend.unwrap_or_else(|| Arc::new(backend));
        let backends = Arc::new(OneBackend(backend));
        let secrets: Vec<_> = desk_options.secret.clone().map(Into::into).into_iter().collect();
        let redactor = Redactor::new(&secrets);
        let collected = Arc::new(Collected::default());
        let limits = QueueLimits {
            max_concurrent: desk_options.slots,
            max_depth: desk_options.depth,
            busy_policy: BusyPolicy::Reject,
        };
        let mut parts =
            parts(folder.path(), "scripted", backends, launcher.clone(), &collected, limits).await;
        parts.host.cwd = desk_options.cwd.unwrap_or_else(|| folder.path().join("workspace"));
        std::fs::create_dir_all(&parts.host.cwd).unwrap();
        parts.machine = desk_options.machine.map(str::to_owned);
        parts.choices.project_roots = vec![parts.host.cwd.clone()];
        parts.host.mounts = desk_options.own_sandbox.unwrap_or(true);
        parts.host.limits.query_timeout = desk_options.query_timeout;
        parts.choices.safety = desk_options.safety;
        parts.choices.mode = desk_options.mode;
        parts.choices.approvers = desk_options.approvers;
        parts.choices.allowed_tools = desk_options.allowed_tools;
        parts.choices.host_tools = desk_options.host_tools;
        parts.host.tool_limits = desk_options.tool_limits;
        parts.choices.policy_allow = desk_options.policy_allow;
        parts.policies = desk_options.policies;
        parts.observers = desk_options.observers;
        let recordings = folder.path().join("recordings");
        parts.recorder = Recorder::new(recordings, RecordingLimits::UNLIMITED, redactor.clone());
        parts.redactor = redactor;
        parts.router = desk_options.router;
        parts.clock = desk_options.clock;
        let recorder = parts.recorder.clone();
        Self {
            dispatcher: Dispatcher::new(parts, desk_options.parts),
            collected,
            launcher,
            recorder,
            folder,
        }
    }

    pub fn ask(&self, channel: u64, prompt: &str) -> u64 {
        self.dispatcher.intake.submit(message(channel, prompt)).unwrap().sequence
    }
}

/// Returns the parts of a dispatcher that stores everything in `folder`. Tests change single
/// fields.
pub async fn parts(
    folder: &Path,
    backend: &str,
    backends: Arc<dyn Backends>,
    launcher: Arc<dyn Launcher>,
    collected: &Arc<Collected>,
    limits: QueueLimits,
) -> DispatcherDeps {
    DispatcherDeps {
        choices: Choices {
            backend: backend.into(),
            backends: vec![],
            model: None,
            safety: Safety::Edit,
            mode: Mode::Build,
            allowed_tools: AllowedTools::All,
            policy_allow: PolicyCeiling::All,
            host_tools: HostToolKind::ALL.to_vec(),
            recap_on_switch: true,
            waits_for_limits: true,
            collisions: aetheel_model::choice::CollisionMode::Warn,
            time_zone: jiff::tz::TimeZone::UTC,
            max_turns: 25,
            effort: None,
            project_roots: vec![],
            prompts_per_minute: None,
            prompt_limit: 256 << 10,
            attachments_max: 10,
            attachment_limit: 10 << 20,
            approvers: vec![],
        },
        clock: Clock::system(),
        limits,
        host: host(folder),
        backends,
        policies: Arc::new(NoPolicies),
        observers: Arc::new(NoObservers),
        launcher,
        unwatched_agents: false,
        outlet: Arc::new(CollectingOutlet(collected.clone())),
        workspace: Workspace::open(&folder.join("config")).await.unwrap(),
        router: None,
        journal: None,
        recorder: Recorder::new(
            folder.join("recordings"),
            RecordingLimits::UNLIMITED,
            Redactor::default(),
        ),
        redactor: Redactor::default(),
        rollback: true,
        rollout: aetheel_model::rollout::Rollout::Now,
        machine: None,
    }
}

/// Returns how agents are run, with short times. Tests change single fields.
pub fn host(folder: &Path) -> Host {
    Host {
        variables: HashMap::from([("PATH".to_owned(), std::env::var("PATH").unwrap_or_default())]),
        further_variables: vec![],
        agents: Agents::default(),
        sandbox: String::new(),
        mounts: true,
        reach_policy: None,
        wrapper: vec![],
        cwd: folder.to_owned(),
        limits: AgentLimits {
            query_timeout: Duration::from_secs(60),
            idle_timeout: None,
            ask_timeout: Duration::from_secs(600),
            link_idle: Duration::from_secs(900),
            links_warm: 5,
            stop_grace: Duration::from_millis(200),
        },
        max_turns: 25,
        tool_limits: ToolLimits::default(),
        resources: ResourceLimits { line: 1 << 20, ..ResourceLimits::default() },
    }
}

pub fn message(channel: u64, prompt: &str) -> NewEvent {
    let origin = EventOrigin::Message {
        channel: ChannelId::discord(channel),
        message: MessageId::discord(1),
    };
    NewEvent::new(Asked::Message, Lane::Channel(ChannelId::discord(channel)), origin, prompt)
}

/// Returns a gate, and a launcher whose agents answer when the gate is open.
pub fn behind_a_gate(open: bool) -> (watch::Sender<bool>, Arc<ScriptedLauncher>) {
    let (gate, passed) = watch::channel(open);
    let launcher = ScriptedLauncher::new(move |agent: Agent| {
        let mut passed = passed.clone();
        async move {
            let _ = passed.wait_for(|open| *open).await;
            agent.say(&["text ok", "done"]).await;
            agent.exit(Exit::Code(0), "").await;
        }
    });
    (gate, launcher)
}
