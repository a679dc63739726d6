//! Tests of the rollout of new versions: damaged copies of the shipped backends are found before
//! they serve anybody, versions that read the same are promoted, and owners decide at any time.

mod canary;
mod decisions;
pub mod faults;
mod scene;
mod seeded;
mod turns;
