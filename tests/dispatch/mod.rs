//! Dispatcher and turn driver on scripted parts.

mod asks;
mod health;
mod hostile;
mod kept;
mod order;
mod steering;
mod turns;
