//! Reads single settings and collects their faults.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use jiff::tz::TimeZone;
use minisign_verify::PublicKey;

use super::{RunModes, VARIABLES};
use crate::agent::AllowedTools;
use crate::finding::Finding;
use crate::id::IdError;

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

    pub(super) fn optional(&self, name: &str) -> Option<String> {
        debug_assert!(
            VARIABLES.iter().any(|variable| variable.name == name),
            "{name} is missing in VARIABLES"
        );
        (self.variable)(name).filter(|value| !value.trim().is_empty())
    }

    pub(super) fn text(&self, name: &str) -> String {
        self.optional(name).unwrap_or_else(|| default_of(name).to_owned()).trim().to_owned()
    }

    pub(super) fn list(&self, name: &str) -> Vec<String> {
        self.text(name)
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.expanded(&self.text(name))
    }

    /// Reads a list of folders; an empty list is replaced by the folder of the setting `otherwise`.
    pub(super) fn paths(&self, name: &str, otherwise: &str) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self.list(name).iter().map(|text| self.expanded(text)).collect();
        if named.is_empty() { vec![self.path(otherwise)] } else { named }
    }

    /// Reads a list of absolute paths; `~/` is the home folder.
    pub(super) fn places(&mut self, name: &str) -> Vec<PathBuf> {
        let named: Vec<PathBuf> = self.list(name).iter().map(|text| self.expanded(text)).collect();
        let relative = named.iter().filter(|path| !path.is_absolute());
        for path in relative {
            self.fault(format!("{name} {path:?} must be an absolute path, or begin with `~/`"));
        }
        named
    }

    pub(super) fn expanded(&self, text: &str) -> PathBuf {
        match text.strip_prefix("~/") {
            // Without a home folder, the path is relative to the working directory instead of a
            // folder named `~`.
            Some(rest) => {
                PathBuf::from((self.variable)("HOME").unwrap_or_else(|| ".".to_owned())).join(rest)
            }
            None => PathBuf::from(text),
        }
    }

    pub(super) fn runs(&mut self, name: &str) -> RunModes {
        let (runs, faults) = RunModes::parse(&self.list(name));
        faults.into_iter().for_each(|fault| self.fault(format!("{name}: {fault}")));
        runs
    }

    pub(super) fn allowed_tools(&mut self, name: &str) -> AllowedTools {
        AllowedTools::parse(&self.text(name)).unwrap_or_else(|faults| {
            faults.into_iter().for_each(|fault| self.fault(format!("{name}: {fault}")));
            AllowedTools::Only(Vec::new())
        })
    }

    pub(super) fn public_keys(&mut self, name: &str) -> Vec<PublicKey> {
        let mut keys = Vec::new();
        for item in self.list(name) {
            match PublicKey::from_base64(&item) {
                Ok(key) => keys.push(key),
                Err(_) => self.fault(format!("{name}: {item:?} is not a public key of minisign (the second line of its `.pub` file)")),
            }
        }
        keys
    }

    pub(super) fn plain_word(&mut self, name: &str) -> Option<String> {
        let value = self.optional(name)?.trim().to_owned();
        if value.starts_with('-') || value.contains(|c: char| c.is_control()) {
            self.fault(format!(
                "{name} {value:?} must not begin with a dash or hold control characters"
            ));
        }
        Some(value)
    }

    pub(super) fn number(&mut self, name: &str, least: u64, most: u64) -> u64 {
        let text = self.text(name);
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => number,
            _ => {
                self.fault(format!(
                    "{name} {text:?} must be a whole number from {least} to {most}"
                ));
                default_of(name).parse().unwrap_or(least)
            }
        }
    }

    /// Reads a number, or `None` for `auto`.
    pub(super) fn number_or_auto(&mut self, name: &str, least: u64, most: u64) -> Option<u64> {
        let text = self.text(name);
        if text == super::AUTO {
            return None;
        }
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.fault(format!(
                "{name} {text:?} must be `auto` or a whole number from {least} to {most}"
            ));
        }
        number
    }

    pub(super) fn milliseconds(&mut self, name: &str, least: u64) -> Duration {
        Duration::from_millis(self.number(name, least, 30 * 86_400_000))
    }

    /// Reads a time in milliseconds, or `None` for 0, which means that there is no limit.
    pub(super) fn milliseconds_or_never(&mut self, name: &str, least: u64) -> Option<Duration> {
        const MOST: u64 = 30 * 86_400_000;
        let text = self.text(name);
        match text.parse::<u64>() {
            Ok(0) => None,
            Ok(number) if (least..=MOST).contains(&number) => Some(Duration::from_millis(number)),
            _ => {
                self.fault(format!(
                    "{name} {text:?} must be 0 or a whole number from {least} to {MOST}"
                ));
                default_of(name).parse().ok().map(Duration::from_millis)
            }
        }
    }

    pub(super) fn one_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> T {
        let text = self.text(name);
        if let Some((_, value)) = choices.iter().find(|(choice, _)| *choice == text) {
            return *value;
        }
        let names: Vec<String> = choices.iter().map(|(choice, _)| format!("`{choice}`")).collect();
        self.fault(format!("{name} {text:?} must be one of {}", names.join(", ")));
        choices
            .iter()
            .find(|(choice, _)| *choice == default_of(name))
            .map_or(choices[0].1, |(_, value)| *value)
    }

    pub(super) fn ids<T>(&mut self, name: &str, parse: fn(&str) -> Result<T, IdError>) -> Vec<T> {
        let mut ids = Vec::new();
        for item in self.list(name) {
            match parse(&item) {
                Ok(id) => ids.push(id),
                Err(_) => self.fault(format!("{name}: {item:?} is not a Discord id (a number; copy it with developer mode on)")),
            }
        }
        ids
    }

    pub(super) fn id<T: Copy>(
        &mut self,
        name: &str,
        parse: fn(&str) -> Result<T, IdError>,
    ) -> Option<T> {
        let ids = self.ids(name, parse);
        if ids.len() > 1 {
            self.fault(format!("{name} must be one Discord id"));
        }
        ids.first().copied()
    }

    /// Reads some of the choices in the given order, or `none`.
    pub(super) fn some_of<T: Copy>(&mut self, name: &str, choices: &[(&str, T)]) -> Vec<T> {
        let mut found = Vec::new();
        if self.list(name) == ["none"] {
            return found;
        }
        for item in self.list(name) {
            if let Some((_, value)) = choices.iter().find(|(choice, _)| *choice == item) {
                found.push(*value);
            } else {
                let names: Vec<String> =
                    choices.iter().map(|(choice, _)| format!("`{choice}`")).collect();
                self.fault(format!("{name}: {item:?} must be one of {}", names.join(", ")));
            }
        }
        found
    }

    pub(super) fn time_zone(&mut self, name: &str) -> TimeZone {
        let text = self.text(name);
        TimeZone::get(&text).unwrap_or_else(|_| {
            self.fault(format!("{name} {text:?} is not a time zone of the IANA database, such as `Europe/Berlin` or `UTC`"));
            TimeZone::UTC
        })
    }

    /// Reads an IP address, or `localhost`, with a port. An error message proposes `port`.
    pub(super) fn socket(&mut self, name: &str, port: u16) -> Option<SocketAddr> {
        let text = self.optional(name)?;
        let address = match text.trim().strip_prefix("localhost:") {
            Some(port) => port.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into()).ok(),
            None => text.trim().parse().ok(),
        };
        if address.is_none() {
            self.fault(format!(
                "{name} {text:?} must be an address and a port, such as `127.0.0.1:{port}`"
            ));
        }
        address
    }

    pub(super) fn address(&mut self, name: &str) -> String {
        let text = self.text(name);
        if !(text.starts_with("https://") || text.starts_with("http://")) {
            self.fault(format!("{name} {text:?} must begin with https:// or http://"));
        }
        text.trim_end_matches('/').to_owned()
    }
}

fn default_of(name: &str) -> &'static str {
    VARIABLES.iter().find(|variable| variable.name == name).map_or("", |variable| variable.default)
}
