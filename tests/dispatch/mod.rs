//! Tests of the dispatcher and the turn driver with scripted agents and backends.

mod absorb;
mod asks;
mod attachments;
mod baselines;
mod bounds;
mod drift;
mod health;
mod heard;
mod hooks;
mod hostile;
mod kept;
mod lost;
mod memory;
mod order;
mod outlive;
mod paused;
mod planning;
mod probe;
mod recap;
mod router;
mod sessions;
mod steering;
mod threads;
mod turns;
mod view;
mod withdraw;
