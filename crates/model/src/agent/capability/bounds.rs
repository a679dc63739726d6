//! The bounds of what a component may say of itself: no acceptance by the operator lifts them.

use crate::agent::descriptor::{Credential, Descriptor};

/// Arguments that make a program print its version, behind sub-commands it is declared to have.
const VERSIONS: [&str; 5] = ["--version", "-version", "-v", "-V", "version"];

/// Variables that choose code to run or files to load, for a runtime, a shell, a linker or a tool
/// of agents: whole names, or beginnings and ends beside a `*`.
const DANGEROUS: &[&str] = &[
    "LD_*",
    "DYLD_*",
    "*_PRELOAD",
    "GLIBC_TUNABLES",
    "GCONV_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "NODE_REPL_*",
    "BUN_*",
    "DENO_*",
    "ELECTRON_*",
    "NPM_*",
    "npm_*",
    "PYTHON*",
    "PERL*",
    "RUBY*",
    "GEM_*",
    "BUNDLE_*",
    "LUA_*",
    "PHP*",
    "JAVA_*",
    "_JAVA_*",
    "JDK_*",
    "CLASSPATH",
    "GIT_*",
    "SSH_*",
    "BASH_ENV",
    "BASH_FUNC_*",
    "BASH_XTRACEFD",
    "BASHOPTS",
    "SHELLOPTS",
    "ENV",
    "ZDOTDIR",
    "PROMPT_COMMAND",
    "PS4",
    "IFS",
    "EDITOR",
    "VISUAL",
    "PAGER",
    "*_PAGER",
    "*_EDITOR",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "OPENSSL_*",
    "SSLKEYLOGFILE",
    "TERMINFO*",
    "PATH",
    "HOME",
    "SHELL",
    "TMPDIR",
    "DISCORD_*",
    "CREDENTIALS_DIRECTORY",
];

/// Where a descriptor goes beyond what any component may do, one line each. A profile of `acp.md`
/// is not bound by this: it is the operator's own. `own` are the names of the gateway's settings.
#[must_use]
pub fn overreach(descriptor: &Descriptor, own: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for program in &descriptor.programs {
        let Some((last, before)) = program.version_arguments.split_last() else { continue };
        if !VERSIONS.contains(&last.as_str())
            || !before.iter().all(|word| program.words.contains(word))
        {
            let (arguments, known) = (program.version_arguments.join(" "), VERSIONS.join("`, `"));
            faults.push(format!(
                "`version-arguments` {arguments:?} of `{}` must be one of `{known}`, behind nothing but declared `words`",
                program.name
            ));
        }
    }
    let credentials = descriptor.credentials.iter().filter_map(|credential| match credential {
        Credential::Variable(name) => Some(name),
        Credential::File(_) => None,
    });
    let environment = descriptor.environment.set.iter().chain(&descriptor.environment.pass);
    let forbidden = |name: &&String| {
        own.contains(&name.as_str()) || DANGEROUS.iter().any(|pattern| matches(name, pattern))
    };
    for name in environment.chain(credentials).filter(forbidden) {
        faults.push(format!("environment variable `{name}` chooses what programs run or is the gateway's own: no backend may touch it"));
    }
    faults
}

fn matches(name: &str, pattern: &str) -> bool {
    match (pattern.strip_suffix('*'), pattern.strip_prefix('*')) {
        (Some(beginning), _) => name.starts_with(beginning),
        (_, Some(end)) => name.ends_with(end),
        _ => name == pattern,
    }
}
