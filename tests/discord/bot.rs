//! A bot with the real dispatcher and scripted agents in this process.
//!
//! The dispatcher's turns begin and end on their own and post nothing in Discord. A test posts
//! through a [`Turn`] of its own instead.

use std::io::Write;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, LazyLock, Mutex};
use std::time::Duration;

use aetheel::startup::turn_parts;
use aetheel_discord::{
    Discord, DiscordOptions, EventSharing, GatewayListener, OfferHandler, StartError, TimeLimits,
};
use aetheel_dispatch::{
    DeliveryError, Dispatcher, DispatcherDeps, Notice, OfferEffect, OfferRefusal, OpenQuestion,
    OpenedThread, Outlet, Person, PriorDelivery, QuestionDismissal, Reply, Settlement, Subject,
    TurnAnswer,
};
use aetheel_model::access::AllowLists;
use aetheel_model::agent::{
    Action, AgentEventKind, Ask, AskDecision, AskKind, Chunk, Exit, HostCommand, Input, TextEvent,
    ToolEnd, ToolOutput, ToolStart, ToolStatus, Write as WriteAction,
};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::discord::DiscordSettings;
use aetheel_model::event::{AttachedFile, Event, Lane, NewEvent};
use aetheel_model::fold::Transcript;
use aetheel_model::id::{ChannelId, UserId, UserOrRoleId};
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_recording::Backend;
use aetheel_store::workspace::Workspace;
use aetheel_turn::{Backends, ProcessCommand};
use async_trait::async_trait;
use tempfile::TempDir;
use tokio::sync::watch;

use crate::support::discord::{ANN, BOB, LIMIT, LocalDiscord, OWNER, TOKEN};
use crate::support::scripted::{
    Agent, Collected, ScriptedBackend, ScriptedLauncher, Understanding, parts, plain,
};

/// State that survives a restart of the bot: the operator's folder, the behaviour of agents, and
/// records of what happened.
pub struct Home {
    folder: TempDir,
    pub workspace: Workspace,
    /// Whether events are written to a journal.
    pub kept: bool,
    /// Maximum length of a prompt in bytes.
    pub prompt_limit: usize,
    pub approvers: Vec<UserOrRoleId>,
    pub redactor: Redactor,
    /// Whether replies of the dispatcher are posted in Discord.
    pub shown: bool,
    /// Lines that an agent prints first. If empty, the agent's answer is `ok`.
    pub says: &'static [&'static str],
    /// Levels of thinking that the backend `demo` offers.
    pub efforts: [&'static str; 2],
    /// Events whose turns began, in order.
    pub begun: Mutex<Vec<Event>>,
    /// While this is true, no agent ends its turn.
    pub busy: watch::Sender<bool>,
    /// While this is true, the check whether a backend is available does not return.
    pub slow: watch::Sender<bool>,
    /// The reason why the backend `claude` is not available, if it is not.
    pub unavailable: Mutex<Option<String>>,
    /// The question that the next agent asks.
    asks: Mutex<Option<Ask>>,
    /// Questions that agents asked.
    asked: Mutex<Vec<OpenQuestion>>,
    /// Answers of turns that ended.
    pub answers: Mutex<Vec<TurnAnswer>>,
    /// Events for which a thread was requested.
    pub threads: Mutex<Vec<Event>>,
    /// Questions that people answered: the id, the person's name and the decision.
    pub decided: Mutex<Vec<(String, String, AskDecision)>>,
    /// Ids of the offers whose button was pressed, and the person.
    pub pressed: Mutex<Vec<(String, Person)>>,
    /// Refusal of every such press, if set.
    pub refused_press: Mutex<Option<OfferRefusal>>,
    /// Ids of questions whose turns continue after the restart.
    pub continues: Mutex<Vec<String>>,
    sessions: AtomicUsize,
    launched: AtomicUsize,
}

impl Home {
    pub async fn new() -> Arc<Self> {
        Self::with(|_| {}).await
    }

    /// Creates a home and lets `change` modify it.
    pub async fn with(change: impl FnOnce(&mut Self)) -> Arc<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut home = Self {
            workspace: Workspace::open(&folder.path().join("config")).await.unwrap(),
            folder,
            kept: false,
            prompt_limit: 256 << 10,
            approvers: vec![],
            redactor: Redactor::default(),
            shown: false,
            says: &[],
            efforts: ["low", "high"],
            begun: Mutex::default(),
            busy: watch::Sender::new(false),
            slow: watch::Sender::new(false),
            unavailable: Mutex::default(),
            asks: Mutex::default(),
            asked: Mutex::default(),
            answers: Mutex::default(),
            threads: Mutex::default(),
            decided: Mutex::default(),
            pressed: Mutex::default(),
            refused_press: Mutex::default(),
            continues: Mutex::default(),
            sessions: AtomicUsize::new(1),
            launched: AtomicUsize::new(0),
        };
        change(&mut home);
        Arc::new(home)
    }

    /// Returns the prompts of the turns that began.
    pub fn prompts(&self) -> Vec<String> {
        self.begun.lock().unwrap().iter().map(|event| event.prompt.clone()).collect()
    }

    /// Writes one of the operator's files.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.workspace.folder().join(name), text).unwrap();
    }

    /// Returns the text of a state file, or an empty string if it does not exist.
    pub fn state(&self, name: &str) -> String {
        std::fs::read_to_string(self.workspace.folder().join("state").join(name))
            .unwrap_or_default()
    }

    /// Returns whether the question is saved as open.
    pub fn is_noted(&self, question: &str) -> bool {
        self.state("discord.md").contains(&format!("`question:{question}`"))
    }

    /// Returns the last message of the channel that is saved as handled.
    pub async fn last_seen(&self, channel: u64) -> Option<u64> {
        let seen = self.workspace.state.discord.seen().await;
        seen.get(&ChannelId::discord(channel)).and_then(|message| message.as_discord())
    }

    /// Returns the channel's session with `demo`.
    pub async fn session(&self, channel: u64) -> Option<String> {
        let binding = self
            .workspace
            .state
            .bindings
            .get(&Lane::Channel(ChannelId::discord(channel)), "demo")
            .await;
        binding.session.map(|session| session.to_string())
    }

    /// Returns how many agents were started.
    pub fn launched(&self) -> usize {
        self.launched.load(Ordering::SeqCst)
    }

    /// Starts agents that ask the next question of `asks`, if any, and answer unless `busy` is set.
    fn launcher(self: &Arc<Self>) -> Arc<ScriptedLauncher> {
        let home = Arc::clone(self);
        ScriptedLauncher::new(move |mut agent: Agent| {
            let home = Arc::clone(&home);
            async move {
                home.launched.fetch_add(1, Ordering::SeqCst);
                if home.asks.lock().unwrap().is_some() {
                    agent.say(&["ask"]).await;
                    loop {
                        match agent.commands.recv().await {
                            Some(ProcessCommand::Write(_)) => break,
                            Some(ProcessCommand::CloseStdin) => {}
                            _ => return agent.exit(Exit::Code(130), "").await,
                        }
                    }
                }
                agent.say(home.says).await;
                let mut busy = home.busy.subscribe();
                loop {
                    tokio::select! {
                        () = async { drop(busy.wait_for(|busy| !busy).await) } => break,
                        command = agent.commands.recv() => {
                            if let Some(ProcessCommand::Stop { .. }) | None = command {
                                return agent.exit(Exit::Code(130), "").await;
                            }
                        }
                    }
                }
                let session = home.sessions.fetch_add(1, Ordering::SeqCst);
                let last = if home.says.is_empty() { "text ok" } else { "" };
                agent.say(&[&format!("session s-{session}"), last, "done"]).await;
                agent.exit(Exit::Code(0), "").await;
            }
        })
    }

    /// Like `plain`, but asks the next question of `asks` at the line `ask`.
    fn understanding(self: &Arc<Self>) -> Understanding {
        let (home, usual) = (Arc::clone(self), plain());
        Arc::new(move |state, input| match input {
            Input::Line(line) if line.text == "ask" => {
                Ok(home.asks.lock().unwrap().take().map(Action::Ask).into_iter().collect())
            }
            Input::Command(HostCommand::Answer(_)) => {
                let body = vec![Chunk::Text("answered\n".to_owned())];
                Ok(vec![Action::Write(WriteAction { proc: 1, body })])
            }
            _ => usual(state, input),
        })
    }

    /// Creates a dispatcher whose own replies go to [`Silent`].
    async fn dispatcher(self: &Arc<Self>, discord: &Discord) -> Dispatcher {
        let limits = QueueLimits {
            max_concurrent: 1_000,
            max_depth: 1_000,
            busy_policy: BusyPolicy::Reject,
        };
        let backends = Arc::new(TwoBackends::new(self));
        let (folder, collected) = (self.folder.path(), Arc::new(Collected::default()));
        let mut parts: DispatcherDeps =
            parts(folder, "demo", backends, self.launcher(), &collected, limits).await;
        parts.outlet = Arc::new(Silent { discord: discord.clone(), home: Arc::clone(self) });
        parts.workspace = self.workspace.clone();
        parts.redactor = self.redactor.clone();
        if self.kept {
            parts.journal = Some(self.workspace.journal().await.unwrap());
        }
        parts.choices.backends = vec!["claude".to_owned(), "demo".to_owned()];
        (parts.choices.model, parts.choices.effort) =
            (Some("opus".to_owned()), Some(self.efforts[0].to_owned()));
        parts.choices.prompt_limit = self.prompt_limit;
        parts.choices.approvers = self.approvers.clone();
        Dispatcher::new(parts, turn_parts())
    }

    /// Handles buttons of offers that the dispatcher does not know.
    fn accept(self: &Arc<Self>) -> OfferHandler {
        let home = Arc::clone(self);
        OfferHandler::new(move |id, person| {
            let refused = *home.refused_press.lock().unwrap();
            let pressed = refused.map_or_else(
                || {
                    home.pressed.lock().unwrap().push((id.clone(), person));
                    Ok(if id.starts_with("lost-") {
                        OfferEffect::Delivered
                    } else {
                        OfferEffect::Started
                    })
                },
                Err,
            );
            std::future::ready(Some(pressed))
        })
    }
}

/// The backends `demo`, which has no modes, and `claude`, which has all options.
struct TwoBackends {
    all: [Arc<dyn Backend>; 2],
    home: Arc<Home>,
}

impl TwoBackends {
    fn new(home: &Arc<Home>) -> Self {
        let efforts = home.efforts.map(|id| {
            let label: String = id[..1].to_uppercase() + &id[1..];
            serde_json::json!({"id": id, "label": label})
        });
        let describe = |name: &str, label: &str, features: &[&str]| {
            let descriptor = serde_json::json!({
                "name": name, "label": label, "version": "1", "features": features, "efforts": efforts,
                "models": [{"id": "opus", "label": "Opus 5"}, {"id": "sonnet", "label": "Sonnet"}],
                "programs": [{"name": "agent", "flags": [{"name": "--resume", "value": "one"}]}],
            });
            ScriptedBackend::described(home.understanding(), &descriptor.to_string())
        };
        let demo = describe("demo", "Demo *agent*", &["resume", "model", "effort"]);
        let claude = describe("claude", "Claude Code", &["resume", "model", "effort", "plan"]);
        Self { all: [Arc::new(claude), Arc::new(demo)], home: Arc::clone(home) }
    }
}

#[async_trait]
impl Backends for TwoBackends {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        self.all.iter().find(|backend| backend.descriptor().name == name).cloned()
    }

    fn names(&self) -> Vec<String> {
        vec!["claude".to_owned(), "demo".to_owned()]
    }

    async fn unavailable(&self, name: &str) -> Option<String> {
        let _ = self.home.slow.subscribe().wait_for(|slow| !slow).await;
        self.home.unavailable.lock().unwrap().clone().filter(|_| name == "claude")
    }
}

/// Records the dispatcher's replies instead of posting them. Everything else goes to Discord.
struct Silent {
    discord: Discord,
    home: Arc<Home>,
}

#[async_trait]
impl Outlet for Silent {
    fn open(&self, event: &Event) -> Box<dyn Reply> {
        self.home.begun.lock().unwrap().push(event.clone());
        if self.home.shown {
            return self.discord.open(event);
        }
        Box::new(SilentReply(Arc::clone(&self.home)))
    }

    async fn fetch(&self, attached: &AttachedFile, limit: u64) -> Result<Vec<u8>, String> {
        self.discord.fetch(attached, limit).await
    }

    async fn notify(&self, notice: Notice) -> Result<(), DeliveryError> {
        self.discord.notify(notice).await
    }

    async fn open_thread(
        &self,
        event: &Event,
        traces: PriorDelivery,
    ) -> Result<OpenedThread, String> {
        self.home.threads.lock().unwrap().push(event.clone());
        self.discord.open_thread(event, traces).await
    }

    async fn remove_waiting_marker(&self, event: &Event) {
        self.discord.remove_waiting_marker(event).await;
    }
}

struct SilentReply(Arc<Home>);

#[async_trait]
impl Reply for SilentReply {
    fn update(&mut self, _: &AgentEventKind, _: &Transcript) {}

    fn ask(&mut self, question: &OpenQuestion, _: QuestionDismissal) {
        self.0.asked.lock().unwrap().push(question.clone());
    }

    fn question_settled(&mut self, id: &str, how: &Settlement) {
        if let Settlement::Answered { by, decision } = how {
            let decided = (id.to_owned(), by.clone(), decision.clone());
            self.0.decided.lock().unwrap().push(decided);
        }
    }

    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        self.0.answers.lock().unwrap().push(answer);
        Ok(())
    }
}

/// A connected bot with its dispatcher.
pub struct Bot {
    pub discord: Discord,
    pub dispatcher: Dispatcher,
    pub home: Arc<Home>,
    pub listening: GatewayListener,
}

/// Allows every test user, also in direct messages.
pub fn everybody() -> AllowLists {
    AllowLists { users: [ANN, BOB, OWNER].map(UserId::discord).into(), ..AllowLists::default() }
}

pub fn options(local: &LocalDiscord, windows: TimeLimits) -> DiscordOptions {
    DiscordOptions {
        token: TOKEN.to_owned().into(),
        settings: DiscordSettings {
            api_base: local.url().to_owned(),
            command_alias: Some("claude".to_owned()),
            output_channel: None,
            long_answer: None,
            requests_per_second: 45,
            shards: None,
            footer: Vec::new(),
            owners: Vec::new(),
            allowed: everybody(),
        },
        dashboard: false,
        redactor: Redactor::default(),
        time_limits: windows,
        lease: aetheel_runtime::lease::Lease::endless(),
    }
}

/// Connects without state of a previous process.
pub async fn connect(options: DiscordOptions) -> Result<Discord, StartError> {
    let home = Home::new().await;
    Discord::connect(options, home.workspace.state.discord.clone()).await
}

impl Bot {
    pub async fn start(local: &LocalDiscord) -> Self {
        Self::with_windows(local, TimeLimits::default()).await
    }

    pub async fn with_windows(local: &LocalDiscord, windows: TimeLimits) -> Self {
        Self::try_start(local, windows, Home::new().await).await.expect("the bot starts")
    }

    /// Starts a bot that allows only these users.
    pub async fn allowing(local: &LocalDiscord, allowed: AllowLists) -> Self {
        let mut options = options(local, TimeLimits::default());
        options.settings.allowed = allowed;
        Self::with_options(options, Home::new().await).await.expect("the bot starts")
    }

    /// Starts a bot with the state of `home`.
    pub async fn with_home(local: &LocalDiscord, home: &Arc<Home>) -> Self {
        let home = Arc::clone(home);
        Self::try_start(local, TimeLimits::default(), home).await.expect("the bot starts")
    }

    pub async fn try_start(
        local: &LocalDiscord,
        windows: TimeLimits,
        home: Arc<Home>,
    ) -> Result<Self, StartError> {
        Self::with_options(options(local, windows), home).await
    }

    pub async fn with_options(
        options: DiscordOptions,
        home: Arc<Home>,
    ) -> Result<Self, StartError> {
        Self::sharing(options, home, None).await
    }

    /// Starts a bot as one of several nodes.
    pub async fn sharing(
        options: DiscordOptions,
        home: Arc<Home>,
        sharing: Option<EventSharing>,
    ) -> Result<Self, StartError> {
        let notes = home.workspace.state.discord.clone();
        let discord = Discord::connect(options, notes).await?;
        let dispatcher = home.dispatcher(&discord).await;
        discord.continue_questions(&home.continues.lock().unwrap());
        let _ = dispatcher.recovery.recover().await;
        let listening = discord.listen(dispatcher.clone(), Some(home.accept()), sharing);
        let listening = tokio::time::timeout(LIMIT, listening).await.expect("ready in time")?;
        Ok(Self { discord, dispatcher, home, listening })
    }

    /// Waits for the event with this prompt and opens its reply.
    pub async fn turn(&self, local: &LocalDiscord, prompt: &str) -> Turn {
        let event = self.event(local, prompt).await;
        Turn::of(self, &event)
    }

    /// Waits for the turn with this prompt to begin.
    pub async fn event(&self, local: &LocalDiscord, prompt: &str) -> Event {
        let find = |_: &LocalDiscord| {
            let begun = self.home.begun.lock().unwrap();
            begun.iter().find(|event| event.prompt == prompt).cloned()
        };
        local.wait_for(&format!("the prompt {prompt:?}"), find).await
    }

    /// Posts a prompt whose agent asks this question. Returns the turn, and the question with the
    /// id that the dispatcher gave it.
    pub async fn asking(
        &self,
        local: &LocalDiscord,
        (channel, user, prompt): (u64, u64, &str),
        question: &OpenQuestion,
    ) -> (Turn, OpenQuestion) {
        // Earlier agents must have ended, so that none of them asks the question.
        self.dispatcher.turns.idle().await;
        *self.home.asks.lock().unwrap() = Some(ask_of(question));
        local.mention(channel, user, prompt);
        let turn = self.turn(local, prompt).await;
        let asked = local.wait_for("the question", |_| self.home.asked.lock().unwrap().pop()).await;
        (turn, OpenQuestion { id: asked.id, ..question.clone() })
    }

    /// Like [`asking`](Self::asking), and also shows the question.
    pub async fn asked(
        &self,
        local: &LocalDiscord,
        prompt: (u64, u64, &str),
        question: &OpenQuestion,
    ) -> (Turn, OpenQuestion) {
        let (mut turn, question) = self.asking(local, prompt, question).await;
        turn.ask(&question);
        (turn, question)
    }

    /// Returns how many events wait.
    pub fn waiting(&self) -> usize {
        self.dispatcher.observer.queue_of(&Lane::Console).all_waiting
    }

    /// Submits an event that does not come from Discord.
    pub fn submit(&self, event: NewEvent) {
        self.dispatcher.intake.submit(event).expect("taken");
    }
}

/// Returns the agent's request that results in this question.
fn ask_of(question: &OpenQuestion) -> Ask {
    let kind = match &question.subject {
        Subject::Permission { tool, about } => AskKind::Permission(ToolStart {
            id: "t".to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: tool.clone(),
            title: "run".to_owned(),
            target: about.as_ref().map(|about| about.text.clone()),
            input: "{}".to_owned(),
        }),
        Subject::Plan(plan) => AskKind::PlanApproval(plan.clone()),
        Subject::Questions(questions) => AskKind::Questions(questions.clone()),
        Subject::SignIn(address) => AskKind::SignIn(address.clone()),
    };
    Ask {
        ask: 9,
        session: 1,
        turn: 1,
        title: question.title.clone(),
        kind,
        always_label: question.always.clone(),
        options: vec![],
        diffs: vec![],
        changeable: false,
        parent: None,
        deadline_ms: None,
    }
}

/// A turn whose agent is the test.
pub struct Turn {
    reply: Box<dyn Reply>,
    transcript: Transcript,
}

impl Turn {
    pub fn of(bot: &Bot, event: &Event) -> Self {
        Self { reply: bot.discord.open(event), transcript: Transcript::default() }
    }

    /// Opens the reply to an event that a previous process may have begun to answer.
    pub fn resumed(bot: &Bot, event: &Event, traces: PriorDelivery) -> Self {
        Self { reply: bot.discord.open_tracked(event, traces), transcript: Transcript::default() }
    }

    pub fn say(&mut self, text: &str) {
        self.report(AgentEventKind::Text(TextEvent {
            part: 0,
            text: text.to_owned(),
            replace: false,
            parent: None,
        }));
    }

    pub fn say_instead(&mut self, text: &str) {
        self.report(AgentEventKind::Text(TextEvent {
            part: 0,
            text: text.to_owned(),
            replace: true,
            parent: None,
        }));
    }

    pub fn tool(&mut self, name: &str, title: &str) {
        self.report(AgentEventKind::ToolStart(ToolStart {
            id: "t1".to_owned(),
            parent: None,
            kind: "bash".to_owned(),
            native_name: name.to_owned(),
            title: title.to_owned(),
            target: None,
            input: "{}".to_owned(),
        }));
    }

    /// Adds output of the running tool.
    pub fn tool_prints(&mut self, text: &str) {
        let (id, text) = ("t1".to_owned(), text.to_owned());
        self.report(AgentEventKind::ToolOutput(ToolOutput { id, text, replace: false }));
    }

    pub fn tool_done(&mut self) {
        let end = ToolEnd {
            id: "t1".to_owned(),
            status: ToolStatus::Ok,
            output: None,
            exit_code: None,
            diffs: Vec::new(),
        };
        self.report(AgentEventKind::ToolEnd(end));
    }

    /// Shows a question. The returned flag is set if it is dismissed because nobody can see it.
    pub fn ask(&mut self, question: &OpenQuestion) -> Arc<AtomicBool> {
        let dismissed = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&dismissed);
        self.reply
            .ask(question, QuestionDismissal::new(move || seen.store(true, Ordering::SeqCst)));
        dismissed
    }

    /// Reports that a previous process left the text so far above another message.
    pub fn was_interrupted(&mut self) {
        self.reply.was_interrupted();
    }

    /// Reports that somebody sent a message to the running turn.
    pub fn steered(&mut self) {
        self.reply.steered();
    }

    /// Delivers the answer, without a time limit.
    pub async fn deliver(self, answer: TurnAnswer) -> Result<(), DeliveryError> {
        self.reply.finish(answer).await
    }

    pub fn settled(&mut self, id: &str, how: &Settlement) {
        self.reply.question_settled(id, how);
    }

    fn report(&mut self, event: AgentEventKind) {
        self.transcript.apply(&event);
        self.reply.update(&event, &self.transcript);
    }

    pub async fn done(self, text: &str) {
        self.finish(answer(text)).await.expect("delivered");
    }

    pub async fn finish(self, answer: TurnAnswer) -> Result<(), DeliveryError> {
        tokio::time::timeout(LIMIT * 3, self.reply.finish(answer))
            .await
            .expect("delivered or refused in time")
    }
}

pub fn answer(text: &str) -> TurnAnswer {
    TurnAnswer {
        text: text.to_owned(),
        failure: None,
        notices: Vec::new(),
        backend: "demo".to_owned(),
        model: None,
        detail: None,
        agent_lost: false,
        paused: false,
        limit: None,
        cut: None,
        usage: None,
        took: Duration::from_secs(1),
        tools: None,
        offer: None,
        ping: None,
        continuation: None,
        turn: None,
        files: vec![],
    }
}

/// Everything that this thread logs while the guard exists.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

/// A second subscriber. While a process has only one, `tracing` caches that a call site is disabled
/// if a thread without the subscriber reaches it first, and never logs it again.
static SECOND_SUBSCRIBER: LazyLock<tracing::Dispatch> =
    LazyLock::new(|| tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new()));

impl Log {
    pub fn start() -> (Self, tracing::subscriber::DefaultGuard) {
        LazyLock::force(&SECOND_SUBSCRIBER);
        let log = Self::default();
        let writer = log.clone();
        let subscriber = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// While it is closed, blocks every thread that has just accepted an event.
#[derive(Clone, Default)]
pub struct Barrier(Arc<(Mutex<Gate>, Condvar)>);

#[derive(Default)]
struct Gate {
    closed: bool,
    held: usize,
}

impl Barrier {
    /// Runs a test in a runtime of its own, whose threads all log to the barrier.
    pub fn around<T>(test: impl AsyncFnOnce(Self) -> T) -> T {
        LazyLock::force(&SECOND_SUBSCRIBER);
        let barrier = Self::default();
        let writer = barrier.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .with_max_level(tracing::Level::INFO)
            .with_writer(move || writer.clone())
            .finish();
        let log = tracing::Dispatch::new(log);
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            // The guard is leaked, so that the dispatcher stays set until the thread ends.
            .on_thread_start(move || std::mem::forget(tracing::dispatcher::set_default(&log)))
            .build()
            .unwrap();
        runtime.block_on(test(barrier))
    }

    pub fn close(&self) {
        self.0.0.lock().unwrap().closed = true;
    }

    pub fn open(&self) {
        self.0.0.lock().unwrap().closed = false;
        self.0.1.notify_all();
    }

    /// Returns how many threads are blocked.
    pub fn held(&self) -> usize {
        self.0.0.lock().unwrap().held
    }
}

impl Write for Barrier {
    #[allow(clippy::disallowed_methods, reason = "it is to hold a worker up, and no other task")]
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if String::from_utf8_lossy(bytes).contains("event accepted") {
            tokio::task::block_in_place(|| {
                let (gate, opened) = &*self.0;
                let mut gate = gate.lock().unwrap();
                gate.held += 1;
                gate = opened.wait_timeout_while(gate, LIMIT, |gate| gate.closed).unwrap().0;
                gate.held -= 1;
            });
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
