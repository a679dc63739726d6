//! Which text belongs to the answer, told in pieces and then whole (`app-server`), or only whole
//! (`exec`).

use std::collections::BTreeMap;

use aetheel_backend_sdk::Emit;

/// The texts of a turn. Codex names each by an item id.
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
    said: String,
    whole: bool,
}

impl Answer {
    /// More of a text arrived.
    pub(crate) fn more(&mut self, id: &str, thinking: bool, said: &str, emit: &mut Emit) {
        let piece = self.piece(id, thinking);
        if piece.whole || said.is_empty() {
            return;
        }
        piece.said.push_str(said);
        if piece.thinking { emit.thinking(piece.part, said) } else { emit.text(piece.part, said) }
    }

    /// A new paragraph of a text begins, unless it is the first.
    pub(crate) fn paragraph(&mut self, id: &str, thinking: bool, emit: &mut Emit) {
        if self.pieces.get(id).is_some_and(|piece| !piece.said.is_empty()) {
            self.more(id, thinking, "\n\n", emit);
        }
    }

    /// A text is told whole.
    pub(crate) fn whole(&mut self, id: &str, thinking: bool, text: &str, emit: &mut Emit) {
        if text.is_empty() {
            return;
        }
        let piece = self.piece(id, thinking);
        if piece.whole && piece.said == text {
            return;
        }
        match (text.strip_prefix(piece.said.as_str()), piece.thinking) {
            (Some(""), _) => {}
            (Some(rest), false) => emit.text(piece.part, rest),
            (Some(rest), true) => emit.thinking(piece.part, rest),
            (None, false) => emit.whole_text(piece.part, text),
            (None, true) => emit.whole_thinking(piece.part, text),
        }
        text.clone_into(&mut piece.said);
        piece.whole = true;
        if !piece.thinking {
            self.last = Some(text.to_owned());
        }
    }

    /// Takes back what was told in part only: the model is asked again.
    pub(crate) fn withdraw(&mut self, emit: &mut Emit) {
        self.pieces.retain(|_, piece| {
            if !piece.whole && !piece.said.is_empty() {
                if piece.thinking {
                    emit.whole_thinking(piece.part, "")
                } else {
                    emit.whole_text(piece.part, "")
                }
            }
            piece.whole
        });
    }

    /// The answer is the last text; those before it were said on the way. None: nothing was told
    /// whole.
    pub(crate) fn last(&mut self) -> Option<String> {
        self.last.take()
    }

    fn piece(&mut self, id: &str, thinking: bool) -> &mut Piece {
        if !self.pieces.contains_key(id) {
            self.pieces.insert(
                id.to_owned(),
                Piece { part: self.next, thinking, said: String::new(), whole: false },
            );
            self.next += 1;
        }
        self.pieces.get_mut(id).expect("it was just put there")
    }
}
