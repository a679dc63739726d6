//! The capabilities that an agent announces in its answer to `initialize`.

use aetheel_backend_sdk::json::Value;

/// The capabilities of an agent, from its answer to `initialize`.
#[derive(Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) name: String,
    pub(crate) load: bool,
    pub(crate) resume: bool,
    pub(crate) fork: bool,
    pub(crate) close: bool,
    pub(crate) list: bool,
    pub(crate) images: bool,
    /// Whether the agent can use MCP servers over HTTP.
    pub(crate) http_servers: bool,
    pub(crate) system_prompt: bool,
    /// Whether sessions are loaded with a space before their id.
    ///
    /// Before Gemini CLI 0.61.0 reads the file of a session that it loads, it creates a file whose
    /// name consists of the current minute and the id. During the minute in which the session was
    /// created, that name is the name of the session's own file, so that the session's history is
    /// lost. With a leading space the file gets another name, but the lookup of the session ignores
    /// the space.
    pub(crate) spaced: bool,
    pub(crate) steering: Steering,
    /// Names of the authentication methods.
    pub(crate) sign_ins: Vec<String>,
}

/// How a message can be added to a running turn. Without an announcement it must not be: Gemini CLI
/// 0.61.0 then cancels the turn, Droid 0.225.2 garbles it, and codex-acp 0.16.0 never answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Steering {
    #[default]
    None,
    /// With the request `_session/steering` (codex-acp 2.6.0).
    Method,
    /// With another prompt (claude-agent-acp 0.49.0).
    Prompt,
}

impl Abilities {
    /// Reads the answer to `initialize`.
    pub(crate) fn read(result: &Value) -> Self {
        let agent = &result["agentCapabilities"];
        let session = &agent["sessionCapabilities"];
        let has = |ability: &str| session.get(ability).is_some_and(|value| !value.is_null());
        let info = &result["agentInfo"];
        let name = info.text("title").or_else(|| info.text("name")).unwrap_or("the agent");
        let methods = result.list("authMethods");
        let steering = if result["_meta"]["steering"].is_true("supported")
            || agent["_meta"]["steering"].is_true("supported")
        {
            Steering::Method
        } else if agent["_meta"]["claudeCode"].is_true("promptQueueing") {
            Steering::Prompt
        } else {
            Steering::None
        };
        Self {
            spaced: info.text("name") == Some("gemini-cli"),
            name: info
                .text("version")
                .map_or_else(|| name.to_owned(), |version| format!("{name} {version}")),
            load: agent.is_true("loadSession"),
            resume: has("resume"),
            fork: has("fork"),
            close: has("close"),
            list: has("list"),
            images: agent["promptCapabilities"].is_true("image"),
            http_servers: agent["mcpCapabilities"].is_true("http"),
            system_prompt: has("systemPrompt"),
            steering,
            sign_ins: methods
                .iter()
                .filter_map(|method| method.text("name").or_else(|| method.text("id")))
                .map(str::to_owned)
                .collect(),
        }
    }
}
