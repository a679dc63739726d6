//! Sums as a table for other programs: comma-separated values (RFC 4180) in UTF-8. Pure.
//!
//! Spreadsheet programs interpret a cell such as `=1+1` as a formula, and people choose their names
//! freely. Therefore a cell that could be a formula begins with a quote.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jiff::civil::Date;

use super::costs::CostSum;
use super::days::day_of;
use super::line::TurnLine;
use aetheel_model::event::Lane;
use aetheel_model::id::UserId;

const HEAD: &str = "day,lane,user,name,backend,turns,failed,took_ms,turns_with_tokens,input,\
                    output,cached,reasoning,turns_with_price,cost_usd\r\n";

/// The identity of a row: day, lane, user id, name and backend.
type CostSheetKey = (Date, Lane, Option<UserId>, Option<String>, String);

/// A row for each day, lane, person and backend.
#[derive(Clone, Debug, Default)]
pub struct CostSheet(BTreeMap<CostSheetKey, CostSum>);

impl CostSheet {
    /// Adds a turn.
    pub fn add(&mut self, line: &TurnLine) {
        let TurnLine { lane, user, name, backend, .. } = line;
        let key = (day_of(line.ended), lane.clone(), *user, name.clone(), backend.clone());
        self.0.entry(key).or_default().add(line);
    }

    /// Returns the whole table. Cells of tokens and prices are empty if no agent reported them.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut text = HEAD.to_owned();
        for ((day, lane, user, name, backend), sum) in &self.0 {
            let user = user.map(|user| user.to_string()).unwrap_or_default();
            let (lane, name) = (cell(&lane.to_string()), cell(name.as_deref().unwrap_or_default()));
            let tokens =
                |count: u64| if sum.with_tokens > 0 { count.to_string() } else { String::new() };
            let [input, output, cached, reasoning] =
                [sum.input, sum.output, sum.cached, sum.reasoning].map(tokens);
            let price =
                if sum.with_price > 0 { format!("{:.6}", sum.cost_usd) } else { String::new() };
            let CostSum { turns, failed, took_ms, with_tokens, with_price, .. } = sum;
            let backend = cell(backend);
            // Writing to a string does not fail.
            let _ = write!(
                text,
                "{day},{lane},{user},{name},{backend},{turns},{failed},{took_ms},{with_tokens},\
                 {input},{output},{cached},{reasoning},{with_price},{price}\r\n"
            );
        }
        text
    }
}

/// Returns the cell for a text, never a formula.
fn cell(text: &str) -> String {
    let formula = text.trim_start().starts_with(['=', '+', '-', '@', '＝', '＋', '－', '＠'])
        || text.starts_with(['\t', '\r', '\n']);
    let text = if formula { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\r', '\n', ';', '\t']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::line;
    use super::*;

    #[test]
    fn a_name_is_neither_a_formula_nor_an_additional_cell() {
        let cases = [
            ("ann", "ann"),
            ("=1+1", "'=1+1"),
            (" @SUM(A1)", "' @SUM(A1)"),
            ("-2", "'-2"),
            ("＝1", "'＝1"),
            ("\t=1", "\"'\t=1\""),
            ("a,b", "\"a,b\""),
            ("=HYPERLINK(\"x\",\"y\")", "\"'=HYPERLINK(\"\"x\"\",\"\"y\"\")\""),
            ("a\r\nb", "\"a\r\nb\""),
        ];
        for (text, expected) in cases {
            assert_eq!(cell(text), expected, "{text:?}");
        }
    }

    #[test]
    fn turns_of_one_day_lane_person_and_backend_are_one_row() {
        let mut sheet = CostSheet::default();
        let first = line("a", "2026-08-06T01:00:00Z");
        let mute = TurnLine { usage: None, name: Some("=x".to_owned()), ..first.clone() };
        for line in [&first, &first, &mute] {
            sheet.add(line);
        }
        let text = sheet.csv();
        let rows: Vec<&str> = text.split("\r\n").collect();
        assert_eq!(rows[0].split(',').count(), 15);
        assert_eq!(rows[1], "2026-08-06,channel:42,3,'=x,claude,1,0,1500,0,,,,,0,");
        assert_eq!(rows[2], "2026-08-06,channel:42,3,ann,claude,2,0,3000,2,18,8,0,0,2,0.500000");
        assert_eq!(rows[3..], [""]);
    }
}
