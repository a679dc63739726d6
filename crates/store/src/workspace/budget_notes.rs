//! `state/budgets.md`: the caps that owners raised or lifted, and the notices that people got.

use std::path::Path;
use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::ledger::{EntryError, LedgerEntry, LedgerFile, Token, code};
use super::{FileError, Workspace, blocking};
use aetheel_model::budget::{BudgetAccount, BudgetGrant};

const HEADING: &str = "# Budgets

Decisions of owners about the caps of budgets.md: account, start of the period, the raised cap, until when no cap applies, and the
caps about which people were warned and an owner was asked. Amounts are millionths of a dollar, tokens, turns or milliseconds. If you
remove a line, the cap of budgets.md applies again after the next start. See docs/budgets.md.

";
/// Stands for a value that is not set.
const UNSET: &str = "-";

/// The decisions about budgets. Cheap to clone; clones share everything.
#[derive(Clone, Debug)]
pub struct BudgetNotes(Arc<Mutex<LedgerFile<BudgetGrant>>>);

impl Workspace {
    /// Returns the decisions of owners about budgets.
    #[must_use]
    pub fn budget_notes(&self) -> &BudgetNotes {
        &self.budget_notes
    }
}

impl BudgetNotes {
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        Ok(Self(Arc::new(Mutex::new(LedgerFile::open(path, HEADING)?))))
    }

    /// Returns all decisions, as the file was last read or written. Does no I/O.
    #[must_use]
    pub fn all(&self) -> Vec<BudgetGrant> {
        self.0.lock().entries.values().cloned().collect()
    }

    /// Saves the decisions about an account in place of the previous ones.
    ///
    /// # Errors
    /// [`FileError`]; the file may have the previous decisions then.
    pub async fn save(&self, grant: BudgetGrant) -> Result<(), FileError> {
        let notes = self.clone();
        blocking(move || {
            let mut ledger = notes.0.lock();
            ledger.refresh()?;
            let before = ledger.entries.insert(grant.account.clone(), grant.clone());
            let saved = ledger.save();
            if saved.is_err() {
                match before {
                    Some(before) => drop(ledger.entries.insert(grant.account, before)),
                    None => drop(ledger.entries.remove(&grant.account)),
                }
            }
            saved
        })
        .await
    }
}

impl LedgerEntry for BudgetGrant {
    type Key = BudgetAccount;

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(parse(tokens))
    }

    fn key(&self) -> BudgetAccount {
        self.account.clone()
    }

    fn write(&self) -> String {
        let optional = |text: Option<String>| code(text.as_deref().unwrap_or(UNSET));
        let amount = |amount: Option<u64>| optional(amount.map(|amount| amount.to_string()));
        format!(
            "{} since {} raised {} until {} warned {} asked {}",
            code(&self.account.0),
            code(&self.start.to_string()),
            amount(self.raised),
            optional(self.until.map(|until| until.to_string())),
            amount(self.warned),
            amount(self.asked),
        )
    }
}

fn parse(tokens: &[Token]) -> Result<BudgetGrant, EntryError> {
    let [Token::Code(account), rest @ ..] = tokens else { return Err(WRONG) };
    let names = ["since", "raised", "until", "warned", "asked"];
    let mut values = Vec::new();
    for (name, pair) in names.iter().zip(rest.chunks(2)) {
        match pair {
            [Token::Word(word), Token::Code(value)] if word == name => values.push(value),
            _ => return Err(WRONG),
        }
    }
    let [start, raised, until, warned, asked] = values[..] else { return Err(WRONG) };
    let set = |text: &String| Some(text.clone()).filter(|text| text != UNSET);
    let time = |text: &String| text.parse::<Timestamp>().map_err(EntryError::InvalidTime);
    let amount = |text: &String| match set(text) {
        Some(text) => text.parse().map(Some).map_err(|_| EntryError::code(&text, "a number")),
        None => Ok(None),
    };
    Ok(BudgetGrant {
        account: BudgetAccount(account.clone()),
        start: time(start)?,
        raised: amount(raised)?,
        until: set(until).as_ref().map(time).transpose()?,
        warned: amount(warned)?,
        asked: amount(asked)?,
    })
}

const WRONG: EntryError = EntryError::Parts(
    "it does not have an account, a start, a raised cap, a time and the caps of two notices",
);

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn decisions_survive_a_restart_and_invalid_lines_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("budgets.md");
        let notes = BudgetNotes::open(&path).expect("opened");
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
        let again = BudgetNotes::open(&path).expect("opened");
        assert_eq!(again.all(), [lifted, grant.clone()]);
        again.save(BudgetGrant { asked: Some(1), ..grant }).await.expect("saved");
        let text = std::fs::read_to_string(&path).expect("read");
        assert!(text.contains("- `team money day` free.") && text.contains("asked `1`"), "{text}");
    }
}
