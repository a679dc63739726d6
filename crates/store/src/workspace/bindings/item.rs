use std::collections::BTreeMap;

use crate::workspace::ledger::{EntryError, LedgerEntry, Token, code};
use aetheel_model::agent::SessionId;
use aetheel_model::event::Lane;

/// A line of `state/sessions.md`: the binding of a lane to a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workspace) struct SavedBinding {
    pub(super) lane: Lane,
    pub(super) backend: String,
    pub(super) current: bool,
    /// Whether its session stayed on another machine and it has had no other session since.
    pub(super) moved: bool,
    pub(super) session: Option<SessionId>,
    /// Whether the next turn continues a copy of the session.
    pub(super) fork: bool,
    pub(super) settings: BTreeMap<String, String>,
}

impl SavedBinding {
    pub(super) fn new(lane: &Lane, backend: &str) -> Self {
        Self {
            lane: lane.clone(),
            backend: backend.to_owned(),
            current: false,
            moved: false,
            session: None,
            fork: false,
            settings: BTreeMap::new(),
        }
    }

    /// Sets the session. `None` removes the present one.
    pub(super) fn bind(&mut self, session: Option<SessionId>) {
        self.moved &= session.is_none();
        self.session = session;
        self.fork = false;
    }

    /// Returns whether the binding contains anything that must be saved.
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.current || self.moved || self.session.is_some() || !self.settings.is_empty()
    }
}

impl LedgerEntry for SavedBinding {
    type Key = (Lane, String);

    fn read(tokens: &[Token]) -> Option<Result<Self, EntryError>> {
        Some(read(tokens))
    }

    fn key(&self) -> Self::Key {
        (self.lane.clone(), self.backend.clone())
    }

    fn write(&self) -> String {
        let mut line = format!("{} with {}", code(&self.lane.to_string()), code(&self.backend));
        if self.current {
            line.push_str(" (current)");
        }
        if self.moved {
            line.push_str(" (moved)");
        }
        if self.fork {
            line.push_str(" (fork)");
        }
        let session = self.session.as_ref().map(|session| ("session", session.as_str()));
        let settings = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (n, (name, value)) in session.into_iter().chain(settings).enumerate() {
            line.push_str(if n == 0 { ": " } else { ", " });
            line.push_str(&format!("{name} {}", code(value)));
        }
        line
    }
}

fn read(tokens: &[Token]) -> Result<SavedBinding, EntryError> {
    let form = || {
        EntryError::Parts(
            "expected: `lane` with `backend` (current): session `id`, and settings as name `value`",
        )
    };
    let mut tokens = tokens.iter().peekable();
    let Some(Token::Code(lane)) = tokens.next() else { return Err(form()) };
    let lane: Lane = lane.parse()?;
    tokens.next_if(|token| **token == Token::Word("with".to_owned()));
    let Some(Token::Code(backend)) = tokens.next() else { return Err(form()) };
    let mut item = SavedBinding::new(&lane, backend);
    while let Some(token) = tokens.next() {
        match (token, tokens.peek()) {
            (Token::Word(word), _) if word == "current" => item.current = true,
            // With a value after it, the word is the name of a setting.
            (Token::Word(word), next)
                if word == "moved" && !matches!(next, Some(Token::Code(_))) =>
            {
                item.moved = true;
            }
            (Token::Word(word), next)
                if word == "fork" && !matches!(next, Some(Token::Code(_))) =>
            {
                item.fork = true;
            }
            (Token::Word(name), Some(Token::Code(value))) => {
                tokens.next();
                if name == "session" {
                    item.session =
                        Some(SessionId::new(value).map_err(EntryError::invalid_session)?);
                } else if is_setting(name) {
                    item.settings.insert(name.clone(), value.clone());
                } else {
                    return Err(EntryError::value(name, "the name of a setting"));
                }
            }
            (Token::Word(name), _) => {
                return Err(EntryError::ValueMissing(name.clone()));
            }
            (Token::Code(value), _) => return Err(EntryError::NameMissing(value.clone())),
        }
    }
    Ok(item)
}

pub(super) fn is_setting(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !matches!(name, "session" | "current" | "with")
}
