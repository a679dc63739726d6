//! The operator's configuration: environment variables that are read once, with all faults reported
//! together.
//!
//! [`VARIABLES`] is the only table of their names, defaults and meanings; a test compares
//! `docs/configuration.md` with it.

mod reader;
mod runs;
mod suggest;
mod variables;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use minisign_verify::PublicKey;
use secrecy::SecretString;

use self::reader::VariableReader;
pub use self::runs::{RunMode, RunModes};
pub use self::suggest::{nearest, suggestion};
pub use self::variables::{REMOVED, SettingVariable, VARIABLES};
pub use self::words::{
    AllowLists, BusyPolicy, FooterPart, HolderMode, LogFormat, ResourceLimits, SandboxMode, Trust,
};
use crate::agent::{AllowedTools, Mode, Safety};
use crate::finding::Finding;
use crate::id::{ChannelId, GuildId, RoleId, UserId, UserOrRoleId};

/// The configuration, valid in itself. Folders and programs are checked at the start.
#[derive(Clone, Debug)]
pub struct Config {
    /// The token of the bot; only needed for Discord.
    pub discord_bot_token: Option<SecretString>,
    /// The backend of channels that did not choose another one; [`AUTO`] until one was found.
    pub agent_backend: String,
    /// The other backends that people may choose.
    pub allowed_backends: Vec<String>,
    /// The source of `agent_backend` for messages to the operator: the variable, or an argument of
    /// a command.
    pub agent_backend_source: &'static str,
    /// The run mode of agents, for all backends and for single ones.
    pub backend_run: RunModes,
    /// The program of `agent_backend`.
    pub backend_cli_path: Option<PathBuf>,
    /// The model of `agent_backend`, instead of its default.
    pub backend_model: Option<String>,
    /// The effort of `agent_backend`, as an id or label of that backend.
    pub backend_effort: Option<String>,
    /// Maximum number of rounds with the model in one turn.
    pub backend_max_turns: u32,
    /// The tools that agents may use.
    pub allowed_tools: AllowedTools,
    /// The highest safety level; channels and people can only lower it.
    pub safety: Safety,
    /// The mode, which is `plan` in the permission mode `plan`.
    pub mode: Mode,
    /// Maximum duration of a turn, without the time in which people are asked.
    pub query_timeout: Duration,
    /// Maximum time without output of an agent while none of its tools runs.
    pub idle_timeout: Option<Duration>,
    /// How long a question to people stays open.
    pub ask_timeout: Duration,
    /// How long a long-lived agent is kept without a turn.
    pub link_idle: Duration,
    /// Maximum number of long-lived agents that are kept without a turn.
    pub links_warm: usize,
    /// The time between the steps of stopping an agent.
    pub stop_grace: Duration,
    /// How long running turns may continue at shutdown.
    pub shutdown_grace: Duration,
    /// Files that contain settings and secrets, which confined agents may not read.
    pub secret_files: Vec<PathBuf>,
    /// Folder of the operator's Markdown files and the gateway's state.
    pub config_dir: PathBuf,
    /// Folder of the components (`*.wasm`), watched for changes.
    pub backends_dir: PathBuf,
    /// Working directory of agents.
    pub workspace_dir: PathBuf,
    /// Folders below which other working directories may be.
    pub project_roots: Vec<PathBuf>,
    /// Folder of the recordings of agents' runs.
    pub recordings_dir: PathBuf,
    /// Age limit of recordings.
    pub recordings_max_age: Duration,
    /// Maximum size of all recordings together, in bytes.
    pub recordings_max_bytes: u64,
    /// Maximum age of recordings whose answer could not be parsed.
    pub lost_max_age: Duration,
    /// Maximum size of the recordings whose answer could not be parsed, in bytes.
    pub lost_max_bytes: u64,
    /// How long the lines of finished turns are kept, for searches and costs.
    pub turns_kept: Duration,
    /// Folder of compiled components, which only the gateway may write to.
    pub cache_dir: PathBuf,
    /// The rule for which components may serve.
    pub backend_trust: Trust,
    /// Public minisign keys whose signatures are accepted for components.
    pub backend_signers: Vec<PublicKey>,
    /// Whether the gateway rolls back a component that parses worse than the previous one.
    pub backend_rollback: bool,
    /// Maximum number of turns that run at the same time.
    pub max_concurrent_queries: usize,
    /// Maximum number of events that may wait for a lane or a slot.
    pub max_queue_depth: usize,
    /// The treatment of a prompt from an idle lane while all slots are taken.
    pub busy_policy: BusyPolicy,
    /// How agents are confined.
    pub agent_sandbox: SandboxMode,
    /// Whether agents outlive the gateway.
    pub agent_holder: HolderMode,
    /// How long a holder (the process that keeps agents while the gateway restarts) keeps agents
    /// without a gateway.
    pub agent_hold: Duration,
    /// The database that several machines share, or `None` if this machine serves alone.
    pub cluster_url: Option<SecretString>,
    /// The name of this machine in the cluster, or `None` for its host name.
    pub node_name: Option<String>,
    /// The labels of this machine, for `node:` in `channels.md`.
    pub node_labels: Vec<String>,
    /// How long a node may be silent before another one takes over.
    pub cluster_lease: Duration,
    /// How long the agents of a node may continue while it cannot reach the database.
    pub cluster_turn_lease: Duration,
    /// Additional paths that confined agents may read.
    pub agent_read: Vec<PathBuf>,
    /// Additional paths that confined agents may change.
    pub agent_write: Vec<PathBuf>,
    /// A command that is placed before the program.
    pub agent_wrapper: Vec<String>,
    /// Names of additional variables that agents get.
    pub agent_env: Vec<String>,
    /// People, roles, channels and guilds that may use the bot.
    pub allowed: AllowLists,
    /// Users and roles that may answer every question of an agent, by id.
    pub approvers: Vec<UserOrRoleId>,
    /// Users with the rights of the application's owner, by id.
    pub owners: Vec<UserId>,
    /// Maximum number of prompts of one user in a minute, or `None` without a limit.
    pub user_prompts_per_minute: Option<u32>,
    /// The channel for the answers of schedules, hooks and webhooks that name no channel, and for
    /// notices to the operator.
    pub output_channel: Option<ChannelId>,
    /// Maximum size of an attached file, in bytes.
    pub attachments_max: usize,
    /// Size limit of an attached file, in bytes.
    pub attachment_limit: u64,
    /// Number of characters above which an answer is sent as a file.
    pub long_answer: Option<usize>,
    /// Parts of the line below an answer, in this order.
    pub footer: Vec<FooterPart>,
    /// Time zone of cron jobs and active hours without their own.
    pub time_zone: TimeZone,
    /// The address that receives webhooks.
    pub webhooks_address: Option<SocketAddr>,
    /// The address of the status pages.
    pub status_address: Option<SocketAddr>,
    /// The address of the dashboard.
    pub dashboard_address: Option<SocketAddr>,
    /// The URL under which people reach the dashboard, or `None` for its address.
    pub dashboard_url: Option<String>,
    /// Whether people may create read-only links to turns in the dashboard.
    pub dashboard_sharing: bool,
    /// The second name of the command `/ask`.
    pub command_alias: Option<String>,
    /// The URL of Discord, without a trailing slash.
    pub discord_api_base: String,
    /// Maximum number of requests to Discord in a second; 0 without a limit.
    pub discord_requests_per_second: usize,
    /// The number of shards of the bot, or `None` for the number that Discord recommends.
    pub shards: Option<u32>,
    /// The format of log lines.
    pub log_format: LogFormat,
    /// The minimum level of log lines, or a filter of the `tracing` library.
    pub log_level: String,
    /// Limits of output, memory, time and sizes.
    pub limits: ResourceLimits,
}

/// The value of `AGENT_BACKEND` with which the gateway searches for a backend when it starts.
pub const AUTO: &str = "auto";

/// Returns the additional name of the commands `/ask` and `/reset` for a backend.
fn alias_of(backend: &str) -> Option<String> {
    (backend == "claude").then(|| backend.to_owned())
}

/// Returns the folder of compiled backends, for commands that need no other setting.
#[must_use]
pub fn cache_dir(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    VariableReader::new(&variable).path("CACHE_DIR")
}

/// Returns the folder of markdown files, for commands that need no other setting.
#[must_use]
pub fn config_dir(variable: impl Fn(&str) -> Option<String>) -> PathBuf {
    VariableReader::new(&variable).path("CONFIG_DIR")
}

impl Config {
    /// Sets the backend that was found, if the setting was [`AUTO`].
    pub fn set_backend(&mut self, name: &str) {
        name.clone_into(&mut self.agent_backend);
        self.command_alias = self.command_alias.take().or_else(|| alias_of(name));
    }

    /// Reads the configuration from variables. An empty value counts as unset.
    ///
    /// # Errors
    /// All faults. Each names the variable, its value unless that is a secret, and the expected
    /// value.
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Result<Self, Vec<Finding>> {
        let (config, faults) = Self::read_all(variable);
        if faults.is_empty() { Ok(config) } else { Err(faults) }
    }

    /// Reads the configuration as [`Config::read`] does. With faults, it also returns a
    /// configuration in which invalid values are replaced by their defaults.
    pub fn read_all(variable: impl Fn(&str) -> Option<String>) -> (Self, Vec<Finding>) {
        let mut read = VariableReader::new(&variable);
        let defaults = ResourceLimits::default();
        let (safety, mode) = read.one_of(
            "PERMISSION_MODE",
            &[
                ("bypassPermissions", (Safety::Danger, Mode::Build)),
                ("acceptEdits", (Safety::Edit, Mode::Build)),
                ("default", (Safety::Default, Mode::Build)),
                ("plan", (Safety::Default, Mode::Plan)),
            ],
        );
        let agent_backend = read.text("AGENT_BACKEND");
        let config = Self {
            discord_bot_token: read
                .optional("DISCORD_BOT_TOKEN")
                .map(|token| token.trim().to_owned().into()),
            command_alias: read.optional("COMMAND_ALIAS").or_else(|| alias_of(&agent_backend)),
            agent_backend,
            allowed_backends: read.list("ALLOWED_BACKENDS"),
            agent_backend_source: "AGENT_BACKEND",
            backend_run: read.runs("BACKEND_RUN"),
            backend_cli_path: read
                .optional("BACKEND_CLI_PATH")
                .map(|text| read.expanded(text.trim())),
            backend_model: read.plain_word("BACKEND_MODEL"),
            backend_effort: read.plain_word("BACKEND_EFFORT"),
            backend_max_turns: read.number("BACKEND_MAX_TURNS", 1, 10_000) as u32,
            allowed_tools: read.allowed_tools("ALLOWED_TOOLS"),
            safety,
            mode,
            query_timeout: read.milliseconds("QUERY_TIMEOUT_MS", 1_000),
            idle_timeout: read.milliseconds_or_never("IDLE_TIMEOUT_MS", 1_000),
            ask_timeout: read.milliseconds("ASK_TIMEOUT_MS", 1_000),
            link_idle: read.milliseconds("LINK_IDLE_MS", 0),
            links_warm: read.number("LINKS_WARM", 0, 10_000) as usize,
            stop_grace: read.milliseconds("STOP_GRACE_MS", 100),
            shutdown_grace: read.milliseconds("SHUTDOWN_GRACE_MS", 0),
            secret_files: Vec::new(),
            config_dir: read.path("CONFIG_DIR"),
            backends_dir: read.path("BACKENDS_DIR"),
            workspace_dir: read.path("WORKSPACE_DIR"),
            project_roots: read.paths("PROJECT_ROOTS", "WORKSPACE_DIR"),
            recordings_dir: read.path("RECORDINGS_DIR"),
            recordings_max_age: Duration::from_secs(
                read.number("RECORDINGS_MAX_DAYS", 0, 36_500) * 86_400,
            ),
            recordings_max_bytes: read.number("RECORDINGS_MAX_MIB", 0, 1 << 30) << 20,
            lost_max_age: Duration::from_secs(read.number("LOST_MAX_DAYS", 0, 36_500) * 86_400),
            lost_max_bytes: read.number("LOST_MAX_MIB", 0, 1 << 30) << 20,
            turns_kept: Duration::from_secs(read.number("TURNS_KEPT_DAYS", 0, 36_500) * 86_400),
            cache_dir: read.path("CACHE_DIR"),
            backend_trust: read.one_of("BACKEND_TRUST", &Trust::WORDS),
            backend_signers: read.public_keys("BACKEND_SIGNERS"),
            backend_rollback: read.one_of("BACKEND_ROLLBACK", &[("auto", true), ("never", false)]),
            max_concurrent_queries: read.number("MAX_CONCURRENT_QUERIES", 1, 1_000) as usize,
            max_queue_depth: read.number("MAX_QUEUE_DEPTH", 1, 1_000_000) as usize,
            busy_policy: read.one_of(
                "BUSY_POLICY",
                &[("reject", BusyPolicy::Reject), ("queue", BusyPolicy::Queue)],
            ),
            agent_sandbox: read.one_of("AGENT_SANDBOX", &SandboxMode::WORDS),
            agent_holder: read.one_of("AGENT_HOLDER", &HolderMode::WORDS),
            agent_hold: Duration::from_secs(read.number("AGENT_HOLD_SECONDS", 1, 30 * 86_400)),
            cluster_url: read.optional("CLUSTER_URL").map(|url| url.trim().to_owned().into()),
            node_name: read.optional("NODE_NAME"),
            node_labels: read.list("NODE_LABELS"),
            cluster_lease: Duration::from_secs(read.number("CLUSTER_LEASE_SECONDS", 2, 60)),
            cluster_turn_lease: Duration::from_secs(read.number(
                "CLUSTER_TURN_LEASE_SECONDS",
                2,
                3_600,
            )),
            agent_read: read.places("AGENT_READ"),
            agent_write: read.places("AGENT_WRITE"),
            agent_wrapper: read
                .text("AGENT_WRAPPER")
                .split_whitespace()
                .map(str::to_owned)
                .collect(),
            agent_env: read.list("AGENT_ENV"),
            allowed: AllowLists {
                users: read.ids("ALLOWED_USERS", UserId::parse_nonzero),
                roles: read.ids("ALLOWED_ROLES", RoleId::parse_nonzero),
                channels: read.ids("ALLOWED_CHANNELS", ChannelId::parse_nonzero),
                guilds: read.ids("ALLOWED_GUILDS", GuildId::parse_nonzero),
            },
            approvers: read.ids("APPROVERS", UserOrRoleId::parse_nonzero),
            owners: read.ids("OWNERS", UserId::parse_nonzero),
            user_prompts_per_minute: Some(read.number("USER_PROMPTS_PER_MINUTE", 0, 10_000) as u32)
                .filter(|most| *most > 0),
            output_channel: read.id("OUTPUT_CHANNEL_ID", ChannelId::parse_nonzero),
            attachments_max: read.number("ATTACHMENTS_MAX", 0, 10) as usize,
            attachment_limit: read.number("ATTACHMENT_LIMIT_BYTES", 0, 100 << 20),
            long_answer: Some(read.number("LONG_ANSWER_CHARS", 0, 1 << 30) as usize)
                .filter(|chars| *chars > 0),
            footer: read.some_of("FOOTER", &FooterPart::WORDS),
            time_zone: read.time_zone("TIME_ZONE"),
            webhooks_address: read.socket("WEBHOOKS_ADDRESS", 8787),
            status_address: read.socket("STATUS_ADDRESS", 9464),
            dashboard_address: read.socket("DASHBOARD_ADDRESS", 8788),
            dashboard_url: read.optional("DASHBOARD_URL").map(|url| url.trim().to_owned()),
            dashboard_sharing: read.one_of("DASHBOARD_SHARING", &[("on", true), ("off", false)]),
            discord_api_base: read.address("DISCORD_API_BASE"),
            discord_requests_per_second: read.number("DISCORD_REQUESTS_PER_SECOND", 0, 1_000_000)
                as usize,
            shards: read.number_or_auto("SHARDS", 1, 1_000).map(|shards| shards as u32),
            log_format: read.one_of(
                "LOG_FORMAT",
                &[
                    ("auto", LogFormat::Auto),
                    ("human", LogFormat::Human),
                    ("json", LogFormat::Json),
                ],
            ),
            log_level: read.text("LOG_LEVEL"),
            limits: ResourceLimits {
                line: read.number("LINE_LIMIT_BYTES", defaults.line as u64, 1 << 30) as usize,
                output: read.number("OUTPUT_LIMIT_BYTES", defaults.output, 1 << 40),
                prompt: read.number("PROMPT_LIMIT_BYTES", defaults.prompt as u64, 1 << 30) as usize,
                guest_memory: read.number(
                    "GUEST_MEMORY_BYTES",
                    defaults.guest_memory as u64,
                    4 << 30,
                ) as usize,
                guest_call: read.milliseconds("GUEST_CALL_MS", 1_000),
                component: read.number("COMPONENT_LIMIT_BYTES", defaults.component, 1 << 30),
                compile: read.milliseconds("COMPILE_TIMEOUT_MS", 120_000),
            },
        };
        if config.agent_env.iter().any(|name| name == "DISCORD_BOT_TOKEN") {
            read.fault(
                "AGENT_ENV must not name `DISCORD_BOT_TOKEN`: agents never get it".to_owned(),
            );
        }
        if config.backend_trust == Trust::Signed
            && variable("BACKEND_SIGNERS").is_none_or(|keys| keys.trim().is_empty())
        {
            read.fault("BACKEND_TRUST=signed needs BACKEND_SIGNERS: the public keys whose signatures are accepted".to_owned());
        }
        if let Some(alias) = &config.command_alias
            && !(alias.len() <= 26
                && !alias.is_empty()
                && alias.bytes().all(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_'
                }))
        {
            read.fault(format!(
                "COMMAND_ALIAS {alias:?} must be 1 to 26 lower-case letters, digits, `-` or `_`"
            ));
        }
        (config, read.faults)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Config, Vec<Finding>> {
        let map: HashMap<&str, &str> = pairs.iter().copied().collect();
        Config::read(|name| map.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_defaults_are_those_of_the_requirements() {
        let config = read(&[]).expect("defaults are valid");
        assert_eq!(config.agent_backend, "claude");
        assert_eq!(
            config.allowed_tools,
            AllowedTools::Only(
                ["Read", "Glob", "Grep", "WebSearch", "WebFetch"].map(str::to_owned).into()
            )
        );
        assert_eq!((config.safety, config.mode), (Safety::Danger, Mode::Build));
        assert_eq!(config.query_timeout, Duration::from_secs(3_600));
        assert_eq!(config.idle_timeout, Some(Duration::from_secs(900)));
        assert_eq!(
            (config.max_concurrent_queries, config.max_queue_depth, config.backend_max_turns),
            (5, 100, 25)
        );
        assert_eq!(config.config_dir, PathBuf::from("./config"));
        assert_eq!(config.command_alias.as_deref(), Some("claude"));
        assert_eq!(config.limits, ResourceLimits::default());
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let faults = read(&[
            ("PERMISSION_MODE", "yolo"),
            ("QUERY_TIMEOUT_MS", "soon"),
            ("MAX_QUEUE_DEPTH", "0"),
            ("ALLOWED_USERS", "12,bob"),
            ("DISCORD_API_BASE", "discord"),
            ("GUEST_CALL_MS", "10"),
            ("BACKEND_MODEL", "--oops"),
            ("AGENT_ENV", "DISCORD_BOT_TOKEN"),
            ("BACKEND_RUN", "claude=twice"),
            ("TIME_ZONE", "Europe/Nowhere"),
            ("STATUS_ADDRESS", "localhost"),
            ("FOOTER", "backend,weather"),
            ("OUTPUT_CHANNEL_ID", "1,2"),
            ("BACKEND_SIGNERS", "nokey"),
        ])
        .expect_err("faults");
        assert_eq!(faults.len(), 14, "{faults:#?}");
        assert!(
            faults.iter().any(|fault| fault.message.contains("`acceptEdits`")),
            "choices are listed: {faults:#?}"
        );
    }

    #[test]
    fn signatures_need_signers_and_signers_are_keys() {
        let key = "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3";
        let config =
            read(&[("BACKEND_TRUST", "signed"), ("BACKEND_SIGNERS", &format!("{key}, {key}"))])
                .expect("valid");
        assert_eq!((config.backend_trust, config.backend_signers.len()), (Trust::Signed, 2));
        let faults = read(&[("BACKEND_TRUST", "signed")]).expect_err("no keys");
        assert!(faults[0].message.contains("BACKEND_SIGNERS"), "{faults:?}");
        let faults = read(&[("BACKEND_SIGNERS", &format!("{key},RWQshort"))]).expect_err("no key");
        assert!(faults.len() == 1 && faults[0].message.contains("\"RWQshort\""), "{faults:?}");
    }

    #[test]
    fn ids_are_read_with_and_without_their_platform() {
        let config = read(&[
            ("ALLOWED_USERS", "12, discord:13"),
            ("ALLOWED_GUILDS", "discord:14"),
            ("APPROVERS", "15,discord:16"),
            ("OUTPUT_CHANNEL_ID", "discord:17"),
        ])
        .expect("valid");
        assert_eq!(config.allowed.users, [UserId::discord(12), UserId::discord(13)]);
        assert_eq!(config.allowed.guilds, [GuildId::discord(14)]);
        assert_eq!(config.approvers, [UserOrRoleId::discord(15), UserOrRoleId::discord(16)]);
        assert_eq!(config.output_channel, Some(ChannelId::discord(17)));
        for bad in ["0", "discord:0", "slack:1", "discord:"] {
            let faults = read(&[("ALLOWED_USERS", bad)]).expect_err("not an id");
            let wanted = format!("ALLOWED_USERS: {bad:?} is not a Discord id");
            assert!(faults.len() == 1 && faults[0].message.starts_with(&wanted), "{faults:?}");
        }
    }

    #[test]
    fn an_empty_value_counts_as_unset() {
        assert_eq!(
            read(&[("QUERY_TIMEOUT_MS", " ")]).expect("valid").query_timeout,
            Duration::from_secs(3_600)
        );
    }

    #[test]
    fn an_idle_timeout_of_zero_means_no_limit() {
        let idle = |text| read(&[("IDLE_TIMEOUT_MS", text)]).map(|config| config.idle_timeout);
        assert_eq!(idle("0").expect("valid"), None);
        assert_eq!(idle("1500").expect("valid"), Some(Duration::from_millis(1_500)));
        let faults = idle("999").expect_err("too short");
        assert!(faults[0].message.contains("0 or a whole number from 1000"), "{faults:?}");
    }

    #[test]
    fn an_address_may_name_localhost_and_a_refusal_proposes_a_port() {
        let config = read(&[("DASHBOARD_ADDRESS", "localhost:8788")]).expect("valid");
        assert_eq!(config.dashboard_address, Some(([127, 0, 0, 1], 8788).into()));
        for (name, proposed) in [
            ("STATUS_ADDRESS", "`127.0.0.1:9464`"),
            ("DASHBOARD_ADDRESS", "`127.0.0.1:8788`"),
            ("WEBHOOKS_ADDRESS", "`127.0.0.1:8787`"),
        ] {
            let faults = read(&[(name, "example.com:80")]).expect_err("a fault");
            assert!(faults.len() == 1 && faults[0].message.ends_with(proposed), "{faults:?}");
        }
    }

    #[test]
    fn an_empty_list_of_tools_never_means_all_tools() {
        assert_eq!(
            read(&[("ALLOWED_TOOLS", "*")]).expect("valid").allowed_tools,
            AllowedTools::All
        );
        assert_eq!(
            read(&[("ALLOWED_TOOLS", "none")]).expect("valid").allowed_tools,
            AllowedTools::Only(vec![])
        );
        for wrong in [",", "Read,", "Read Grep", "*,Read"] {
            let faults = read(&[("ALLOWED_TOOLS", wrong)]).expect_err("a fault");
            assert!(
                faults.iter().all(|fault| fault.message.starts_with("ALLOWED_TOOLS: ")),
                "{faults:?}"
            );
        }
    }

    #[test]
    fn a_tilde_is_the_home_or_the_working_directory() {
        assert_eq!(
            read(&[("HOME", "/home/x")]).expect("valid").cache_dir,
            PathBuf::from("/home/x/.cache/aetheel")
        );
        assert_eq!(read(&[]).expect("valid").cache_dir, PathBuf::from("./.cache/aetheel"));
    }

    #[test]
    fn a_program_below_the_home_folder_is_found_there() {
        let config =
            read(&[("HOME", "/home/x"), ("BACKEND_CLI_PATH", "~/bin/agent ")]).expect("valid");
        assert_eq!(config.backend_cli_path, Some(PathBuf::from("/home/x/bin/agent")));
    }

    #[test]
    fn an_invalid_value_does_not_hide_the_others() {
        let map = HashMap::from([
            ("QUERY_TIMEOUT_MS", "soon"),
            ("MAX_QUEUE_DEPTH", "7"),
            ("PERMISSION_MODE", "yolo"),
        ]);
        let (config, faults) =
            Config::read_all(|name| map.get(name).map(|value| (*value).to_owned()));
        assert_eq!(
            (faults.len(), config.query_timeout, config.max_queue_depth),
            (2, Duration::from_secs(3_600), 7)
        );
    }

    #[test]
    fn projects_are_in_the_workspace_unless_folders_are_listed() {
        assert_eq!(
            read(&[("WORKSPACE_DIR", "/w")]).expect("valid").project_roots,
            [PathBuf::from("/w")]
        );
        let config = read(&[("HOME", "/home/x"), ("PROJECT_ROOTS", "~/src, /srv")]).expect("valid");
        assert_eq!(config.project_roots, [PathBuf::from("/home/x/src"), PathBuf::from("/srv")]);
    }

    #[test]
    fn a_claude_backend_that_was_found_has_its_command_names() {
        let mut config = read(&[("AGENT_BACKEND", AUTO)]).expect("valid");
        assert_eq!(config.command_alias, None);
        config.set_backend("claude");
        assert_eq!(
            (config.agent_backend.as_str(), config.command_alias.as_deref()),
            ("claude", Some("claude"))
        );
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        let config = read(&[("DISCORD_BOT_TOKEN", "canary-token-value")]).expect("valid");
        assert!(!format!("{config:?}").contains("canary"));
    }
}
