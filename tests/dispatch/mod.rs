//! Dispatcher and turn driver on scripted parts.

mod hostile;
mod order;
mod turns;
