//! Tests of the rollout of new versions: damaged copies of the shipped backends are found before
//! they serve anybody, and versions that read the same are promoted.

pub mod faults;
mod seeded;
mod turns;
