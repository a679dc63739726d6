//! Capabilities as sentences, for the person who accepts them.

use super::lines::quoted;
use super::{Capabilities, Capability, Limit, LimitSupport};
use crate::agent::Safety;
use crate::agent::descriptor::{Expands, FlagValue, LinkSharing, StateAccess, StatePath};

/// Programs that run any command they are given, or give it more rights.
const RUN_ANYTHING: [&str; 36] = [
    "ash", "bash", "busybox", "bun", "chroot", "csh", "curl", "dash", "deno", "doas", "env",
    "find", "fish", "java", "ksh", "lua", "make", "nice", "node", "nohup", "npx", "perl", "php",
    "pkexec", "python", "ruby", "setsid", "sh", "ssh", "su", "sudo", "timeout", "uvx", "wget",
    "xargs", "zsh",
];

/// Describes each capability, the most important first, in words that follow `it wants to`.
#[must_use]
pub fn describe(all: &Capabilities) -> Vec<String> {
    all.iter().map(sentence).collect()
}

fn sentence(capability: &Capability) -> String {
    let code = |word: &str| format!("`{}`", quoted(word));
    match capability {
        Capability::Program { name, .. } => {
            format!("start the program {}{}", code(name), warning(name))
        }
        Capability::Version { program, arguments } => {
            let arguments: Vec<String> =
                arguments.iter().map(|argument| quoted(argument)).collect();
            format!("ask {} for its version with `{}`", code(program), arguments.join(" "))
        }
        Capability::Word { program, word } => {
            format!("give {} the argument {}", code(program), code(word))
        }
        Capability::Flag { program, flag, takes, value, from } => {
            let from = match from {
                Safety::Default => "at every safety level",
                Safety::Edit => "from safety level `edit` on",
                Safety::Danger => "at safety level `danger`",
            };
            let value = match (takes, value.as_str()) {
                (FlagValue::None, _) => String::new(),
                (_, "*") => " with any value".to_owned(),
                (_, value) => format!(" with {}", code(value)),
            };
            format!("give {} the flag {}{value}, {from}", code(program), code(flag))
        }
        Capability::Sets(name) => format!("set the variable {} for its agent", code(name)),
        Capability::Passes(name) => {
            format!("pass the gateway's variable {} to its agent", code(name))
        }
        Capability::Secret(name) => format!("pass the secret {} to its agent", code(name)),
        Capability::ReadsPathOf(name) => {
            format!("let its agent read the file or folder that the variable {} names", code(name))
        }
        Capability::SignInFile(path) => {
            format!("use {} as proof that its agent is signed in", code(path))
        }
        Capability::State(StatePath { path, access, moved_by, below }) => {
            let may = if *access == StateAccess::Write { "change" } else { "read" };
            let moved = moved_by.as_ref().map(|name| {
                let below = if below.is_empty() {
                    String::new()
                } else {
                    format!("{} below ", code(below))
                };
                format!(", or {below}the folder that {} names", code(name))
            });
            format!("let its agent {may} {}{}", code(path), moved.unwrap_or_default())
        }
        Capability::OwnSandbox => {
            "have its agent confined by bubblewrap rather than Landlock, so that it can mount"
                .to_owned()
        }
        Capability::AsRoot { at, unless } => {
            let at = match at {
                Safety::Default => "default",
                Safety::Edit => "edit",
                Safety::Danger => "danger",
            };
            let unless = unless
                .as_ref()
                .map(|unless| format!(" where {} is set", code(unless)))
                .unwrap_or_default();
            format!("run as the root user at safety level `{at}`{unless}")
        }
        Capability::Leaves(kind) => {
            let what = match kind {
                Expands::AtPath => "`@path`, which may become a file's content,",
                Expands::SlashCommand => "a leading `/name`, which may be a command,",
                Expands::Bang => "a leading `!`, which may run a command,",
                Expands::LeadingDash => "a leading dash, which may be a flag,",
            };
            format!("leave {what} in people's text as it is")
        }
        Capability::Tool { kind, name } => {
            format!("treat its tool {} as one of kind {} in ALLOWED_TOOLS", code(name), code(kind))
        }
        Capability::Limit { limit, support } => {
            let limit = match limit {
                Limit::Tools => "ALLOWED_TOOLS",
                Limit::Plan => "the mode `plan`",
            };
            match support {
                LimitSupport::Always => format!("be trusted to enforce {limit}"),
                LimitSupport::Live => {
                    format!("be trusted to enforce {limit} in live runs, and not in one-shot runs")
                }
                LimitSupport::Never => format!("not enforce {limit}"),
            }
        }
        Capability::Profiles => "run the agents of the profiles in acp.md".to_owned(),
        Capability::Shares(sharing) => match sharing {
            LinkSharing::Turn => "start one agent for each turn".to_owned(),
            LinkSharing::Session => "have one agent serve all turns of a conversation".to_owned(),
            LinkSharing::Link => "have one agent serve all conversations".to_owned(),
        },
    }
}

/// Returns a warning for a program that is dangerous to accept, or an empty text.
fn warning(name: &str) -> &'static str {
    let plain = name
        .trim_end_matches(|c: char| c.is_ascii_digit() || c == '.' || c == '-')
        .to_ascii_lowercase();
    if RUN_ANYTHING.contains(&plain.as_str()) {
        " (CAREFUL: it runs whatever it is given)"
    } else if name == "aetheel" {
        " (CAREFUL: that is the gateway's own program)"
    } else {
        ""
    }
}
