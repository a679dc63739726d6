//! The texts for the agent: the system prompt, people's text made inert, quoted payloads of other
//! systems, and the memory block of an answer.
//!
//! Pure, except that [`neutralise`] checks whether files exist. The workspace reads and writes the
//! files of prompts.

mod assemble;
mod document;
mod marks;
mod memory;
mod neutral;
mod payload;
mod recap;

pub use assemble::{Assembled, LIMIT, Noting, assemble, sections};
pub use document::{Document, Documents};
pub use marks::{file_at, file_below, no_file, quotation};
pub use memory::extract_memory;
pub use neutral::{Expansion, name as plain_name, neutralise};
pub use payload::{Payload, quote_payload, readable_form};
pub use recap::{RECAP_LIMIT, recap};
