//! An architecture test: knowledge of single agents is in the components, and nowhere in the host.
//!
//! The forbidden texts come from the descriptors of `guest-backends`: names of agents, flags,
//! variables, tools, paths, and lines on stderr. Field names of tool inputs are listed here,
//! because descriptors have none. There are no exceptions. `acp.md` is a file of the operator, named
//! after a protocol.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::Credential;

/// Prefixes of variables of agents and of their vendors.
const PREFIXES: [&str; 8] =
    ["ANTHROPIC_", "CLAUDE_", "OPENAI_", "CODEX_", "GEMINI_", "GOOGLE_", "FACTORY_", "OPENCODE_"];

/// Tools of agents whose names consist of one word, and fields of the inputs of tools.
const LITERALS: [&str; 18] = [
    "Bash",
    "Read",
    "Edit",
    "Write",
    "Glob",
    "Grep",
    "file_path",
    "filePath",
    "notebook_path",
    "old_string",
    "new_string",
    "old_str",
    "new_str",
    "oldString",
    "newString",
    "oldText",
    "newText",
    "unified_diff",
];

/// Variables of the system, which are not only passed to agents.
const OF_THE_SYSTEM: [&str; 2] = ["XDG_", "SSL_"];

/// The texts that the code of the host must not contain.
#[derive(Default)]
struct Forbidden {
    /// Whole words, whatever their case.
    words: BTreeSet<String>,
    /// Parts of the code.
    parts: BTreeSet<String>,
}

impl Forbidden {
    fn of(descriptors: &[Descriptor]) -> Self {
        let literal = |text: &str| format!("\"{text}\"");
        let mut all = Self::default();
        all.parts.extend(PREFIXES.map(str::to_owned));
        all.parts.extend(LITERALS.map(literal));
        let kinds: BTreeSet<&str> = aetheel_model::agent::tool_names().collect();
        for descriptor in descriptors {
            let flags = descriptor.programs.iter().flat_map(|program| &program.flags);
            // The program has flags of one word, too.
            let flags = flags.filter(|flag| flag.name.matches('-').count() > 2);
            all.words.extend(flags.map(|flag| flag.name.clone()));
            let (set, pass) = (&descriptor.environment.set, &descriptor.environment.pass);
            let own = |name: &&String| !OF_THE_SYSTEM.iter().any(|of| name.starts_with(of));
            all.words.extend(set.iter().chain(pass).filter(own).cloned());
            for credential in &descriptor.credentials {
                match credential {
                    Credential::Variable(name) => all.words.insert(name.clone()),
                    Credential::File(path) => all.parts.insert(path.clone()),
                };
            }
            all.parts.extend(descriptor.state.iter().map(|state| state.path.clone()));
            let (contains, starts) =
                (&descriptor.stderr_noise.contains, &descriptor.stderr_noise.starts_with);
            all.parts.extend(contains.iter().chain(starts).cloned());
            let compound = |name: &&str| {
                !kinds.contains(name)
                    && (name.contains('_') || name.chars().skip(1).any(char::is_uppercase))
            };
            let tools = aetheel_model::agent::declared_names(descriptor).filter(compound);
            all.parts.extend(tools.map(literal));
            // A protocol has the name of its component. The words of a label are names, too.
            if descriptor.takes_profiles() {
                all.parts.insert(literal(&descriptor.name));
            } else {
                all.words.insert(descriptor.name.clone());
                all.parts.insert(descriptor.label().to_owned());
            }
        }
        all
    }

    /// Returns what a text contains.
    fn found_in(&self, code: &str) -> Vec<String> {
        let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
        let lower = code.to_lowercase();
        let is_there = |word: &&String| {
            let word = word.to_lowercase();
            lower.match_indices(&word).any(|(at, _)| {
                !lower[..at].ends_with(part_of_word)
                    && !lower[at + word.len()..].starts_with(part_of_word)
            })
        };
        let words = self.words.iter().filter(is_there);
        words
            .chain(self.parts.iter().filter(|part| code.contains(part.as_str())))
            .cloned()
            .collect()
    }
}

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

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the descriptors of all components, without that of the program's own scripted agent.
fn descriptors() -> Vec<Descriptor> {
    let folder = root().join("guest-backends");
    let entries = fs::read_dir(&folder).expect("the components");
    let texts = entries.filter_map(|entry| {
        fs::read_to_string(entry.expect("an entry").path().join("src/descriptor.json")).ok()
    });
    let mut all: Vec<Descriptor> =
        texts.map(|json| Descriptor::parse(&json).expect("a valid descriptor")).collect();
    all.retain(|descriptor| descriptor.programs[0].name != env!("CARGO_PKG_NAME"));
    all
}

#[test]
fn the_host_knows_no_single_agent() {
    let forbidden = Forbidden::of(&descriptors());
    let mut sources = Vec::new();
    files(&root().join("src"), &mut sources);
    files(&root().join("crates"), &mut sources);
    let mut found = Vec::new();
    for path in sources {
        let name = path.strip_prefix(root()).expect("below the root").display().to_string();
        if name.contains("tests") {
            continue;
        }
        let code = code(&fs::read_to_string(&path).expect("a source"));
        found.extend(forbidden.found_in(&code).into_iter().map(|what| format!("{name}: {what}")));
    }
    assert!(
        found.is_empty(),
        "the host contains knowledge of single agents: move it into the descriptor of the \
         component, and give the host a rule that needs no name:\n{}",
        found.join("\n")
    );
}

#[test]
fn every_kind_of_knowledge_would_be_found() {
    let forbidden = Forbidden::of(&descriptors());
    for code in [
        "if name == \"claude\" {}",
        "print(\"Name one, for example Codex.\")",
        "args.push(\"--dangerously-skip-permissions\")",
        "env(\"CODEX_CA_CERTIFICATE\")",
        "env(\"ANTHROPIC_API_KEY\")",
        "input[\"old_string\"]",
        "tools.contains(\"Bash\")",
        "tools.contains(\"run_shell_command\")",
        "home.join(\"~/.gemini/\")",
        "line.contains(\"Loaded cached credentials\")",
        "const PROFILED: &str = \"acp\";",
    ] {
        assert!(!forbidden.found_in(code).is_empty(), "{code}");
    }
    for code in ["env(\"XDG_CONFIG_HOME\")", "android", "folder.join(\"acp.md\")", "\"file_read\""]
    {
        assert_eq!(forbidden.found_in(code), Vec::<String>::new(), "{code}");
    }
}
