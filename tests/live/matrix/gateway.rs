//! The gateway with one backend and its real agent: everything except the chat adapter, in folders
//! of its own.
//!
//! Scenarios use it from the outside: they send prompts and decisions, and receive answers,
//! questions and recordings.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use aetheel::app::tool_server::{self, ToolService};
use aetheel::startup::settings::{ConfigFolder, FolderReason, OperatorSettings};
use aetheel::startup::{DrainHandle, PreparedStart, Purpose};
use aetheel_dispatch::{Dispatcher, Notice, OpenQuestion, Person, Setting, SteeringResult};
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AskDecision, Descriptor, Mode, Safety};
use aetheel_model::event::{Lane, NewEvent};
use aetheel_model::id::{ChannelId, UserId};
use aetheel_model::redact::Redactor;
use aetheel_settings::Config;
use tempfile::TempDir;

use super::super::agents::{Agent, Home, KEY};
use super::super::gateway::CANARIES;
use super::backends::Backend;
use super::stage::{Answered, Stage};
use crate::support::model_server::ModelServer;
use crate::support::scripted::message;

/// Settings that an operator may choose.
#[derive(Clone)]
pub struct Wishes {
    pub safety: Safety,
    pub mode: Mode,
    pub model: Option<String>,
    pub allowed_tools: Vec<String>,
    pub max_turns: u32,
    /// Other backends that can be chosen.
    pub beside: Vec<Backend>,
    /// The agent uses a subscription instead of a key.
    pub subscription: bool,
}

impl Default for Wishes {
    fn default() -> Self {
        Self {
            safety: Safety::Danger,
            mode: Mode::Build,
            model: None,
            allowed_tools: vec![],
            max_turns: 25,
            beside: vec![],
            subscription: false,
        }
    }
}

/// State that scenarios share: their column, their findings, and gateways that must be stopped at
/// the end.
#[derive(Clone)]
pub struct Cell {
    pub backend: Backend,
    pub(super) agent: Agent,
    descriptor: Descriptor,
    opened: Arc<Mutex<Vec<Opened>>>,
    found: Arc<Mutex<BTreeMap<String, String>>>,
}

struct Opened {
    dispatcher: Dispatcher,
    guard: DrainHandle,
    recordings: PathBuf,
    tool_server: Option<ToolService>,
}

/// Findings after the scenario of a cell.
#[derive(Default)]
pub struct Aftermath {
    /// Output that the backend's parser did not recognise, with counts.
    pub unrecognised: BTreeMap<String, u32>,
    /// Problems with the files and processes that were left behind.
    pub faults: Vec<String>,
}

impl Cell {
    pub fn new(backend: Backend, agent: Agent, descriptor: Descriptor) -> Self {
        let descriptor = if backend.one_shot { descriptor.as_one_shot() } else { descriptor };
        Self { backend, agent, descriptor, opened: Arc::default(), found: Arc::default() }
    }

    /// Records a finding for the page.
    pub fn found(&self, what: &str, how: impl Into<String>) {
        self.found.lock().unwrap().insert(what.to_owned(), how.into());
    }

    /// Returns all recorded findings.
    pub fn findings(&self) -> BTreeMap<String, String> {
        self.found.lock().unwrap().clone()
    }

    /// Returns the backend's descriptor.
    pub fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    /// Returns whether the backend has a feature in this column's form.
    pub fn has(&self, feature: Feature) -> bool {
        self.descriptor.has(feature)
    }

    /// Waits until another process of the agent can resume a session that was created just now.
    pub async fn until_resumable(&self) {
        if self.backend.resumes_in_another_minute_only() {
            let minute = || jiff::Timestamp::now().as_second() / 60;
            let made = minute();
            super::wait_up_to(Duration::from_secs(70), "another minute", || minute() != made).await;
        }
    }

    /// Starts a gateway with folders of its own.
    pub async fn open(&self, model: ModelServer, wishes: Wishes) -> Gateway {
        let folder = self.folders();
        let mut home = self.agent.settle(&model.url(), &folder.path().join("home"));
        for backend in &wishes.beside {
            settle_beside(backend, &model.url(), folder.path(), &mut home);
        }
        if wishes.subscription {
            self.agent.subscribe(&mut home);
        }
        let stage = Arc::new(Stage::default());
        let dispatcher = self.start(folder.path(), &home, &stage, wishes).await;
        Gateway { cell: self.clone(), model, folder, home, stage, dispatcher }
    }

    /// Creates the folders of a gateway.
    pub(super) fn folders(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in ["config", "workspace", "backends", "home"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        let component = component(self.backend.component);
        std::fs::copy(&component, folder.path().join("backends/it.wasm"))
            .unwrap_or_else(|error| panic!("{}: {error}", component.display()));
        // The launch profiles that are shipped.
        std::fs::copy(
            concat!(env!("CARGO_MANIFEST_DIR"), "/config/acp.md"),
            folder.path().join("config/acp.md"),
        )
        .unwrap();
        folder
    }

    async fn start(
        &self,
        folder: &Path,
        home: &Home,
        stage: &Arc<Stage>,
        wishes: Wishes,
    ) -> Dispatcher {
        let variables = self.variables(folder, home, wishes);
        let config = Config::read(|name| variables.get(name).cloned())
            .unwrap_or_else(|faults| panic!("{faults:?}"));
        let settings = OperatorSettings {
            copied_backends: None,
            folder: ConfigFolder { path: config.config_dir.clone(), reason: FolderReason::Name },
            env_file: None,
            config,
            variables,
            redactor: Redactor::new(&[KEY.to_owned().into()]),
            webhook_secrets: Default::default(),
            is_unreadable: false,
            faults: Vec::new(),
            warnings: Vec::new(),
            secret_files: Vec::new(),
            origins: Vec::new(),
        };
        let prepared = PreparedStart::prepare(settings, Purpose::Console)
            .await
            .unwrap_or_else(|refused| panic!("not started: {:?}", refused.faults));
        let config = prepared.config.clone();
        let (dispatcher, guard) = prepared.dispatcher(stage.clone(), None);
        let opened = Opened {
            tool_server: tool_server::open(&config, &dispatcher, None, None).await,
            dispatcher: dispatcher.clone(),
            guard,
            recordings: folder.join("recordings"),
        };
        self.opened.lock().unwrap().push(opened);
        dispatcher
    }

    /// Returns the gateway's environment, as an operator would set it.
    pub(super) fn variables(
        &self,
        folder: &Path,
        home: &Home,
        wishes: Wishes,
    ) -> HashMap<String, String> {
        let at = |name: &str| folder.join(name).display().to_string();
        let names: Vec<&str> = home.environment.iter().map(|(name, _)| name.as_str()).collect();
        let tools = if wishes.allowed_tools.is_empty() {
            "*".to_owned()
        } else {
            wishes.allowed_tools.join(",")
        };
        let mode = match (wishes.mode, wishes.safety) {
            (Mode::Plan, _) => "plan",
            (Mode::Build, Safety::Default) => "default",
            (Mode::Build, Safety::Edit) => "acceptEdits",
            (Mode::Build, Safety::Danger) => "bypassPermissions",
        };
        let offered = std::iter::once(&self.backend).chain(&wishes.beside);
        let offered: Vec<&str> = offered.map(|backend| backend.backend).collect();
        let model = wishes.model.or_else(|| self.backend.model.map(str::to_owned));
        let own = [
            ("AGENT_BACKEND", self.backend.backend.to_owned()),
            ("ALLOWED_BACKENDS", offered.join(",")),
            ("AGENT_ENV", names.join(",")),
            ("ALLOWED_TOOLS", tools),
            ("BACKENDS_DIR", at("backends")),
            ("BACKEND_CLI_PATH", self.agent.program.display().to_string()),
            ("BACKEND_MAX_TURNS", wishes.max_turns.to_string()),
            ("BACKEND_RUN", if self.backend.one_shot { "one-shot" } else { "live" }.to_owned()),
            ("AGENT_SANDBOX", sandbox()),
            ("CACHE_DIR", super::super::agents::cache()),
            ("CONFIG_DIR", at("config")),
            ("PERMISSION_MODE", mode.to_owned()),
            ("QUERY_TIMEOUT_MS", QUERY_TIMEOUT.as_millis().to_string()),
            ("RECORDINGS_DIR", at("recordings")),
            ("WORKSPACE_DIR", at("workspace")),
        ];
        let mut variables: HashMap<String, String> = home.environment.iter().cloned().collect();
        variables.extend(CANARIES.map(|(name, value)| (name.to_owned(), value.to_owned())));
        variables.extend(own.map(|(name, value)| (name.to_owned(), value)));
        variables.extend(model.map(|model| ("BACKEND_MODEL".to_owned(), model)));
        variables
    }

    /// Stops every gateway that the scenario opened, and checks the files and processes that they
    /// left. Must be called before their folders are removed.
    pub async fn close(&self) -> Aftermath {
        let opened = std::mem::take(&mut *self.opened.lock().unwrap());
        let mut aftermath = Aftermath::default();
        for gateway in opened {
            gateway.dispatcher.shutdown(Duration::ZERO).await;
            gateway.guard.close().await;
            aftermath.read(&gateway.recordings, gateway.tool_server.as_ref());
        }
        // The kernel needs a moment to remove killed processes.
        let begun = std::time::Instant::now();
        let mut left = super::super::gateway::marked(rustix::process::getpid());
        while !left.is_empty() && begun.elapsed() < Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(10)).await;
            left = super::super::gateway::marked(rustix::process::getpid());
        }
        if !left.is_empty() {
            aftermath.faults.push(format!("processes of runs are left: {left:?}"));
        }
        aftermath
    }
}

/// Returns the person who presses buttons.
pub fn ada() -> Person {
    Person::User { id: UserId::discord(1), name: "Ada".to_owned(), roles: vec![], owner: true }
}

/// Longer than any agent needs whose retries are limited.
const QUERY_TIMEOUT: Duration = Duration::from_secs(45);

/// A running gateway.
pub struct Gateway {
    pub model: ModelServer,
    pub home: Home,
    cell: Cell,
    folder: TempDir,
    stage: Arc<Stage>,
    pub(super) dispatcher: Dispatcher,
}

impl Gateway {
    /// Sends a prompt and waits for its answer.
    pub async fn talk(&self, prompt: &str) -> Answered {
        self.prompt(1, prompt);
        self.answer(1).await
    }

    /// Sends a prompt in a conversation.
    pub fn prompt(&self, lane: u64, prompt: &str) {
        self.dispatcher.intake.submit(message(lane, prompt)).unwrap();
    }

    /// Sends a prompt of the user Ada.
    pub fn ask(&self, lane: u64, prompt: &str) {
        let author = Some("Ada".to_owned());
        let asked = NewEvent { author, asker: Some(UserId::discord(1)), ..message(lane, prompt) };
        self.dispatcher.intake.submit(asked).unwrap();
    }

    /// Waits for a notice in a conversation's channel with these words. Returns it once.
    pub async fn notice(&self, lane: u64, words: &str) -> Notice {
        self.stage.notice(ChannelId::discord(lane), words).await
    }

    /// Waits for the next answer of a conversation, or for a notice in its channel with these words.
    pub async fn answer_or_notice(&self, lane: u64, words: &str) -> Result<Answered, Notice> {
        self.stage.answer_or_notice(&Lane::Channel(ChannelId::discord(lane)), words).await
    }

    /// Removes the unanswered turns of a lane, whose prompts were cancelled while they waited.
    pub fn forget_cancelled(&self, lane: u64) {
        self.stage.forget_cancelled(&Lane::Channel(ChannelId::discord(lane)));
    }

    /// Waits for the next answer of a conversation, oldest first.
    pub async fn answer(&self, lane: u64) -> Answered {
        self.stage.answer(&Lane::Channel(ChannelId::discord(lane))).await
    }

    /// Waits until the unfinished answer of a conversation contains this text.
    pub async fn shows(&self, lane: u64, text: &str) {
        self.stage.shows(&Lane::Channel(ChannelId::discord(lane)), text).await;
    }

    /// Stops the running turn of a conversation.
    pub fn stop(&self, lane: u64) {
        assert!(
            self.dispatcher.turns.stop(&Lane::Channel(ChannelId::discord(lane))),
            "no turn ran"
        );
    }

    /// Chooses a setting of a conversation, as `/settings` does.
    pub async fn choose(&self, lane: u64, setting: Setting, value: &str) {
        self.dispatcher
            .settings
            .choose(&Lane::Channel(ChannelId::discord(lane)), setting, Some(value))
            .await
            .unwrap_or_else(|refusal| panic!("{refusal}"));
    }

    /// Chooses the backend of a conversation, as `/settings` does, and the model that it needs.
    pub async fn choose_backend(&self, lane: u64, backend: &Backend) {
        self.dispatcher
            .settings
            .choose_backend(&Lane::Channel(ChannelId::discord(lane)), backend.backend)
            .await
            .unwrap_or_else(|refusal| panic!("{refusal}"));
        if let Some(model) = backend.model {
            self.choose(lane, Setting::Model, model).await;
        }
    }

    /// Waits for the next question of a conversation's agent.
    pub async fn question(&self, lane: u64) -> OpenQuestion {
        self.stage.question(&Lane::Channel(ChannelId::discord(lane))).await
    }

    /// Waits for a question, or for the answer of a turn that ends without another question.
    pub async fn question_or_end(&self, lane: u64) -> Result<OpenQuestion, Answered> {
        self.stage.question_or_end(&Lane::Channel(ChannelId::discord(lane))).await
    }

    /// Answers a question.
    pub fn decide(&self, question: &OpenQuestion, decision: AskDecision) {
        self.dispatcher
            .questions
            .answer(&question.id, &ada(), decision)
            .unwrap_or_else(|refusal| panic!("{refusal}: {question:?}"));
    }

    /// Sends a message to the running turn of a conversation.
    pub async fn steer(&self, lane: u64, text: &str) -> SteeringResult {
        self.dispatcher.intake.steer(message(lane, text)).await.unwrap().outcome().await
    }

    /// Stops the gateway and starts another with the same folders.
    pub async fn restart(&mut self, wishes: Wishes) {
        self.end().await;
        self.until_resumable().await;
        self.dispatcher =
            self.cell.start(self.folder.path(), &self.home, &self.stage, wishes).await;
    }

    /// See [`Cell::until_resumable`].
    pub async fn until_resumable(&self) {
        self.cell.until_resumable().await;
    }

    /// Stops the gateway. Its folders remain.
    pub async fn end(&self) {
        self.dispatcher.shutdown(Duration::ZERO).await;
    }

    /// Returns a path below the gateway's folders, for example of `config/memory.md`.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a path as text, for prompts and tools.
    pub fn at(&self, name: &str) -> String {
        self.path(name).display().to_string()
    }

    /// Reads a file below the folders. Returns an empty string if it does not exist.
    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Writes a file below the folders.
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    /// Waits until a file exists.
    pub async fn made(&self, name: &str) {
        let path = self.path(name);
        super::wait_until(&format!("{} is made", path.display()), || path.exists()).await;
    }
}

impl Aftermath {
    fn read(&mut self, folder: &Path, tool_server: Option<&ToolService>) {
        let address = tool_server.map(|server| format!("{}/mcp/", server.address));
        for day in std::fs::read_dir(folder).into_iter().flatten() {
            for file in std::fs::read_dir(day.unwrap().path()).unwrap() {
                let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
                for secret in std::iter::once(KEY).chain(CANARIES.map(|(_, value)| value)) {
                    if text.contains(secret) {
                        self.faults.push(format!("a recording holds {secret}"));
                    }
                }
                if address.as_ref().is_some_and(|address| {
                    text.split(address).skip(1).any(|rest| rest.starts_with(char::is_alphanumeric))
                }) {
                    self.faults.push("a recording holds an address of the tool server".to_owned());
                }
                match aetheel_recording::ParsedRecording::read(&text) {
                    Ok(tape) => self.fold(&tape.entries),
                    Err(error) => {
                        self.faults.push(format!("a recording does not read back: {error}"))
                    }
                }
            }
        }
    }

    fn fold(&mut self, entries: &[aetheel_recording::RecordingEntry]) {
        use aetheel_model::agent::{Action, AgentEvent, AgentEventKind};
        for entry in entries {
            if let aetheel_recording::EntryKind::Out(Action::Event(AgentEvent {
                kind: AgentEventKind::Unrecognised(unknown),
                ..
            })) = &entry.kind
            {
                *self
                    .unrecognised
                    .entry(format!("{}: {}", unknown.what, unknown.sample))
                    .or_default() += 1;
            }
        }
    }
}

/// Makes another backend available beside the first, with its agent in the same home.
fn settle_beside(backend: &Backend, url: &str, folder: &Path, home: &mut Home) {
    let agent = Agent::installed(backend.agent);
    home.add(&agent, agent.settle(url, &folder.join("home")));
    let target = folder.join(format!("backends/{}.wasm", backend.component));
    std::fs::copy(component(backend.component), target).expect("the component is built");
}

/// Returns how agents are confined: the default, unless `AGENT_SANDBOX` is set.
pub fn sandbox() -> String {
    std::env::var("AGENT_SANDBOX")
        .ok()
        .filter(|wish| !wish.is_empty())
        .unwrap_or_else(|| "auto".to_owned())
}

/// Returns the path of a built component.
pub fn component(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("backends/{name}.wasm"))
}
