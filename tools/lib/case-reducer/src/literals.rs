//! Reduces extents and types by replacing tokens in the program's text. A number or type is replaced in all places at once, so
//! that related shapes stay consistent.

use crate::{Program, accept_if_interesting};
use base::DebugInfo;
use std::collections::BTreeSet;

/// Types, each with its simpler replacement.
const SIMPLER_TYPES: [(&str, &str); 9] = [
    ("f64", "f32"),
    ("f16", "f32"),
    ("bf16", "f32"),
    ("tf32", "f32"),
    ("f8E4M3FN", "f32"),
    ("f8E5M2", "f32"),
    ("i64", "i32"),
    ("i16", "i32"),
    ("i8", "i32"),
];

/// Tries smaller extents and simpler types.
pub(crate) fn shrink_literals(best: &mut Program, is_interesting: &mut dyn FnMut(&Program) -> bool) {
    let text = tileir::text::print(&best.module, None);
    let extents: BTreeSet<u64> = tokens(&text).filter_map(|(_, token)| extent_of(token)).collect();
    for extent in extents.into_iter().rev() {
        for smaller in [1, 2, extent / 4, extent / 2] {
            if smaller > 0 && smaller < extent && replace_token(best, &extent.to_string(), &smaller.to_string(), is_interesting) {
                break;
            }
        }
    }
    for (from, to) in SIMPLER_TYPES {
        replace_token(best, from, to, is_interesting);
    }
}

/// Returns the value of a token that may be an extent. `None` if the token is no number greater than 1.
fn extent_of(token: &str) -> Option<u64> {
    token.parse().ok().filter(|number| *number > 1)
}

/// Replaces a token by another token in all places, if the changed program is still interesting. Returns whether
/// the function replaced the token.
fn replace_token(best: &mut Program, from: &str, to: &str, is_interesting: &mut dyn FnMut(&Program) -> bool) -> bool {
    let text = tileir::text::print(&best.module, None);
    let mut changed_text = String::with_capacity(text.len());
    let mut copied_to = 0;
    for (at, token) in tokens(&text).filter(|(_, token)| *token == from) {
        changed_text.push_str(&text[copied_to..at]);
        changed_text.push_str(to);
        copied_to = at + token.len();
    }
    if copied_to == 0 {
        return false;
    }
    changed_text.push_str(&text[copied_to..]);
    let mut debug = DebugInfo::default();
    let text = tileir::text::header(&best.module) + &changed_text;
    let Ok(module) = tileir::text::parse(&text, "a smaller program", 1, &mut debug) else { return false };
    accept_if_interesting(best, Program { module, debug }, is_interesting)
}

/// Returns the tokens of a text, each with its offset. `64x32xf32` has the tokens `64`, `32` and `f32`. Names that start with `%`
/// or `@` are not tokens.
fn tokens(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut offset = 0;
    let parts = text.split_inclusive(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '%' && c != '@');
    let parts = parts.map(move |part| {
        offset += part.len();
        (offset - part.len(), part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric() && c != '_'))
    });
    parts.filter(|(_, part)| !part.starts_with(['%', '@'])).flat_map(|(offset, part)| split_shape(offset, part))
}

/// Splits a shape such as `64x32xf32` into its extents and its element type, each with its offset in the text. Any other token
/// stays unchanged.
fn split_shape(token_offset: usize, token: &str) -> Vec<(usize, &str)> {
    if !token.starts_with(|c: char| c.is_ascii_digit()) {
        return vec![(token_offset, token)];
    }
    let mut parts_of_token = Vec::new();
    let mut offset = token_offset;
    for part_of_token in token.split('x') {
        parts_of_token.push((offset, part_of_token));
        offset += part_of_token.len() + 1;
    }
    parts_of_token
}
