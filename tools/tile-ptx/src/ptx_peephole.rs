//! Purpose: simplifies the branches in the PTX text.
//! Requires: PTX text of LLVM, in which one instruction writes a predicate, unless the predicate merges several paths.
//! Establishes: negated branches (`@!p bra`) instead of `not.pred`; a conditional branch as the back edge of each loop, at its end;
//! no unconditional branch that a conditional branch skips.
//! Preserves: the control flow graph.
//! See also: LLVM `BranchFolding`, `reverseBranchCondition`, `MachineBlockPlacement`.
//!
//! Reason: the NVPTX back end cannot reverse a branch condition, and does not place blocks. It computes the opposite predicate,
//! ends a loop with a conditional exit and an unconditional back edge, and may place the last block of a loop first.

use std::collections::{HashMap, HashSet};

/// Returns the lines of the PTX after all rewrites.
pub(crate) fn simplify_branches(ptx: &str) -> Vec<String> {
    let lines: Vec<&str> = ptx.lines().collect();
    let functions = lines.split_inclusive(|line| *line == "}");
    let simplified =
        |function| without_skipped_branches(with_conditional_back_edges(with_latches_last(without_negations(function))));
    functions.flat_map(simplified).collect()
}

/// How many times a predicate is written, decides a branch, and occurs in total.
#[derive(Clone, Copy, Default)]
struct PredicateUses {
    writes: usize,
    branches: usize,
    total: usize,
}

/// Removes the negation of a predicate if only branches use the result. These branches then test the operand of the negation.
fn without_negations(function: &[&str]) -> Vec<String> {
    let mut uses: HashMap<&str, PredicateUses> = HashMap::new();
    if !function.iter().any(|line| parse_negation(line).is_some()) {
        return function.iter().map(ToString::to_string).collect();
    }
    for line in function {
        for (at, predicate) in predicates_in(line) {
            let counts = uses.entry(predicate).or_default();
            counts.total += 1;
            counts.writes += usize::from(!line.starts_with("\t@") && line.find('%') == Some(at));
            counts.branches += usize::from(conditional_branch(line).is_some());
        }
    }
    let is_removable = |(result, operand): (&str, &str)| {
        let [result, operand] = [result, operand].map(|predicate| uses.get(predicate).copied().unwrap_or_default());
        operand.writes == 1 && result.writes == 1 && result.total == result.branches + 1
    };
    let removable: HashMap<&str, &str> =
        function.iter().filter_map(|line| parse_negation(line)).filter(|negation| is_removable(*negation)).collect();
    let kept_lines = function.iter().filter(|line| parse_negation(line).is_none_or(|(result, _)| !removable.contains_key(result)));
    let rewrite_branch =
        |line: &&str| match conditional_branch(line).and_then(|(predicate, target)| Some((removable.get(predicate)?, target))) {
            Some((operand, target)) => format!("\t@!{operand} bra \t{target};"),
            None => line.to_string(),
        };
    kept_lines.map(rewrite_branch).collect()
}

/// If the blocks from a loop's last block to its header precede the header, moves them to the end of the loop:
///
/// ```text
///         bra.uni H                  H: body
///      L: latch              =>      L: latch
///      H: body                           bra.uni H
///         bra.uni L
/// ```
fn with_latches_last(mut lines: Vec<String>) -> Vec<String> {
    let mut at = 0;
    while at + 1 < lines.len() {
        if let Some((header, end)) = latch_before_header(&lines, at) {
            let location = |before: usize| lines[..before].iter().rfind(|line| line.starts_with("\t.loc\t")).cloned();
            let (body_location, latch_location) = (location(header), location(at));
            let (latch, body) = (lines[at + 1..header].to_vec(), lines[header..end].to_vec());
            let back_edge = lines[at].clone();
            let (header_label, body) = body.split_first().expect("the header has a label");
            let (latch_label, latch) = latch.split_first().expect("the latch has a label");
            let moved = [vec![header_label.clone()], Vec::from_iter(body_location), body.to_vec()].concat();
            let moved =
                [moved, vec![latch_label.clone()], Vec::from_iter(latch_location), latch.to_vec(), vec![back_edge]].concat();
            lines.splice(at..=end, moved);
        }
        at += 1;
    }
    lines
}

/// Finds a loop whose latch (the blocks after the branch in line `at`) precedes its header (the target of this branch). The latch
/// must fall through to the header, and only later branches may enter the latch, at its start. Returns the line of the header and
/// the line of the last branch to the latch. `None` if there is no such loop, or if this last branch is conditional.
fn latch_before_header(lines: &[String], at: usize) -> Option<(usize, usize)> {
    let header_label = unconditional_target(&lines[at])?;
    let latch_label = lines[at + 1].strip_suffix(':')?;
    let header = (at + 2..lines.len()).find(|line| lines[*line].strip_suffix(':') == Some(header_label))?;
    if ends_block(&lines[header - 1]) {
        return None;
    }
    let branches_to_latch = |line: &str| {
        unconditional_target(line) == Some(latch_label) || conditional_branch(line).is_some_and(|(_, target)| target == latch_label)
    };
    let entries = (0..lines.len()).filter(|line| branches_to_latch(&lines[*line]));
    let (first, last) = entries.fold((usize::MAX, 0), |(first, last), entry| (first.min(entry), last.max(entry)));
    (first > header && unconditional_target(&lines[last]) == Some(latch_label)).then_some((header, last))
}

/// Whether control flow never continues after a line.
fn ends_block(line: &str) -> bool {
    ["\tbra", "\tret", "\texit", "\ttrap", "\tbrx"].iter().any(|start| line.starts_with(start))
}

/// If a conditional branch skips only an unconditional branch, makes this branch conditional instead. Removes branches to the next
/// line.
fn without_skipped_branches(function: Vec<String>) -> Vec<String> {
    let mut lines: Vec<String> = Vec::with_capacity(function.len());
    for line in function {
        let label = line.strip_suffix(':');
        if label.is_some() && lines.last().and_then(|last| unconditional_target(last)) == label {
            lines.pop();
        } else if let [.., condition, branch] = &lines[..]
            && let (Some((predicate, skip_to)), Some(target)) = (conditional_branch(condition), unconditional_target(branch))
            && label == Some(skip_to)
        {
            let reversed = format!("\t@{} bra \t{target};", negated(predicate));
            lines.truncate(lines.len() - 2);
            lines.push(reversed);
        }
        lines.push(line);
    }
    lines
}

/// The negated predicate operand: adds or removes the `!` prefix.
fn negated(predicate: &str) -> String {
    predicate.strip_prefix('!').map_or_else(|| format!("!{predicate}"), str::to_string)
}

/// If a loop ends with a conditional exit and an unconditional back edge, makes the back edge conditional, and the exit
/// unconditional.
fn with_conditional_back_edges(function: Vec<String>) -> Vec<String> {
    let mut earlier_labels = HashSet::new();
    let mut lines: Vec<String> = Vec::with_capacity(function.len());
    for line in function {
        let loop_label = unconditional_target(&line).filter(|target| earlier_labels.contains(*target));
        let reversed_branches =
            loop_label.zip(lines.last().and_then(|before| conditional_branch(before))).map(|(loop_label, (predicate, exit))| {
                [format!("\t@{} bra \t{loop_label};", negated(predicate)), format!("\tbra.uni \t{exit};")]
            });
        if let Some(reversed_branches) = reversed_branches {
            lines.pop();
            lines.extend(reversed_branches);
            continue;
        }
        earlier_labels.extend(line.strip_suffix(':').map(str::to_string));
        lines.push(line);
    }
    lines
}

/// The result and the operand of a `not.pred` line.
fn parse_negation(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("\tnot.pred \t")?.strip_suffix(';')?.split_once(", ")
}

/// The target of an unconditional branch.
fn unconditional_target(line: &str) -> Option<&str> {
    line.strip_prefix("\tbra.uni \t")?.strip_suffix(';')
}

/// The predicate and the target of a conditional branch.
fn conditional_branch(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("\t@")?.strip_suffix(';')?.split_once(" bra \t")
}

/// The predicate registers (`%p1`) in a line, each with its byte position.
fn predicates_in(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.match_indices("%p").filter_map(|(at, _)| {
        let digit_count = line[at + 2..].bytes().take_while(u8::is_ascii_digit).count();
        (digit_count > 0).then(|| (at, &line[at..at + 2 + digit_count]))
    })
}

#[cfg(test)]
mod tests {
    use super::simplify_branches;

    #[test]
    fn conditional_exit_before_back_edge_is_reversed() {
        let ptx = "$L__BB0_1:\n\tadd.s32 \t%r1, %r1, 1;\n\t@%p1 bra \t$L__BB0_2;\n\tbra.uni \t$L__BB0_1;\n$L__BB0_2:";
        let expected = ptx.replace("@%p1 bra \t$L__BB0_2", "@!%p1 bra \t$L__BB0_1").replace("\tbra.uni \t$L__BB0_1;\n", "");
        assert_eq!(simplify_branches(ptx).join("\n"), expected);
    }

    #[test]
    fn latch_before_header_moves_to_loop_end() {
        let ptx = "\t.local .b8 \tdepot[8];\n\t.loc\t1 2 0\n\tbra.uni \t$L__BB0_2;\n$L__BB0_1:\n\tadd.s32 \t%r1, %r1, 1;\n\t@%p1 bra \t$L__BB0_4;\n$L__BB0_2:\n\t@%p2 bra \t$L__BB0_1;\n\tst.global.b32 \t[%rd1], %r1;\n\tbra.uni \t$L__BB0_1;\n$L__BB0_4:";
        let expected = "\t.local .b8 \tdepot[8];\n\t.loc\t1 2 0\n$L__BB0_2:\n\t.loc\t1 2 0\n\t@%p2 bra \t$L__BB0_1;\n\tst.global.b32 \t[%rd1], %r1;\n$L__BB0_1:\n\t.loc\t1 2 0\n\tadd.s32 \t%r1, %r1, 1;\n\t@!%p1 bra \t$L__BB0_2;\n$L__BB0_4:";
        assert_eq!(simplify_branches(ptx).join("\n"), expected);
    }

    #[test]
    fn branch_skipped_by_conditional_branch_becomes_conditional() {
        let ptx = "\t@%p1 bra \t$L__BB0_1;\n\tbra.uni \t$L__BB0_2;\n$L__BB0_1:\n\tst.global.b32 \t[%rd1], %r1;\n$L__BB0_2:";
        let expected = "\t@!%p1 bra \t$L__BB0_2;\n$L__BB0_1:\n\tst.global.b32 \t[%rd1], %r1;\n$L__BB0_2:";
        assert_eq!(simplify_branches(ptx).join("\n"), expected);
    }

    #[test]
    fn branches_without_skip_or_fall_through_stay_unchanged() {
        let ptx = "$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n\tbra.uni \t$L__BB0_3;\n$L__BB0_2:\n\tbra.uni \t$L__BB0_2;\n$L__BB0_3:";
        assert_eq!(simplify_branches(ptx).join("\n"), ptx);
    }

    #[test]
    fn a_negated_predicate_that_only_branches_use_is_removed() {
        let ptx = "\tsetp.eq.b32 \t%p1, %r1, 0;\n\tnot.pred \t%p2, %p1;\n\t@%p2 bra \t$L__BB0_1;\n$L__BB0_1:";
        assert_eq!(simplify_branches(ptx).join("\n"), "\tsetp.eq.b32 \t%p1, %r1, 0;\n\t@!%p1 bra \t$L__BB0_1;\n$L__BB0_1:");
    }

    #[test]
    fn a_negated_predicate_with_other_uses_stays() {
        let used = "\tsetp.eq.b32 \t%p1, %r1, 0;\n\tnot.pred \t%p2, %p1;\n\tselp.b32 \t%r2, 1, 0, %p2;\n\t@%p2 bra \t$L__BB0_1;\n$L__BB0_1:";
        let written =
            "\tnot.pred \t%p2, %p1;\n\tmov.pred \t%p1, %p3;\n\tsetp.eq.b32 \t%p1, %r1, 0;\n\t@%p2 bra \t$L__BB0_1;\n$L__BB0_1:";
        assert_eq!([used, written].map(|ptx| simplify_branches(ptx).join("\n")), [used, written]);
    }
}
