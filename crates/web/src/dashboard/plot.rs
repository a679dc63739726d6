//! Charts that the server draws as SVG. Pure. Each chart has a description, and its page has a
//! table with the numbers.

use maud::{Markup, html};

/// Width and height of the chart, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 120.0;
/// Minimum height of a bar above zero, so that it is visible.
const LEAST: f64 = 2.0;

/// Draws bars from left to right. `about` is the description. Values that are not finite or not
/// positive have no bar.
pub(super) fn bars(values: &[f64], about: &str) -> Markup {
    let most = values.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
    let room = WIDTH / values.len().max(1) as f64;
    let height = |value: f64| (value / most * HEIGHT).max(LEAST);
    let drawn = values.iter().enumerate().filter(|(_, value)| value.is_finite() && **value > 0.0);
    html! {
        svg.plot role="img" aria-label=(about) viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" {
            @for (at, value) in drawn {
                rect x=(tenths(at as f64 * room + room * 0.1)) y=(tenths(HEIGHT - height(*value)))
                    width=(tenths(room * 0.8)) height=(tenths(height(*value))) {}
            }
        }
    }
}

fn tenths(number: f64) -> f64 {
    (number * 10.0).round() / 10.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_fills_the_chart_and_zero_has_no_bar() {
        let drawn = bars(&[0.0, 5.0, 10.0, 0.001, f64::NAN, -1.0], "Turns").into_string();
        assert_eq!(drawn.matches("<rect").count(), 3);
        assert!(drawn.contains(r#"role="img" aria-label="Turns""#), "{drawn}");
        for bar in [
            r#"x="110" y="60" width="80" height="60""#,
            r#"x="210" y="0" width="80" height="120""#,
            r#"x="310" y="118" width="80" height="2""#,
        ] {
            assert!(drawn.contains(bar), "{drawn}");
        }
    }

    #[test]
    fn an_empty_chart_has_no_bars_and_its_description_is_escaped() {
        let drawn = bars(&[], "<script>\"").into_string();
        assert!(!drawn.contains("<rect") && !drawn.contains("<script"), "{drawn}");
        assert!(!bars(&[f64::INFINITY, 0.0], "x").into_string().contains("<rect"));
    }

    #[test]
    fn a_chart_of_ninety_days_is_small() {
        let values: Vec<f64> = (0..90).map(|day| f64::from(day) * 1.7).collect();
        assert!(bars(&values, "Turns").into_string().len() < 6_000);
    }
}
