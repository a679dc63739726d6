//! The processor time that budgets and the audit log add to a turn.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use aetheel_model::audit::{self, AuditEntry, AuditSink};
use aetheel_model::redact::Redactor;
use aetheel_store::workspace::AuditLog;

use crate::cpu::Used;
use crate::program::Home;
use crate::turns::Gateway;
use crate::{report, times};

/// Turns that are measured together, and rounds, each of which measures both gateways.
const TURNS: usize = 300;
const ROUNDS: usize = 5;
/// Caps of each kind, none of which is reached.
const BUDGETS: &str = "# Budgets

## everybody
- cap: $1000 a day
- cap: $5000 a month
- cap: 900M tokens a day
- cap: 100000 turns a day
- cap: 90000 minutes a day

## channels
- channel: each
- cap: $900 a day
- cap: 90000 turns a week

## agents
- backend: each
- cap: $800 a day
- cap: 900M tokens a month
- cap: 80000 turns a day
";

/// An audit log that can be switched off.
struct SwitchedLog {
    log: AuditLog,
    is_on: Arc<AtomicBool>,
}

impl AuditSink for SwitchedLog {
    fn note(&self, entry: AuditEntry) {
        if self.is_on.load(Ordering::Relaxed) {
            self.log.note(entry);
        }
    }

    fn flush(&self, limit: Duration) {
        self.log.flush(limit);
    }
}

/// Measures turns of the demo backend with ten caps and the audit log, and without both, and prints
/// the figures.
pub async fn measure() {
    let slots = std::thread::available_parallelism().map_or(2, usize::from).max(5);
    report::part(&format!(
        "turns of the demo agent with ten caps and the audit log, {slots} at a time"
    ));
    let homes = [Home::new(), Home::new()];
    let config = homes[1].path().join("config");
    std::fs::create_dir_all(&config).unwrap();
    std::fs::write(config.join("budgets.md"), BUDGETS).unwrap();
    let is_on = Arc::new(AtomicBool::new(false));
    let log = AuditLog::start(&config, Duration::from_hours(24), Redactor::default());
    audit::connect(Box::new(SwitchedLog { log, is_on: Arc::clone(&is_on) }));
    let mut gateways = Vec::new();
    for home in &homes {
        let program = PathBuf::from(env!("CARGO_BIN_EXE_aetheel"));
        let gateway = Gateway::new(home, "demo", program, slots).await;
        gateway.turns("Hello", TURNS / 10).await;
        gateways.push(gateway);
    }
    // The gateway, and whether the audit log is on.
    let variants = [(0, false), (1, false), (0, true), (1, true)];
    let mut used = variants.map(|_| Vec::new());
    for _ in 0..times(ROUNDS) {
        for (used, (gateway, audits)) in used.iter_mut().zip(variants) {
            is_on.store(audits, Ordering::Relaxed);
            let before = Used::now();
            gateways[gateway].turns("Hello", TURNS).await;
            audit::flush(Duration::from_secs(10));
            used.push(Used::since(before).own / TURNS as u32);
        }
    }
    let [plain, caps, log, both] = used.map(|used| report::percentile(&used, 50));
    let more = |with: Duration| with.as_secs_f64() / plain.as_secs_f64() - 1.0;
    let with = |with| format!("{} ({:+.1} %)", report::time(with), more(with) * 100.0);
    report::figure("processor time of a turn without them", &report::time(plain));
    report::figure("with the caps", &with(caps));
    report::figure("with the audit log", &with(log));
    report::goal("with both", &with(both), "≤ 5 % more", more(both) <= 0.05);
    for gateway in gateways {
        gateway.dispatcher.shutdown(Duration::ZERO).await;
    }
}
