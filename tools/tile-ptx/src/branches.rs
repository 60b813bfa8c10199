//! Which way of a branch is the conditional one.
//!
//! LLVM's back end for PTX cannot turn a condition round: it writes the end of a loop as a conditional jump out of it and a jump back.
//! Requires: the text of functions. Establishes: such loops go round by the conditional jump alone.

use std::collections::HashSet;

/// The lines, with the jumps turned that are to be.
pub(crate) fn turned(ptx: &str) -> Vec<String> {
    let mut labels = HashSet::new();
    let mut lines: Vec<String> = Vec::new();
    for line in ptx.lines() {
        labels.extend(line.strip_suffix(':'));
        let back = always(line).filter(|target| labels.contains(target));
        let out = lines.last().and_then(|before| conditional(before)).map(|(holds, out)| (holds.to_string(), out.to_string()));
        if let (Some(back), Some((holds, out))) = (back, out) {
            lines.pop();
            lines.extend([format!("\t@!{holds} bra \t{back};"), format!("\tbra.uni \t{out};")]);
        } else {
            lines.push(line.to_string());
        }
    }
    lines
}

/// Where a line jumps to in any case.
fn always(line: &str) -> Option<&str> {
    line.strip_prefix("\tbra.uni \t")?.strip_suffix(';')
}

/// The predicate with which a line jumps, and where to.
fn conditional(line: &str) -> Option<(&str, &str)> {
    line.strip_prefix("\t@")?.strip_suffix(';')?.split_once(" bra \t").filter(|(predicate, _)| predicate.starts_with('%'))
}

#[cfg(test)]
mod tests {
    use super::turned;

    #[test]
    fn loops_go_round_by_the_conditional_jump() {
        let ptx = "$L__BB0_1:\n\tadd.s32 \t%r1, %r1, 1;\n\t@%p1 bra \t$L__BB0_2;\n\tbra.uni \t$L__BB0_1;\n$L__BB0_2:";
        let turned = turned(ptx).join("\n");
        assert_eq!(
            turned,
            ptx.replace("@%p1 bra \t$L__BB0_2", "@!%p1 bra \t$L__BB0_1").replace("bra.uni \t$L__BB0_1", "bra.uni \t$L__BB0_2")
        );
    }

    #[test]
    fn other_jumps_stay() {
        let ptx = "$L__BB0_1:\n\t@%p1 bra \t$L__BB0_1;\n\tbra.uni \t$L__BB0_3;\n$L__BB0_2:\n\tbra.uni \t$L__BB0_2;\n$L__BB0_3:";
        assert_eq!(turned(ptx).join("\n"), ptx);
    }
}
