//! Tests of what operators see of guests: the functions that failed, and the metrics.

use aetheel_recording::GuestFailure;
use aetheel_runtime::figures;
use aetheel_turn::Backends as _;

use super::{limits, prompt, provoke, registry, version_told};
use crate::support::guests::Wat;

/// Creates a backend that traps on `timer`, in a function that another one calls.
pub fn trapping(name: &str) -> Wat {
    Wat {
        module: "(func $parse_field unreachable) (func $parse_line call $parse_field)".to_owned(),
        on_timer: "call $parse_line".to_owned(),
        ..Wat::new(name, "1")
    }
}

#[tokio::test]
async fn a_trap_names_the_functions_of_its_stack() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = trapping("named").build();
    let (registry, _) = registry(folder.path(), &limits(), &[("named.wasm", &wasm)]).await;
    let mut guest = registry.get("named").unwrap().open().await.unwrap();
    let (failure, _) = provoke(&mut *guest).await;
    let GuestFailure::Trapped(text) = &failure else { panic!("{failure:?}") };
    assert!(
        text.contains("unreachable") && text.contains("in `parse_field`, called by `parse_line`, "),
        "{text}"
    );
}

/// Returns the value of a sample of the metrics.
fn sample(name: &str, backend: &str, kind: &str) -> Option<f64> {
    let start = format!("{name}{{backend=\"{backend}\",generation=\"1@");
    let page = figures::render_guests();
    let line = page.lines().find(|line| line.starts_with(&start) && line.contains(kind))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test]
async fn calls_and_a_trap_are_counted_for_the_generation() {
    let folder = tempfile::tempdir().unwrap();
    let wasm = trapping("metered").build();
    let (registry, _) = registry(folder.path(), &limits(), &[("metered.wasm", &wasm)]).await;
    let value = |name| sample(name, "metered", "");
    let trapped = || sample("aetheel_guest_failures_total", "metered", "kind=\"trapped\"");
    assert_eq!(value("aetheel_guests_open"), Some(0.0), "the self-test does not count");
    assert_eq!((value("aetheel_guest_calls_total"), trapped()), (Some(0.0), None));

    let mut guest = registry.get("metered").unwrap().open().await.unwrap();
    assert_eq!(value("aetheel_guests_open"), Some(1.0));
    assert_eq!(version_told(&guest.handle(prompt(1, 1)).await.unwrap()), "1");
    assert_eq!(guest.save().await.unwrap(), None);
    assert_eq!((value("aetheel_guest_calls_total"), trapped()), (Some(2.0), None));
    assert_eq!(value("aetheel_guest_memory_peak_bytes"), Some(f64::from(2 << 16)), "two pages");
    let ran = value("aetheel_guest_run_seconds_total").unwrap();
    assert!(ran > 0.0 && ran < 5.0, "{ran}");

    provoke(&mut *guest).await;
    assert_eq!((value("aetheel_guest_calls_total"), trapped()), (Some(3.0), Some(1.0)));
    drop(guest);
    assert_eq!(value("aetheel_guests_open"), Some(0.0));

    let trial = registry.component("metered").unwrap().for_trial();
    let mut guest = trial.open_guest().await.unwrap();
    provoke(&mut guest).await;
    assert_eq!((value("aetheel_guest_calls_total"), trapped()), (Some(3.0), Some(1.0)));
    let used = trial.resource_usage();
    assert_eq!((used.calls, used.memory), (1, 2 << 16));
}
