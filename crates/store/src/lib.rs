//! The operator's configuration folder, and the state that the gateway keeps in it.
//!
//! [`workspace`] owns every file format. [`config_folder`] finds the folder. [`disk`] reads and
//! replaces files safely. Must not know Discord, processes or components. A *lane* is a queue of
//! events that run in strict order, usually that of one Discord channel; most state belongs to a
//! lane.

pub mod config_folder;
pub mod disk;
pub mod workspace;
