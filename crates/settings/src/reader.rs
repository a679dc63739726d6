//! Finds the variables of settings and collects their faults. [`parsers`](super::parsers) has the
//! functions that convert their texts.

use std::path::PathBuf;

use aetheel_model::finding::Finding;
use aetheel_model::id::IdError;
use aetheel_model::registry_key::RegistryKey;
use secrecy::SecretString;

use super::parsers::{Fault, Parsed, each_id, list, web_address};
use super::setting::SettingVariable;

/// Reads values and collects their faults. An invalid value is replaced by its default, so that the
/// other settings can be examined.
pub(super) struct VariableReader<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) faults: Vec<Finding>,
}

impl<'a> VariableReader<'a> {
    pub(super) fn new(variable: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { variable, faults: Vec::new() }
    }

    pub(super) fn fault(&mut self, message: String) {
        self.faults.push(Finding::invalid("settings", message));
    }

    pub(super) fn optional(&self, row: &SettingVariable) -> Option<String> {
        (self.variable)(row.name).filter(|value| !value.trim().is_empty())
    }

    pub(super) fn trimmed(&self, row: &SettingVariable) -> Option<String> {
        self.optional(row).map(|value| value.trim().to_owned())
    }

    pub(super) fn text(&self, row: &SettingVariable) -> String {
        self.trimmed(row).unwrap_or_else(|| row.default.trim().to_owned())
    }

    pub(super) fn list(&self, row: &SettingVariable) -> Vec<String> {
        list(&self.text(row)).map(str::to_owned).collect()
    }

    pub(super) fn words(&self, row: &SettingVariable) -> Vec<String> {
        self.text(row).split_whitespace().map(str::to_owned).collect()
    }

    pub(super) fn secret(&self, row: &SettingVariable) -> Option<SecretString> {
        self.trimmed(row).map(SecretString::from)
    }

    pub(super) fn registry_key(&mut self, row: &SettingVariable) -> Option<RegistryKey> {
        // A fault does not show the value, because it is a secret.
        let parsed = self.trimmed(row)?.parse::<RegistryKey>();
        parsed.map_err(|error| self.fault(format!("{row} {error}"))).ok()
    }

    /// Reads a value whose default is valid.
    pub(super) fn value<T>(
        &mut self,
        row: &SettingVariable,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> T {
        let text = self.text(row);
        parse(&text).unwrap_or_else(|Fault(fault)| {
            self.fault(format!("{row} {text:?} {fault}"));
            parse(row.default).expect("a test reads the default of each setting")
        })
    }

    /// Reads a value that may be unset.
    pub(super) fn some<T>(
        &mut self,
        row: &SettingVariable,
        parse: impl Fn(&str) -> Parsed<T>,
    ) -> Option<T> {
        let text = self.optional(row)?;
        parse(text.trim())
            .map_err(|Fault(fault)| self.fault(format!("{row} {text:?} {fault}")))
            .ok()
    }

    /// Reads a value of several parts. The parser leaves out invalid parts and returns their faults.
    pub(super) fn parts<T>(
        &mut self,
        row: &SettingVariable,
        parse: impl Fn(&str) -> (T, Vec<String>),
    ) -> T {
        let (value, faults) = parse(&self.text(row));
        faults.into_iter().for_each(|fault| self.fault(format!("{row}: {fault}")));
        value
    }

    /// Reads a text that may be unset. An invalid text is reported and returned nevertheless.
    pub(super) fn checked(
        &mut self,
        row: &SettingVariable,
        check: fn(&str) -> Result<(), &'static str>,
    ) -> Option<String> {
        let text = self.trimmed(row)?;
        if let Err(fault) = check(&text) {
            self.fault(format!("{row} {text:?} {fault}"));
        }
        Some(text)
    }

    pub(super) fn address(&mut self, row: &SettingVariable) -> String {
        let text = self.checked(row, web_address);
        text.as_deref().unwrap_or(row.default).trim_end_matches('/').to_owned()
    }

    pub(super) fn id<T: Copy>(
        &mut self,
        row: &SettingVariable,
        parse: fn(&str) -> Result<T, IdError>,
    ) -> Option<T> {
        let ids = self.parts(row, each_id(parse));
        if ids.len() > 1 {
            self.fault(format!("{row} must be one Discord id"));
        }
        ids.first().copied()
    }

    pub(super) fn path(&self, row: &SettingVariable) -> PathBuf {
        self.expanded(&self.text(row))
    }

    pub(super) fn program(&self, row: &SettingVariable) -> Option<PathBuf> {
        self.trimmed(row).map(|path| self.expanded(&path))
    }

    pub(super) fn paths(&self, row: &SettingVariable) -> Vec<PathBuf> {
        list(&self.text(row)).map(|path| self.expanded(path)).collect()
    }

    /// Reads a list of absolute paths; `~/` is the home folder.
    pub(super) fn places(&mut self, row: &SettingVariable) -> Vec<PathBuf> {
        let named = self.paths(row);
        for path in named.iter().filter(|path| !path.is_absolute()) {
            self.fault(format!("{row} {path:?} must be an absolute path, or begin with `~/`"));
        }
        named
    }

    fn expanded(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            // Without a home folder, the path is relative to the working directory instead of a
            // folder named `~`.
            Some(rest) => {
                PathBuf::from((self.variable)("HOME").unwrap_or_else(|| ".".to_owned())).join(rest)
            }
            None => PathBuf::from(text),
        }
    }
}
