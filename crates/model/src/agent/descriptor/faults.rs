//! The rules that a descriptor must keep.

use super::super::state;
use super::Descriptor;

/// Variables that no backend may set or pass on, because they select code to run or are the
/// gateway's own secrets.
const FORBIDDEN_VARIABLES: &[&str] = &[
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "NODE_OPTIONS",
    "NODE_PATH",
    "BASH_ENV",
    "ENV",
    "PYTHONSTARTUP",
    "PYTHONPATH",
    "PERL5OPT",
    "RUBYOPT",
    "GIT_SSH_COMMAND",
    "PATH",
    "HOME",
    "SHELL",
    "DISCORD_BOT_TOKEN",
    "REGISTRY_KEY",
    "OTEL_EXPORTER_OTLP_HEADERS",
    "CREDENTIALS_DIRECTORY",
];

impl Descriptor {
    pub(super) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        if !is_name(&self.name) {
            faults.push(format!(
                "`name` {:?} must be 1 to 32 lower-case letters, digits or `-`",
                self.name
            ));
        }
        if self.version.is_empty() || self.version.len() > 64 {
            faults.push("`version` must have 1 to 64 characters".to_owned());
        }
        if self.programs.is_empty() {
            faults.push("`programs` is empty".to_owned());
        }
        for program in &self.programs {
            if program.name.is_empty()
                || program.name.contains(['/', '\0'])
                || program.name.starts_with('-')
            {
                faults.push(format!("program name {:?} must be a plain file name", program.name));
            }
            for flag in &program.flags {
                if flag.name.len() < 2
                    || !flag.name.starts_with('-')
                    || flag.name.contains(['=', ' ', '\0'])
                {
                    faults.push(format!(
                        "flag {:?} of `{}` must be a dash and a name",
                        flag.name, program.name
                    ));
                }
            }
            if let Some(word) =
                program.words.iter().find(|word| word.len() > 1 && word.starts_with('-'))
            {
                faults.push(format!(
                    "word {word:?} of `{}` begins with a dash: list it under `flags`",
                    program.name
                ));
            }
        }
        let used = self.environment.set.iter().chain(&self.environment.pass);
        for name in used.chain(self.credential_variables()) {
            if !is_variable_name(name) {
                faults.push(format!("environment variable {name:?} is not a name"));
            } else if FORBIDDEN_VARIABLES.contains(&name.as_str()) {
                faults.push(format!("environment variable `{name}` may not be used by a backend"));
            }
        }
        let declared = |path: &&String| {
            self.environment.pass.contains(path)
                || self.credential_variables().any(|it| it == *path)
        };
        for path in self.environment.paths.iter().flatten().filter(|path| !declared(path)) {
            faults.push(format!(
                "`environment.paths` names `{path}`, which is neither in `pass` nor a credential"
            ));
        }
        faults.extend(self.stderr_noise.faults());
        faults.extend(state::faults(&self.state, &self.environment.pass));
        faults
    }
}

pub(crate) fn is_name(text: &str) -> bool {
    (1..=32).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !text.starts_with('-')
}

fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !text.as_bytes()[0].is_ascii_digit()
}
