//! The table of environment variables: the only place with their names, defaults and meanings.

/// An environment variable that the gateway reads.
#[derive(Clone, Copy, Debug)]
pub struct SettingVariable {
    /// Its name in the environment, for example `LOG_LEVEL`.
    pub name: &'static str,
    /// The value that is used if it is unset or empty; empty if there is no default.
    pub default: &'static str,
    /// One line for the operator.
    pub meaning: &'static str,
}

const fn v(name: &'static str, default: &'static str, meaning: &'static str) -> SettingVariable {
    SettingVariable { name, default, meaning }
}

const NO_WEB_PUSH: &str =
    "the dashboard sends no push notifications any more, since Discord notifies of questions";

/// Variables that an earlier version read, each with a remark for the operator. If one of
/// them is still set, it is reported and ignored.
pub const REMOVED: &[(&str, &str)] =
    &[("PUSH_SERVICES", NO_WEB_PUSH), ("PUSH_CONTACT", NO_WEB_PUSH)];

/// All variables, in the order of the documentation.
pub const VARIABLES: &[SettingVariable] = &[
    v(
        "DISCORD_BOT_TOKEN",
        "",
        "Token of the Discord bot; needed by `aetheel run`, never given to an agent",
    ),
    v("AGENT_BACKEND", "claude", "Name of the backend that answers, or `auto`"),
    v(
        "ALLOWED_BACKENDS",
        "",
        "Backends people may choose besides `AGENT_BACKEND` and, in its own channel, the one `channels.md` names, separated by commas",
    ),
    v(
        "BACKEND_RUN",
        "",
        "`live`, `one-shot`, or a list such as `claude=one-shot,codex=live`; unset: each backend's preference",
    ),
    v(
        "BACKEND_CLI_PATH",
        "",
        "Path of the program of `AGENT_BACKEND`; unset: it is looked up in `PATH`",
    ),
    v("BACKEND_MODEL", "", "Model `AGENT_BACKEND` uses; unset: its own default"),
    v(
        "BACKEND_EFFORT",
        "",
        "Level of thinking `AGENT_BACKEND` uses, one of those `aetheel backend list` names; unset: its own default",
    ),
    v(
        "BACKEND_TRUST",
        "any",
        "Which backend files may serve: `any`, `pinned` (SHA-256 in `CONFIG_DIR/backends.md`) or `signed`",
    ),
    v("BACKEND_SIGNERS", "", "Public minisign keys whose signatures count, separated by commas"),
    v(
        "BACKEND_ROLLBACK",
        "auto",
        "`auto`: the gateway rolls back a version of a backend that reads worse than the previous one. With `never` it only reports the problem",
    ),
    v("BACKEND_MAX_TURNS", "25", "Maximum number of rounds with the model in a turn"),
    v(
        "ALLOWED_TOOLS",
        "Read,Glob,Grep,WebSearch,WebFetch",
        "The only tools the agent may use; by the agent's own names, Claude Code's names or unified kinds (`file_read`); `*` for all, `none` for none",
    ),
    v(
        "PERMISSION_MODE",
        "bypassPermissions",
        "Actions that the agent may take without asking: `bypassPermissions`, `acceptEdits`, `default` or `plan`",
    ),
    v(
        "QUERY_TIMEOUT_MS",
        "3600000",
        "Longest turn, in milliseconds, without the time in which people are asked",
    ),
    v(
        "IDLE_TIMEOUT_MS",
        "900000",
        "Longest time without output of an agent while none of its tools runs, in milliseconds; 0: no limit",
    ),
    v(
        "ASK_TIMEOUT_MS",
        "600000",
        "How long an agent's question to people stays open before it is refused, in milliseconds",
    ),
    v(
        "LINK_IDLE_MS",
        "900000",
        "How long a long-lived agent is kept without a turn, in milliseconds",
    ),
    v(
        "LINKS_WARM",
        "5",
        "Maximum number of long-lived agents kept without a turn; the one that has been idle longest is ended first",
    ),
    v(
        "STOP_GRACE_MS",
        "5000",
        "How long an agent has to end after an interrupt, and again after SIGTERM, in milliseconds",
    ),
    v(
        "SHUTDOWN_GRACE_MS",
        "120000",
        "How long running turns may continue at a shutdown before they are stopped, in milliseconds",
    ),
    v(
        "TIME_ZONE",
        "UTC",
        "Time zone of cron jobs and active hours that set no time zone, for example `Europe/Berlin`",
    ),
    v(
        "WEBHOOKS_ADDRESS",
        "",
        "Address that accepts webhooks, for example `127.0.0.1:8787`. Without it, no webhooks",
    ),
    v(
        "STATUS_ADDRESS",
        "",
        "Address of `/livez`, `/readyz` and `/metrics`, for example `127.0.0.1:9464`. Without it, no status pages",
    ),
    v(
        "DASHBOARD_ADDRESS",
        "",
        "Address of the dashboard, for example `127.0.0.1:8788`. Without it, no dashboard",
    ),
    v(
        "DASHBOARD_URL",
        "",
        "Address under which people reach the dashboard, for example `https://agents.example.com`. The default is `http://` and `DASHBOARD_ADDRESS`",
    ),
    v(
        "DASHBOARD_SHARING",
        "on",
        "Whether people may make read-only links to turns, for readers without an account: `on` or `off`",
    ),
    v(
        "CONFIG_DIR",
        "./config",
        "Folder of the markdown files: personality, memory, state; unset: `~/.config/aetheel` or `/etc/aetheel` is used instead if it exists",
    ),
    v("BACKENDS_DIR", "./backends", "Folder of the backends (`*.wasm`), watched for changes"),
    v("WORKSPACE_DIR", "./workspace", "Working directory of the agents; created when missing"),
    v(
        "PROJECT_ROOTS",
        "",
        "Folders that must contain the working directories of `channels.md`, separated by commas. The default is `WORKSPACE_DIR`. A list replaces `WORKSPACE_DIR`, so name that too if channels use it",
    ),
    v(
        "RECORDINGS_DIR",
        "./recordings",
        "Folder of the recordings of every run; created when missing",
    ),
    v("RECORDINGS_MAX_DAYS", "7", "Days after which recordings are removed"),
    v(
        "RECORDINGS_MAX_MIB",
        "1024",
        "Maximum size of all recordings in MiB; beyond it the oldest are removed",
    ),
    v("LOST_MAX_DAYS", "30", "Days that recordings of lost replies are kept, to read them again"),
    v(
        "LOST_MAX_MIB",
        "256",
        "Maximum size of such recordings in MiB; beyond it the oldest are removed",
    ),
    v(
        "TURNS_KEPT_DAYS",
        "400",
        "Days that each turn's time, person, channel and cost are kept; its texts are removed after `RECORDINGS_MAX_DAYS`",
    ),
    v("CACHE_DIR", "~/.cache/aetheel", "Private folder for compiled backends"),
    v("MAX_CONCURRENT_QUERIES", "5", "Maximum number of turns that run at the same time"),
    v("MAX_QUEUE_DEPTH", "100", "Maximum number of waiting events; more are refused"),
    v(
        "BUSY_POLICY",
        "reject",
        "Treatment of a prompt from an idle channel (one without a turn) while `MAX_CONCURRENT_QUERIES` turns run: `reject` or `queue`",
    ),
    v(
        "AGENT_SANDBOX",
        "auto",
        "How agents are confined: `auto` (Landlock if the kernel has it, otherwise no sandbox), `landlock`, `bwrap` or `off`",
    ),
    v(
        "AGENT_HOLDER",
        "auto",
        "Whether agents outlive the gateway: `auto` (through `aetheel hold`, which the gateway starts if none runs; if that fails, agents end with the gateway), `require` (refuse to start without) or `off`",
    ),
    v(
        "AGENT_HOLD_SECONDS",
        "600",
        "How long a holder that the gateway started keeps agents without a gateway, in seconds",
    ),
    v(
        "CLUSTER_URL",
        "",
        "Address of a PostgreSQL database that several machines share; unset: this machine serves the bot alone",
    ),
    v("NODE_NAME", "", "Name of this machine in the cluster; unset: the machine's own"),
    v(
        "NODE_LABELS",
        "",
        "Labels of this machine, for `node:` in channels.md, separated by commas, such as `gpu, berlin`",
    ),
    v(
        "CLUSTER_LEASE_SECONDS",
        "6",
        "How long a node of the cluster may be silent before another one takes over, in seconds",
    ),
    v(
        "CLUSTER_TURN_LEASE_SECONDS",
        "90",
        "How long the agents of a node continue if it cannot reach the cluster's database, in seconds; at least CLUSTER_LEASE_SECONDS",
    ),
    v(
        "AGENT_READ",
        "",
        "More files and folders that agents in the sandbox may read and execute, absolute or with `~/`, separated by commas",
    ),
    v(
        "AGENT_WRITE",
        "",
        "More files and folders that agents in the sandbox may change, absolute or with `~/`, separated by commas",
    ),
    v(
        "AGENT_WRAPPER",
        "",
        "Command placed before the agent's program, inside its sandbox, for example `nice`; it is split at blanks",
    ),
    v(
        "AGENT_ENV",
        "",
        "Names of more variables of the gateway's environment that agents get, separated by commas",
    ),
    v("ALLOWED_USERS", "", "Discord user ids that may use the bot, separated by commas"),
    v("ALLOWED_ROLES", "", "Discord role ids that may use the bot, separated by commas"),
    v(
        "ALLOWED_CHANNELS",
        "",
        "Ids of the Discord channels in which the bot answers, separated by commas. An empty list means all",
    ),
    v(
        "ALLOWED_GUILDS",
        "",
        "Ids of the Discord guilds in which the bot answers, separated by commas. An empty list means all",
    ),
    v(
        "APPROVERS",
        "",
        "Discord user or role ids that may answer every question of an agent, separated by commas",
    ),
    v(
        "OWNERS",
        "",
        "Discord user ids with the rights of the application's owner, separated by commas",
    ),
    v("USER_PROMPTS_PER_MINUTE", "20", "Prompts a user may send in a minute; 0: no limit"),
    v(
        "OUTPUT_CHANNEL_ID",
        "",
        "Discord channel of heartbeats, cron jobs, hooks and webhooks that name none, and of notices to the operator",
    ),
    v("ATTACHMENTS_MAX", "10", "Maximum number of files with a prompt"),
    v("ATTACHMENT_LIMIT_BYTES", "10485760", "Largest file accepted with a prompt"),
    v("LONG_ANSWER_CHARS", "16000", "An answer with more characters is sent as a file; 0: never"),
    v(
        "FOOTER",
        "backend,time,cost",
        "Parts of the line below an answer: `backend`, `model`, `time`, `tokens`, `cost`, separated by commas; `none`: no such line",
    ),
    v(
        "COMMAND_ALIAS",
        "",
        "Second name of `/ask` and, with `-reset`, of `/reset`; while claude is the backend, it is `claude`",
    ),
    v("DISCORD_API_BASE", "https://discord.com", "Discord's address; for proxies and tests"),
    v(
        "DISCORD_REQUESTS_PER_SECOND",
        "45",
        "Maximum number of requests to Discord in a second; Discord allows 50; 0: no limit",
    ),
    v(
        "SHARDS",
        "auto",
        "Connections to Discord's gateway: `auto` (as many as Discord recommends) or a number from 1 to 1000",
    ),
    v("LOG_FORMAT", "auto", "`human`, `json`, or `auto`: human on a terminal"),
    v(
        "LOG_LEVEL",
        "info",
        "Minimum log level (libraries log warnings), or a filter such as `aetheel=debug,info`",
    ),
    v(
        "LINE_LIMIT_BYTES",
        "8388608",
        "Longest line of agent output that is kept whole, in bytes; can only be raised",
    ),
    v(
        "OUTPUT_LIMIT_BYTES",
        "67108864",
        "Maximum output of a turn, in bytes; beyond it the turn is stopped; can only be raised",
    ),
    v("PROMPT_LIMIT_BYTES", "262144", "Longest prompt, in bytes; can only be raised"),
    v(
        "GUEST_MEMORY_BYTES",
        "134217728",
        "Memory of one backend instance, in bytes; can only be raised",
    ),
    v(
        "GUEST_CALL_MS",
        "1000",
        "Run time of one call into a backend, in milliseconds; can only be raised",
    ),
    v("COMPONENT_LIMIT_BYTES", "50331648", "Largest backend file, in bytes; can only be raised"),
    v(
        "COMPILE_TIMEOUT_MS",
        "120000",
        "Longest time to compile a backend, in milliseconds; can only be raised",
    ),
];
