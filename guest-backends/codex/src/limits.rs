//! Which of Codex' tools are switched off, where only some are allowed.
//!
//! Seen with 0.169.0: a tool that is switched off is not offered, and a call of it all the same is
//! an "unsupported call". `apply_patch`, `view_image` and `request_user_input` cannot be switched
//! off; the sandbox keeps the first from writing. Servers of the operator's own `config.toml` stay.

use aetheel_backend_sdk::wit::Settings;
use serde_json::{Map, Value};

/// Switches of the configuration, and the tool that each is for; none: of nothing that an operator
/// could allow by name.
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

/// The features that are switched off. Kept for every thread, which has it to its end.
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

    /// Finds what was saved; none: another version saved it.
    pub(crate) fn named<'a>(names: impl Iterator<Item = &'a str>) -> Option<Self> {
        let known = |name: &str| {
            SWITCHES.iter().find(|(known, ..)| *known == name).map(|(known, ..)| *known)
        };
        names.map(known).collect::<Option<_>>().map(Self)
    }

    pub(crate) fn names(&self) -> &[&'static str] {
        &self.0
    }

    /// As arguments of `exec`. The flag is refused where a version does not know the feature, which
    /// an option is not: no shell must mean no shell.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let argument = |name: &&str| match name.strip_prefix("features.") {
            Some("shell_tool") => ["--disable".to_owned(), "shell_tool".to_owned()],
            _ => ["-c".to_owned(), format!("{name}={}", value(name))],
        };
        self.0.iter().flat_map(argument).collect()
    }

    /// As the configuration of a thread; none: it has all tools.
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

/// Whether a tool may be used. A rule such as `exec_command(git:*)` allows nothing: Codex has no
/// such rules.
fn allows(settings: &Settings, tool: &str) -> bool {
    settings.allowed_tools.is_empty()
        || settings.allowed_tools.iter().any(|allowed| allowed == tool)
}

/// Whether anything that is allowed can change files.
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
    fn what_is_not_allowed_is_switched_off_and_no_list_switches_nothing_off() {
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
