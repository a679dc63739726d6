//! `budgets.md`: the caps of the operator. A section is a budget with filters and one or more caps.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use super::amount::{AmountError, BudgetUnit};
use super::period::BudgetPeriod;
use crate::event::Lane;
use crate::id::{ChannelId, IdError, UserId};
use crate::markdown::KeyValue;
use crate::markdown::layout::SectionLayout;
use crate::markdown::sections::{Section, sections};

/// A property of turns by which a budget selects them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum BudgetDimension {
    Person,
    Channel,
    Project,
    Backend,
    Schedule,
}

impl BudgetDimension {
    fn parse(word: &str) -> Option<Self> {
        let all = [Self::Person, Self::Channel, Self::Project, Self::Backend, Self::Schedule];
        all.into_iter().find(|dimension| dimension.word() == word)
    }

    fn word(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Channel => "channel",
            Self::Project => "project",
            Self::Backend => "backend",
            Self::Schedule => "schedule",
        }
    }

    /// Returns a value in the form in which [`BudgetSubject::values`] returns it.
    fn value(self, text: &str) -> Result<String, IdError> {
        Ok(match self {
            Self::Person => UserId::parse_nonzero(text)?.to_string(),
            Self::Channel => ChannelId::parse_nonzero(text)?.to_string(),
            Self::Project | Self::Backend => text.to_lowercase(),
            Self::Schedule => text.to_owned(),
        })
    }
}

/// The values of a property that a budget selects.
#[derive(Clone, Debug, PartialEq, Eq)]
enum BudgetFilter {
    /// Every value has an account of its own.
    Each,
    /// All turns with one of these values share an account.
    Only(BTreeSet<String>),
}

/// The properties of a turn by which budgets select it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
pub struct BudgetSubject {
    /// The person who asked.
    pub person: Option<UserId>,
    /// The channel or thread.
    pub channel: Option<ChannelId>,
    /// The channel of the thread.
    pub parent: Option<ChannelId>,
    /// The project of the channel, in lower case.
    pub project: Option<String>,
    /// The name of the backend.
    pub backend: String,
    /// The name of the heartbeat or cron job.
    pub schedule: Option<String>,
}

impl BudgetSubject {
    /// Returns the subject of a turn without a person, a parent channel and a project.
    #[must_use]
    pub fn of_lane(lane: &Lane, backend: &str) -> Self {
        let (channel, schedule) = match lane {
            Lane::Channel(channel) => (Some(*channel), None),
            Lane::Heartbeat(name) | Lane::Cron(name) => (None, Some(name.clone())),
            Lane::Console | Lane::Hook(_) | Lane::Webhook(_) => (None, None),
        };
        Self { channel, schedule, backend: backend.to_owned(), ..Self::default() }
    }

    /// Returns the values of a property. The first one names the account of a filter `each`.
    fn values(&self, dimension: BudgetDimension) -> Vec<String> {
        match dimension {
            BudgetDimension::Person => self.person.iter().map(ToString::to_string).collect(),
            BudgetDimension::Channel => {
                self.parent.iter().chain(&self.channel).map(ToString::to_string).collect()
            }
            BudgetDimension::Project => self.project.iter().cloned().collect(),
            BudgetDimension::Backend => vec![self.backend.clone()],
            BudgetDimension::Schedule => self.schedule.iter().cloned().collect(),
        }
    }
}

/// The identity of an account: budget, unit, period and the values of its filters `each`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BudgetAccount(pub String);

impl fmt::Display for BudgetAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One cap of a budget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BudgetCap {
    /// The name of the budget.
    pub name: String,
    /// The largest amount, in the unit's whole numbers.
    pub amount: u64,
    /// The kind of amount.
    pub unit: BudgetUnit,
    /// How often the cap begins again.
    pub period: BudgetPeriod,
    /// Its line in the file, from 1, or 0 for a cap that is in no file.
    pub line: usize,
    filters: BTreeMap<BudgetDimension, BudgetFilter>,
}

/// The reason why a text is not a cap.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CapError {
    /// The text has no amount and period.
    #[error("{0:?} is not a cap such as `$20 a day`, `2M tokens a week` or `50 turns a month`")]
    Form(String),
    /// The amount is invalid.
    #[error(transparent)]
    Amount(#[from] AmountError),
    /// A filter selects nothing that exists.
    #[error("`{key}`: {source}")]
    InvalidId {
        /// The name of the filter.
        key: &'static str,
        /// The reason.
        source: IdError,
    },
    /// A key is unknown.
    #[error("`{0}` is unknown here (`cap`, `person`, `channel`, `project`, `backend`, `schedule`)")]
    UnknownKey(String),
    /// A filter has no values.
    #[error("`{0}` names nothing")]
    Empty(&'static str),
    /// A filter or a cap occurs twice.
    #[error("there is an earlier `{0}`")]
    Repeated(String),
}

impl BudgetCap {
    /// Parses a cap without filters, such as `$20 a day`, optionally followed by `for each person`
    /// or by `for`, a filter and its values, as in `for channel 123`.
    ///
    /// # Errors
    /// [`CapError`] if the text is not a cap.
    pub fn parse(name: &str, text: &str) -> Result<Self, CapError> {
        let (cap, filter) = match text.split_once(" for ") {
            Some((cap, filter)) => (cap, Some(filter.trim())),
            None => (text, None),
        };
        let mut parsed = Self::without_filters(name, cap)?;
        if let Some(filter) = filter {
            let (key, values) = match filter.strip_prefix("each ") {
                Some(key) => (key.trim(), "each"),
                None => filter.split_once(' ').unwrap_or((filter, "")),
            };
            let dimension =
                BudgetDimension::parse(key).ok_or_else(|| CapError::UnknownKey(key.to_owned()))?;
            let values = values.split(',').map(str::trim).filter(|value| !value.is_empty());
            parsed.filters.insert(dimension, read_filter(dimension, values)?);
        }
        Ok(parsed)
    }

    fn without_filters(name: &str, text: &str) -> Result<Self, CapError> {
        let invalid = || CapError::Form(text.to_owned());
        let (rest, period) = text.trim().rsplit_once(char::is_whitespace).ok_or_else(invalid)?;
        let period = BudgetPeriod::parse(&period.to_lowercase()).ok_or_else(invalid)?;
        let amount = ["a", "per"].iter().find_map(|word| rest.trim().strip_suffix(word));
        let (unit, amount) = BudgetUnit::parse_amount(amount.ok_or_else(invalid)?.trim())?;
        Ok(Self { name: name.to_owned(), amount, unit, period, line: 0, filters: BTreeMap::new() })
    }

    /// Returns the account in which a turn counts, or `None` if the cap does not apply to the turn.
    #[must_use]
    pub fn account_of(&self, subject: &BudgetSubject) -> Option<BudgetAccount> {
        let mut account = format!("{} {} {}", self.name, self.unit.word(), self.period.word());
        for (dimension, filter) in &self.filters {
            let values = subject.values(*dimension);
            match filter {
                BudgetFilter::Each => {
                    account.push_str(&format!(" {} {}", dimension.word(), values.first()?));
                }
                BudgetFilter::Only(only) => {
                    values.iter().any(|value| only.contains(value)).then_some(())?;
                }
            }
        }
        Some(BudgetAccount(account))
    }

    /// Returns whether the cap applies to the turns of some people only.
    #[must_use]
    pub fn is_personal(&self) -> bool {
        self.filters.contains_key(&BudgetDimension::Person)
    }

    /// Returns whether the cap applies to turns of some person with the other properties of this turn.
    #[must_use]
    pub fn may_apply(&self, subject: &BudgetSubject) -> bool {
        self.filters.iter().all(|(dimension, filter)| {
            let values = subject.values(*dimension);
            match filter {
                _ if *dimension == BudgetDimension::Person => true,
                BudgetFilter::Each => !values.is_empty(),
                BudgetFilter::Only(only) => values.iter().any(|value| only.contains(value)),
            }
        })
    }

    /// Returns the filters for people, such as `, person: each`. Empty without filters.
    #[must_use]
    pub fn describe_filters(&self) -> String {
        let filters = self.filters.iter().map(|(dimension, filter)| {
            let values = match filter {
                BudgetFilter::Each => "each".to_owned(),
                BudgetFilter::Only(names) => names.iter().cloned().collect::<Vec<_>>().join(", "),
            };
            format!(", {}: {values}", dimension.word())
        });
        filters.collect()
    }

    /// Returns the names of projects, backends and schedules that the filters select, each with the
    /// key of its filter.
    pub fn names(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let named = |(dimension, _): &(&BudgetDimension, &BudgetFilter)| {
            !matches!(dimension, BudgetDimension::Person | BudgetDimension::Channel)
        };
        self.filters.iter().filter(named).flat_map(|(dimension, filter)| {
            let names = match filter {
                BudgetFilter::Each => None,
                BudgetFilter::Only(names) => Some(names),
            };
            names.into_iter().flatten().map(|name| (dimension.word(), name.as_str()))
        })
    }

    /// Returns the cap for people, such as `$20.00 a day`.
    #[must_use]
    pub fn describe(&self) -> String {
        format!("{} a {}", self.unit.describe(self.amount), self.period.word())
    }
}

/// Caps of one section may differ in unit and period; [`BudgetRules::parse`] compares them.
const LAYOUT: SectionLayout<'static> = SectionLayout {
    is_known: &|key| key == "cap" || BudgetDimension::parse(key).is_some(),
    may_repeat: &|_| true,
    aliases: &[],
    has_prompt: false,
};

/// The content of `budgets.md`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BudgetRules {
    /// All caps, in the order of the file.
    pub caps: Vec<BudgetCap>,
    /// A line for each fault. A file with faults must not replace an earlier one, because a cap
    /// could be missing.
    pub faults: Vec<String>,
}

impl BudgetRules {
    /// Parses the text of a file.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut rules = Self::default();
        let (sections, strange) = sections(text);
        let fault =
            |line: usize, fault: &dyn fmt::Display| format!("budgets.md line {line}: {fault}");
        let layout = LAYOUT.faults(text);
        rules.faults.extend(layout.iter().map(|(line, error)| fault(*line, error)));
        rules.faults.extend(strange.iter().map(|(line, what)| fault(*line, what)));
        let mut names = BTreeSet::new();
        for section in &sections {
            let name = section.title.to_lowercase();
            // The use of a budget counts for its name, so that marks of markdown would begin a new one.
            let is_strange = |c: char| c.is_whitespace() || "*#~:".contains(c);
            if !name.starts_with(char::is_alphanumeric) || name.contains(is_strange) {
                let text = "the name of a budget must be one word, which begins with a letter or a digit and has no `*`, `#`, `~` or `:`";
                rules.faults.push(fault(section.line, &text));
            }
            if !names.insert(name.clone()) {
                let text = format!("there is an earlier budget `{name}`");
                rules.faults.push(fault(section.line, &text));
            }
            let faults = rules.add(&name, section);
            rules.faults.extend(faults.iter().map(|(line, error)| fault(*line, error)));
        }
        rules
    }

    /// Returns the channels that the filters select.
    #[must_use]
    pub fn channels(&self) -> BTreeSet<ChannelId> {
        let filters = self.caps.iter().filter_map(|cap| cap.filters.get(&BudgetDimension::Channel));
        let names = filters.filter_map(|filter| match filter {
            BudgetFilter::Each => None,
            BudgetFilter::Only(names) => Some(names),
        });
        names.flatten().filter_map(|name| name.parse().ok()).collect()
    }

    fn add(&mut self, name: &str, section: &Section) -> Vec<(usize, CapError)> {
        let (mut caps, mut filters, mut faults) =
            (Vec::<BudgetCap>::new(), BTreeMap::new(), Vec::new());
        for entry in &section.entries {
            let read = if entry.key == "cap" {
                BudgetCap::without_filters(name, entry.text()).and_then(|cap| {
                    let is_same =
                        |other: &BudgetCap| (other.unit, other.period) == (cap.unit, cap.period);
                    if caps.iter().any(is_same) {
                        return Err(CapError::Repeated(format!(
                            "cap of {} a {}",
                            cap.unit,
                            cap.period.word()
                        )));
                    }
                    caps.push(BudgetCap { line: entry.line, ..cap });
                    Ok(())
                })
            } else {
                read_entry(entry, &mut filters)
            };
            faults.extend(read.err().map(|error| (entry.line, error)));
        }
        if caps.is_empty() && faults.is_empty() {
            faults.push((section.line, CapError::Empty("cap")));
        }
        self.caps.extend(caps.into_iter().map(|cap| BudgetCap { filters: filters.clone(), ..cap }));
        faults
    }
}

fn read_entry(
    entry: &KeyValue,
    filters: &mut BTreeMap<BudgetDimension, BudgetFilter>,
) -> Result<(), CapError> {
    let dimension = BudgetDimension::parse(&entry.key)
        .ok_or_else(|| CapError::UnknownKey(entry.key.clone()))?;
    let filter = read_filter(dimension, entry.list())?;
    match filters.insert(dimension, filter) {
        Some(_) => Err(CapError::Repeated(entry.key.clone())),
        None => Ok(()),
    }
}

fn read_filter<'a>(
    dimension: BudgetDimension,
    values: impl Iterator<Item = &'a str>,
) -> Result<BudgetFilter, CapError> {
    let values: Vec<&str> = values.collect();
    if values == ["each"] {
        return Ok(BudgetFilter::Each);
    }
    let key = dimension.word();
    if values.is_empty() {
        return Err(CapError::Empty(key));
    }
    let read =
        |value: &&str| dimension.value(value).map_err(|source| CapError::InvalidId { key, source });
    Ok(BudgetFilter::Only(values.iter().map(read).collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(person: u64, channel: u64) -> BudgetSubject {
        BudgetSubject {
            person: Some(UserId::discord(person)),
            ..BudgetSubject::of_lane(&Lane::Channel(ChannelId::discord(channel)), "mini")
        }
    }

    #[test]
    fn a_file_lists_budgets_with_filters_and_caps() {
        let text = "# Budgets\n\n## team\n- cap: $50 a week\n- cap: 200 turns a day\n\n## People\n- person: each\n- cap: 2M tokens per day\n\n## night\n- schedule: `nightly`, backup\n- project: Site\n- cap: 30 minutes a month\n";
        let rules = BudgetRules::parse(text);
        assert_eq!(rules.faults, [""; 0]);
        let shown: Vec<String> = rules.caps.iter().map(BudgetCap::describe).collect();
        assert_eq!(
            shown,
            ["$50.00 a week", "200 turns a day", "2M tokens a day", "30.0 minutes a month"]
        );
        let account = |cap: usize, subject: &BudgetSubject| {
            rules.caps[cap].account_of(subject).map(|account| account.0)
        };
        assert_eq!(account(0, &subject(4, 7)).as_deref(), Some("team money week"));
        assert_eq!(account(2, &subject(4, 7)).as_deref(), Some("people tokens day person 4"));
        assert_eq!(account(2, &BudgetSubject { person: None, ..subject(4, 7) }), None);
        assert_eq!(account(3, &subject(4, 7)), None);
        let night = BudgetSubject {
            project: Some("site".to_owned()),
            ..BudgetSubject::of_lane(&Lane::Cron("nightly".to_owned()), "mini")
        };
        assert_eq!(account(3, &night).as_deref(), Some("night minutes month"));
    }

    #[test]
    fn the_template_limits_nothing_and_its_example_is_valid() {
        let template = include_str!("../../../../config/budgets.md");
        assert_eq!(BudgetRules::parse(template), BudgetRules::default());
        let (_, example) = template.split_once("```markdown\n").expect("an example");
        let rules = BudgetRules::parse(example.trim_end().trim_end_matches("```"));
        assert_eq!((rules.caps.len(), rules.faults), (3, vec![]));
    }

    #[test]
    fn a_thread_counts_in_its_channel() {
        let cap = BudgetCap::parse("x", "$1 a day for channel 5").expect("a cap");
        let thread = BudgetSubject { parent: Some(ChannelId::discord(5)), ..subject(4, 7) };
        assert!(cap.account_of(&thread).is_some() && cap.account_of(&subject(4, 7)).is_none());
        let each = BudgetCap::parse("x", "$1 a day for each channel").expect("a cap");
        assert_eq!(
            each.account_of(&thread).map(|account| account.0).as_deref(),
            Some("x money day channel 5")
        );
    }

    #[test]
    fn every_fault_of_a_damaged_file_is_reported() {
        let text = "## a b\n- cap: $5\n- person: ann\n- colour: blue\n- person: 4\n- strange\n## c\n- backend: mini\n## d\n- cap: $1 a day\n- cap: $2 a day\n- cap: -1 turns a day\n## d\n- cap: $1 a year\n";
        let faults = BudgetRules::parse(text).faults;
        assert_eq!(faults.len(), 10, "{faults:#?}");
        for line in [1, 2, 3, 4, 6, 7, 11, 12, 13, 14] {
            assert!(
                faults.iter().any(|fault| fault.contains(&format!("line {line}:"))),
                "{line}: {faults:#?}"
            );
        }
    }
}
