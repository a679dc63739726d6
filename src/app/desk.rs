//! What the Discord adapter asks of the rest: intake, access, last-seen messages.

use std::sync::Arc;

use crate::access::{self, Access, Request};
use crate::config::AllowLists;
use crate::discord::{Asker, Desk, Gate, Intake, Seen};
use crate::dispatch::Dispatcher;
use crate::event::{Lane, NewEvent, Sequence};
use crate::workspace::LastSeen;
