//! Functions from the text of a setting to its value. A [`Fault`] is the rest of a sentence that
//! begins with the setting and its text, such as `must be …`.

use std::fmt::Display;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use aetheel_model::agent::AllowedTools;
use aetheel_model::id::IdError;
use aetheel_model::rollout::Rollout;
use jiff::tz::TimeZone;
use minisign_verify::PublicKey;

use super::time_unit::TimeUnit;

/// Why a text is not valid.
#[derive(Debug)]
pub(super) struct Fault(pub(super) String);

pub(super) type Parsed<T> = Result<T, Fault>;

/// Returns the items of a list that are not empty.
pub(super) fn list(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|item| !item.is_empty())
}

/// Parses each item of a list. Returns the valid items and the faults of the others.
fn items<T>(text: &str, parse: impl Fn(&str) -> Parsed<T>) -> (Vec<T>, Vec<String>) {
    let (mut valid, mut faults) = (Vec::new(), Vec::new());
    for item in list(text) {
        match parse(item) {
            Ok(parsed) => valid.push(parsed),
            Err(Fault(fault)) => faults.push(format!("{item:?} {fault}")),
        }
    }
    (valid, faults)
}

pub(super) fn each_id<T>(
    parse: fn(&str) -> Result<T, IdError>,
) -> impl Fn(&str) -> (Vec<T>, Vec<String>) {
    const FAULT: &str = "is not a Discord id (a number; copy it with developer mode on)";
    move |text| items(text, |item| parse(item).map_err(|_| Fault(FAULT.to_owned())))
}

pub(super) fn public_keys(text: &str) -> (Vec<PublicKey>, Vec<String>) {
    const FAULT: &str = "is not a public key of minisign (the second line of its `.pub` file)";
    items(text, |item| PublicKey::from_base64(item).map_err(|_| Fault(FAULT.to_owned())))
}

/// Parses some of the choices in the given order, or `none`.
pub(super) fn some_of<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&str) -> (Vec<T>, Vec<String>) {
    move |text| match list(text).eq(["none"]) {
        true => (Vec::new(), Vec::new()),
        false => items(text, one_of(choices)),
    }
}

/// Parses some of the choices in the given order, `all` or `none`.
pub(super) fn all_or_some_of<T: Copy>(
    choices: &[(&str, T)],
) -> impl Fn(&str) -> (Vec<T>, Vec<String>) {
    move |text| match list(text).eq(["all"]) {
        true => (choices.iter().map(|(_, value)| *value).collect(), Vec::new()),
        false => some_of(choices)(text),
    }
}

/// Parses a list of tools. An invalid list allows none.
pub(super) fn allowed_tools(text: &str) -> (AllowedTools, Vec<String>) {
    match AllowedTools::parse(text) {
        Ok(tools) => (tools, Vec::new()),
        Err(faults) => (AllowedTools::Only(Vec::new()), faults),
    }
}

pub(super) fn one_of<T: Copy>(choices: &[(&str, T)]) -> impl Fn(&str) -> Parsed<T> {
    move |text| {
        let found = choices.iter().find(|(choice, _)| *choice == text);
        found.map(|(_, value)| *value).ok_or_else(|| {
            let names: Vec<String> =
                choices.iter().map(|(choice, _)| format!("`{choice}`")).collect();
            Fault(format!("must be one of {}", names.join(", ")))
        })
    }
}

pub(super) fn rollout(text: &str) -> Parsed<Rollout> {
    Rollout::parse(text).ok_or_else(|| Fault(format!("must be {}", Rollout::FORMS)))
}

/// Parses a whole number within limits.
pub(super) fn number<T: FromStr + PartialOrd + Display>(
    min: T,
    max: T,
) -> impl Fn(&str) -> Parsed<T> {
    move |text| {
        let parsed = text.parse().ok().filter(|number| (&min..=&max).contains(&number));
        parsed.ok_or_else(|| Fault(format!("must be a whole number from {min} to {max}")))
    }
}

/// Parses a number, or `None` for 0, which means that there is no limit.
pub(super) fn number_or_zero<T: FromStr + PartialOrd + Display + Default>(
    max: T,
) -> impl Fn(&str) -> Parsed<Option<T>> {
    let parse = number(T::default(), max);
    move |text| parse(text).map(|number| Some(number).filter(|number| *number > T::default()))
}

/// Parses a number, or `None` for `auto`.
pub(super) fn number_or_auto(min: u32, max: u32) -> impl Fn(&str) -> Parsed<Option<u32>> {
    let parse = number(min, max);
    move |text| match text {
        super::AUTO => Ok(None),
        _ => parse(text)
            .map(Some)
            .map_err(|_| Fault(format!("must be `auto` or a whole number from {min} to {max}"))),
    }
}

/// Parses a number of MiB. Returns bytes.
pub(super) fn mebibytes(text: &str) -> Parsed<u64> {
    number::<u64>(0, 1 << 30)(text).map(|number| number << 20)
}

/// Parses a time of 0 to 100 years: a number of days, or a number with a unit.
pub(super) fn days(text: &str) -> Parsed<Duration> {
    time(text, TimeUnit::DAYS, Duration::ZERO..=TimeUnit::DAYS.times(36_500), "")
}

/// Parses a time: a number of seconds, or a number with a unit. The limits are seconds.
pub(super) fn seconds(min: u64, max: u64) -> impl Fn(&str) -> Parsed<Duration> {
    let limits = Duration::from_secs(min)..=Duration::from_secs(max);
    move |text| time(text, TimeUnit::SECONDS, limits.clone(), "")
}

/// Parses a time of at most 30 days: a number of milliseconds, or a number with a unit. `min` is in
/// milliseconds.
pub(super) fn milliseconds(min: u64) -> impl Fn(&str) -> Parsed<Duration> {
    let limits = Duration::from_millis(min)..=TimeUnit::DAYS.times(30);
    move |text| time(text, TimeUnit::MILLISECONDS, limits.clone(), "")
}

/// Like [`milliseconds`], but returns `None` for 0, which means that there is no limit.
pub(super) fn milliseconds_or_never(min: u64) -> impl Fn(&str) -> Parsed<Option<Duration>> {
    let limits = Duration::from_millis(min)..=TimeUnit::DAYS.times(30);
    move |text| match TimeUnit::MILLISECONDS.parse(text) {
        Some(Duration::ZERO) => Ok(None),
        _ => time(text, TimeUnit::MILLISECONDS, limits.clone(), "0, or ").map(Some),
    }
}

/// Parses a time within limits. A fault names `other`, which is also valid.
fn time(
    text: &str,
    unit: TimeUnit,
    limits: RangeInclusive<Duration>,
    other: &str,
) -> Parsed<Duration> {
    unit.parse(text).filter(|time| limits.contains(time)).ok_or_else(|| {
        let (min, max) = (TimeUnit::shortest(*limits.start()), TimeUnit::shortest(*limits.end()));
        Fault(format!(
            "must be {other}a time from {min} to {max}, such as `30s`, `5m` or `2h`; a number without a unit is in {}",
            unit.word
        ))
    })
}

pub(super) fn time_zone(text: &str) -> Parsed<TimeZone> {
    TimeZone::get(text).map_err(|_| {
        Fault(
            "is not a time zone of the IANA database, such as `Europe/Berlin` or `UTC`".to_owned(),
        )
    })
}

/// Parses an IP address, or `localhost`, with a port. A fault proposes `port`.
pub(super) fn socket(port: u16) -> impl Fn(&str) -> Parsed<SocketAddr> {
    move |text| {
        let address = match text.strip_prefix("localhost:") {
            Some(port) => port.parse().map(|port| (Ipv4Addr::LOCALHOST, port).into()).ok(),
            None => text.parse().ok(),
        };
        let fault = || Fault(format!("must be an address and a port, such as `127.0.0.1:{port}`"));
        address.ok_or_else(fault)
    }
}

/// Checks a text that becomes an argument of a program.
pub(super) fn plain_word(text: &str) -> Result<(), &'static str> {
    match text.starts_with('-') || text.contains(char::is_control) {
        true => Err("must not begin with a dash or hold control characters"),
        false => Ok(()),
    }
}

pub(super) fn web_address(text: &str) -> Result<(), &'static str> {
    match text.starts_with("https://") || text.starts_with("http://") {
        true => Ok(()),
        false => Err("must begin with https:// or http://"),
    }
}
