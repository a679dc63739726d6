//! A bot connected to a local Discord, with agents in this process. Dispatcher, journal, links and
//! components are those of the program.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use aetheel::startup::turn_parts;
use aetheel_discord::{Discord, DiscordOptions, TimeLimits};
use aetheel_dispatch::{Choices, Dispatcher, DispatcherDeps};
use aetheel_model::access::AllowLists;
use aetheel_model::agent::descriptor::Feature;
use aetheel_model::agent::{AllowedTools, Descriptor};
use aetheel_model::choice::BusyPolicy;
use aetheel_model::discord::DiscordSettings;
use aetheel_model::event::{EventKind, EventOrigin, Lane, NewEvent};
use aetheel_model::id::{ChannelId, MessageId};
use aetheel_model::limits::ResourceLimits as Bounds;
use aetheel_model::queue::QueueLimits;
use aetheel_model::redact::Redactor;
use aetheel_recording::{Backend, Generation, Guest, GuestFailure, Recorder, RecordingLimits};
use aetheel_store::workspace::Workspace;
use aetheel_turn::Backends;
use aetheel_wasm::ComponentBackend;
use async_trait::async_trait;
use tempfile::TempDir;

use crate::agent::Pauses;
use crate::host::host;
use crate::local_discord::{ANN, CROWD, LocalDiscord, Message, TOKEN};
use crate::talk::Talk;

/// Requests per second. Discord allows about 50; here no request may wait.
const UNLIMITED: u32 = 1_000_000;

/// The Discord adapter with a local Discord and a dispatcher.
pub struct Bot {
    local: LocalDiscord,
    dispatcher: Dispatcher,
    ended: Arc<Mutex<Option<Instant>>>,
    _folder: TempDir,
}

/// The times until people saw an answer.
pub struct Shown {
    /// From the message to the first text, to the last text, and until nothing about it is pending.
    pub to_first_text: Duration,
    pub to_last_text: Duration,
    pub to_done: Duration,
    /// From the agent's last line to that.
    pub end: Duration,
}

impl Bot {
    /// Starts a bot whose agents only pause as given.
    pub async fn start(talk: &Talk, pauses: Pauses) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| {
            let inner = folder.path().join(name);
            std::fs::create_dir_all(&inner).unwrap();
            inner
        };
        let local = LocalDiscord::start().await;
        for route in ["POST messages", "PATCH message", "POST typing", "guilds", "channels"] {
            local.faults().limit(route, UNLIMITED, Duration::from_secs(1));
        }
        local.faults().most_per_second(usize::MAX);
        let workspace = Workspace::open(&at("config")).await.unwrap();
        let notes = workspace.state.discord.clone();
        let discord = Discord::connect(options(&local), notes).await.unwrap();
        let (backend, settings) = (Played::of(talk), talk.settings());
        let ended: Arc<Mutex<Option<Instant>>> = Arc::default();
        let agents = talk.agents(pauses, Arc::default(), Arc::clone(&ended));
        let bounds = Bounds::default();
        let mut host = host(&at("workspace"));
        host.limits.links_warm = 1_000;
        let deps = DispatcherDeps {
            clock: aetheel_runtime::clock::Clock::system(),
            choices: Choices {
                backend: backend.descriptor.name.clone(),
                backends: Vec::new(),
                model: settings.model.clone(),
                safety: settings.safety,
                mode: settings.mode,
                allowed_tools: AllowedTools::All,
                policy_allow: aetheel_model::policy::PolicyCeiling::All,
                host_tools: Vec::new(),
                recap_on_switch: true,
                waits_for_limits: true,
                collisions: aetheel_model::choice::CollisionMode::Warn,
                time_zone: jiff::tz::TimeZone::UTC,
                max_turns: 25,
                effort: settings.effort.clone(),
                project_roots: Vec::new(),
                prompts_per_minute: None,
                prompt_limit: bounds.prompt,
                attachments_max: 10,
                attachment_limit: 10 << 20,
                approvers: Vec::new(),
            },
            limits: QueueLimits {
                max_concurrent: 5,
                max_depth: 100,
                busy_policy: BusyPolicy::Queue,
            },
            host,
            backends: Arc::new(backend),
            policies: Arc::new(aetheel_turn::NoPolicies),
            observers: Arc::new(aetheel_turn::NoObservers),
            launcher: Arc::new(agents),
            outlet: Arc::new(discord),
            router: None,
            unwatched_agents: false,
            journal: Some(workspace.journal().await.unwrap()),
            workspace,
            recorder: Recorder::new(
                at("recordings"),
                RecordingLimits::UNLIMITED,
                Redactor::default(),
            ),
            redactor: Redactor::default(),
            rollback: false,
            rollout: aetheel_model::rollout::Rollout::Now,
            machine: None,
        };
        let dispatcher = Dispatcher::new(deps, turn_parts());
        Self { local, dispatcher, ended, _folder: folder }
    }

    /// Posts a prompt in a channel, and measures when people see the answer.
    pub async fn ask(&self, channel: u64) -> Shown {
        let channel = CROWD + channel;
        let begun = Instant::now();
        let message = self.local.mention(channel, ANN, "hello");
        let origin = EventOrigin::Message {
            channel: ChannelId::discord(channel),
            message: MessageId::discord(message),
        };
        self.dispatcher
            .intake
            .submit(NewEvent::new(
                EventKind::Message,
                Lane::Channel(ChannelId::discord(channel)),
                origin,
                "hello",
            ))
            .unwrap();
        self.dispatcher.turns.idle().await;
        let ended = self.ended.lock().unwrap().take().expect("the agent says something");
        let mut shown: Vec<Message> = self.local.messages(channel);
        let answer =
            shown.pop().filter(|answer| answer.reply_to == Some(message)).expect("an answer");
        assert!(!answer.content.is_empty() && !answer.content.contains('⚠'), "{}", answer.content);
        let first = answer.created;
        let whole =
            answer.edits.iter().find(|(_, text)| *text == answer.content).map(|(at, _)| *at);
        let last = if answer.edits.is_empty() { first } else { whole.expect("the last edit") };
        let done = answer.edits.last().map_or(first, |(at, _)| *at);
        Shown {
            to_first_text: first - begun,
            to_last_text: last - begun,
            to_done: done - begun,
            end: done.saturating_duration_since(ended),
        }
    }

    /// Stops all agents.
    pub async fn close(self) {
        self.dispatcher.shutdown(Duration::ZERO).await;
    }
}

fn options(local: &LocalDiscord) -> DiscordOptions {
    DiscordOptions {
        token: TOKEN.to_owned().into(),
        settings: DiscordSettings {
            api_base: local.url().to_owned(),
            command_alias: None,
            output_channel: None,
            long_answer: None,
            requests_per_second: 0,
            shards: None,
            footer: Vec::new(),
            owners: Vec::new(),
            allowed: AllowLists::default(),
        },
        dashboard: false,
        redactor: Redactor::default(),
        time_limits: TimeLimits::default(),
        lease: aetheel_runtime::lease::Lease::endless(),
    }
}

/// A component that gets the settings of its recording, but no system prompt and no limits: the
/// replayed agent has no recorded reply to these.
#[derive(Clone)]
struct Played {
    inner: Arc<ComponentBackend>,
    descriptor: Descriptor,
    options: String,
}

impl Played {
    fn of(talk: &Talk) -> Self {
        let inner = Arc::clone(&talk.backend);
        let mut descriptor = inner.descriptor().clone();
        descriptor.features.retain(|feature| {
            !matches!(feature, Feature::SystemPrompt | Feature::MaxTurns | Feature::AllowedTools)
        });
        Self { inner, descriptor, options: talk.settings().options.clone() }
    }
}

#[async_trait]
impl Backend for Played {
    fn descriptor(&self) -> &Descriptor {
        &self.descriptor
    }

    fn generation(&self) -> &Generation {
        self.inner.generation()
    }

    fn options(&self) -> &str {
        &self.options
    }

    async fn open(&self) -> Result<Box<dyn Guest>, GuestFailure> {
        self.inner.open().await
    }
}

impl Backends for Played {
    fn get(&self, name: &str) -> Option<Arc<dyn Backend>> {
        (name == self.descriptor.name).then(|| Arc::new(self.clone()) as Arc<dyn Backend>)
    }

    fn names(&self) -> Vec<String> {
        vec![self.descriptor.name.clone()]
    }
}
