//! Asks which backend answers.

use tokio::runtime::Runtime;

use super::super::{SetupError, agents, print};
use super::SetupQuestions;
use aetheel_model::suggest::suggestion;

impl SetupQuestions<'_> {
    pub(super) fn ask_backend(&mut self, runtime: &Runtime) -> Result<String, SetupError> {
        let mut answers = self.places.clone();
        let named = self.args.backend.clone();
        // `auto` is used here, so that a missing default backend is not a fault.
        answers.push(("AGENT_BACKEND", "auto".to_owned()));
        let config = self.existing.config(&answers);
        let variables = self.existing.variables(&answers);
        let (rows, failure) = match agents::detect(runtime, config, &variables) {
            Ok(rows) => (rows, None),
            Err(why) => (Vec::new(), Some(why)),
        };
        if let Some(why) = &failure {
            print(&format!("warning: the agents of this machine could not be examined: {why}"));
        } else if named.is_none() {
            print("Agents on this machine:");
            agents::table(&rows).iter().for_each(|text| print(text));
        }
        let unknown = |name: &str| {
            let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
            if rows.is_empty() || names.contains(&name) {
                return None;
            }
            let meant = suggestion(name, names.iter().copied());
            Some(format!("there is no backend {name:?}{meant}; there are: {}", names.join(", ")))
        };
        let stands = self.existing.file_value("AGENT_BACKEND").map(str::to_owned);
        let stands = stands.or_else(|| self.existing.current_value("AGENT_BACKEND"));
        let stands = stands.filter(|name| unknown(name).is_none());
        let proposed = stands.or_else(|| agents::proposed(&rows).map(str::to_owned));
        let proposed = proposed.unwrap_or_default();
        // The demo agent is the default answer of a person only if no other one can work.
        let demo = || rows.iter().find(|row| row.available && row.is_demo());
        let answer = Some(proposed.clone()).filter(|name| !name.is_empty());
        let answer = answer.or_else(|| demo().map(|row| row.name.clone())).unwrap_or_default();
        let cannot_work = |name: &str| {
            let row = rows.iter().find(|row| row.name == name && !row.available)?;
            Some(format!("warning: {name} cannot work yet: {}", row.reasons.join("; ")))
        };
        let name = match (named, &mut self.asking) {
            (Some(name), _) => {
                if let Some(fault) = unknown(&name) {
                    return Err(format!("--backend: {fault}").into());
                }
                name
            }
            (None, Some(asking)) => loop {
                let name = asking.ask("Which one answers", &answer)?;
                match (unknown(&name), cannot_work(&name)) {
                    (Some(fault), _) => print(&fault),
                    (None, _) if name.is_empty() => {
                        print("Name one of the backends of this machine.")
                    }
                    (None, None) => return Ok(name),
                    (None, Some(why)) => {
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
