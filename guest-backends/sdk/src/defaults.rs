//! Default values for types of the contract whose fields backends often leave out.

use crate::wit::{AnswerForm, Choice, FileChange, FileDiff, Question, Usage};

impl Default for FileDiff {
    fn default() -> Self {
        let (path, change) = (String::new(), FileChange::Edited);
        Self {
            path,
            change,
            old_path: None,
            binary: false,
            old_text: None,
            new_text: None,
            unified: None,
        }
    }
}

#[allow(clippy::derivable_impls, reason = "the type is generated")]
impl Default for Usage {
    fn default() -> Self {
        Self {
            input: 0,
            output: 0,
            cached: 0,
            cache_write: 0,
            reasoning: 0,
            cost_usd: None,
            models: Vec::new(),
            context_used: None,
            context_size: None,
        }
    }
}

impl Default for Question {
    fn default() -> Self {
        Self {
            id: String::new(),
            text: String::new(),
            description: None,
            form: AnswerForm::Text,
            options: Vec::new(),
            many: false,
            free_text: false,
            optional: false,
            preset: Vec::new(),
            placeholder: None,
            single_line: false,
            secret: false,
        }
    }
}

impl Choice {
    /// Creates an option whose id is its label.
    #[must_use]
    pub fn plain(label: impl Into<String>) -> Self {
        let label = label.into();
        Self { id: label.clone(), label, description: None }
    }
}
