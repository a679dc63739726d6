//! Checks whether the host would start a requested process.

use std::collections::HashMap;
use std::path::PathBuf;

use super::PROMPT;
use crate::damage;
use aetheel_model::agent::{ArgumentValue, Descriptor, Safety, Spawn, StartTurn};
use aetheel_turn::plan;

/// The data that decides whether a process may start: the descriptor, the files of the link, and
/// the settings of its turns.
pub(super) struct Launches<'a> {
    descriptor: &'a Descriptor,
    files: HashMap<String, PathBuf>,
    safety: HashMap<u32, Safety>,
    /// Words in the operator's options. A launch profile (a section of `acp.md`) may allow more
    /// than the component declares.
    profile: Vec<String>,
}

impl<'a> Launches<'a> {
    pub(super) fn of(descriptor: &'a Descriptor) -> Self {
        Self { descriptor, files: HashMap::new(), safety: HashMap::new(), profile: Vec::new() }
    }

    pub(super) fn begin(&mut self, start: &StartTurn) {
        self.safety.insert(start.session, start.settings.safety);
        self.profile = damage::words(&start.settings.options);
    }

    /// Adds a file, and returns the number of files.
    pub(super) fn put_file(&mut self, name: &str) -> usize {
        self.files.insert(name.to_owned(), PathBuf::from("/kit").join(name));
        self.files.len()
    }

    /// Checks a process as the host does before it starts one.
    ///
    /// # Errors
    /// Returns the problem and the expected behaviour.
    pub(super) fn check(&self, spawn: &Spawn) -> Result<(), (String, &'static str)> {
        let of_variables = spawn.environment.iter().filter_map(|variable| match &variable.value {
            ArgumentValue::Secret(name) => Some(name),
            _ => None,
        });
        let named = of_variables.chain(spawn.basic_auth.iter().map(|auth| &auth.secret));
        let secrets: HashMap<String, String> =
            named.map(|name| (name.clone(), "secret".to_owned())).collect();
        let safety = spawn.session.and_then(|session| self.safety.get(&session)).copied();
        let port = spawn.listens.then_some(4096);
        let known = plan::ValueSources {
            files: &self.files,
            secrets: &secrets,
            port,
            tool_server: Some("http://127.0.0.1:4097/mcp/secret"),
            inherited: &HashMap::new(),
        };
        let safety = safety.unwrap_or(Safety::Default);
        match plan::check(&self.without_profile(spawn), self.descriptor, safety, known) {
            Err(fault) => {
                let arguments = serde_json::to_string(&spawn.arguments).unwrap_or_default();
                let expected = "only what the descriptor declares for the turn's safety level";
                Err((format!("spawn of {arguments}: {fault}"), expected))
            }
            Ok(checked) if checked.arguments.iter().any(|argument| argument.contains(PROMPT)) => {
                let expected = "the prompt on stdin or in a protocol message";
                Err(("the prompt in an argument".into(), expected))
            }
            Ok(_) => Ok(()),
        }
    }

    /// Removes from a process the words that a launch profile may add.
    fn without_profile(&self, spawn: &Spawn) -> Spawn {
        let mut spawn = spawn.clone();
        spawn.arguments.retain(
            |value| !matches!(value, ArgumentValue::Text(text) if self.profile.contains(text)),
        );
        if self.profile.contains(&spawn.program)
            && let Some(program) = self.descriptor.programs.first()
        {
            spawn.program.clone_from(&program.name);
        }
        spawn
    }
}
