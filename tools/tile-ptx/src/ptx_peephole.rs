//! Purpose: simplifies the branches of the PTX text.
//! Requires: PTX text in which each predicate is written once, except predicates merged from several paths.
//! Establishes: negated branches (`@!p bra`) instead of `not.pred`; one conditional branch as the back edge of a loop.
//! Preserves: the control flow graph.
//! See also: LLVM `BranchFolding`, `reverseBranchCondition`.
//!
//! Reason: the NVPTX back end cannot reverse a branch condition. It computes the opposite predicate and ends a loop with a
//! conditional exit and an unconditional back edge.

use std::collections::{HashMap, HashSet};

/// The lines after both rewrites.
pub(crate) fn simplify_branches(ptx: &str) -> Vec<String> {
    let lines: Vec<&str> = ptx.lines().collect();
    let functions = lines.split_inclusive(|line| *line == "}");
    functions.flat_map(|function| back_by_condition(without_opposites(function))).collect()
}

/// The number of occurrences of a predicate.
#[derive(Clone, Copy, Default)]
struct Found {
    written: usize,
    jumps: usize,
    all: usize,
}

/// Removes negated predicates that only branches use.
fn without_opposites(function: &[&str]) -> Vec<String> {
    let mut found: HashMap<&str, Found> = HashMap::new();
    if !function.iter().any(|line| opposite(line).is_some()) {
        return function.iter().map(ToString::to_string).collect();
    }
    for line in function {
        for (at, predicate) in predicates(line) {
            let found = found.entry(predicate).or_default();
            found.all += 1;
            found.written += usize::from(!line.starts_with("\t@") && line.find('%') == Some(at));
            found.jumps += usize::from(conditional(line).is_some());
        }
    }
    let spared = |(result, of): (&str, &str)| {
        let [result, of] = [result, of].map(|predicate| found.get(predicate).copied().unwrap_or_default());
        of.written == 1 && result.written == 1 && result.all == result.jumps + 1
    };
    let spared: HashMap<&str, &str> = function.iter().filter_map(|line| opposite(line)).filter(|one| spared(*one)).collect();
    let kept = function.iter().filter(|line| opposite(line).is_none_or(|(result, _)| !spared.contains_key(result)));
    let turn = |line: &&str| match conditional(line).and_then(|(predicate, target)| Some((spared.get(predicate)?, target))) {
        Some((of, target)) => format!("\t@!{of} bra \t{target};"),
        None => line.to_string(),
    };
    kept.map(turn).collect()
}

/// Makes the conditional branch of each loop its back edge.
fn back_by_condition(function: Vec<String>) -> Vec<String> {
    let mut labels = HashSet::new();
    let mut lines: Vec<String> = Vec::with_capacity(function.len());
    for line in function {
        let back = always(&line).filter(|target| labels.contains(*target));
        let turned = back.zip(lines.last().and_then(|before| conditional(before))).map(|(back, (holds, out))| {
            let not = holds.strip_prefix('!').map_or_else(|| format!("!{holds}"), str::to_string);
            [format!("\t@{not} bra \t{back};"), format!("\tbra.uni \t{out};")]
        });
        if let Some(turned) = turned {
            lines.pop();
            lines.extend(turned);
            continue;
        }
        labels.extend(line.strip_suffix(':').map(str::to_string));
        lines.push(line);
    }
    lines
}

/// The result and the operand of a `not.pred` line.
fn opposite(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("\tnot.pred \t")?.strip_suffix(';')?.split_once(", ")
}

/// The target of an unconditional branch.
fn always(line: &str) -> Option<&str> {
    line.strip_prefix("\tbra.uni \t")?.strip_suffix(';')
}

/// The predicate and the target of a conditional branch.
fn conditional(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("\t@")?.strip_suffix(';')?.split_once(" bra \t")
}

/// The predicates that a line names, with their positions.
fn predicates(line: &str) -> impl Iterator<Item = (usize, &str)> {
    line.match_indices("%p").filter_map(|(at, _)| {
        let digits = line[at + 2..].bytes().take_while(u8::is_ascii_digit).count();
        (digits > 0).then(|| (at, &line[at..at + 2 + digits]))
    })
}

#[cfg(test)]
mod tests {
    use super::simplify_branches;

    #[test]
    fn the_conditional_branch_is_the_back_edge() {
        let ptx = "$L__BB0_1:\n\tadd.s32 \t%r1, %r1, 1;\n\t@%p1 bra \t$L__BB0_2;\n\tbra.uni \t$L__BB0_1;\n$L__BB0_2:";
        let back =
            ptx.replace("@%p1 bra \t$L__BB0_2", "@!%p1 bra \t$L__BB0_1").replace("bra.uni \t$L__BB0_1", "bra.uni \t$L__BB0_2");
        assert_eq!(simplify_branches(ptx).join("\n"), back);
    }

    #[test]
    fn other_branches_stay() {
        let ptx = "$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n\tbra.uni \t$L__BB0_3;\n$L__BB0_2:\n\tbra.uni \t$L__BB0_2;\n$L__BB0_3:";
        assert_eq!(simplify_branches(ptx).join("\n"), ptx);
    }

    #[test]
    fn branches_alone_need_no_negated_predicate() {
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
