//! The texts for the agent: the system prompt, people's words made inert, those of other systems
//! quoted, and the memory it leaves in its answer.
//!
//! Pure: reading and writing the files is the workspace's affair.

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
