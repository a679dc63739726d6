//! Aetheel lets people in Discord work with coding agents through backends that are replaced while
//! it runs.
//!
//! Modules stand in layers; a lower one never imports a higher one, adapters never import each
//! other (`tests/architecture.rs` keeps it so):
//!
//! | layer | modules |
//! |---|---|
//! | root | [`cli`] [`commands`] [`app`] [`startup`] [`agents`] [`terminal`] [`progress`] [`telemetry`] |
//! | adapters | [`backend`] [`cluster`] [`process`] [`discord`] [`console`] [`sources`] [`demo`] [`web`] |
//! | use cases | [`dispatch`] [`kit`] [`turn`] |
//! | files | [`workspace`] [`disk`] |
//! | pure | [`queue`] [`schedule`] [`prompt`] [`markdown`] [`lines`] [`framing`] [`split`] [`fold`] [`plain`] [`redact`] [`access`] [`baseline`] |
//! | words | [`event`] [`agent`] [`config`] [`figures`] [`lease`] [`vigil`] |

pub mod agent;
pub mod event;
pub mod figures;
pub mod lease;
pub mod vigil;

pub mod access;
pub mod baseline;
pub mod fold;
pub mod framing;
pub mod lines;
pub mod markdown;
pub mod plain;
pub mod prompt;
pub mod queue;
pub mod redact;
pub mod schedule;
pub mod split;

pub mod dispatch;
pub mod kit;
pub mod turn;

pub mod backend;
pub mod cluster;
pub mod console;
pub mod demo;
pub mod discord;
pub mod disk;
pub mod process;
pub mod sources;
pub mod web;
pub mod workspace;

pub mod agents;
pub mod app;
pub mod cli;
pub mod commands;
pub mod config;
pub mod progress;
pub mod startup;
pub mod telemetry;
pub mod terminal;
