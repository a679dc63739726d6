//! Reads and replaces files safely. A reader never sees half a file, and a [`Stamp`] shows whether
//! a file has changed.
//!
//! Knows only paths and bytes; the caller defines what a file means. All functions block.

mod probe;
mod replace;
mod rotating;
mod stamp;
mod text;

pub use probe::write_probe;
pub use replace::{
    OWNER_ONLY_MODE, WORLD_READABLE_MODE, replace, replace_for, replace_with, sweep_temporary,
    sync_folder,
};
pub use rotating::RotatingLines;
pub use stamp::Stamp;
pub use text::text_of;
