//! Which tools agents may use: as the operator says it, and in each agent's own words.

use super::{Descriptor, ToolStart};

/// Which tools agents may use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AllowedTools {
    /// Whatever the level of safety lets them.
    All,
    /// These and no others; empty: none at all.
    Only(Vec<String>),
}

impl AllowedTools {
    /// Reads `*`, `none`, or names separated by commas; a comma in brackets, as in `Bash(a, b)`,
    /// separates nothing.
    ///
    /// # Errors
    /// Everything that cannot be meant: it must not come to mean all tools, or others than were
    /// named.
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

    /// Entries that are no tool of Claude Code, no unified kind, and nothing that one of these
    /// backends calls a tool of its agent. Tools of MCP servers, `mcp__…`, can be known by nobody.
    pub fn unknown<'a>(&self, descriptors: impl Iterator<Item = &'a Descriptor>) -> Vec<String> {
        let Self::Only(entries) = self else { return Vec::new() };
        let mut unknown: Vec<String> = entries
            .iter()
            .filter(|entry| !is_known(name_of(entry)) && !entry.starts_with("mcp__"))
            .cloned()
            .collect();
        for descriptor in descriptors {
            let own = |name: &str| {
                descriptor
                    .tools
                    .values()
                    .flatten()
                    .chain(&descriptor.write_tools)
                    .any(|own| own == name)
            };
            unknown.retain(|entry| !own(name_of(entry)));
        }
        unknown
    }
}

/// Names that are understood whatever the agent, for suggestions.
pub fn tool_names<'a>() -> impl Iterator<Item = &'a str> {
    KINDS.iter().flat_map(|(theirs, kind)| [*theirs, *kind])
}

fn is_known(name: &str) -> bool {
    tool_names().any(|known| known == name)
}

/// A rule such as `Bash(git:*)` is about the tool before its bracket.
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
        Some("there is nothing before or behind a comma; `none` means no tool at all".to_owned())
    } else if bare == "*" || bare == "none" {
        Some(format!("`{bare}` stands alone or not at all"))
    } else if bare.is_empty() || bare.contains(char::is_whitespace) {
        Some(format!("{entry:?} is no name of a tool; names are separated by commas"))
    } else if entry.matches('(').count() != entry.matches(')').count() {
        Some(format!("{entry:?} has a bracket without its other half"))
    } else {
        None
    }
}

/// Names the operator may use for kinds of tools: those of Claude Code, in which `ALLOWED_TOOLS`
/// has its default.
const KINDS: [(&str, &str); 12] = [
    ("Bash", "bash"),
    ("Read", "file_read"),
    ("Write", "file_write"),
    ("Edit", "file_edit"),
    ("Glob", "file_search"),
    ("Grep", "content_search"),
    ("WebSearch", "web_search"),
    ("WebFetch", "web_fetch"),
    ("Agent", "agent_spawn"),
    ("TodoWrite", "todo"),
    ("AskUserQuestion", "ask_user"),
    ("Skill", "skill"),
];

/// Translates what is allowed into the list of the contract, in which nothing means everything. An
/// entry is one of the agent's own names, a unified kind such as `file_read`, or a name from Claude
/// Code; of the last two, what the agent has nothing for is left out. A backend that does not say
/// what its tools are called gets the list as it is, and so does one that has nothing for any
/// entry: an empty list would allow everything. Where no tool is allowed it is the word `none`,
/// which no agent has a tool of.
#[must_use]
pub fn allowed_for(allowed: &AllowedTools, descriptor: &Descriptor) -> Vec<String> {
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
        // What a rule says beyond the name is the agent's own affair.
        let name = name_of(entry);
        let kind = KINDS.iter().find(|(theirs, kind)| *theirs == name || *kind == name);
        match kind {
            // In another agent's words it would lose its rule, and allow more than was meant.
            Some(_) if name != entry && !own.values().flatten().any(|own| own == name) => {}
            Some((_, kind)) if !own.values().flatten().any(|own| own == name) => {
                names.extend(own.get(*kind).into_iter().flatten().cloned())
            }
            // Its own, or a name nobody here knows, as of an MCP server's tool.
            _ => names.push(entry.clone()),
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    if names.is_empty() { list.to_vec() } else { names }
}

/// Whether a use of a tool that an agent asks about is of one that is allowed. `trusted`: the
/// agent's own names count, of an agent that keeps to its list by its own means; of another they
/// may be anything the model wrote.
#[must_use]
pub fn permits(
    allowed: &AllowedTools,
    descriptor: &Descriptor,
    tool: &ToolStart,
    trusted: bool,
) -> bool {
    let AllowedTools::Only(list) = allowed else { return true };
    list.iter().map(|entry| name_of(entry)).any(|name| {
        let kind = KINDS
            .iter()
            .any(|(theirs, kind)| *kind == tool.kind && (*theirs == name || *kind == name));
        let own =
            descriptor.tools.get(&tool.kind).is_some_and(|own| own.iter().any(|own| own == name));
        kind || own || (trusted && name == tool.native_name)
    })
}

/// Whether a use of a tool only looks: reads, searches, or keeps to the conversation. A sub-agent
/// asks for its own uses. A tool that is not known may do anything.
#[must_use]
pub fn only_looks(tool: &ToolStart) -> bool {
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
    fn a_question_is_let_through_for_what_is_allowed_only() {
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
        allowed_for(
            &AllowedTools::Only(list.iter().map(|name| (*name).to_owned()).collect()),
            &descriptor,
        )
    }

    #[test]
    fn names_of_claude_code_kinds_and_the_agents_own_names_are_understood() {
        let opencode = r#"{"bash":["bash"],"file_read":["read"],"file_search":["glob","list"],"web_fetch":["webfetch"]}"#;
        assert_eq!(
            translated(opencode, &["Read", "Glob", "Grep", "WebFetch"]),
            ["read", "glob", "list", "webfetch"]
        );
        assert_eq!(
            translated(opencode, &["file_search", "webfetch", "glob"]),
            ["glob", "list", "webfetch"]
        );
        assert_eq!(
            translated(opencode, &["Read", "docs_search"]),
            ["read", "docs_search"],
            "of a server's tool nothing is known"
        );
        assert_eq!(translated(r#"{"bash":["Bash"]}"#, &["Bash(git log:*)"]), ["Bash(git log:*)"]);
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
    fn no_tool_at_all_is_never_the_empty_list_that_means_everything() {
        let descriptor = Descriptor::parse(
            r#"{"name":"x","version":"1","programs":[{"name":"x"}],"tools":{"bash":["bash"]}}"#,
        )
        .expect("valid");
        assert_eq!(allowed_for(&AllowedTools::Only(vec![]), &descriptor), ["none"]);
        assert!(allowed_for(&AllowedTools::All, &descriptor).is_empty());
    }

    #[test]
    fn all_tools_and_none_are_said_and_nothing_else_means_them() {
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
    fn names_that_nobody_knows_are_found() {
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
