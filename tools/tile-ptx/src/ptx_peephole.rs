//! Purpose: simplifies the branches in the PTX text.
//! Requires: PTX text of LLVM, in which one instruction writes a predicate, unless the predicate merges several paths.
//! Establishes: negated branches (`@!p bra`) instead of `not.pred`; a conditional branch as the back edge of each loop.
//! Preserves: the control flow graph.
//! See also: LLVM `BranchFolding`, `reverseBranchCondition`.
//!
//! Reason: the NVPTX back end cannot reverse a branch condition. It computes the opposite predicate and ends a loop with a
//! conditional exit and an unconditional back edge.

use std::collections::{HashMap, HashSet};

/// Returns the lines of the PTX after both rewrites.
pub(crate) fn simplify_branches(ptx: &str) -> Vec<String> {
    let lines: Vec<&str> = ptx.lines().collect();
    let functions = lines.split_inclusive(|line| *line == "}");
    functions.flat_map(|function| with_conditional_back_edges(without_negations(function))).collect()
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

/// If a loop ends with a conditional exit and an unconditional back edge, makes the back edge conditional, and the exit
/// unconditional.
fn with_conditional_back_edges(function: Vec<String>) -> Vec<String> {
    let mut earlier_labels = HashSet::new();
    let mut lines: Vec<String> = Vec::with_capacity(function.len());
    for line in function {
        let loop_label = unconditional_target(&line).filter(|target| earlier_labels.contains(*target));
        let reversed_branches =
            loop_label.zip(lines.last().and_then(|before| conditional_branch(before))).map(|(loop_label, (predicate, exit))| {
                let negated = predicate.strip_prefix('!').map_or_else(|| format!("!{predicate}"), str::to_string);
                [format!("\t@{negated} bra \t{loop_label};"), format!("\tbra.uni \t{exit};")]
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

/// The predicates that a line names, with their positions.
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
    fn the_conditional_branch_is_the_back_edge() {
        let ptx = "$L__BB0_1:\n\tadd.s32 \t%r1, %r1, 1;\n\t@%p1 bra \t$L__BB0_2;\n\tbra.uni \t$L__BB0_1;\n$L__BB0_2:";
        let expected =
            ptx.replace("@%p1 bra \t$L__BB0_2", "@!%p1 bra \t$L__BB0_1").replace("bra.uni \t$L__BB0_1", "bra.uni \t$L__BB0_2");
        assert_eq!(simplify_branches(ptx).join("\n"), expected);
    }

    #[test]
    fn other_branches_stay_unchanged() {
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
