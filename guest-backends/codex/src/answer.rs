//! Collects the text of the answer, which arrives in pieces and then as a whole (`app-server`), or
//! only as a whole (`exec`).

use std::collections::BTreeMap;

use aetheel_backend_sdk::Emit;

/// The texts of a turn by Codex's item ids.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    pieces: BTreeMap<String, Piece>,
    next: u32,
    last: Option<String>,
}

#[derive(Debug)]
struct Piece {
    part: u32,
    thinking: bool,
    text: String,
    whole: bool,
}

impl Answer {
    /// Appends to a text.
    pub(crate) fn more(&mut self, id: &str, thinking: bool, text: &str, emit: &mut Emit) {
        let piece = self.piece(id, thinking);
        if piece.whole || text.is_empty() {
            return;
        }
        piece.text.push_str(text);
        if piece.thinking { emit.thinking(piece.part, text) } else { emit.text(piece.part, text) }
    }

    /// Begins a new paragraph of a text, unless it is the first.
    pub(crate) fn paragraph(&mut self, id: &str, thinking: bool, emit: &mut Emit) {
        if self.pieces.get(id).is_some_and(|piece| !piece.text.is_empty()) {
            self.more(id, thinking, "\n\n", emit);
        }
    }

    /// Handles a whole text.
    pub(crate) fn whole(&mut self, id: &str, thinking: bool, text: &str, emit: &mut Emit) {
        if text.is_empty() {
            return;
        }
        let piece = self.piece(id, thinking);
        if piece.whole && piece.text == text {
            return;
        }
        match (text.strip_prefix(piece.text.as_str()), piece.thinking) {
            (Some(""), _) => {}
            (Some(rest), false) => emit.text(piece.part, rest),
            (Some(rest), true) => emit.thinking(piece.part, rest),
            (None, false) => emit.whole_text(piece.part, text),
            (None, true) => emit.whole_thinking(piece.part, text),
        }
        text.clone_into(&mut piece.text);
        piece.whole = true;
        if !piece.thinking {
            self.last = Some(text.to_owned());
        }
    }

    /// Withdraws texts that are incomplete, because the model is asked again.
    pub(crate) fn withdraw(&mut self, emit: &mut Emit) {
        self.pieces.retain(|_, piece| {
            if !piece.whole && !piece.text.is_empty() {
                if piece.thinking {
                    emit.whole_thinking(piece.part, "")
                } else {
                    emit.whole_text(piece.part, "")
                }
            }
            piece.whole
        });
    }

    /// Returns the answer, which is the last text. Returns `None` if no text arrived whole.
    pub(crate) fn last(&mut self) -> Option<String> {
        self.last.take()
    }

    fn piece(&mut self, id: &str, thinking: bool) -> &mut Piece {
        if !self.pieces.contains_key(id) {
            self.pieces.insert(
                id.to_owned(),
                Piece { part: self.next, thinking, text: String::new(), whole: false },
            );
            self.next += 1;
        }
        self.pieces.get_mut(id).expect("inserted above")
    }
}
