//! The operator's configuration folder, and the state that the gateway keeps in it.
//!
//! [`workspace`] owns every file format. [`disk`] reads and replaces files safely. Must not know
//! Discord, processes or components.

pub mod disk;
pub mod workspace;
