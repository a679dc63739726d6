//! `state/budgets.md`: the caps that owners raised or lifted, and the notices that people got.

use super::state_file::{EntryError, EntryValue, LineForm, StateEntry, Token, entry_fields};
use aetheel_model::budget::{BudgetAccount, BudgetGrant};

const FORM: LineForm = LineForm::new(
    "{} since {} raised {} until {} warned {} asked {}",
    "it does not have an account, a start, a raised cap, a time and the caps of two notices",
)
.with_more();

impl StateEntry for BudgetGrant {
    type Key = BudgetAccount;
    const FILE: &str = "budgets.md";
    const HEADING: &str = "# Budgets

Decisions of owners about the caps of budgets.md: account, start of the period, the raised cap, until when no cap applies, and the
caps about which people were warned and an owner was asked. Amounts are millionths of a dollar, tokens, turns or milliseconds. If you
remove a line, the cap of budgets.md applies again after the next start. See docs/budgets.md.

";

    entry_fields!(FORM; account, start, raised, until, warned, asked);

    fn key(&self) -> BudgetAccount {
        self.account.clone()
    }
}

impl EntryValue for BudgetAccount {
    fn to_text(&self) -> String {
        self.0.clone()
    }

    fn read(token: &Token) -> Result<Self, EntryError> {
        token.read().map(Self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace::StateFile;

    #[tokio::test]
    async fn decisions_survive_a_restart_and_invalid_lines_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("budgets.md");
        let open = || StateFile::<BudgetGrant>::open(folder.path()).expect("opened");
        let notes = open();
        let grant = BudgetGrant {
            account: BudgetAccount("team money day".to_owned()),
            start: "2026-11-26T00:00:00Z".parse().expect("a time"),
            raised: Some(30_000_000),
            until: None,
            warned: Some(20_000_000),
            asked: None,
        };
        let lifted = BudgetGrant {
            account: BudgetAccount("each tokens week person 4".to_owned()),
            until: Some("2026-11-27T00:00:00Z".parse().expect("a time")),
            ..grant.clone()
        };
        for grant in [&grant, &lifted] {
            notes.save(grant.clone()).await.expect("saved");
        }
        let text = std::fs::read_to_string(&path).expect("read") + "- `team money day` free.\n";
        std::fs::write(&path, text).expect("written");
        let again = open();
        assert_eq!(again.all(), [lifted, grant.clone()]);
        again.save(BudgetGrant { asked: Some(1), ..grant }).await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("- `team money day` free.") && text.contains("asked `1`"), "{text}");
    }
}
