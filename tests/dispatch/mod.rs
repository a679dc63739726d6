//! Dispatcher and turn driver on scripted parts.

mod asks;
mod attachments;
mod health;
mod hostile;
mod order;
mod steering;
mod threads;
mod turns;
mod withdraw;
