//! The parts of which pages consist: lists, forms, tables and cards. Pages supply texts and data.
//! The markup, with its roles and labels for screen readers, is written here once. Pure.
//!
//! | module | content |
//! |---|---|
//! | [`mod@list`] | items with a limit, facts as names and values, and links of a page |
//! | [`form`] | forms with the secret of the session, their fields and buttons |
//! | [`table`] | tables that scroll sideways, or stack their cells on a phone |
//! | [`card`] | framed articles with a heading |

mod card;
mod form;
mod list;
mod table;

pub(super) use self::card::Card;
pub(super) use self::form::{Button, Choice, Form, TextField, select};
pub(super) use self::list::{Facts, Link, list, nav, warning};
pub(super) use self::table::{Table, title_cell};
