//! Files as every room treats them: read untorn, replaced as a whole, told apart by what changes
//! when they change.
//!
//! Knows paths and bytes only; what a file means is its owner's. All of it blocks.

mod ordinary;
mod probe;
mod replace;
mod stamp;

pub use ordinary::{open_ordinary, read_ordinary, text_of};
pub use probe::write_probe;
pub use replace::{
    EVERYBODY, OWNER, replace, replace_for, replace_with, sweep_temporary, sync_folder,
};
pub use stamp::Stamp;
