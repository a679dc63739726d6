//! Dispatcher and turn driver on scripted parts.

mod health;
mod hostile;
mod order;
mod turns;
