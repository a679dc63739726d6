//! Disables Codex's tools when only some are allowed.
//!
//! As observed with 0.169.0, a disabled tool is not offered, and a call of it fails as an
//! "unsupported call". `apply_patch`, `view_image` and `request_user_input` cannot be disabled; the
//! sandbox keeps the first from writing. MCP servers in the operator's own `config.toml` stay
//! enabled.

use aetheel_backend_sdk::wit::Settings;
use serde_json::{Map, Value};

/// Configuration keys, the values that disable them, and the tool that each belongs to (`None` if
/// an operator cannot allow it by name).
const SWITCHES: [(&str, &str, Option<&str>); 12] = [
    ("features.shell_tool", "false", Some("exec_command")),
    ("features.unified_exec", "false", Some("exec_command")),
    ("features.code_mode", "false", Some("exec_command")),
    ("web_search", "disabled", Some("web_search")),
    ("features.multi_agent", "false", Some("spawn_agent")),
    ("features.multi_agent_v2", "false", Some("spawn_agent")),
    ("features.image_generation", "false", Some("image_generation")),
    ("features.goals", "false", None),
    ("features.apps", "false", None),
    ("features.plugins", "false", None),
    ("features.browser_use", "false", None),
    ("features.computer_use", "false", None),
];

/// The disabled features. A thread keeps them until its end.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits(Vec<&'static str>);

impl Limits {
    pub(crate) fn of(settings: &Settings) -> Self {
        if settings.allowed_tools.is_empty() {
            return Self::default();
        }
        let off =
            SWITCHES.iter().filter(|(.., tool)| tool.is_none_or(|tool| !allows(settings, tool)));
        Self(off.map(|(name, ..)| *name).collect())
    }

    /// Finds features by their saved names. Returns `None` for an unknown name, because another
    /// version saved them.
    pub(crate) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let known = |name: &str| {
            SWITCHES.iter().find(|(known, ..)| *known == name).map(|(known, ..)| *known)
        };
        names.map(known).collect::<Option<_>>().map(Self)
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.0
    }

    /// Returns arguments for `exec`. Codex refuses `--disable` for a feature that it does not know,
    /// but ignores an unknown option, so the shell is disabled with the flag.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let argument = |name: &&str| match name.strip_prefix("features.") {
            Some("shell_tool") => ["--disable".to_owned(), "shell_tool".to_owned()],
            _ => ["-c".to_owned(), format!("{name}={}", value(name))],
        };
        self.0.iter().flat_map(argument).collect()
    }

    /// Returns the configuration of a thread, or `None` if it has all tools.
    pub(crate) fn config(&self) -> Option<Value> {
        let value = |name: &str| match value(name) {
            "false" => Value::Bool(false),
            word => Value::from(word),
        };
        let config: Map<String, Value> =
            self.0.iter().map(|name| ((*name).to_owned(), value(name))).collect();
        (!config.is_empty()).then_some(Value::Object(config))
    }
}

fn value(name: &str) -> &'static str {
    SWITCHES.iter().find(|(known, ..)| *known == name).map_or("false", |(_, value, _)| value)
}

/// Returns whether a tool may be used. A rule such as `exec_command(git:*)` allows nothing, because
/// Codex has no such rules.
fn allows(settings: &Settings, tool: &str) -> bool {
    settings.allowed_tools.is_empty()
        || settings.allowed_tools.iter().any(|allowed| allowed == tool)
}

/// Returns whether an allowed tool can change files.
pub(crate) fn may_write(settings: &Settings) -> bool {
    allows(settings, "apply_patch") || allows(settings, "exec_command")
}

#[cfg(test)]
mod tests {
    use aetheel_backend_sdk::fixture::start;

    use super::*;

    fn with(tools: &[&str]) -> Settings {
        let mut settings = start("x").settings;
        settings.allowed_tools = tools.iter().map(|tool| (*tool).to_owned()).collect();
        settings
    }

    #[test]
    fn tools_that_are_not_allowed_are_disabled() {
        assert_eq!(Limits::of(&with(&[])), Limits::default());
        assert!(
            Limits::default().arguments().is_empty()
                && Limits::default().config().is_none()
                && may_write(&with(&[]))
        );
        for tools in
            [&["none"][..], &["view_image"], &["exec_command(git:*)"], &["Read", "apply_patch"]]
        {
            let limits = Limits::of(&with(tools));
            assert_eq!(limits.arguments()[..2], ["--disable", "shell_tool"], "{tools:?}");
            assert!(limits.arguments().contains(&"web_search=disabled".to_owned()), "{tools:?}");
            assert_eq!(limits.config().expect("some are off")["features.shell_tool"], false);
            assert_eq!(may_write(&with(tools)), tools.contains(&"apply_patch"));
        }
        let shell =
            Limits::of(&with(&["exec_command", "web_search", "spawn_agent", "image_generation"]));
        assert!(
            shell.names().iter().all(|name| !name.contains("shell")
                && !name.contains("agent")
                && *name != "web_search"),
            "{shell:?}"
        );
        assert_eq!(Limits::named(shell.names().iter().copied()), Some(shell));
        assert_eq!(Limits::named(["features.new"].into_iter()), None);
    }
}
