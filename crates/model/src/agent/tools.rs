//! The tools that agents may use, in the operator's names and in those of each agent.

use super::{Descriptor, ToolStart};

/// The tools that agents may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedTools {
    /// All tools that the safety level permits.
    All,
    /// Only these tools. An empty list allows no tools.
    Only(Vec<String>),
}

impl AllowedTools {
    /// Parses `*`, `none`, or names separated by commas. A comma in brackets, as in `Bash(a, b)`,
    /// does not separate names.
    ///
    /// # Errors
    /// A line for each invalid entry. An invalid list must not allow all tools, or tools that were
    /// not listed.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let entries = entries(text);
        match entries[..] {
            ["*"] => return Ok(Self::All),
            ["none"] => return Ok(Self::Only(Vec::new())),
            _ => {}
        }
        let faults: Vec<String> = entries.iter().filter_map(|entry| fault_of(entry)).collect();
        if faults.is_empty() {
            Ok(Self::Only(entries.into_iter().map(str::to_owned).collect()))
        } else {
            Err(faults)
        }
    }

    /// Returns the entries that are neither a unified kind, nor a tool or an alias in one of these
    /// descriptors. Tools of MCP servers (`mcp__…`) are never returned, because they cannot be
    /// known.
    pub fn unknown<'a>(&self, descriptors: impl Iterator<Item = &'a Descriptor>) -> Vec<String> {
        let Self::Only(entries) = self else { return Vec::new() };
        let mut unknown: Vec<String> = entries
            .iter()
            .filter(|entry| unified(name_of(entry)).is_none() && !entry.starts_with("mcp__"))
            .cloned()
            .collect();
        for descriptor in descriptors {
            let own = |name: &str| declared_names(descriptor).any(|own| own == name);
            unknown.retain(|entry| !own(name_of(entry)));
        }
        unknown
    }
}

/// Returns the names that are understood for every agent, for suggestions.
pub fn tool_names<'a>() -> impl Iterator<Item = &'a str> {
    KINDS.into_iter().chain(SHORT)
}

/// Returns the names of tools that a descriptor declares, for any kind.
pub fn declared_names(descriptor: &Descriptor) -> impl Iterator<Item = &str> {
    let kinds = descriptor.tools.values().chain(descriptor.tool_aliases.values());
    kinds.flatten().chain(&descriptor.write_tools).map(String::as_str)
}

/// Returns the tool that an entry is about, such as `Bash` for the rule `Bash(git:*)`.
fn name_of(entry: &str) -> &str {
    entry.split('(').next().unwrap_or_default().trim()
}

fn entries(text: &str) -> Vec<&str> {
    let (mut depth, mut from, mut entries) = (0_usize, 0, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                entries.push(text[from..at].trim());
                from = at + 1;
            }
            _ => {}
        }
    }
    entries.push(text[from..].trim());
    entries
}

fn fault_of(entry: &str) -> Option<String> {
    let name = entry.split('(').next().unwrap_or_default();
    let bare = name.trim();
    if entry.is_empty() {
        Some("there is nothing before or after a comma; `none` allows no tools".to_owned())
    } else if bare == "*" || bare == "none" {
        Some(format!("`{bare}` cannot be combined with other entries"))
    } else if bare.is_empty() || bare.contains(char::is_whitespace) {
        Some(format!("{entry:?} is not the name of a tool; names are separated by commas"))
    } else if entry.matches('(').count() != entry.matches(')').count() {
        Some(format!("{entry:?} has an unmatched bracket"))
    } else {
        None
    }
}

/// The unified kinds that the operator may name.
const KINDS: [&str; 12] = [
    "bash",
    "file_read",
    "file_write",
    "file_edit",
    "file_search",
    "content_search",
    "web_search",
    "web_fetch",
    "agent_spawn",
    "todo",
    "ask_user",
    "skill",
];

/// Kinds that need no `file_`.
const SHORT: [&str; 3] = ["read", "write", "edit"];

/// Returns the unified kind with this name. Capital letters, `_` and `-` make no difference, and
/// `read`, `write` and `edit` need no `file_`.
fn unified(name: &str) -> Option<&'static str> {
    let plain = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let name = plain(name);
    let name = if SHORT.contains(&name.as_str()) { format!("file{name}") } else { name };
    KINDS.into_iter().find(|kind| plain(kind) == name)
}

/// Returns the kind that a name means for an agent: a unified kind, or an alias of the descriptor.
fn kind_of<'a>(name: &str, descriptor: &'a Descriptor) -> Option<&'a str> {
    unified(name).or_else(|| {
        let mut aliases = descriptor.tool_aliases.iter();
        aliases
            .find(|(_, names)| names.iter().any(|alias| alias == name))
            .map(|(kind, _)| kind.as_str())
    })
}

/// Translates the allowed tools into the list of the contract, in which an empty list allows
/// everything.
///
/// An entry is one of the agent's own names, a unified kind such as `file_read`, or an alias that
/// the descriptor declares for a kind. Kinds without a tool of the agent are left out. The list
/// stays unchanged if the descriptor does not name the agent's tools, or if no entry would remain,
/// because an empty list would allow everything. If no tool is allowed, the list contains only the
/// word `none`, which is not a tool of any agent.
#[must_use]
pub fn allowed_tools_for(allowed: &AllowedTools, descriptor: &Descriptor) -> Vec<String> {
    let list = match allowed {
        AllowedTools::All => return Vec::new(),
        AllowedTools::Only(list) if list.is_empty() => return vec!["none".to_owned()],
        AllowedTools::Only(list) => list,
    };
    let own = &descriptor.tools;
    if own.is_empty() {
        return list.to_vec();
    }
    let mut names: Vec<String> = Vec::new();
    for entry in list {
        // The rest of a rule is only meaningful to the agent.
        let name = name_of(entry);
        match kind_of(name, descriptor) {
            // In another agent's words, the entry would lose its rule and allow more than was
            // listed.
            Some(_) if name != entry && !own.values().flatten().any(|own| own == name) => {}
            Some(kind) if !own.values().flatten().any(|own| own == name) => {
                names.extend(own.get(kind).into_iter().flatten().cloned())
            }
            // It is the agent's own name, or unknown, such as that of an MCP server's tool.
            _ => names.push(entry.clone()),
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    if names.is_empty() { list.to_vec() } else { names }
}

/// Returns whether a tool use that an agent asks about is allowed. The agent's own names only count
/// if it is `trusted`, because it enforces its list itself. Otherwise the model may have written
/// any name.
#[must_use]
pub fn permits(
    allowed: &AllowedTools,
    descriptor: &Descriptor,
    tool: &ToolStart,
    trusted: bool,
) -> bool {
    let AllowedTools::Only(list) = allowed else { return true };
    list.iter().map(|entry| name_of(entry)).any(|name| {
        let kind = kind_of(name, descriptor) == Some(tool.kind.as_str());
        let own =
            descriptor.tools.get(&tool.kind).is_some_and(|own| own.iter().any(|own| own == name));
        kind || own || (trusted && name == tool.native_name)
    })
}

/// Returns whether a tool use only reads, searches, or stays within the conversation. A sub-agent
/// asks for its own tool uses. An unknown tool may do anything.
#[must_use]
pub fn is_read_only(tool: &ToolStart) -> bool {
    const LOOKING: [&str; 9] = [
        "agent_spawn",
        "ask_user",
        "content_search",
        "file_read",
        "file_search",
        "skill",
        "todo",
        "web_fetch",
        "web_search",
    ];
    LOOKING.contains(&tool.kind.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_allowed_tools_are_permitted() {
        let descriptor = Descriptor::parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x"}],"tools":{"bash":["run"]}}"#,
        )
        .expect("valid");
        let tool = |kind: &str, name: &str| ToolStart {
            id: "t".into(),
            parent: None,
            kind: kind.into(),
            native_name: name.into(),
            title: String::new(),
            target: None,
            input: "{}".into(),
        };
        let only = |names: &[&str]| {
            AllowedTools::Only(names.iter().map(|name| (*name).to_owned()).collect())
        };
        assert!(permits(&AllowedTools::All, &descriptor, &tool("bash", "run"), false));
        for names in [&["Bash"][..], &["bash"], &["run"], &["Read", "Bash(git:*)"]] {
            assert!(
                permits(&only(names), &descriptor, &tool("bash", "whatever"), false),
                "{names:?}"
            );
        }
        for names in [&[][..], &["Read"], &["none"], &["whatever"]] {
            assert!(
                !permits(&only(names), &descriptor, &tool("bash", "whatever"), false),
                "{names:?}"
            );
        }
        assert!(permits(&only(&["mcp__a__b"]), &descriptor, &tool("mcp", "mcp__a__b"), true));
        assert!(
            !permits(&only(&["Read"]), &descriptor, &tool("other", "Read"), false),
            "a model may have written that name"
        );
    }

    #[test]
    fn a_rule_is_not_lost_in_translation() {
        assert_eq!(
            translated(r#"{"bash":["exec"],"file_read":["read"]}"#, &["Bash(git:*)", "Read"]),
            ["read"]
        );
        assert_eq!(
            translated(r#"{"bash":["exec"]}"#, &["Bash(git:*)"]),
            ["Bash(git:*)"],
            "nothing is allowed then"
        );
    }

    fn translated(tools: &str, list: &[&str]) -> Vec<String> {
        let json =
            format!(r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"tools":{tools}}}"#);
        let descriptor = Descriptor::parse(&json).expect("valid");
        allowed_tools_for(
            &AllowedTools::Only(list.iter().map(|name| (*name).to_owned()).collect()),
            &descriptor,
        )
    }

    #[test]
    fn kinds_in_any_spelling_and_the_agents_own_names_are_understood() {
        let tools = r#"{"bash":["sh"],"file_read":["cat"],"file_search":["glob","list"],"web_fetch":["get"]}"#;
        assert_eq!(
            translated(tools, &["Read", "file_search", "Grep", "WebFetch"]),
            ["cat", "glob", "list", "Grep", "get"]
        );
        assert_eq!(translated(tools, &["Bash", "web-fetch", "FILE_READ"]), ["sh", "get", "cat"]);
        assert_eq!(translated(tools, &["content_search", "get", "glob"]), ["get", "glob"]);
        assert_eq!(
            translated(tools, &["Read", "docs_search"]),
            ["cat", "docs_search"],
            "tools of a server are unknown"
        );
        assert_eq!(translated(r#"{"bash":["Bash"]}"#, &["Bash(git log:*)"]), ["Bash(git log:*)"]);
    }

    #[test]
    fn a_component_decides_which_other_names_its_kinds_have() {
        let descriptor = |aliases: &str| {
            let json = format!(
                r#"{{"name":"x","version":"1","programs":[{{"name":"x"}}],"tools":{{"file_search":["find"]}}{aliases}}}"#
            );
            Descriptor::parse(&json).expect("valid")
        };
        let only = |name: &str| AllowedTools::Only(vec![name.to_owned()]);
        let (with, without) =
            (descriptor(r#","tool-aliases":{"file_search":["Locate"]}"#), descriptor(""));
        assert_eq!(allowed_tools_for(&only("Locate"), &with), ["find"]);
        assert_eq!(allowed_tools_for(&only("Locate"), &without), ["Locate"], "it is not a tool");
        let tool = ToolStart {
            id: "t".into(),
            parent: None,
            kind: "file_search".into(),
            native_name: "whatever".into(),
            title: String::new(),
            target: None,
            input: "{}".into(),
        };
        assert!(permits(&only("Locate"), &with, &tool, false));
        assert!(!permits(&only("Locate"), &without, &tool, false));
        assert!(only("Locate").unknown(std::iter::once(&with)).is_empty());
        assert_eq!(only("Locate").unknown(std::iter::once(&without)), ["Locate"]);
    }

    #[test]
    fn a_list_is_never_lost() {
        assert_eq!(translated("{}", &["Read", "odd"]), ["Read", "odd"]);
        assert_eq!(
            translated(r#"{"bash":["bash"]}"#, &["Read"]),
            ["Read"],
            "nothing is allowed then, and not everything"
        );
    }

    #[test]
    fn no_tools_are_never_an_empty_list_that_allows_everything() {
        let descriptor = Descriptor::parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x"}],"tools":{"bash":["bash"]}}"#,
        )
        .expect("valid");
        assert_eq!(allowed_tools_for(&AllowedTools::Only(vec![]), &descriptor), ["none"]);
        assert!(allowed_tools_for(&AllowedTools::All, &descriptor).is_empty());
    }

    #[test]
    fn only_a_star_and_none_mean_all_tools_and_no_tools() {
        assert_eq!(AllowedTools::parse("*"), Ok(AllowedTools::All));
        assert_eq!(AllowedTools::parse(" none "), Ok(AllowedTools::Only(vec![])));
        let rules =
            AllowedTools::Only(vec!["Read".to_owned(), "Bash(git log, git diff)".to_owned()]);
        assert_eq!(AllowedTools::parse("Read, Bash(git log, git diff)"), Ok(rules));
        for wrong in [
            ",",
            "",
            " , ",
            "Read,",
            ",Read",
            "Read,,Grep",
            "*,Read",
            "Read,none",
            "*(x)",
            "Read Grep",
            "Bash(git",
            "Bash)",
            "(x)",
        ] {
            assert!(
                AllowedTools::parse(wrong).is_err(),
                "{wrong:?} is {:?}",
                AllowedTools::parse(wrong)
            );
        }
    }

    #[test]
    fn unknown_names_are_found() {
        let own =
            Descriptor::parse(r#"{"name":"x","version":"1","programs":[{"name":"x"}],"tools":{"bash":["shell"]},"write-tools":["patch"]}"#)
                .expect("valid");
        let allowed = AllowedTools::parse(
            "Red,Read,file_read,shell,patch,mcp__docs__search,Bash(git *),Shel(x)",
        )
        .expect("a list");
        assert_eq!(allowed.unknown(std::iter::once(&own)), ["Red", "Shel(x)"]);
        assert!(AllowedTools::All.unknown(std::iter::once(&own)).is_empty());
    }
}
