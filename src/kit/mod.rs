//! Trying a backend: everything the kit finds out about a component, without a terminal.
//!
//! Stands on the ports of the turn driver and on recordings; knows neither wasmtime nor how results are shown.
