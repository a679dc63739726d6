//! What it costs that agents outlive the gateway: a line through the holder, the holder itself, a
//! new gateway that takes links over, and the gap that people see.
//!
//! What is held is measured against direct pipes in turn, in one run. Processor time is what Linux
//! says of the whole process (`utime + stime`), exact to 10 ms over all of what is measured.

mod cost;
mod gap;
pub mod holder;
mod revive;

/// Measures all of it, and prints the figures.
pub fn measure(runtime: &tokio::runtime::Runtime) {
    runtime.block_on(cost::measure());
    // Lives of a gateway have a runtime each.
    revive::measure();
    runtime.block_on(gap::measure());
}
