//! The abilities an agent announced when it was greeted.

use aetheel_backend_sdk::json::Value;

/// The abilities of an agent, as its answer to `initialize` has them.
#[derive(Debug, Default)]
pub(crate) struct Abilities {
    pub(crate) name: String,
    pub(crate) load: bool,
    pub(crate) resume: bool,
    pub(crate) fork: bool,
    pub(crate) close: bool,
    pub(crate) list: bool,
    pub(crate) delete: bool,
    pub(crate) images: bool,
    pub(crate) system_prompt: bool,
    /// Sessions are loaded by their id with a blank before it.
    ///
    /// Gemini CLI 0.61.0 begins the file of a session that it loads before it reads it, by a name
    /// made of the minute and the id. In the minute the session was made in that is the session's
    /// own file, and what was said in it is gone for good. The blank is no part of the id when it
    /// looks for the session, but of the file's name.
    pub(crate) spaced: bool,
    pub(crate) steering: Steering,
    /// Names of the ways of signing in.
    pub(crate) sign_ins: Vec<String>,
}

/// Whether a message may be put into a running turn. Without a word about it, it may not: Gemini
/// CLI 0.61.0 then cancels the turn, Droid 0.225.2 garbles it, codex-acp 0.16.0 never answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Steering {
    #[default]
    None,
    /// Another request, `_session/steering` (codex-acp 2.6.0).
    Method,
    /// Another prompt (claude-agent-acp 0.49.0).
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
            delete: has("delete"),
            images: agent["promptCapabilities"].is_true("image"),
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
