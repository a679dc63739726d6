//! A ratchet on knowledge of single agents in the host, which belongs in the components.
//!
//! Lines that agents print on stderr (`turn/reason.rs`) and the shipped descriptors
//! (`agent/capability/shipped.rs`) are such knowledge too, but contain no words that a search could
//! find.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Names of agents, prefixes of their variables, and names of their tools, as they appear in string
/// literals.
const WORDS: [&str; 26] = [
    "\"claude",
    "\"codex",
    "\"gemini",
    "\"opencode",
    "\"droid",
    "\"acp\"",
    "\"acp.",
    "ANTHROPIC_",
    "CLAUDE_",
    "OPENAI_",
    "CODEX_",
    "GEMINI_",
    "GOOGLE_",
    "FACTORY_",
    "OPENCODE_",
    "\"Bash\"",
    "\"Read\"",
    "\"Edit\"",
    "\"Write\"",
    "\"Glob\"",
    "\"Grep\"",
    "\"WebFetch\"",
    "\"file_path\"",
    "\"run_shell_command\"",
    "\"exec_command\"",
    "\"old_string\"",
];

/// The number of such words in each file. A number may only get smaller, and no file may be added.
/// `commands/migrate` is not searched, because it reads the files of other programs.
const EXCEPTIONS: [(&str, usize); 11] = [
    ("crates/dispatch/src/outlet/excerpt.rs", 2),
    ("crates/kit/src/hostile.rs", 1),
    ("crates/model/src/agent/tools.rs", 7),
    ("crates/model/src/config/mod.rs", 2),
    ("crates/store/src/workspace/profiles/mod.rs", 7),
    ("crates/turn/src/reach.rs", 5),
    ("src/agents/auto.rs", 2),
    ("src/agents/mod.rs", 2),
    ("src/commands/init/agents.rs", 2),
    ("src/commands/init/files.rs", 1),
    ("src/startup/settings/mod.rs", 2),
];

/// Returns the code of a file without comments and without its tests.
fn code(text: &str) -> String {
    let own = text.split("#[cfg(test)]").next().unwrap_or_default();
    own.lines().filter(|line| !line.trim_start().starts_with("//")).collect::<Vec<_>>().join("\n")
}

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn knowledge_of_single_agents_in_the_host_only_shrinks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    files(&root.join("src"), &mut found);
    files(&root.join("crates"), &mut found);
    let mut counted = BTreeMap::new();
    for path in found {
        let name = path.strip_prefix(root).expect("below the root").display().to_string();
        if name.starts_with("src/commands/migrate/") || name.contains("tests") {
            continue;
        }
        let code = code(&fs::read_to_string(&path).expect("a source"));
        let count: usize = WORDS.iter().map(|word| code.matches(word).count()).sum();
        if count > 0 {
            counted.insert(name, count);
        }
    }
    let allowed: BTreeMap<String, usize> =
        EXCEPTIONS.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
    assert_eq!(
        counted, allowed,
        "left: words of single agents in src and crates, right: `EXCEPTIONS`; lower a number that got smaller, \
         and move new words into the component's descriptor"
    );
}
