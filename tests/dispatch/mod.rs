//! Dispatcher and turn driver on scripted parts.

mod order;
mod turns;
