//! Dispatcher and turn driver on scripted parts.

mod asks;
mod health;
mod hooks;
mod hostile;
mod order;
mod sessions;
mod steering;
mod turns;
mod view;
