//! The time from the moment a component's file is completely on disk until its generation answers
//! new turns.

use std::path::Path;
use std::time::{Duration, Instant};

use aetheel_model::limits::ResourceLimits;
use aetheel_wasm::{Engine, LoadReport, Registry, RegistryOptions};

use crate::{component, report};

const SWAPS: u32 = 60;

/// Measures how long a new component needs until it serves, and prints the figures.
pub async fn measure() {
    report::part(&format!("swap of the Claude backend, {SWAPS} each, every one with new content"));
    type Place = fn(&Path, &[u8]);
    let ways: [(&str, Place); 2] =
        [("file renamed into place", rename), ("file written in place and closed", write)];
    for (way, place) in ways {
        let folder = tempfile::tempdir().unwrap();
        let cache = tempfile::tempdir().unwrap();
        let original = std::fs::read(component("claude")).unwrap();
        let path = folder.path().join("claude.wasm");
        std::fs::write(&path, &original).unwrap();
        let engine =
            Engine::new(&ResourceLimits::default(), Some(cache.path()), aetheel_settings::NAMES)
                .unwrap();
        let (registry, _) = Registry::start(engine, RegistryOptions::new(folder.path())).await;
        let mut news = registry.subscribe();
        let (mut whole, mut loading) = (Vec::new(), Vec::new());
        for number in 0..SWAPS {
            let changed = with_section(&original, number);
            place(&path, &changed);
            let closed = Instant::now();
            let took = loop {
                match news.recv().await.unwrap() {
                    LoadReport::Loaded { took, .. } => break took,
                    LoadReport::Refused { reason, .. } => {
                        panic!("{}", aetheel_model::plain::with_causes(&*reason))
                    }
                    LoadReport::Unchanged { .. }
                    | LoadReport::Vanished { .. }
                    | LoadReport::OnRollout { .. }
                    | LoadReport::Standby { .. } => {}
                }
            };
            whole.push(closed.elapsed());
            loading.push(took);
        }
        let p99 = report::percentile(&whole, 99);
        report::goal(
            &format!("{way}, until it serves"),
            &report::spread(&whole),
            "p99 ≤ 300 ms",
            p99 <= Duration::from_millis(300),
        );
        report::figure("of which: reading, compiling and testing", &report::spread(&loading));
    }
}

fn rename(path: &Path, bytes: &[u8]) {
    let fresh = path.with_file_name(".fresh");
    std::fs::write(&fresh, bytes).unwrap();
    std::fs::rename(fresh, path).unwrap();
}

fn write(path: &Path, bytes: &[u8]) {
    std::fs::write(path, bytes).unwrap();
}

/// Returns the component with an additional custom section, so that neither the gateway nor the
/// cache knows it.
fn with_section(component: &[u8], number: u32) -> Vec<u8> {
    let mut bytes = component.to_vec();
    // Section id 0, its size, the length of its name, the name, and any content.
    bytes.extend([0, 6, 1, b'n']);
    bytes.extend(number.to_le_bytes());
    bytes
}
