//! Accounts of an agent in `backends.md`: each makes another backend of the same component, whose
//! agent gets other credentials. Pure. `docs/backends.md` has the format.

use std::collections::BTreeMap;

use aetheel_model::markdown::{KeyValue, trim_backticks};
use aetheel_model::redact::is_secret_name;

/// An account of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// The backend of the agent's own sign-in.
    pub of: String,
    /// The name of the account.
    pub name: String,
    /// For each variable of the agent, the gateway's variable with its value.
    pub variables: BTreeMap<String, String>,
    /// Its line in the file, from 1.
    pub line: usize,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum AccountError {
    #[error(
        "`account` is not a name and pairs of variables, such as `work, AGENT_TOKEN=WORK_AGENT_TOKEN`"
    )]
    Form,
    #[error("the account {0:?} may have only small letters, digits and `-` in its name")]
    InvalidName(String),
    #[error("{0:?} is not a pair of variables such as `AGENT_TOKEN=WORK_AGENT_TOKEN`")]
    InvalidPair(String),
    #[error(
        "the value of `{0}` would not be removed from answers and logs; name the variable so that it contains `_KEY`, `TOKEN`, `SECRET`, `PASSWORD` or `CREDENTIAL`"
    )]
    NotSecret(String),
}

impl Account {
    pub(super) fn parse(of: &str, entry: &KeyValue) -> Result<Self, AccountError> {
        let mut parts = entry.list();
        let name = parts.next().ok_or(AccountError::Form)?;
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if name.contains('=') {
            return Err(AccountError::Form);
        }
        if !name.chars().all(is_plain) || name.starts_with('-') || name.ends_with('-') {
            return Err(AccountError::InvalidName(name.to_owned()));
        }
        let mut variables = BTreeMap::new();
        for pair in parts {
            let invalid = || AccountError::InvalidPair(pair.to_owned());
            let (variable, source) = pair.split_once('=').ok_or_else(invalid)?;
            let (variable, source) = (trim_backticks(variable), trim_backticks(source));
            if !is_variable(variable) || !is_variable(source) {
                return Err(invalid());
            }
            if is_secret_name(variable) && !is_secret_name(source) {
                return Err(AccountError::NotSecret(source.to_owned()));
            }
            variables.insert(variable.to_owned(), source.to_owned());
        }
        if variables.is_empty() {
            return Err(AccountError::Form);
        }
        let (of, name) = (of.to_owned(), name.to_owned());
        Ok(Self { of, name, variables, line: entry.line })
    }

    /// Returns the name of the account's backend.
    #[must_use]
    pub fn backend(&self) -> String {
        format!("{}-{}", self.of, self.name)
    }
}

fn is_variable(text: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    !text.is_empty()
        && text.chars().all(is_plain)
        && !text.starts_with(|c: char| c.is_ascii_digit())
}
