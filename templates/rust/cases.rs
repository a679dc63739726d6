//! The recordings in `cases/`, played to the backend natively. `UPDATE_GOLDEN=1 cargo test` writes what it makes of them.

#[test]
fn recordings_become_what_stands_beside_them() {
    aetheel_backend_sdk::fixture::cases::<backend::Backend>("cases".as_ref());
}
