//! Asks which backend answers.

use tokio::runtime::Runtime;

use super::super::{SetupError, agents, print};
use super::SetupQuestions;
use crate::config::suggestion;

impl SetupQuestions<'_> {
    pub(super) fn ask_backend(&mut self, runtime: &Runtime) -> Result<String, SetupError> {
        let mut answers = self.places.clone();
        let named = self.backend.take();
        // `auto` is used here, so that a missing default backend is not a fault.
        answers.push(("AGENT_BACKEND", "auto".to_owned()));
        let config = self.standing.config(&answers);
        let variables = self.standing.variables(&answers);
        let (rows, unknown) = match agents::detect(runtime, config, &variables) {
            Ok(rows) => (rows, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        if let Some(why) = &unknown {
            print(&format!("warning: the agents of this machine could not be examined: {why}"));
        } else if named.is_none() {
            print("Agents on this machine:");
            agents::table(&rows).iter().for_each(|text| print(text));
        }
        let known = |name: &str| -> Result<(), String> {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            if rows.is_empty() || names.contains(&name) {
                return Ok(());
            }
            let meant = suggestion(name, names.iter().copied());
            Err(format!("there is no backend {name:?}{meant}; there are: {}", names.join(", ")))
        };
        let stands = self.standing.file_value("AGENT_BACKEND").map(str::to_owned);
        let stands = stands.or_else(|| self.standing.current_value("AGENT_BACKEND"));
        let stands = stands.filter(|name| known(name).is_ok());
        let proposed = stands.or_else(|| agents::proposed(&rows).map(str::to_owned));
        let proposed = proposed.unwrap_or_default();
        let cannot_work = |name: &str| {
            let row = rows.iter().find(|row| row.name == name && !row.available)?;
            Some(format!("warning: {name} cannot work yet: {}", row.reasons.join("; ")))
        };
        let name = match (named, &mut self.asking) {
            (Some(name), _) => {
                known(&name).map_err(|fault| format!("--backend: {fault}"))?;
                name
            }
            (None, Some(asking)) => loop {
                let name = asking.ask("Which one answers", &proposed)?;
                match (known(&name), cannot_work(&name)) {
                    (Err(fault), _) => print(&fault),
                    (Ok(()), _) if name.is_empty() => print("Name one, for example claude."),
                    (Ok(()), None) => return Ok(name),
                    (Ok(()), Some(why)) => {
                        print(&why);
                        if asking.confirm("Choose it anyway?", false)? {
                            return Ok(name);
                        }
                    }
                }
            },
            (None, None) if !proposed.is_empty() => proposed,
            (None, None) => {
                return Err("no agent can work here: install one, or give --backend NAME"
                    .to_owned()
                    .into());
            }
        };
        if let Some(why) = cannot_work(&name) {
            print(&why);
        }
        Ok(name)
    }
}
