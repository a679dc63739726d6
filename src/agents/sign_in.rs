//! Agents with the feature `own-sign-in`: a key in a variable signs them in only if they run once a
//! turn. With such a key and no other credential, they run once a turn unless the operator chooses
//! otherwise.

use super::accounts;
use super::findings::is_present;
use super::{AgentRegistry, BackendVariant};
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::{Credential, Feature, LinkSharing, OneShot};
use aetheel_model::finding::Finding;
use aetheel_settings::RunMode;
use aetheel_store::workspace::Account;

impl AgentRegistry {
    /// Returns how a backend is to run: the operator's choice, otherwise once a turn if its agent
    /// is signed in for that only. Returns `None` if the backend may decide.
    pub(super) fn wanted_run(&self, name: &str, declared: &Descriptor) -> Option<RunMode> {
        let once = || declared.one_shot != OneShot::Never && self.sole_key(declared).is_some();
        self.examiner.config.backend_run.of(name).or_else(|| once().then_some(RunMode::OneShot))
    }

    /// Returns how the backend of an account is to run: the operator's choice for it or for the
    /// agent's own backend, otherwise once a turn if the agent uses the account only then.
    pub(super) fn run_of_account(
        &self,
        account: &Account,
        declared: &Descriptor,
    ) -> Option<RunMode> {
        if accounts::needs_one_shot(account, declared) {
            return Some(RunMode::OneShot);
        }
        let runs = &self.examiner.config.backend_run;
        runs.named.get(&account.backend()).copied().or_else(|| runs.of(&account.of))
    }

    /// Returns a warning if a key signs the agent in for runs of one turn only.
    pub(super) fn sign_in_warning(&self, name: &str) -> Option<Finding> {
        let (component, variant) = self.base(name)?;
        if matches!(variant, BackendVariant::Account(..)) {
            return None;
        }
        let declared = component.descriptor();
        let (key, file) = self.sole_key(declared)?;
        let live = self.wanted_run(name, declared) != Some(RunMode::OneShot);
        let sign_in =
            format!("sign it in with its own command, which creates {file} (docs/agents.md)");
        let message = if live {
            format!(
                "backend `{name}` runs live, where {key} does not sign it in: unless its model provider needs no sign-in, every turn fails; \
                 {sign_in}, or set BACKEND_RUN={name}=one-shot"
            )
        } else if self.examiner.config.backend_run.of(name).is_none() {
            format!(
                "backend `{name}` runs once a turn, because {key} signs it in only for that; to run it live {sign_in}, or set \
                 BACKEND_RUN={name}=live if its model provider needs no sign-in"
            )
        } else {
            return None;
        };
        Some(Finding::warning("agent", message))
    }

    /// Returns the variable with the agent's only credential, and the file that would also sign in
    /// a live run. Returns `None` if the agent is signed in for both or for neither.
    fn sole_key<'a>(&self, declared: &'a Descriptor) -> Option<(&'a str, &'a str)> {
        if declared.sharing == LinkSharing::Turn || !declared.has(Feature::OwnSignIn) {
            return None;
        }
        let variables = &self.examiner.variables;
        let (mut key, mut file) = (None, None);
        for credential in &declared.credentials {
            match (credential, is_present(credential, variables)) {
                (Credential::Variable(name), true) => key = key.or(Some(name.as_str())),
                (Credential::File(_), true) => return None,
                (Credential::File(path), false) => file = file.or(Some(path.as_str())),
                (Credential::Variable(_), false) => {}
            }
        }
        key.zip(file)
    }
}
