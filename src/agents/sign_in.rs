//! Agents that a key in a variable signs in only where they run once a turn (the feature
//! `own-sign-in`): those run so, unless the operator says otherwise.

use super::AgentRegistry;
use super::findings::is_there;
use crate::agent::Descriptor;
use crate::agent::descriptor::{Credential, Feature, OneShot, Sharing};
use crate::config::Run;

impl AgentRegistry {
    /// How a backend is to run: as the operator says, or else once a turn where it is signed in for
    /// nothing else.
    pub(super) fn wanted_run(&self, name: &str, declared: &Descriptor) -> Option<Run> {
        let once = || declared.one_shot != OneShot::Never && self.key_alone(declared).is_some();
        self.examiner.config.backend_run.of(name).or_else(|| once().then_some(Run::OneShot))
    }

    /// Says that a key signs the agent in for one way to run alone, and what follows.
    pub(super) fn sign_in_warning(&self, name: &str) -> Option<String> {
        let (component, _) = self.base(name)?;
        let declared = component.descriptor();
        let (key, file) = self.key_alone(declared)?;
        let live = self.wanted_run(name, declared) != Some(Run::OneShot);
        let sign_in =
            format!("sign it in with its own command, which makes {file} (docs/agents.md)");
        Some(if live {
            format!(
                "backend `{name}` runs live, where {key} does not sign it in: unless its model provider needs no sign-in, every turn fails; \
                 {sign_in}, or set BACKEND_RUN={name}=one-shot"
            )
        } else if self.examiner.config.backend_run.of(name).is_none() {
            format!(
                "backend `{name}` runs once a turn, because {key} signs it in for nothing else; to run it live {sign_in}, or set \
                 BACKEND_RUN={name}=live if its model provider needs no sign-in"
            )
        } else {
            return None;
        })
    }

    /// The variable that is all the agent is signed in with, and the file that would count also
    /// where it runs live.
    fn key_alone<'a>(&self, declared: &'a Descriptor) -> Option<(&'a str, &'a str)> {
        if declared.sharing == Sharing::Turn || !declared.has(Feature::OwnSignIn) {
            return None;
        }
        let variables = &self.examiner.variables;
        let (mut key, mut file) = (None, None);
        for credential in &declared.credentials {
            match (credential, is_there(credential, variables)) {
                (Credential::Variable(name), true) => key = key.or(Some(name.as_str())),
                (Credential::File(_), true) => return None,
                (Credential::File(path), false) => file = file.or(Some(path.as_str())),
                (Credential::Variable(_), false) => {}
            }
        }
        key.zip(file)
    }
}
