//! The tool `aetheel_ask`, whose input is in the crate `model` because recordings show it.

use super::input::HostToolInput;
use aetheel_model::host_tool::AskPeople;

impl HostToolInput for AskPeople {
    fn check(&self) -> Result<(), &'static str> {
        AskPeople::check(self)
    }
}
