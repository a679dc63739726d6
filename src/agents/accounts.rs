//! Accounts of agents: backends whose agents get other credentials than the agent's own sign-in.
//! Tested by `tests/gateway/accounts.rs`.

use super::AgentRegistry;
use aetheel_model::agent::Descriptor;
use aetheel_model::agent::descriptor::{Credential, DescriptorError, Feature, OneShot};
use aetheel_store::workspace::Account;
use aetheel_turn::Backends as _;

impl AgentRegistry {
    /// Returns the account that makes a backend of this name, with the number of its changes since
    /// the start. Returns `None` if the account cannot be used.
    pub(super) fn account(&self, name: &str) -> Option<(Account, u32)> {
        let (account, revision) = self.options.account(name)?;
        self.account_fault(&account).is_none().then_some((account, revision))
    }

    /// Returns the names of the backends of all accounts that can be used.
    pub(super) fn account_backends(&self) -> impl Iterator<Item = String> {
        let accounts = self.options.accounts().into_iter();
        accounts.filter(|account| self.account_fault(account).is_none()).map(|it| it.backend())
    }

    /// Returns the problems of all accounts, one line each.
    pub(super) fn account_faults(&self) -> impl Iterator<Item = String> {
        self.options.accounts().into_iter().filter_map(|account| {
            let fault = self.account_fault(&account)?;
            let Account { of, name, line, .. } = account;
            Some(format!(
                "backends.md line {line}: the account `{name}` of `{of}` {fault}; it is left out"
            ))
        })
    }

    fn account_fault(&self, account: &Account) -> Option<String> {
        let backend = account.backend();
        if self.components.get(&backend).is_some() || self.is_profile(&backend) {
            return Some(format!("has the name of another backend, `{backend}`"));
        }
        let Some(component) = self.components.get(&account.of) else {
            return Some("belongs to a backend that does not serve here".to_owned());
        };
        let descriptor = component.descriptor();
        if descriptor.takes_profiles() {
            return Some(
                "belongs to profiles; describe the agent with other variables in acp.md".to_owned(),
            );
        }
        let declared = declared_variables(descriptor);
        if let Some(unknown) =
            account.variables.keys().find(|name| !declared.contains(&name.as_str()))
        {
            return Some(format!(
                "sets `{unknown}`, which the backend does not pass to its agent; it passes {}",
                declared.join(", ")
            ));
        }
        let is_missing = |source: &&String| {
            self.examiner.variables.get(*source).is_none_or(|value| value.trim().is_empty())
        };
        if let Some(missing) = account.variables.values().find(is_missing) {
            return Some(format!(
                "needs the variable `{missing}`, which is not set; set it and restart the gateway"
            ));
        }
        if needs_one_shot(account, descriptor) && descriptor.one_shot == OneShot::Never {
            return Some(
                "sets a key, with which the agent cannot sign in; set the variable of its own state folder instead"
                    .to_owned(),
            );
        }
        None
    }
}

/// Returns whether the agent uses the account only if it runs once a turn. Its live runs would use
/// its own sign-in.
pub(super) fn needs_one_shot(account: &Account, descriptor: &Descriptor) -> bool {
    descriptor.has(Feature::OwnSignIn)
        && descriptor.credentials.iter().any(|credential| is_set_by(account, credential))
}

/// Returns the descriptor of an account's backend, made from the component's.
///
/// # Errors
/// Returns [`DescriptorError`] if the names do not fit a descriptor.
pub(super) fn descriptor_of(
    account: &Account,
    component: &Descriptor,
) -> Result<Descriptor, DescriptorError> {
    let mut descriptor = component.clone();
    descriptor.name = account.backend();
    descriptor.label = format!("{} ({})", component.label(), account.name);
    descriptor.rank = None;
    // The agent must not find the credentials of another account.
    descriptor.credentials.retain(|credential| is_set_by(account, credential));
    let declared: Vec<String> =
        declared_variables(&descriptor).into_iter().map(str::to_owned).collect();
    if let Some(paths) = &mut descriptor.environment.paths {
        paths.retain(|path| declared.contains(path));
    }
    // Parsing the text form checks everything.
    let mut descriptor = Descriptor::parse(&serde_json::to_string(&descriptor)?)?;
    descriptor.environment.sources.clone_from(&account.variables);
    Ok(descriptor)
}

fn is_set_by(account: &Account, credential: &Credential) -> bool {
    matches!(credential, Credential::Variable(name) if account.variables.contains_key(name))
}

/// Returns the variables that the gateway passes to the agent of a backend.
fn declared_variables(descriptor: &Descriptor) -> Vec<&str> {
    let credentials = descriptor.credentials.iter().filter_map(|credential| match credential {
        Credential::Variable(name) => Some(name.as_str()),
        Credential::File(_) => None,
    });
    credentials.chain(descriptor.environment.pass.iter().map(String::as_str)).collect()
}
