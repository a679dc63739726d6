//! A setting as the operator sees it.

use std::fmt;

/// An environment variable that the gateway reads.
#[derive(Clone, Copy, Debug)]
pub struct SettingVariable {
    /// Its name in the environment, for example `LOG_LEVEL`.
    pub name: &'static str,
    /// The value that is used if it is unset or empty; empty if there is no default.
    pub default: &'static str,
    /// One line for the operator.
    pub meaning: &'static str,
    /// Whether few installations change it. Lists of settings show it after the others.
    pub advanced: bool,
}

impl fmt::Display for SettingVariable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}
