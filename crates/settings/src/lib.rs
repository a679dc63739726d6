//! The operator's configuration: environment variables that are read once, with all faults reported
//! together.
//!
//! A setting is one row of a `settings!` table: its field, variable, default, reader and meaning.
//! [`VARIABLES`] has the rows of all tables; a test compares `docs/configuration.md` with it.
//!
//! | module | content |
//! |---|---|
//! | [`table`], [`setting`] | the macro `settings!`, and a setting as the operator sees it |
//! | [`reader`], [`parsers`], [`time_unit`] | finds variables, and converts their texts |
//! | [`groups`], [`runs`], [`words`], [`folders`] | groups of settings, and values with words |

mod folders;
mod groups;
mod parsers;
mod reader;
mod runs;
mod setting;
mod table;
mod time_unit;
mod words;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

pub use self::folders::{cache_dir, config_dir};
use aetheel_model::access::AllowLists;
use aetheel_model::agent::{AllowedTools, Mode, Safety};
use aetheel_model::choice::{BusyPolicy, CollisionMode, LogFormat, SandboxMode, Trust};
use aetheel_model::discord::DiscordSettings;
use aetheel_model::finding::Finding;
use aetheel_model::host_tool::HostToolKind;
use aetheel_model::id::UserOrRoleId;
use aetheel_model::limits::{AgentLimits, ResourceLimits};
use aetheel_model::policy::PolicyCeiling;
use aetheel_model::queue::QueueLimits;
use aetheel_model::registry_key::RegistryKey;
use aetheel_model::rollout::Rollout;
use aetheel_model::traces::TraceSettings;
use jiff::tz::TimeZone;
use minisign_verify::PublicKey;
use secrecy::SecretString;

use self::parsers::{
    all_or_some_of, allowed_tools, days, each_id, mebibytes, milliseconds, number, number_or_zero,
    one_of, plain_word, public_keys, rollout, seconds, socket, time_zone,
};
use self::reader::VariableReader;
pub use self::runs::{RunMode, RunModes};
pub use self::setting::SettingVariable;
use self::table::{SettingsGroup, joined, settings};
pub use self::words::{HolderMode, MendMode};

settings! {
    /// The configuration, valid in itself. Folders and programs are checked at the start.
    #[derive(Clone, Debug)]
    pub struct Config {
        /// The token of the bot; only needed for Discord.
        discord_bot_token: Option<SecretString> = "DISCORD_BOT_TOKEN", "", secret(),
            "Token of the Discord bot; needed by `aetheel run`, never given to an agent";
        /// The backend of channels that did not choose another one; [`AUTO`] until one was found.
        agent_backend: String = "AGENT_BACKEND", "auto", text(),
            "Name of the backend that answers, or `auto`: the first that can work here";
        /// The other backends that people may choose.
        allowed_backends: Vec<String> = "ALLOWED_BACKENDS", "", list(),
            "Backends people may choose besides `AGENT_BACKEND` and, in its own channel, the one `channels.md` names, separated by commas";
        /// The run mode of agents, for all backends and for single ones.
        backend_run: RunModes = "BACKEND_RUN", "", parts(RunModes::parse),
            advanced "`live`, `one-shot`, or a list with names of backends, such as `NAME=one-shot`; unset: each backend's preference";
        /// The program of `agent_backend`.
        backend_cli_path: Option<PathBuf> = "BACKEND_CLI_PATH", "", program(),
            "Path of the program of `AGENT_BACKEND`; unset: it is looked up in `PATH`";
        /// The model of `agent_backend`, instead of its default.
        backend_model: Option<String> = "BACKEND_MODEL", "", checked(plain_word),
            "Model `AGENT_BACKEND` uses; unset: its own default";
        /// The effort of `agent_backend`, as an id or label of that backend.
        backend_effort: Option<String> = "BACKEND_EFFORT", "", checked(plain_word),
            "Level of thinking `AGENT_BACKEND` uses, one of those `aetheel backend list` names; unset: its own default";
        /// The rule for which components may serve.
        backend_trust: Trust = "BACKEND_TRUST", "any", value(one_of(&Trust::WORDS)),
            "Which backend files may serve: `any`, `pinned` (SHA-256 in `CONFIG_DIR/backends.md`) or `signed`";
        /// Public minisign keys whose signatures are accepted for components.
        backend_signers: Vec<PublicKey> = "BACKEND_SIGNERS", "", parts(public_keys),
            "Public minisign keys whose signatures count, separated by commas";
        /// Whether the gateway rolls back a component that parses worse than the previous one.
        backend_rollback: bool = "BACKEND_ROLLBACK", "auto", value(one_of(&[("auto", true), ("never", false)])),
            "`auto`: the gateway rolls back a version of a backend that reads worse than the previous one. With `never` it only reports the problem";
        /// How a new version of a component replaces the one that serves.
        backend_rollout: Rollout = "BACKEND_ROLLOUT", "now", value(rollout),
            "How a new version of a backend replaces the one that serves: `now`, `shadow:N` (it first reads N turns beside the other version, without effect), `canary:PERCENT,N` (it first serves N turns in a part of the conversations) or `channels:ID,ID` (it serves only these channels until an owner promotes it)";
        /// Whether an agent mends a backend that lost replies.
        backend_mend: MendMode = "BACKEND_MEND", "off", value(one_of(&MendMode::WORDS)),
            "Whether an agent mends a backend that lost a reply: `off`, `ask` (an agent changes the backend, and an owner decides about the tested change) or `auto` (the tested change is installed)";
        /// The backend whose agent mends others.
        backend_mend_with: Option<String> = "BACKEND_MEND_WITH", "", optional(),
            "Backend whose agent mends others; unset: `AGENT_BACKEND`";
        /// The largest cost of mending a backend once, in US dollars.
        backend_mend_usd: u32 = "BACKEND_MEND_USD", "5", value(number(1, 10_000)),
            "Largest cost of mending a backend once, in US dollars, for agents that report their cost";
        /// The folder of the sources of backends.
        backend_sources: Option<PathBuf> = "BACKEND_SOURCES", "", program(),
            advanced "Folder with the sources of the backends, for `aetheel backend mend`: `guest-backends` of a checkout of this release";
        /// Credentials for a registry of backends.
        registry_key: Option<RegistryKey> = "REGISTRY_KEY", "", registry_key(),
            "Credentials for a registry of backends, as `USER:PASSWORD@HOST`; unset: those in Docker's `config.json`. Never given to an agent";
        /// Maximum number of rounds with the model in one turn.
        backend_max_turns: u32 = "BACKEND_MAX_TURNS", "25", value(number(1, 10_000)),
            "Maximum number of rounds with the model in a turn";
        /// The tools that agents may use.
        allowed_tools: AllowedTools = "ALLOWED_TOOLS", "file_read,file_search,content_search,web_search,web_fetch", parts(allowed_tools),
            "The only tools the agent may use; by unified kinds (`file_read`), the agent's own names, or other names that its backend declares; `*` for all, `none` for none";
        /// The requests that policies may allow in place of people.
        policy_allow: PolicyCeiling = "POLICY_ALLOW", "all", value(one_of(&PolicyCeiling::WORDS)),
            "Requests that policies may allow in place of people: `nothing`, `read` (tools that only read), `edit` (also edits of files in the working directory) or `all`";
        /// The tools of the host that agents may call.
        host_tools: Vec<HostToolKind> = "HOST_TOOLS", "all", parts(all_or_some_of(&HostToolKind::WORDS)),
            "Tools of the gateway that agents may call, separated by commas: `aetheel_post_file`, `aetheel_ask`, `aetheel_claim`, `aetheel_remind`, `aetheel_schedule`, `aetheel_sleep_until`, `aetheel_list_agents`, `aetheel_handoff`, `aetheel_read_channel`; `all` or `none`. Channels have the first three, and the others only if `channels.md` names them";
        /// Maximum number of calls of the host's tools in one turn.
        host_tools_per_turn: u32 = "HOST_TOOLS_PER_TURN", "30", value(number(1, 1_000)),
            advanced "Maximum number of calls of the gateway's tools in a turn";
        /// Maximum number of calls of the host's tools in one lane and hour.
        host_tools_per_hour: u32 = "HOST_TOOLS_PER_HOUR", "120", value(number(1, 10_000)),
            advanced "Maximum number of calls of the gateway's tools in one conversation and hour";
        /// Whether an agent is given the turns of other agents in its conversation.
        switch_recap: bool = "SWITCH_RECAP", "on", value(one_of(&[("on", true), ("off", false)])),
            "Whether an agent that continues the conversation of another agent is given what was asked, answered and changed: `on` or `off`";
        /// Whether lanes wait for the end of a usage limit.
        usage_limits: bool = "USAGE_LIMITS", "wait", value(one_of(&[("wait", true), ("fail", false)])),
            "Whether a conversation waits for the end of a usage limit and then continues (`wait`), or its turn fails (`fail`)";
        /// The reaction to a file that the agents of two conversations use.
        collisions: CollisionMode = "COLLISIONS", "warn", value(one_of(&CollisionMode::WORDS)),
            "Whether people are warned if the agents of two conversations use the same file, or also asked before the second agent writes it: `warn`, `ask` or `off`";
        /// The highest safety level; channels and people can only lower it.
        safety: Safety = "PERMISSION_MODE", "bypassPermissions", value(one_of(&PERMISSION_MODES)),
            "Actions that the agent may take without asking: `bypassPermissions`, `acceptEdits`, `default` or `plan`";
        /// How long running turns may continue at shutdown.
        shutdown_grace: Duration = "SHUTDOWN_GRACE_MS", "120000", value(milliseconds(0)),
            "How long running turns may continue at a shutdown before they are stopped, in milliseconds";
        /// Time zone of cron jobs and active hours without their own.
        time_zone: TimeZone = "TIME_ZONE", "UTC", value(time_zone),
            "Time zone of cron jobs and active hours that set no time zone, for example `Europe/Berlin`";
        /// The address that receives webhooks.
        webhooks_address: Option<SocketAddr> = "WEBHOOKS_ADDRESS", "", some(socket(8787)),
            "Address that accepts webhooks, for example `127.0.0.1:8787`. Without it, no webhooks";
        /// The address of the status pages.
        status_address: Option<SocketAddr> = "STATUS_ADDRESS", "", some(socket(9464)),
            "Address of `/livez`, `/readyz` and `/metrics`, for example `127.0.0.1:9464`. Without it, no status pages";
        /// The address of the dashboard.
        dashboard_address: Option<SocketAddr> = "DASHBOARD_ADDRESS", "", some(socket(8788)),
            "Address of the dashboard, for example `127.0.0.1:8788`. Without it, no dashboard";
        /// The URL under which people reach the dashboard, or `None` for its address.
        dashboard_url: Option<String> = "DASHBOARD_URL", "", trimmed(),
            "Address under which people reach the dashboard, for example `https://agents.example.com`. The default is `http://` and `DASHBOARD_ADDRESS`";
        /// Whether people may create read-only links to turns in the dashboard.
        dashboard_sharing: bool = "DASHBOARD_SHARING", "on", value(one_of(&[("on", true), ("off", false)])),
            "Whether people may make read-only links to turns, for readers without an account: `on` or `off`";
        /// Folder of the operator's Markdown files and the gateway's state.
        config_dir: PathBuf = "CONFIG_DIR", "./config", path(),
            "Folder of the markdown files: personality, memory, state; unset: `~/.config/aetheel` or `/etc/aetheel` is used instead if it exists";
        /// Folder of the components (`*.wasm`), watched for changes.
        backends_dir: PathBuf = "BACKENDS_DIR", "./backends", path(),
            "Folder of the backends (`*.wasm`), watched for changes";
        /// Working directory of agents.
        workspace_dir: PathBuf = "WORKSPACE_DIR", "./workspace", path(),
            "Working directory of the agents; created when missing";
        /// Folders below which other working directories may be.
        project_roots: Vec<PathBuf> = "PROJECT_ROOTS", "", paths(),
            "Folders that must contain the working directories of `channels.md`, separated by commas. The default is `WORKSPACE_DIR`. A list replaces `WORKSPACE_DIR`, so name that too if channels use it";
        /// Folder of the recordings of agents' runs.
        recordings_dir: PathBuf = "RECORDINGS_DIR", "./recordings", path(),
            "Folder of the recordings of every run; created when missing";
        /// Age limit of recordings.
        recordings_max_age: Duration = "RECORDINGS_MAX_DAYS", "7", value(days),
            "Days after which recordings are removed";
        /// Maximum size of all recordings together, in bytes.
        recordings_max_bytes: u64 = "RECORDINGS_MAX_MIB", "1024", value(mebibytes),
            "Maximum size of all recordings in MiB; beyond it the oldest are removed";
        /// Maximum age of recordings whose answer could not be parsed.
        lost_max_age: Duration = "LOST_MAX_DAYS", "30", value(days),
            advanced "Days that recordings of lost replies are kept, to read them again";
        /// Maximum size of the recordings whose answer could not be parsed, in bytes.
        lost_max_bytes: u64 = "LOST_MAX_MIB", "256", value(mebibytes),
            advanced "Maximum size of such recordings in MiB; beyond it the oldest are removed";
        /// How long the lines of finished turns are kept, for searches and costs.
        turns_kept: Duration = "TURNS_KEPT_DAYS", "400", value(days),
            "Days that each turn's time, person, channel and cost are kept; its texts are removed after `RECORDINGS_MAX_DAYS`";
        /// How long the entries of the audit log are kept.
        audit_kept: Duration = "AUDIT_KEPT_DAYS", "400", value(days),
            "Days that entries of the audit log are kept";
        /// Folder of compiled components, which only the gateway may write to.
        cache_dir: PathBuf = "CACHE_DIR", "~/.cache/aetheel", path(),
            advanced "Private folder for compiled backends";
        /// Maximum number of turns that run at the same time.
        max_concurrent_queries: usize = "MAX_CONCURRENT_QUERIES", "5", value(number(1, 1_000)),
            "Maximum number of turns that run at the same time";
        /// Maximum number of events that may wait for a lane or a slot.
        max_queue_depth: usize = "MAX_QUEUE_DEPTH", "100", value(number(1, 1_000_000)),
            advanced "Maximum number of waiting events; more are refused";
        /// The treatment of a prompt from an idle lane while all slots are taken.
        busy_policy: BusyPolicy = "BUSY_POLICY", "reject", value(one_of(&BusyPolicy::WORDS)),
            "Treatment of a prompt from an idle channel (one without a turn) while `MAX_CONCURRENT_QUERIES` turns run: `reject` or `queue`";
        /// How agents are confined.
        agent_sandbox: SandboxMode = "AGENT_SANDBOX", "auto", value(one_of(&SandboxMode::WORDS)),
            "How agents are confined: `auto` (Landlock if the kernel has it, otherwise no sandbox), `landlock`, `bwrap` or `off`";
        /// Whether agents outlive the gateway.
        agent_holder: HolderMode = "AGENT_HOLDER", "auto", value(one_of(&HolderMode::WORDS)),
            "Whether agents outlive the gateway: `auto` (through `aetheel hold`, which the gateway starts if none runs; if that fails, agents end with the gateway), `require` (refuse to start without) or `off`";
        /// How long a holder (the process that keeps agents while the gateway restarts) keeps
        /// agents without a gateway.
        agent_hold: Duration = "AGENT_HOLD_SECONDS", "600", value(seconds(1, 30 * 86_400)),
            advanced "How long a holder that the gateway started keeps agents without a gateway, in seconds";
        /// The database that several machines share, or `None` if this machine serves alone.
        cluster_url: Option<SecretString> = "CLUSTER_URL", "", secret(),
            "Address of a PostgreSQL database that several machines share; unset: this machine serves the bot alone";
        /// The name of this machine in the cluster, or `None` for its host name.
        node_name: Option<String> = "NODE_NAME", "", optional(),
            "Name of this machine in the cluster; unset: the machine's own";
        /// The labels of this machine, for `node:` in `channels.md`.
        node_labels: Vec<String> = "NODE_LABELS", "", list(),
            "Labels of this machine, for `node:` in channels.md, separated by commas, such as `gpu, berlin`";
        /// How long a node may be silent before another one takes over.
        cluster_lease: Duration = "CLUSTER_LEASE_SECONDS", "6", value(seconds(2, 60)),
            advanced "How long a node of the cluster may be silent before another one takes over, in seconds";
        /// How long the agents of a node may continue while it cannot reach the database.
        cluster_turn_lease: Duration = "CLUSTER_TURN_LEASE_SECONDS", "90", value(seconds(2, 3_600)),
            advanced "How long the agents of a node continue if it cannot reach the cluster's database, in seconds; at least CLUSTER_LEASE_SECONDS";
        /// Additional paths that confined agents may read.
        agent_read: Vec<PathBuf> = "AGENT_READ", "", places(),
            "More files and folders that agents in the sandbox may read and execute, absolute or with `~/`, separated by commas";
        /// Additional paths that confined agents may change.
        agent_write: Vec<PathBuf> = "AGENT_WRITE", "", places(),
            "More files and folders that agents in the sandbox may change, absolute or with `~/`, separated by commas";
        /// A command that is placed before the program.
        agent_wrapper: Vec<String> = "AGENT_WRAPPER", "", words(),
            advanced "Command placed before the agent's program, inside its sandbox, for example `nice`; it is split at blanks";
        /// Names of additional variables that agents get.
        agent_env: Vec<String> = "AGENT_ENV", "", list(),
            "Names of more variables of the gateway's environment that agents get, separated by commas";
        /// Users and roles that may answer every question of an agent, by id.
        approvers: Vec<UserOrRoleId> = "APPROVERS", "", parts(each_id(UserOrRoleId::parse_nonzero)),
            "Discord user or role ids that may answer every question of an agent, separated by commas";
        /// Maximum number of prompts of one user in a minute, or `None` without a limit.
        user_prompts_per_minute: Option<u32> = "USER_PROMPTS_PER_MINUTE", "20", value(number_or_zero(10_000)),
            "Prompts a user may send in a minute; 0: no limit";
        /// Maximum size of an attached file, in bytes.
        attachments_max: usize = "ATTACHMENTS_MAX", "10", value(number(0, 10)),
            "Maximum number of files with a prompt";
        /// Size limit of an attached file, in bytes.
        attachment_limit: u64 = "ATTACHMENT_LIMIT_BYTES", "10485760", value(number(0, 100 << 20)),
            "Largest file accepted with a prompt";
        /// The format of log lines.
        log_format: LogFormat = "LOG_FORMAT", "auto", value(one_of(&LogFormat::WORDS)),
            "`human`, `json`, or `auto`: human on a terminal and for `aetheel console`";
        /// The minimum level of log lines, or a filter of the `tracing` library.
        log_level: String = "LOG_LEVEL", "info", text(),
            "Minimum log level (libraries log warnings), or a filter such as `aetheel=debug,info`";
    }
    also {
        /// The settings of the Discord adapter, except the token.
        discord: DiscordSettings = DiscordSettings::read_from;
        /// Where traces of turns are sent.
        traces: TraceSettings = TraceSettings::read_from;
        /// Limits of the time of agents.
        agents: AgentLimits = AgentLimits::read_from;
        /// Limits of output, memory, time and sizes.
        limits: ResourceLimits = ResourceLimits::read_from;
        /// The mode, which is `plan` in the permission mode `plan`.
        mode: Mode = |read| match (read.variable)("PERMISSION_MODE") {
            Some(text) if text.trim() == "plan" => Mode::Plan,
            _ => Mode::Build,
        };
        /// Files that contain settings and secrets, which confined agents may not read.
        secret_files: Vec<PathBuf> = |_| Vec::new();
        /// The source of `agent_backend` for messages to the operator: the variable, or an argument
        /// of a command.
        agent_backend_source: &'static str = |_| "AGENT_BACKEND";
    }
}

const COUNT: usize = Config::VARIABLES.len()
    + AgentLimits::VARIABLES.len()
    + DiscordSettings::VARIABLES.len()
    + AllowLists::VARIABLES.len()
    + TraceSettings::VARIABLES.len()
    + ResourceLimits::VARIABLES.len();
const ALL: [SettingVariable; COUNT] = joined(&[
    Config::VARIABLES,
    AgentLimits::VARIABLES,
    DiscordSettings::VARIABLES,
    AllowLists::VARIABLES,
    TraceSettings::VARIABLES,
    ResourceLimits::VARIABLES,
]);

/// All variables.
pub const VARIABLES: &[SettingVariable] = &ALL;

const ALL_NAMES: [&str; COUNT] = table::names(&ALL);

/// The names of all variables.
pub const NAMES: &[&str] = &ALL_NAMES;

const NO_WEB_PUSH: &str =
    "the dashboard sends no push notifications any more, since Discord notifies of questions";

/// Variables that an earlier version read, each with a remark for the operator. If one of
/// them is still set, it is reported and ignored.
pub const REMOVED: &[(&str, &str)] =
    &[("PUSH_SERVICES", NO_WEB_PUSH), ("PUSH_CONTACT", NO_WEB_PUSH)];

/// The value of `AGENT_BACKEND` with which the gateway searches for a backend when it starts.
pub const AUTO: &str = "auto";

/// Maximum length of a second name of a command, so that Discord accepts it with `-reset`.
const MAX_ALIAS: usize = 26;

const PERMISSION_MODES: [(&str, Safety); 4] = [
    ("bypassPermissions", Safety::Danger),
    ("acceptEdits", Safety::Edit),
    ("default", Safety::Default),
    ("plan", Safety::Default),
];

impl Config {
    /// Returns the limits of the queue.
    #[must_use]
    pub fn queue_limits(&self) -> QueueLimits {
        QueueLimits {
            max_concurrent: self.max_concurrent_queries,
            max_depth: self.max_queue_depth,
            busy_policy: self.busy_policy,
        }
    }

    /// Sets the backend that answers, after [`AUTO`] was resolved. `own_command` is whether its
    /// descriptor declares its name as a second name of `/ask`.
    pub fn set_backend(&mut self, name: &str, own_command: bool) {
        name.clone_into(&mut self.agent_backend);
        let own = || (own_command && name.len() <= MAX_ALIAS).then(|| name.to_owned());
        self.discord.command_alias = self.discord.command_alias.take().or_else(own);
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
        let mut config = Self::read_from(&mut read);
        if config.project_roots.is_empty() {
            config.project_roots = vec![config.workspace_dir.clone()];
        }
        for own in ["DISCORD_BOT_TOKEN", "REGISTRY_KEY", "OTEL_EXPORTER_OTLP_HEADERS"] {
            if config.agent_env.iter().any(|name| name == own) {
                read.fault(format!("AGENT_ENV must not name `{own}`: agents never get it"));
            }
        }
        if config.backend_trust == Trust::Signed
            && variable("BACKEND_SIGNERS").is_none_or(|keys| keys.trim().is_empty())
        {
            read.fault("BACKEND_TRUST=signed needs BACKEND_SIGNERS: the public keys whose signatures are accepted".to_owned());
        }
        if let Some(alias) = &config.discord.command_alias
            && !(alias.len() <= MAX_ALIAS
                && !alias.is_empty()
                && alias.bytes().all(|b| {
                    b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'_'
                }))
        {
            read.fault(format!(
                "COMMAND_ALIAS {alias:?} must be 1 to {MAX_ALIAS} lower-case letters, digits, `-` or `_`"
            ));
        }
        (config, read.faults)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use aetheel_model::id::{ChannelId, GuildId, UserId};
    use aetheel_model::permission::{PERMISSION_CHOICES, READING_TOOLS, reads_only};

    fn read(pairs: &[(&str, &str)]) -> Result<Config, Vec<Finding>> {
        let map: HashMap<&str, &str> = pairs.iter().copied().collect();
        Config::read(|name| map.get(name).map(|value| (*value).to_owned()))
    }

    #[test]
    fn the_defaults_are_those_of_the_requirements() {
        let config = read(&[]).expect("defaults are valid");
        assert_eq!(config.agent_backend, AUTO);
        assert_eq!(
            config.allowed_tools,
            AllowedTools::Only(
                ["file_read", "file_search", "content_search", "web_search", "web_fetch"]
                    .map(str::to_owned)
                    .into()
            )
        );
        assert_eq!((config.safety, config.mode), (Safety::Danger, Mode::Build));
        assert_eq!(config.agents.query_timeout, Duration::from_secs(3_600));
        assert_eq!(config.agents.idle_timeout, Some(Duration::from_secs(900)));
        assert_eq!(
            (config.max_concurrent_queries, config.max_queue_depth, config.backend_max_turns),
            (5, 100, 25)
        );
        assert_eq!(config.config_dir, PathBuf::from("./config"));
        assert_eq!(config.discord.command_alias, None);
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
    fn host_tools_are_all_none_or_a_list() {
        let tools = |value: &str| read(&[("HOST_TOOLS", value)]).map(|config| config.host_tools);
        assert_eq!(tools(""), tools("all"));
        assert_eq!(tools("all").expect("valid"), HostToolKind::ALL);
        assert!(tools("none").expect("valid").is_empty());
        assert_eq!(tools("aetheel_ask").expect("valid"), [HostToolKind::Ask]);
        let faults = tools("aetheel_ask,rm").expect_err("unknown");
        assert!(faults[0].message.contains("`aetheel_post_file`"), "{faults:?}");
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
        assert_eq!(config.discord.allowed.users, [UserId::discord(12), UserId::discord(13)]);
        assert_eq!(config.discord.allowed.guilds, [GuildId::discord(14)]);
        assert_eq!(config.approvers, [UserOrRoleId::discord(15), UserOrRoleId::discord(16)]);
        assert_eq!(config.discord.output_channel, Some(ChannelId::discord(17)));
        for bad in ["0", "discord:0", "slack:1", "discord:"] {
            let faults = read(&[("ALLOWED_USERS", bad)]).expect_err("not an id");
            let wanted = format!("ALLOWED_USERS: {bad:?} is not a Discord id");
            assert!(faults.len() == 1 && faults[0].message.starts_with(&wanted), "{faults:?}");
        }
    }

    #[test]
    fn agents_may_only_read_without_settings() {
        assert!(reads_only(&read(&[]).expect("valid").allowed_tools));
        let row = VARIABLES.iter().find(|row| row.name == "ALLOWED_TOOLS").expect("a setting");
        assert_eq!(row.default, READING_TOOLS);
        assert!(!reads_only(&AllowedTools::All));
    }

    #[test]
    fn the_modes_and_tools_of_each_choice_are_valid() {
        for choice in PERMISSION_CHOICES {
            let pair = [("PERMISSION_MODE", choice.mode), ("ALLOWED_TOOLS", choice.tools)];
            assert!(read(&pair).is_ok(), "{choice:?}");
        }
    }

    #[test]
    fn an_empty_value_counts_as_unset() {
        assert_eq!(
            read(&[("QUERY_TIMEOUT_MS", " ")]).expect("valid").agents.query_timeout,
            Duration::from_secs(3_600)
        );
    }

    #[test]
    fn an_idle_timeout_of_zero_means_no_limit() {
        let idle =
            |text| read(&[("IDLE_TIMEOUT_MS", text)]).map(|config| config.agents.idle_timeout);
        assert_eq!(idle("0").expect("valid"), None);
        assert_eq!(idle("1500").expect("valid"), Some(Duration::from_millis(1_500)));
        let faults = idle("999").expect_err("too short");
        assert!(faults[0].message.contains("must be 0, or a time from 1s"), "{faults:?}");
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
            (faults.len(), config.agents.query_timeout, config.max_queue_depth),
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
    fn the_descriptor_decides_whether_a_backend_has_its_own_command() {
        let alias = |set: &[(&str, &str)], name: &str, own_command| {
            let mut config = read(set).expect("valid");
            assert_eq!(config.agent_backend, AUTO);
            config.set_backend(name, own_command);
            assert_eq!(config.agent_backend, name);
            config.discord.command_alias
        };
        assert_eq!(alias(&[], "sprocket", true).as_deref(), Some("sprocket"));
        assert_eq!(alias(&[], "sprocket", false), None);
        assert_eq!(alias(&[], &"s".repeat(27), true), None, "Discord has no room for `-reset`");
        assert_eq!(alias(&[("COMMAND_ALIAS", "it")], "sprocket", true).as_deref(), Some("it"));
    }

    #[test]
    fn a_token_is_not_shown_by_debug() {
        let config = read(&[("DISCORD_BOT_TOKEN", "canary-token-value")]).expect("valid");
        assert!(!format!("{config:?}").contains("canary"));
    }

    #[test]
    fn the_example_settings_are_the_table_of_variables_with_their_defaults() {
        let rows = |advanced: bool| {
            VARIABLES
                .iter()
                .filter(move |v| v.advanced == advanced)
                .flat_map(|v| [format!("# {}", v.meaning), format!("#{}={}", v.name, v.default)])
        };
        let mark = "# Advanced: few installations change the settings below".to_owned();
        let expected: Vec<String> = rows(false).chain([mark]).chain(rows(true)).collect();
        let example = include_str!("../../../config/.env.example");
        let (_, settings) = example.split_once("\n\n").unwrap();
        assert_eq!(settings.lines().filter(|line| !line.is_empty()).collect::<Vec<_>>(), expected);
    }
}
