//! The cost of agents that outlive the gateway: a line through the holder, the holder itself, a new
//! gateway that takes over links, and the interruption that people see.
//!
//! The holder is compared with direct pipes in one run, in alternation. Processor time is that of
//! the whole process according to Linux (`utime + stime`), in steps of 10 ms over the whole
//! measurement.

mod cost;
mod gap;
pub mod holder;
mod revive;

/// Measures all of it, and prints the figures.
pub fn measure(runtime: &tokio::runtime::Runtime) {
    runtime.block_on(cost::measure());
    // Each process of the gateway is simulated with a runtime of its own.
    revive::measure();
    runtime.block_on(gap::measure());
}
