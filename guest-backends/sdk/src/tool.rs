//! Uses of tools: maps the agent's tool names to the unified kinds and makes one-line titles.

use crate::json::Value;
use crate::text::one_line;
use crate::wit::{ToolEnd, ToolStart, ToolStatus};

/// Maximum length of a tool's title, in bytes.
pub const TITLE_BYTES: usize = 160;

/// A unified kind (`wit/types.wit` lists them), the agent's names of tools of this kind, and the
/// input fields that name the target of a use, in order of preference.
pub type Kind = (&'static str, &'static [&'static str], &'static [&'static str]);

/// The tools of an agent.
///
/// ```
/// use aetheel_backend_sdk::json::parse;
/// use aetheel_backend_sdk::tool::Tools;
///
/// const TOOLS: Tools = Tools::new(&[
///     ("bash", &["shell"], &["command"]),
///     ("file_read", &["read", "view"], &["path"]),
/// ]);
///
/// let start = TOOLS.start("t1", "view", &parse(r#"{"path":"/tmp/x"}"#).unwrap());
/// assert_eq!((start.kind.as_str(), start.title.as_str()), ("file_read", "/tmp/x"));
/// assert_eq!(TOOLS.kind("new-in-this-version"), "other");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Tools {
    kinds: &'static [Kind],
    is_mcp: fn(&str) -> bool,
}

impl Tools {
    /// Creates the list of an agent's tools by kind.
    #[must_use]
    pub const fn new(kinds: &'static [Kind]) -> Self {
        Self { kinds, is_mcp: |_| false }
    }

    /// Sets the function that recognises tools of MCP servers by name, if no kind lists them.
    #[must_use]
    pub const fn with_mcp(self, is_mcp: fn(&str) -> bool) -> Self {
        Self { is_mcp, ..self }
    }

    /// Returns the unified kind of a tool.
    #[must_use]
    pub fn kind(&self, name: &str) -> &'static str {
        match self.find(name) {
            Some((kind, ..)) => kind,
            None if (self.is_mcp)(name) => "mcp",
            None => "other",
        }
    }

    /// Returns whether the agent may have a tool of this name.
    #[must_use]
    pub fn knows(&self, name: &str) -> bool {
        self.find(name).is_some() || (self.is_mcp)(name)
    }

    /// Returns the start of a use. The input may be null or incomplete while the agent still writes
    /// it.
    #[must_use]
    pub fn start(&self, id: &str, name: &str, input: &Value) -> ToolStart {
        let kind = self.kind(name);
        let target = self.find(name).and_then(|(.., about)| target(input, about));
        // A command's description is more helpful to users than the command itself.
        let about = Some(input)
            .filter(|_| kind == "bash")
            .and_then(|input| input.text("description"))
            .or(target.as_deref());
        ToolStart {
            id: id.to_owned(),
            parent: None,
            kind: kind.to_owned(),
            native_name: name.to_owned(),
            title: title(about.unwrap_or_default(), name),
            target,
            input: if input.is_null() { "{}".to_owned() } else { input.to_string() },
        }
    }

    fn find(&self, name: &str) -> Option<&Kind> {
        self.kinds.iter().find(|(_, names, _)| names.contains(&name))
    }

    /// Compares the list with `tools` of a descriptor, which the host uses to translate the
    /// operator's lists. Call it in a test of the backend.
    ///
    /// # Panics
    /// Panics if they differ or if a name is listed under two kinds.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn check(&self, descriptor: &str) {
        let descriptor = crate::json::parse(descriptor).expect("the descriptor is JSON");
        let described = descriptor["tools"].as_object().expect("the descriptor has tools");
        assert_eq!(described.values().count(), self.kinds.len(), "kinds of the descriptor");
        for (kind, names, _) in self.kinds {
            let listed: Vec<&str> =
                descriptor["tools"].list(kind).iter().filter_map(Value::as_str).collect();
            assert_eq!(listed, *names, "{kind}");
            assert!(
                names.iter().all(|name| self.kind(name) == *kind),
                "{kind}: a name is listed under two kinds"
            );
        }
    }
}

/// Returns the end of a use: whether it succeeded, and its output if
/// [`Emit::tool_output`](crate::Emit::tool_output) did not report it.
#[must_use]
pub fn end(id: impl Into<String>, ok: bool, output: Option<String>) -> ToolEnd {
    let status = if ok { ToolStatus::Ok } else { ToolStatus::Failed };
    ToolEnd { id: id.into(), status, output, exit_code: None, diffs: Vec::new() }
}

/// Returns the target of a use: the first of these fields that holds a text or a list of texts.
#[must_use]
pub fn target(input: &Value, fields: &[&str]) -> Option<String> {
    fields.iter().find_map(|field| match input.get(field)? {
        Value::Array(all) => {
            Some(all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        one => one.as_str().map(str::to_owned),
    })
}

/// Returns a one-line title of a use: this text, or the tool's name if it is empty.
#[must_use]
pub fn title(text: &str, name: &str) -> String {
    Some(one_line(text, TITLE_BYTES))
        .filter(|title| !title.is_empty())
        .unwrap_or_else(|| name.to_owned())
}
