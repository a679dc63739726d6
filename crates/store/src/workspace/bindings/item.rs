use std::collections::BTreeMap;

use crate::workspace::state_file::lanes::LaneEntry;
use crate::workspace::state_file::{EntryError, LineForm, StateEntry, Token, code};
use aetheel_model::agent::SessionId;
use aetheel_model::event::Lane;

/// A line of `state/sessions.md`: the binding of a lane to a backend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::workspace) struct SavedBinding {
    pub(in crate::workspace) lane: Lane,
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

    /// Saves a setting, or with `None` forgets it.
    pub(super) fn set(&mut self, name: String, value: Option<String>) {
        match value {
            Some(value) => drop(self.settings.insert(name, value)),
            None => drop(self.settings.remove(&name)),
        }
    }

    /// Returns whether the binding contains anything that must be saved.
    pub(super) fn is_worth_keeping(&self) -> bool {
        self.current || self.moved || self.session.is_some() || !self.settings.is_empty()
    }
}

impl LaneEntry for SavedBinding {
    fn lane(&self) -> &Lane {
        &self.lane
    }

    /// Returns the binding without its session, which stays on the machine that had it. It only
    /// records that there was one.
    fn arrive(self) -> Option<Self> {
        let moved = self.moved || self.session.is_some();
        Some(Self { moved, session: None, fork: false, ..self }).filter(|it| !it.lane.is_local())
    }
}

const FORM: LineForm = LineForm::new(
    "{} with {}",
    "expected: `lane` with `backend` (current): session `id`, and settings as name `value`",
);

impl StateEntry for SavedBinding {
    type Key = (Lane, String);
    const FILE: &str = "sessions.md";
    const HEADING: &str = "# Sessions

The conversation that each lane continues, one line for each lane and backend. Aetheel reads this file again whenever it changes:
remove `session` and its id to begin a new conversation, or a whole line to forget its settings too.

";

    fn key(&self) -> Self::Key {
        (self.lane.clone(), self.backend.clone())
    }

    fn write(&self) -> String {
        let Self { lane, backend, current, moved, fork, .. } = self;
        let mut line = FORM.write(&[lane, backend]);
        for (_, mark) in [(current, " (current)"), (moved, " (moved)"), (fork, " (fork)")]
            .iter()
            .filter(|(is_set, _)| **is_set)
        {
            line.push_str(mark);
        }
        let session = self.session.as_ref().map(|session| ("session", session.as_str()));
        let settings = self.settings.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (n, (name, value)) in session.into_iter().chain(settings).enumerate() {
            line.push_str(if n == 0 { ": " } else { ", " });
            line.push_str(&format!("{name} {}", code(value)));
        }
        line
    }

    fn parse(tokens: &[Token]) -> Result<Self, EntryError> {
        let mut tokens = tokens.iter().peekable();
        let lane = tokens.next().ok_or_else(|| FORM.fault())?.read()?;
        tokens.next_if(|token| **token == Token::Word("with".to_owned()));
        let Some(Token::Code(backend)) = tokens.next() else { return Err(FORM.fault()) };
        let mut item = SavedBinding::new(&lane, backend);
        while let Some(token) = tokens.next() {
            match (token, tokens.peek()) {
                (Token::Word(word), _) if word == "current" => item.current = true,
                (Token::Word(name), Some(value @ Token::Code(_))) => {
                    if name == "session" {
                        item.session = Some(value.read()?);
                    } else if is_setting(name) {
                        item.settings.insert(name.clone(), value.read()?);
                    } else {
                        return Err(EntryError::value(name, "the name of a setting"));
                    }
                    tokens.next();
                }
                // With a value after it, the word is the name of a setting.
                (Token::Word(word), _) if word == "moved" => item.moved = true,
                (Token::Word(word), _) if word == "fork" => item.fork = true,
                (Token::Word(name), _) => return Err(EntryError::ValueMissing(name.clone())),
                (Token::Code(value), _) => return Err(EntryError::NameMissing(value.clone())),
            }
        }
        Ok(item)
    }

    fn trim(entries: &mut BTreeMap<Self::Key, Self>) {
        entries.retain(|_, item| item.is_worth_keeping());
    }
}

pub(super) fn is_setting(name: &str) -> bool {
    (1..=64).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        && !matches!(name, "session" | "current" | "with")
}
