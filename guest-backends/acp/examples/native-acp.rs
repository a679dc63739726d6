//! The native backend, which the gateway's benchmark compares with the component.

fn main() {
    aetheel_backend_sdk::throughput::measure::<acp::Backend>();
}
