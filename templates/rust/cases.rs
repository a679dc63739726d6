//! Replays the recordings in `cases/` natively. `UPDATE_GOLDEN=1 cargo test` updates the expected
//! actions.

#[test]
fn recordings_have_the_expected_actions() {
    aetheel_backend_sdk::fixture::cases::<backend::Backend>("cases".as_ref());
}
