//! The maximum capabilities of a component. The operator cannot accept any beyond them.

use crate::agent::descriptor::{Credential, Descriptor};

/// Arguments that make a program print its version. They may follow sub-commands that the
/// descriptor declares.
const VERSIONS: [&str; 5] = ["--version", "-version", "-v", "-V", "version"];

/// Variables that select code to run or files to load, for a runtime, a shell, a linker or a tool
/// of agents. A `*` stands for any beginning or end.
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

/// Returns a line for each part of a descriptor that exceeds the bounds of every component.
/// Profiles of `acp.md` have no bounds, because the operator wrote them. `own` contains the names
/// of the gateway's settings.
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
                "`version-arguments` {arguments:?} of `{}` must be one of `{known}`, after nothing but declared `words`",
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
        faults.push(format!("environment variable `{name}` selects which programs run or belongs to the gateway: no backend may use it"));
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
