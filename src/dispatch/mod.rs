//! From an accepted event to a delivered answer.

mod reply;

pub use reply::{Answer, DeliveryError, Outlet, Reply};
