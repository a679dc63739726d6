//! The texts for the agent: the system prompt, people's text made inert, quoted payloads of other
//! systems, and the memory block of an answer.
//!
//! Pure, except that [`neutralise`] checks whether files exist. The workspace reads and writes the
//! files of prompts.

mod assemble;
mod by_agent;
mod document;
mod marks;
mod memory;
mod neutral;
mod payload;
mod recap;

pub use assemble::{LIMIT, MemoryTarget, SystemPrompt, assemble, sections};
pub use by_agent::{agent_mark, agent_words, quote_messages};
pub use document::{Document, Documents};
pub use marks::{continuation, file_mark, inline_file_mark, quotation, unreadable_file_mark};
pub use memory::extract_memory;
pub use neutral::{Expansion, name as plain_name, neutralise};
pub use payload::{WebhookPayload, quote_payload, readable_form};
pub use recap::{RECAP_LIMIT, recap};
