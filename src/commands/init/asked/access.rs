//! Asks who may use the bot, and where.

use super::super::answers::{self, Access};
use super::super::{Stop, tell};
use super::Setup;
use crate::console::Asking;
use crate::discord::Owner;

/// The answer that opens the bot to everybody.
const EVERYBODY: &str = "everybody";
/// Hint about the flags that set the access lists.
pub(super) const WHO: &str = "give --users, --roles, --servers or --channels with Discord ids, or --allow-everybody if all who share a server with it may";

impl Setup<'_> {
    pub(super) fn ask_access(&mut self) -> Result<(), Stop> {
        let Some(asking) = &mut self.asking else { return Ok(()) };
        if self.access_is_given && (self.everybody || !self.access.is_everybody()) {
            return Ok(());
        }
        tell(
            "Who may use the bot? Discord ids, separated by commas: switch on the developer mode (user settings, Advanced), right-click, Copy ID.",
        );
        if let Some(Owner { id, name }) = &self.owner
            && self.access.is_everybody()
        {
            tell(&format!(
                "The bot's application belongs to {name} ({id}), which is the default for people."
            ));
            self.access.users = vec![*id];
        }
        tell(&format!(
            "People and roles let somebody in; servers and channels say where. `none` empties a list; `{EVERYBODY}` opens the bot to all who share a server with it."
        ));
        loop {
            let Access { users, roles, channels, guilds } = &mut self.access;
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
                self.access = Access::default();
            }
            if everybody || !self.access.is_everybody() {
                return Ok(());
            }
            tell(&format!(
                "With all lists empty everybody could use it: name somebody, or answer `{EVERYBODY}`."
            ));
        }
    }
}

/// Asks for one list. Returns `None` if the answer is [`EVERYBODY`].
fn ask_list(asking: &mut Asking, question: &str, stands: &[u64]) -> Result<Option<Vec<u64>>, Stop> {
    loop {
        let answer = asking.ask(question, &answers::shown(stands))?;
        if answer == EVERYBODY {
            let sure = "Everybody in its servers may use the bot, and the agent behind it?";
            if asking.agrees(sure, false)? {
                return Ok(None);
            }
            continue;
        }
        if answer == answers::shown(stands) {
            return Ok(Some(stands.to_vec()));
        }
        match answers::new_ids(&answer) {
            Ok(ids) => return Ok(Some(ids)),
            Err(fault) => tell(&fault),
        }
    }
}
