//! Whole turns through dispatcher, files, component, custody and a real process, compared with that
//! process alone.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use aetheel::startup::turn_parts;
use aetheel_dispatch::{
    Choices, DeliveryError, Dispatcher, DispatcherDeps, OpenQuestion, Outlet, QuestionDismissal,
    Reply, Settlement, TurnAnswer,
};
use aetheel_model::agent::{AgentEventKind, AllowedTools, Mode, Safety};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::event::{Event, EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::fold::Transcript;
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::limits::ResourceLimits as Bounds;
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_model::rollout::Rollout;
use aetheel_process::{Custody, Means};
use aetheel_recording::{Recorder, RecordingLimits};
use aetheel_store::workspace::{Components, Workspace};
use aetheel_turn::{Agents, Host, Launcher};
use aetheel_wasm::{Engine, Registry, RegistryOptions};
use async_trait::async_trait;

use crate::backends::{load, named};
use crate::cpu::Used;
use crate::host::host;
use crate::program::Home;
use crate::script::Script;
use crate::{report, repository};

/// Turns that are measured together, the number of their lanes, and the number of rounds, each of
/// which measures the process alone and whole turns.
const TURNS: usize = 300;
const LANES: u64 = 20;
const ROUNDS: usize = 3;
/// Turns one after the other.
const IN_A_ROW: usize = 100;
/// Bytes of a long answer, as the agent prints it.
const OUTPUT: usize = 4 << 20;

/// Measures turns of the demo backend with real processes, and prints the figures.
pub async fn measure() {
    let home = Home::new();
    let slots = std::thread::available_parallelism().map_or(2, usize::from).max(5);
    let gateway =
        Gateway::new(&home, "demo", PathBuf::from(env!("CARGO_BIN_EXE_aetheel")), slots).await;
    let alone = Alone { workspace: home.path().join("workspace"), home: home.path().join("alone") };
    report::part(&format!("turns of the demo agent without its pauses, {slots} at a time"));
    // Sessions are created and saved in a lane's first turn.
    let begun = Instant::now();
    gateway.turns("Hello", LANES as usize).await;
    report::figure(
        "first turn of a lane (its session is saved and synced)",
        &report::time(begun.elapsed() / LANES as u32),
    );

    let (mut with, mut without) = (Vec::new(), Vec::new());
    let (mut extra, mut floor, mut children) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (begun, used) = (Instant::now(), Used::now());
        alone.together(TURNS, slots);
        without.push(TURNS as f64 / begun.elapsed().as_secs_f64());
        floor.push(Used::since(used).own / TURNS as u32);
        let (begun, used) = (Instant::now(), Used::now());
        gateway.turns("Hello", TURNS).await;
        with.push(TURNS as f64 / begun.elapsed().as_secs_f64());
        let used = Used::since(used);
        extra.push(used.own / TURNS as u32);
        children.push(used.children / TURNS as u32);
    }
    let (with, without) = (report::percentile(&with, 50), report::percentile(&without, 50));
    report::figure("the agent's process alone", &format!("{without:.0} per second"));
    let met = with >= 500.0 || with >= without;
    report::goal(
        "whole turns",
        &format!("{with:.0} per second ({:.2} of that)", with / without),
        "≥ 500 per second, or as fast as the process alone",
        met,
    );
    let own = report::percentile(&extra, 50);
    report::goal(
        "processor time of the gateway per turn",
        &report::time(own),
        "≤ 3 ms",
        own <= Duration::from_millis(3),
    );
    report::figure(
        "processor time to start the process alone",
        &report::time(report::percentile(&floor, 50)),
    );
    report::figure(
        "processor time of the agent per turn",
        &report::time(report::percentile(&children, 50)),
    );

    let mut alone_times = Vec::new();
    let mut times = Vec::new();
    for _ in 0..IN_A_ROW {
        let begun = Instant::now();
        alone.once("Hello");
        alone_times.push(begun.elapsed());
        let begun = Instant::now();
        gateway.turns_in(0, "Hello", 1).await;
        times.push(begun.elapsed());
    }
    report::figure("the agent's process alone, one after the other", &report::spread(&alone_times));
    report::figure("a turn, one after the other", &report::spread(&times));
    let (mut remembering, mut after) = (Vec::new(), Vec::new());
    for _ in 0..IN_A_ROW / 5 {
        let begun = Instant::now();
        gateway.turns_in(0, "remember tea", 1).await;
        remembering.push(begun.elapsed());
        let begun = Instant::now();
        gateway.turns_in(0, "Hello", 1).await;
        after.push(begun.elapsed());
    }
    report::figure("a turn that appends to memory.md", &report::spread(&remembering));
    report::figure("the turn after it", &report::spread(&after));
    gateway.dispatcher.shutdown(Duration::ZERO).await;
}

/// Measures turns of Claude Code with much output, and prints the figures.
pub async fn long_output() {
    let (script, _) = Script::load(named("claude"), &*load("claude").await).await;
    let home = Home::new();
    let long = home.path().join("script");
    std::fs::write(&long, serde_json::to_vec(&script.stretched(OUTPUT)).unwrap()).unwrap();
    let agent = home.path().join("claude");
    let bench = std::env::current_exe().unwrap();
    std::fs::write(
        &agent,
        format!("#!/bin/sh\nexec '{}' replay-agent '{}'\n", bench.display(), long.display()),
    )
    .unwrap();
    std::fs::set_permissions(&agent, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let gateway = Gateway::new(&home, "claude", agent, 1).await;
    gateway.turns_in(0, "Hello", 1).await;
    let mut times = Vec::new();
    let used = Used::now();
    const TIMES: u32 = 5;
    for _ in 0..TIMES {
        let begun = Instant::now();
        gateway.turns_in(0, "Hello", 1).await;
        times.push(begun.elapsed());
    }
    let own = Used::since(used).own / TIMES;
    report::part(&format!(
        "a turn with {:.1} MB of Claude Code's output, read, parsed and recorded",
        OUTPUT as f64 / 1e6
    ));
    report::figure("output", &report::rate(OUTPUT, report::percentile(&times, 50)));
    report::figure(
        "processor time of the gateway for 1 MB",
        &report::time(own.div_f64(OUTPUT as f64 / 1e6)),
    );
    gateway.dispatcher.shutdown(Duration::ZERO).await;
}

/// A dispatcher as `aetheel run` has it, with an outlet that only counts.
pub struct Gateway {
    pub dispatcher: Dispatcher,
    failed: Arc<AtomicUsize>,
    pub registry: Arc<Registry>,
}

impl Gateway {
    pub async fn new(home: &Home, backend: &str, program: PathBuf, slots: usize) -> Self {
        let custody = Arc::new(Custody::new(Means::Best).unwrap());
        Self::over(home, backend, program, slots, custody, false).await
    }

    /// Creates a gateway with another launcher of agents. With `journal`, events are written to a
    /// journal.
    pub async fn over(
        home: &Home,
        backend: &str,
        program: PathBuf,
        slots: usize,
        launcher: Arc<dyn Launcher>,
        journal: bool,
    ) -> Self {
        Self::rolling(home, backend, program, slots, launcher, journal, Rollout::Now).await
    }

    /// Creates a gateway that rolls out new versions in this way.
    pub async fn rolling(
        home: &Home,
        backend: &str,
        program: PathBuf,
        slots: usize,
        launcher: Arc<dyn Launcher>,
        journal: bool,
        rollout: Rollout,
    ) -> Self {
        let folder = |name: &str| {
            let folder = home.path().join(name);
            std::fs::create_dir_all(&folder).unwrap();
            folder
        };
        let config = folder("config");
        for file in ["soul.md", "identity.md", "agents.md", "user.md", "tools.md", "memory.md"] {
            std::fs::copy(repository("config").join(file), config.join(file)).unwrap();
        }
        let bounds = Bounds::default();
        let engine = Engine::new(&bounds, Some(&folder("cache")), aetheel_settings::NAMES).unwrap();
        let options = RegistryOptions {
            rollout: rollout.clone(),
            components: Some(Components::new(&config)),
            ..RegistryOptions::new(&folder("backends"))
        };
        let (registry, reports) = Registry::start(engine, options).await;
        let registry = Arc::new(registry);
        assert!(registry.component(backend).is_some(), "{reports:?}");
        let path = std::env::var("PATH").unwrap_or_default();
        let variables = [("PATH", path), ("DEMO_AGENT_DELAY_MS", "0".to_owned())];
        let declared = if backend == "demo" { "aetheel" } else { backend };
        let agents = Agents::default();
        agents.set_program(backend, declared, &program);
        let failed = Arc::new(AtomicUsize::new(0));
        let workspace = Workspace::open(&config).await.unwrap();
        let journal = if journal { Some(workspace.journal().await.unwrap()) } else { None };
        let deps = DispatcherDeps {
            clock: aetheel_runtime::clock::Clock::system(),
            choices: Choices {
                backend: backend.to_owned(),
                backends: Vec::new(),
                model: None,
                // As in the recordings.
                safety: Safety::Default,
                mode: Mode::Build,
                allowed_tools: AllowedTools::All,
                policy_allow: aetheel_model::policy::PolicyCeiling::All,
                host_tools: Vec::new(),
                recap_on_switch: true,
                waits_for_limits: true,
                collisions: aetheel_model::choice::CollisionMode::Warn,
                time_zone: jiff::tz::TimeZone::UTC,
                max_turns: 25,
                effort: None,
                project_roots: Vec::new(),
                prompts_per_minute: None,
                prompt_limit: bounds.prompt,
                attachments_max: 10,
                attachment_limit: 10 << 20,
                approvers: Vec::new(),
            },
            limits: QueueLimits {
                max_concurrent: slots,
                max_depth: 10_000,
                busy_policy: BusyPolicy::Queue,
            },
            host: Host {
                variables: variables
                    .into_iter()
                    .map(|(name, value)| (name.to_owned(), value))
                    .collect(),
                agents,
                ..host(&folder("workspace"))
            },
            backends: registry.clone(),
            launcher,
            outlet: Arc::new(Counter(failed.clone())),
            workspace,
            router: None,
            policies: Arc::new(aetheel_turn::NoPolicies),
            observers: Arc::new(aetheel_turn::NoObservers),
            unwatched_agents: false,
            journal,
            recorder: Recorder::new(
                folder("recordings"),
                RecordingLimits::UNLIMITED,
                Redactor::default(),
            ),
            redactor: Redactor::default(),
            rollback: false,
            rollout,
            machine: None,
        };
        let dispatcher = Dispatcher::new(deps, turn_parts());
        Self { dispatcher, failed, registry }
    }

    /// Runs `count` turns, spread over the lanes.
    pub async fn turns(&self, prompt: &str, count: usize) {
        for number in 0..count as u64 {
            self.submit(number % LANES, prompt);
        }
        self.idle().await;
    }

    /// Runs `count` turns in one lane.
    pub async fn turns_in(&self, lane: u64, prompt: &str, count: usize) {
        for _ in 0..count {
            self.submit(lane, prompt);
        }
        self.idle().await;
    }

    pub fn submit(&self, channel: u64, prompt: &str) {
        let event = NewEvent::new(
            EventKind::Message,
            Lane::Channel(ChannelId::discord(channel)),
            EventOrigin::Message {
                channel: ChannelId::discord(channel),
                message: MessageId::discord(1),
            },
            prompt,
        );
        self.dispatcher.intake.submit(event).unwrap();
    }

    async fn idle(&self) {
        self.dispatcher.turns.idle().await;
        assert_eq!(
            self.failed.load(Ordering::Relaxed),
            0,
            "turns failed; their recordings contain the reasons"
        );
    }
}

/// Counts failures. The recordings have the details.
struct Counter(Arc<AtomicUsize>);

struct Count(Arc<AtomicUsize>);

impl Outlet for Counter {
    fn open(&self, _event: &Event) -> Box<dyn Reply> {
        Box::new(Count(self.0.clone()))
    }
}

#[async_trait]
impl Reply for Count {
    fn update(&mut self, _event: &AgentEventKind, _transcript: &Transcript) {}

    fn ask(&mut self, _question: &OpenQuestion, unseen: QuestionDismissal) {
        unseen.dismiss();
    }

    fn question_settled(&mut self, _id: &str, _how: &Settlement) {}

    async fn finish(self: Box<Self>, answer: TurnAnswer) -> Result<(), DeliveryError> {
        if let Some(failure) = answer.failure {
            eprintln!("{failure} {:?}", answer.detail);
            self.0.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }
}

/// The demo agent without a gateway: it is started, receives the prompt, and its output is read to
/// the end.
struct Alone {
    workspace: PathBuf,
    home: PathBuf,
}

impl Alone {
    fn once(&self, prompt: &str) {
        let mut child = command(&self.workspace, &self.home).spawn().unwrap();
        child.stdin.take().unwrap().write_all(prompt.as_bytes()).unwrap();
        let mut said = String::new();
        child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(child.wait().unwrap().success() && said.contains("\"done\""));
    }

    /// Runs `count` turns, `at_a_time` in parallel.
    fn together(&self, count: usize, at_a_time: usize) {
        let left = AtomicUsize::new(count);
        std::thread::scope(|scope| {
            for _ in 0..at_a_time {
                scope.spawn(|| {
                    while left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                            left.checked_sub(1)
                        })
                        .is_ok()
                    {
                        self.once("Hello");
                    }
                });
            }
        });
    }
}

fn command(workspace: &Path, home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aetheel"));
    command
        .arg("demo-agent")
        .current_dir(workspace)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("DEMO_AGENT_DELAY_MS", "0")
        .env("DEMO_AGENT_HOME", home)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}
