//! `aetheel run`: Discord, until a signal.
