//! Asks who may use the bot, and where.

use super::super::answers::{self, AccessLists};
use super::super::{SetupError, print};
use super::SetupQuestions;
use crate::commands::init::AccessArgs;
use crate::terminal_prompt::TerminalPrompt;
use aetheel_discord::ApplicationOwner;

/// The answer that opens the bot to everybody.
const EVERYBODY: &str = "everybody";
/// Hint about the flags that set the access lists.
pub(super) const ACCESS_FLAGS_HINT: &str = "give --users, --roles, --servers or --channels with Discord ids, or --allow-everybody if all who share a server with it may";

impl SetupQuestions<'_> {
    pub(super) fn ask_access(&mut self) -> Result<(), SetupError> {
        let Some(asking) = &mut self.asking else { return Ok(()) };
        let AccessArgs { users, roles, channels, servers, allow_everybody } = &self.args.access;
        let is_given = [users, roles, channels, servers].iter().any(|list| list.is_some());
        if *allow_everybody || (is_given && !self.access.is_everybody()) {
            return Ok(());
        }
        print(
            "Who may use the bot? Discord ids, separated by commas: switch on the developer mode (user settings, Advanced), right-click, Copy ID.",
        );
        if let Some(ApplicationOwner { id, name }) = &self.owner
            && self.access.is_everybody()
        {
            print(&format!(
                "The bot's application belongs to {name} ({id}), which is the default for people."
            ));
            self.access.users = vec![*id];
        }
        print(&format!(
            "People and roles decide who may use the bot; servers and channels decide where. `none` empties a list; `{EVERYBODY}` opens the bot to all who share a server with it."
        ));
        loop {
            let AccessLists { users, roles, channels, guilds } = &mut self.access;
            let lists = [
                ("People", users),
                ("Roles", roles),
                ("Servers it answers in (empty: all)", guilds),
                ("Channels it answers in (empty: all)", channels),
            ];
            let mut everybody = false;
            for (question, list) in lists {
                match ask_list(asking, question, list)? {
                    Some(ids) => *list = ids,
                    None => {
                        everybody = true;
                        break;
                    }
                }
            }
            if everybody {
                self.access = AccessLists::default();
            }
            if everybody || !self.access.is_everybody() {
                return Ok(());
            }
            print(&format!(
                "With all lists empty everybody could use it: name somebody, or answer `{EVERYBODY}`."
            ));
        }
    }
}

/// Asks for one list. Returns `None` if the answer is [`EVERYBODY`].
fn ask_list(
    asking: &mut TerminalPrompt,
    question: &str,
    stands: &[u64],
) -> Result<Option<Vec<u64>>, SetupError> {
    loop {
        let answer = asking.ask(question, &answers::format_ids(stands))?;
        if answer == EVERYBODY {
            let sure = "Everybody in its servers may use the bot, and the agent behind it?";
            if asking.confirm(sure, false)? {
                return Ok(None);
            }
            continue;
        }
        if answer == answers::format_ids(stands) {
            return Ok(Some(stands.to_vec()));
        }
        match answers::new_ids(&answer) {
            Ok(ids) => return Ok(Some(ids)),
            Err(error) => print(&error.to_string()),
        }
    }
}
