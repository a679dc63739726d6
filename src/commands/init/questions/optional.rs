//! Asks for settings that a first setup may leave empty: the output channel and the dashboard.

use super::super::{SetupError, print};
use super::SetupQuestions;
use crate::commands::init::OptionalArgs;
use crate::startup::dashboard;
use aetheel_model::finding::{Finding, FindingLevel};
use aetheel_settings::Config;

/// The settings in the order of their questions.
const SETTINGS: [OptionalSetting; 3] = [
    OptionalSetting {
        name: "OUTPUT_CHANNEL_ID",
        flag: "--output-channel",
        question: "Channel for warnings and answers of schedules, by its id (empty: none)",
        needs: None,
    },
    OptionalSetting {
        name: "DASHBOARD_ADDRESS",
        flag: "--dashboard",
        question: "Dashboard: address to listen at, such as 127.0.0.1:8788 (empty: no dashboard)",
        needs: None,
    },
    OptionalSetting {
        name: "DASHBOARD_URL",
        flag: "--dashboard-url",
        question: "Dashboard: https:// address under which people open it (empty: only this machine can)",
        needs: Some("DASHBOARD_ADDRESS"),
    },
];

struct OptionalSetting {
    name: &'static str,
    flag: &'static str,
    question: &'static str,
    /// The setting without which the question is not asked.
    needs: Option<&'static str>,
}

impl OptionalSetting {
    fn given<'a>(&self, args: &'a OptionalArgs) -> Option<&'a str> {
        match self.name {
            "OUTPUT_CHANNEL_ID" => args.output_channel.as_deref(),
            "DASHBOARD_ADDRESS" => args.dashboard.as_deref(),
            _ => args.dashboard_url.as_deref(),
        }
    }

    /// Returns the problem with a value. `others` are the answers so far.
    fn fault(&self, value: &str, others: &[(&'static str, String)]) -> Option<String> {
        let read = |name: &str| match name == self.name {
            true => Some(value.to_owned()),
            false => others.iter().find(|(other, _)| *other == name).map(|(_, text)| text.clone()),
        };
        let (config, faults) = Config::read_all(read);
        let mut problems = faults.into_iter();
        // An address that needs TLS is a problem only once the public address is known.
        let dashboard = dashboard::finding(&config).filter(|_| self.name == "DASHBOARD_URL");
        let problem = problems.next().or(dashboard);
        problem
            .filter(|finding| finding.level == FindingLevel::Invalid)
            .map(|found: Finding| found.to_string())
    }
}

impl SetupQuestions<'_> {
    /// Asks for the settings that no flag gave. `none` empties a setting.
    pub(super) fn ask_optional(&mut self) -> Result<Vec<(&'static str, String)>, SetupError> {
        let (mut chosen, mut faults) = (Vec::new(), Vec::new());
        for setting in &SETTINGS {
            let stands = self.existing.file_value(setting.name).unwrap_or_default().to_owned();
            let is_empty = |name: &str| {
                chosen
                    .iter()
                    .any(|(other, text): &(&str, String)| *other == name && text.is_empty())
            };
            let unneeded = setting.needs.is_some_and(is_empty);
            let value = match (setting.given(&self.args.optional), &mut self.asking) {
                (Some(given), _) => {
                    let value = unless_none(given);
                    let fault = setting.fault(&value, &chosen);
                    faults.extend(fault.map(|fault| format!("{}: {fault}", setting.flag)));
                    value
                }
                (None, Some(asking)) if !unneeded => loop {
                    let value = unless_none(&asking.ask(setting.question, &stands)?);
                    match setting.fault(&value, &chosen) {
                        Some(fault) => print(&fault),
                        None => break value,
                    }
                },
                (None, _) => stands,
            };
            chosen.push((setting.name, value));
        }
        if faults.is_empty() { Ok(chosen) } else { Err(faults.into()) }
    }
}

fn unless_none(text: &str) -> String {
    let text = text.trim();
    if text == "none" { String::new() } else { text.to_owned() }
}
