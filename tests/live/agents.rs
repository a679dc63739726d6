//! The installed agents: the paths of their programs, and homes in which they can reach only a
//! scripted model service.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

/// An installed agent, as `scripts/install-agents` left it.
#[derive(Clone, Debug)]
pub struct Agent {
    /// Its name in `scripts/agents.versions`.
    pub name: String,
    /// The installed version.
    pub version: String,
    /// Its program.
    pub program: PathBuf,
}

/// A home for one agent that uses one model service.
pub struct Home {
    /// The agent's whole environment.
    pub environment: Vec<(String, String)>,
    /// A model besides the default, by the name that the agent gets and by the name in its requests
    /// to the service.
    pub other_model: Option<(&'static str, &'static str)>,
}

/// Part of every key, so that a leaked key can be found.
pub const KEY: &str = "sk-ant-scripted";

impl Agent {
    /// Returns an agent by name.
    ///
    /// # Panics
    ///
    /// If it is not installed.
    pub fn installed(name: &str) -> Self {
        let agent = Self::all()
            .into_iter()
            .find(|agent| agent.name == name)
            .unwrap_or_else(|| panic!("no agent `{name}`"));
        let hint = "run `make test-live`, or `scripts/install-agents` first";
        assert!(agent.program.is_file(), "no agent at {}\nhint: {hint}", agent.program.display());
        agent
    }

    /// Returns all agents of the versions file, installed or not. With `CLI_VERSIONS=latest`, reads
    /// the file that was written when the newest releases were installed.
    pub fn all() -> Vec<Self> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let latest = std::env::var("CLI_VERSIONS").is_ok_and(|wanted| wanted == "latest");
        let file = root.join(if latest {
            "target/agents/latest.versions"
        } else {
            "scripts/agents.versions"
        });
        let rows = std::fs::read_to_string(&file)
            .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let rows = rows.lines().filter(|row| !row.is_empty() && !row.starts_with('#'));
        rows.map(|row| {
            let [name, _, version, _] = row.split_whitespace().collect::<Vec<_>>()[..] else {
                panic!("{}: {row:?}", file.display())
            };
            let program = root.join(format!("target/agents/{name}-{version}/{name}"));
            Self { name: name.to_owned(), version: version.to_owned(), program }
        })
        .collect()
    }

    /// Prepares `home` for the agent. `url` is the model service.
    pub fn settle(&self, url: &str, home: &Path) -> Home {
        let mut environment = vec![
            ("HOME".to_owned(), home.display().to_string()),
            ("LANG".to_owned(), "C.UTF-8".to_owned()),
            ("PATH".to_owned(), path()),
            ("TZ".to_owned(), "UTC".to_owned()),
        ];
        let mut set = |pairs: &[(&str, &str)]| {
            environment.extend(
                pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())),
            );
        };
        let other_model = match self.name.as_str() {
            "claude" | "claude-agent-acp" => {
                set(&[
                    ("ANTHROPIC_API_KEY", KEY),
                    ("ANTHROPIC_BASE_URL", url),
                    // Ten retries with growing pauses would take longer than any test.
                    ("CLAUDE_CODE_MAX_RETRIES", "1"),
                    ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1"),
                    ("DISABLE_AUTOUPDATER", "1"),
                    ("DISABLE_ERROR_REPORTING", "1"),
                    ("DISABLE_TELEMETRY", "1"),
                ]);
                if is_root() {
                    // Claude Code otherwise refuses to skip permissions as root. Only root needs
                    // the variable.
                    set(&[("IS_SANDBOX", "1")]);
                }
                let other = if self.name == "claude" {
                    ("claude-haiku-4-5", "claude-haiku-4-5")
                } else {
                    ("haiku", "haiku")
                };
                Some(other)
            }
            "codex" | "codex-acp" => {
                set(&[("CODEX_API_KEY", KEY), ("NO_BROWSER", "1"), ("RUST_LOG", "error")]);
                write(home, ".codex/config.toml", &codex(url));
                Some(if self.name == "codex" {
                    ("gpt-5.4", "gpt-5.4")
                } else {
                    ("gpt-5.6-sol", "gpt-5.6-sol")
                })
            }
            "gemini" => {
                set(&[
                    ("GEMINI_API_KEY", KEY),
                    ("GOOGLE_GEMINI_BASE_URL", url),
                    // The default asks another model which model to use.
                    ("GEMINI_MODEL", "gemini-2.5-flash"),
                    ("GEMINI_CLI_NO_RELAUNCH", "true"),
                    ("GEMINI_TELEMETRY_ENABLED", "false"),
                    ("NO_BROWSER", "1"),
                ]);
                write(home, ".gemini/settings.json", &pretty(&gemini()));
                Some(("gemini-2.5-pro", "gemini-2.5-pro"))
            }
            "opencode" => {
                set(&[
                    ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
                    ("OPENCODE_DISABLE_DEFAULT_PLUGINS", "1"),
                    ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1"),
                    ("OPENCODE_DISABLE_MODELS_FETCH", "1"),
                    ("SCRIPTED_API_KEY", KEY),
                ]);
                write(home, ".config/opencode/opencode.json", &pretty(&opencode(url)));
                Some(("scripted/second", "second"))
            }
            "droid" => {
                set(&[
                    // Not FACTORY_AIRGAP_ENABLED: with it, 0.225.2 does not resume sessions in
                    // one-shot runs.
                    ("FACTORY_API_BASE_URL", url),
                    ("FACTORY_DISABLE_DYNAMIC_CONFIG", "1"),
                    ("FACTORY_TELEMETRY_INGEST_BASE_URL", url),
                    ("FACTORY_API_KEY", KEY),
                    ("FACTORY_DISABLE_KEYRING", "1"),
                    ("FACTORY_DROID_AUTO_UPDATE_ENABLED", "false"),
                ]);
                write(home, ".factory/settings.json", &pretty(&droid(url)));
                Some(("custom:second", "second"))
            }
            other => panic!("no home is defined for `{other}`"),
        };
        Home { environment, other_model }
    }

    /// Signs the agent in with a subscription instead of a key, if that makes a difference for it.
    pub fn subscribe(&self, home: &mut Home) {
        if matches!(self.name.as_str(), "claude" | "claude-agent-acp") {
            home.environment.retain(|(name, _)| name != "ANTHROPIC_API_KEY");
            home.environment.push(("CLAUDE_CODE_OAUTH_TOKEN".to_owned(), KEY.to_owned()));
        }
    }
}

impl Home {
    /// Adds the environment of another agent in the same home, with its program on the search path.
    pub fn add(&mut self, agent: &Agent, other: Home) {
        for (name, value) in other.environment {
            if !self.environment.iter().any(|(known, _)| *known == name) {
                self.environment.push((name, value));
            }
        }
        let folder = agent.program.parent().expect("it is in a folder").display();
        let path = self.environment.iter_mut().find(|(name, _)| name == "PATH");
        let (_, path) = path.expect("every home has it");
        *path = format!("{folder}:{path}");
    }
}

/// Returns whether the agents run as root. Some behave differently then.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the folder for compiled components. Compiling takes seconds, and live cases do not test
/// it. Components that another user compiled are not used.
pub fn cache() -> String {
    let user = rustix::process::geteuid().as_raw();
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("live-cache-{user}")).display().to_string()
}

/// Returns the search path for programs, including `node` and `bwrap`.
fn path() -> String {
    let mut folders: Vec<PathBuf> =
        ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).into();
    let own = std::env::var_os("PATH").unwrap_or_default();
    for program in ["node", "bwrap"] {
        let found = std::env::split_paths(&own).find(|folder| folder.join(program).is_file());
        if let Some(folder) = found.filter(|folder| !folders.contains(folder)) {
            folders.insert(0, folder);
        }
    }
    std::env::join_paths(folders).expect("no colon").into_string().expect("UTF-8")
}

/// Returns Codex's settings. `supports_websockets = false`: custom services use server-sent events.
fn codex(url: &str) -> String {
    format!(
        r#"model = "gpt-5.5"
model_provider = "scripted"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "{url}/v1"
env_key = "CODEX_API_KEY"
wire_api = "responses"
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0

[analytics]
enabled = false
"#
    )
}

fn gemini() -> Value {
    json!({
        "general": {"enableAutoUpdate": false, "enableAutoUpdateNotification": false, "maxAttempts": 1},
        "privacy": {"usageStatisticsEnabled": false},
        "telemetry": {"enabled": false},
        "security": {"auth": {"selectedType": "gemini-api-key"}}
    })
}

fn opencode(url: &str) -> Value {
    let model = |name: &str| {
        json!({"name": name, "reasoning": true, "tool_call": true, "interleaved": {"field": "reasoning_content"},
            "limit": {"context": 200_000, "output": 8192}, "cost": {"input": 3, "output": 15}})
    };
    json!({
        "$schema": "https://opencode.ai/config.json",
        "autoupdate": false,
        "share": "disabled",
        "model": "scripted/first",
        "provider": {"scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": format!("{url}/v1"), "apiKey": "{env:SCRIPTED_API_KEY}"},
            "models": {"first": model("First"), "second": model("Second")}
        }}
    })
}

fn droid(url: &str) -> Value {
    let model = |name: &str, shown: &str| {
        json!({"model": name, "displayName": shown, "baseUrl": url, "apiKey": KEY, "provider": "anthropic", "maxOutputTokens": 8192,
            "reasoningEffort": "high"})
    };
    json!({
        "customModels": [model("first", "First"), model("second", "Second")],
        "sessionDefaultSettings": {"model": "custom:first"},
        "model": "custom:first"
    })
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).expect("it is JSON")
}

fn write(home: &Path, name: &str, text: &str) {
    let path = home.join(name);
    std::fs::create_dir_all(path.parent().expect("below the home")).expect("a folder");
    std::fs::write(path, text).expect("written");
}
