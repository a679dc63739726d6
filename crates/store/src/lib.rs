//! The operator's configuration folder, and the state that the gateway keeps in it.
//!
//! Must not know Discord, processes or components. A *lane* is a queue of events that run in strict
//! order, usually that of one Discord channel; most state belongs to a lane.
//!
//! | module | content |
//! |---|---|
//! | [`config_folder`] | finds the folder |
//! | [`workspace`] | every file in it, with a table of them |
//! | [`disk`] | reads and replaces files safely |

pub mod config_folder;
pub mod disk;
pub mod workspace;
