//! Asks what agents may do. The answer decides about two settings that only work together.

use super::super::answers;
use super::super::{SetupError, print};
use super::SetupQuestions;
use aetheel_model::agent::AllowedTools;
use aetheel_model::permission::{
    PERMISSION_CHOICES, PermissionChoice, RECOMMENDED_PERMISSION, reads_only,
};

const WARNING: &str = "warning: everyone who may talk to the bot can have agents run any command on this machine as this user, without a question; SECURITY.md describes what limits them";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct PermissionSettings {
    /// The value of `PERMISSION_MODE`.
    pub mode: String,
    /// The value of `ALLOWED_TOOLS`.
    pub tools: String,
}

impl PermissionSettings {
    /// Returns the choice that Enter keeps.
    fn nearest_choice(&self) -> PermissionChoice {
        let only_reads = AllowedTools::parse(&self.tools).is_ok_and(|tools| reads_only(&tools));
        let word = if only_reads { "read" } else { &self.mode };
        PermissionChoice::find(word).unwrap_or(RECOMMENDED_PERMISSION)
    }

    /// Returns whether the tools are a list that the operator wrote.
    fn has_own_list(&self) -> bool {
        match AllowedTools::parse(&self.tools) {
            Ok(tools) => tools != AllowedTools::All && !reads_only(&tools),
            Err(_) => false,
        }
    }
}

impl SetupQuestions<'_> {
    pub(super) fn ask_permission(&mut self) -> Result<PermissionSettings, SetupError> {
        let value = |name: &str| {
            let stands = self.existing.file_value(name).map(str::to_owned);
            stands.or_else(|| self.existing.current_value(name))
        };
        let current = value("PERMISSION_MODE").zip(value("ALLOWED_TOOLS"));
        let current = current.map(|(mode, tools)| PermissionSettings { mode, tools });
        let own_list = current.as_ref().filter(|current| current.has_own_list());
        let choice = match (self.permission, &mut self.asking, &current) {
            (Some(choice), _, _) => choice,
            (None, None, Some(current)) => return Ok(current.clone()),
            (None, None, None) => RECOMMENDED_PERMISSION,
            (None, Some(asking), _) => {
                print("What may agents do here? Channels and people can only choose less.");
                for choice in PERMISSION_CHOICES {
                    print(&format!("  {:<11} {}", choice.word, choice.title));
                }
                let proposed = current
                    .as_ref()
                    .map_or(RECOMMENDED_PERMISSION, PermissionSettings::nearest_choice);
                loop {
                    match answers::permission(&asking.ask("Agents may", proposed.word)?) {
                        Ok(choice) => break choice,
                        Err(error) => print(&error.to_string()),
                    }
                }
            }
        };
        if choice.mode == "bypassPermissions" {
            print(WARNING);
        }
        let mode = choice.mode.to_owned();
        let tools = match own_list {
            // The operator's own list limits every choice.
            Some(own) if choice.tools == "*" => {
                print(&format!("Agents may use only the tools of ALLOWED_TOOLS: {}", own.tools));
                own.tools.clone()
            }
            _ => choice.tools.to_owned(),
        };
        Ok(PermissionSettings { mode, tools })
    }
}
