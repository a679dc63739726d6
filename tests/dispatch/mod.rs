//! Dispatcher and turn driver on scripted parts.

mod asks;
mod health;
mod hostile;
mod kept;
mod order;
mod sessions;
mod steering;
mod turns;
mod view;
