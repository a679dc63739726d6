//! The nonces of an answer's messages. They are the same after a restart, so that Discord posts
//! each message once.

pub(crate) struct AnswerNonces {
    /// The beginning of all nonces of the answer.
    stem: String,
    /// How often the message of each slot was given up and created again.
    recreated: Vec<u32>,
}

impl AnswerNonces {
    pub(super) fn new(stem: String) -> Self {
        Self { stem, recreated: Vec::new() }
    }

    /// Returns the nonce of a message: that of the slot at `index`, and the message `number` of the
    /// answer.
    pub(super) fn of_message(&self, index: usize, number: usize) -> String {
        match self.recreated.get(index) {
            None | Some(0) => format!("{}.{number}", self.stem),
            Some(anew) => format!("{}.{number}.{anew}", self.stem),
        }
    }

    pub(crate) fn file(&self, number: usize) -> String {
        format!("{}.f{number}", self.stem)
    }

    pub(crate) fn ping(&self) -> String {
        format!("{}.p", self.stem)
    }

    /// Changes the nonce of a slot, so that its next message is a new one.
    pub(super) fn change(&mut self, index: usize) {
        if self.recreated.len() <= index {
            self.recreated.resize(index + 1, 0);
        }
        self.recreated[index] += 1;
    }

    /// Begins with new slots.
    pub(super) fn reset(&mut self) {
        self.recreated.clear();
    }
}
