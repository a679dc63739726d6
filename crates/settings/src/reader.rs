//! Reads single settings and collects their faults.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use aetheel_model::agent::{AllowedTools, Mode};
use aetheel_model::finding::Finding;
use aetheel_model::id::IdError;
use aetheel_model::registry_key::RegistryKey;
use aetheel_model::rollout::Rollout;
use jiff::tz::TimeZone;
use minisign_verify::PublicKey;
use secrecy::SecretString;

use super::setting::SettingVariable;
use super::time_unit::TimeUnit;
use crate::RunModes;

/// Reads values and collects their faults. An invalid value is replaced by its default, so that the
/// other settings can be examined.
pub(super) struct VariableReader<'a> {
    pub(super) variable: &'a dyn Fn(&str) -> Option<String>,
    pub(super) faults: Vec<Finding>,
}

/// Why an item of a list is not valid, such as `must be …`.
struct ItemFault(String);

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

    pub(super) fn text(&self, row: &SettingVariable) -> String {
        self.optional(row).unwrap_or_else(|| row.default.to_owned()).trim().to_owned()
    }

    pub(super) fn list(&self, row: &SettingVariable) -> Vec<String> {
        self.text(row)
            .split(',')
            .map(str::trim)
            .filter(|item| !item.is_empty())
            .map(str::to_owned)
            .collect()
    }

    /// Reads a list. Invalid items are left out.
    fn items<T>(
        &mut self,
        row: &SettingVariable,
        parse: impl Fn(&str) -> Result<T, ItemFault>,
    ) -> Vec<T> {
        let mut items = Vec::new();
        for item in self.list(row) {
            match parse(&item) {
                Ok(parsed) => items.push(parsed),
                Err(ItemFault(fault)) => self.fault(format!("{row}: {item:?} {fault}")),
            }
        }
        items
    }

    pub(super) fn path(&self, row: &SettingVariable) -> PathBuf {
        self.expanded(&self.text(row))
    }

    pub(super) fn trimmed(&self, row: &SettingVariable) -> Option<String> {
        self.optional(row).map(|value| value.trim().to_owned())
    }

    pub(super) fn secret(&self, row: &SettingVariable) -> Option<SecretString> {
        self.trimmed(row).map(SecretString::from)
    }

    pub(super) fn registry_key(&mut self, row: &SettingVariable) -> Option<RegistryKey> {
        // A fault does not show the value, because it is a secret.
        let parsed = self.trimmed(row)?.parse::<RegistryKey>();
        parsed.map_err(|error| self.fault(format!("{row} {error}"))).ok()
    }

    pub(super) fn words(&self, row: &SettingVariable) -> Vec<String> {
        self.text(row).split_whitespace().map(str::to_owned).collect()
    }

    pub(super) fn program(&self, row: &SettingVariable) -> Option<PathBuf> {
        self.trimmed(row).map(|path| self.expanded(&path))
    }

    pub(super) fn paths(&self, row: &SettingVariable) -> Vec<PathBuf> {
        self.list(row).iter().map(|text| self.expanded(text)).collect()
    }

    /// Reads a list of absolute paths; `~/` is the home folder.
    pub(super) fn places(&mut self, row: &SettingVariable) -> Vec<PathBuf> {
        let named = self.paths(row);
        let relative = named.iter().filter(|path| !path.is_absolute());
        for path in relative {
            self.fault(format!("{row} {path:?} must be an absolute path, or begin with `~/`"));
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

    pub(super) fn runs(&mut self, row: &SettingVariable) -> RunModes {
        let (runs, faults) = RunModes::parse(&self.list(row));
        faults.into_iter().for_each(|fault| self.fault(format!("{row}: {fault}")));
        runs
    }

    pub(super) fn rollout(&mut self, row: &SettingVariable) -> Rollout {
        let text = self.text(row);
        Rollout::parse(&text).unwrap_or_else(|| {
            self.fault(format!("{row} {text:?} must be {}", Rollout::FORMS));
            Rollout::Now
        })
    }

    pub(super) fn allowed_tools(&mut self, row: &SettingVariable) -> AllowedTools {
        AllowedTools::parse(&self.text(row)).unwrap_or_else(|faults| {
            faults.into_iter().for_each(|fault| self.fault(format!("{row}: {fault}")));
            AllowedTools::Only(Vec::new())
        })
    }

    pub(super) fn public_keys(&mut self, row: &SettingVariable) -> Vec<PublicKey> {
        const FAULT: &str = "is not a public key of minisign (the second line of its `.pub` file)";
        self.items(row, |item| {
            PublicKey::from_base64(item).map_err(|_| ItemFault(FAULT.to_owned()))
        })
    }

    pub(super) fn plain_word(&mut self, row: &SettingVariable) -> Option<String> {
        let value = self.optional(row)?.trim().to_owned();
        if value.starts_with('-') || value.contains(|c: char| c.is_control()) {
            self.fault(format!(
                "{row} {value:?} must not begin with a dash or hold control characters"
            ));
        }
        Some(value)
    }

    pub(super) fn number<T: FromStr + PartialOrd + Display + Copy>(
        &mut self,
        row: &SettingVariable,
        least: T,
        most: T,
    ) -> T {
        let text = self.text(row);
        match text.parse() {
            Ok(number) if (least..=most).contains(&number) => number,
            _ => {
                self.fault(format!("{row} {text:?} must be a whole number from {least} to {most}"));
                row.default.parse().unwrap_or(least)
            }
        }
    }

    /// Reads a number, or `None` for 0, which means that there is no limit.
    pub(super) fn number_or_zero<T: FromStr + PartialOrd + Display + Copy + Default>(
        &mut self,
        row: &SettingVariable,
        most: T,
    ) -> Option<T> {
        Some(self.number(row, T::default(), most)).filter(|number| *number > T::default())
    }

    /// Reads a number, or `None` for `auto`.
    pub(super) fn number_or_auto(
        &mut self,
        row: &SettingVariable,
        least: u32,
        most: u32,
    ) -> Option<u32> {
        let text = self.text(row);
        if text == super::AUTO {
            return None;
        }
        let number = text.parse().ok().filter(|number| (least..=most).contains(number));
        if number.is_none() {
            self.fault(format!(
                "{row} {text:?} must be `auto` or a whole number from {least} to {most}"
            ));
        }
        number
    }

    /// Reads a time of 0 to 100 years: a number of days, or a number with a unit.
    pub(super) fn days(&mut self, row: &SettingVariable) -> Duration {
        self.time(row, TimeUnit::DAYS, Duration::ZERO..=TimeUnit::DAYS.times(36_500), false)
    }

    /// Reads a time: a number of seconds, or a number with a unit. The limits are seconds.
    pub(super) fn seconds(&mut self, row: &SettingVariable, least: u64, most: u64) -> Duration {
        let limits = Duration::from_secs(least)..=Duration::from_secs(most);
        self.time(row, TimeUnit::SECONDS, limits, false)
    }

    /// Reads a number of MiB. Returns bytes.
    pub(super) fn mebibytes(&mut self, row: &SettingVariable) -> u64 {
        self.number::<u64>(row, 0, 1 << 30) << 20
    }

    /// Reads a time of at most 30 days: a number of milliseconds, or a number with a unit. `least`
    /// is in milliseconds.
    pub(super) fn milliseconds(&mut self, row: &SettingVariable, least: u64) -> Duration {
        let limits = Duration::from_millis(least)..=TimeUnit::DAYS.times(30);
        self.time(row, TimeUnit::MILLISECONDS, limits, false)
    }

    /// Like [`Self::milliseconds`], but returns `None` for 0, which means that there is no limit.
    pub(super) fn milliseconds_or_never(
        &mut self,
        row: &SettingVariable,
        least: u64,
    ) -> Option<Duration> {
        let limits = Duration::from_millis(least)..=TimeUnit::DAYS.times(30);
        Some(self.time(row, TimeUnit::MILLISECONDS, limits, true)).filter(|time| !time.is_zero())
    }

    /// Reads a time within limits, or 0 if `zero` is true.
    fn time(
        &mut self,
        row: &SettingVariable,
        unit: TimeUnit,
        limits: RangeInclusive<Duration>,
        zero: bool,
    ) -> Duration {
        let text = self.text(row);
        let is_valid = |time: &Duration| limits.contains(time) || zero && time.is_zero();
        unit.parse(&text).filter(is_valid).unwrap_or_else(|| {
            let or_zero = if zero { "0, or " } else { "" };
            let (least, most) = (TimeUnit::shortest(*limits.start()), TimeUnit::shortest(*limits.end()));
            self.fault(format!(
                "{row} {text:?} must be {or_zero}a time from {least} to {most}, such as `30s`, `5m` or `2h`; a number without a unit is in {}",
                unit.word
            ));
            unit.parse(row.default).unwrap_or(*limits.start())
        })
    }

    pub(super) fn one_of<T: Copy>(&mut self, row: &SettingVariable, choices: &[(&str, T)]) -> T {
        let text = self.text(row);
        choice(choices, &text).unwrap_or_else(|ItemFault(fault)| {
            self.fault(format!("{row} {text:?} {fault}"));
            choice(choices, row.default).unwrap_or(choices[0].1)
        })
    }

    /// Returns the mode that `PERMISSION_MODE` selects. Reports nothing, because the row of that
    /// setting does.
    pub(super) fn permission_mode(&self) -> Mode {
        let plan = (self.variable)("PERMISSION_MODE").is_some_and(|text| text.trim() == "plan");
        if plan { Mode::Plan } else { Mode::Build }
    }

    pub(super) fn ids<T>(
        &mut self,
        row: &SettingVariable,
        parse: fn(&str) -> Result<T, IdError>,
    ) -> Vec<T> {
        const FAULT: &str = "is not a Discord id (a number; copy it with developer mode on)";
        self.items(row, |item| parse(item).map_err(|_| ItemFault(FAULT.to_owned())))
    }

    pub(super) fn id<T: Copy>(
        &mut self,
        row: &SettingVariable,
        parse: fn(&str) -> Result<T, IdError>,
    ) -> Option<T> {
        let ids = self.ids(row, parse);
        if ids.len() > 1 {
            self.fault(format!("{row} must be one Discord id"));
        }
        ids.first().copied()
    }

    /// Reads some of the choices in the given order, or `none`.
    pub(super) fn some_of<T: Copy>(
        &mut self,
        row: &SettingVariable,
        choices: &[(&str, T)],
    ) -> Vec<T> {
        if self.list(row) == ["none"] {
            return Vec::new();
        }
        self.items(row, |item| choice(choices, item))
    }

    /// Reads some of the choices in the given order, `all` or `none`.
    pub(super) fn all_or_some_of<T: Copy>(
        &mut self,
        row: &SettingVariable,
        choices: &[(&str, T)],
    ) -> Vec<T> {
        match self.list(row) == ["all"] {
            true => choices.iter().map(|(_, value)| *value).collect(),
            false => self.some_of(row, choices),
        }
    }

    pub(super) fn time_zone(&mut self, row: &SettingVariable) -> TimeZone {
        let text = self.text(row);
        TimeZone::get(&text).unwrap_or_else(|_| {
            self.fault(format!("{row} {text:?} is not a time zone of the IANA database, such as `Europe/Berlin` or `UTC`"));
            TimeZone::UTC
        })
    }

    /// Reads an IP address, or `localhost`, with a port. An error message proposes `port`.
    pub(super) fn socket(&mut self, row: &SettingVariable, port: u16) -> Option<SocketAddr> {
        let text = self.optional(row)?;
        let address = match text.trim().strip_prefix("localhost:") {
            Some(port) => port.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into()).ok(),
            None => text.trim().parse().ok(),
        };
        if address.is_none() {
            self.fault(format!(
                "{row} {text:?} must be an address and a port, such as `127.0.0.1:{port}`"
            ));
        }
        address
    }

    pub(super) fn address(&mut self, row: &SettingVariable) -> String {
        let text = self.text(row);
        if !(text.starts_with("https://") || text.starts_with("http://")) {
            self.fault(format!("{row} {text:?} must begin with https:// or http://"));
        }
        text.trim_end_matches('/').to_owned()
    }
}

/// Returns the value of a choice, or lists the choices.
fn choice<T: Copy>(choices: &[(&str, T)], text: &str) -> Result<T, ItemFault> {
    let found = choices.iter().find(|(choice, _)| *choice == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<String> = choices.iter().map(|(choice, _)| format!("`{choice}`")).collect();
        ItemFault(format!("must be one of {}", names.join(", ")))
    })
}
