//! Operations in a stream or in a graph.

use crate::allocations::HostRange;
use crate::handle::Handle;
use crate::module::Function;
use std::ffi::c_void;
use std::sync::Arc;

/// A function of the host program that a stream or graph calls.
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

/// An operation of a stream or of a graph.
#[derive(Clone, Debug)]
pub(crate) enum Work {
    Launch(Launch),
    Copy {
        to: u64,
        from: u64,
        bytes: u64,
    },
    /// Copies rows of `width` bytes. The pitches are the distances between the starts of two rows in bytes.
    Copy2D {
        to: u64,
        to_pitch: u64,
        from: u64,
        from_pitch: u64,
        width: u64,
        rows: u64,
    },
    /// Writes one value to all elements of `rows` rows with `count` elements each. `pitch` is the distance between the starts of
    /// two rows in bytes.
    Fill {
        to: u64,
        pitch: u64,
        value: u32,
        element_bytes: u64,
        count: u64,
        rows: u64,
    },
    /// Writes a word. The write is atomic, because a thread of the client may poll the word.
    WriteValue {
        to: u64,
        value: u64,
        bytes: u64,
    },
    /// Checks that the value of a word meets a condition. If it does not, the operation fails instead of waiting.
    WaitValue {
        at: u64,
        value: u64,
        bytes: u64,
        condition: WaitCondition,
    },
    RecordEvent(Handle),
    /// Calls a function of the host program.
    Call {
        function: HostFunction,
        data: usize,
    },
    /// An allocation node of a graph. Its execution has no effect, because the entry point has already allocated the memory.
    Allocate,
    Free {
        address: u64,
    },
    /// No effect. An empty node of a graph only orders other nodes.
    Nothing,
    /// The operations of an executable graph, in order.
    Graph(Vec<Work>),
}

/// The condition of a wait for a word `w` with an operand `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitCondition {
    /// The signed difference `w - v`, which may wrap, is not negative.
    AtLeast,
    Equal,
    /// `w & v` is not zero.
    AnyBit,
    /// `!(w | v)` is not zero.
    AnyBitClear,
}

impl WaitCondition {
    /// Returns whether a word of 4 or 8 bytes meets the condition.
    pub(crate) fn is_met(self, word: u64, value: u64, bytes: u64) -> bool {
        // Shifts a word of 4 bytes to the top, so that its sign is the sign of 64 bits.
        let top = |bits: u64| bits << (64 - 8 * bytes);
        match self {
            WaitCondition::AtLeast => top(word.wrapping_sub(value)) as i64 >= 0,
            WaitCondition::Equal => top(word) == top(value),
            WaitCondition::AnyBit => top(word & value) != 0,
            WaitCondition::AnyBitClear => top(!(word | value)) != 0,
        }
    }
}

/// A launch of a kernel, with copies of the parameters. Reason: the client may change the parameters after the call.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) function: Arc<Function>,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) dynamic_shared_bytes: u32,
    /// The cluster extents in CTAs that the launch requests. An extent of 1 in all dimensions requests none.
    pub(crate) cluster: [u32; 3],
    /// The bytes of the parameters that the client passes, each parameter at its offset.
    pub(crate) param_data: Vec<u8>,
    /// Memory of the host program that the launch may access.
    pub(crate) host_ranges: Vec<HostRange>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_of_waits_compare_words() {
        use WaitCondition::*;
        let cases = [
            (AtLeast, 5, 5, true),
            (AtLeast, 4, 5, false),
            (AtLeast, 1, 0xffff_fffe, true),
            (Equal, 7, 7, true),
            (Equal, 7, 6, false),
            (AnyBit, 6, 2, true),
            (AnyBit, 6, 1, false),
            (AnyBitClear, 0xffff_0000, 0xffff, false),
            (AnyBitClear, 0xffff_0000, 0xfffe, true),
        ];
        for (condition, word, value, met) in cases {
            assert_eq!(condition.is_met(word, value, 4), met, "{condition:?} {word:#x} {value:#x}");
        }
        assert!(!AtLeast.is_met(1, 0xffff_fffe, 8) && AnyBitClear.is_met(0xffff_0000, 0xffff, 8));
    }
}
