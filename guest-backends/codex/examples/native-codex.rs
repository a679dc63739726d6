//! This backend native, for the gateway's bench to compare its component with.

fn main() {
    aetheel_backend_sdk::throughput::measure::<codex::Backend>();
}
