//! Decodes branches, calls, barriers, and instructions that exchange data between the lanes of a warp.

use super::builder::{Builder, ByteArray};
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::program::*;
use ptx::{Instruction, Operand, Type};

/// The caller's storage of a call argument or result: a register or a byte array.
enum CallValue {
    Value(RegSlot),
    Bytes(ByteArray),
}

impl Builder<'_> {
    /// Decodes branches, calls, barriers and warp-level instructions. Returns `None` for other instructions.
    pub(super) fn decode_control(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "bra" => {
                check_modifiers(instruction, &["uni"])?;
                let Operand::Name(name) = self.operand(instruction, 0)? else {
                    return Err(unsupported(instruction, "this target"));
                };
                Op::Branch { target: self.label_index(name)? }
            }
            "brx" => {
                check_modifiers(instruction, &["idx", "uni"])?;
                let Operand::Name(name) = self.operand(instruction, 1)? else {
                    return Err(unsupported(instruction, "this target list"));
                };
                Op::BranchIndirect { index: self.source_slot(instruction, 0, 32)?, targets: self.branch_targets(name)?.into() }
            }
            "ret" | "exit" => {
                check_modifiers(instruction, &["uni"])?;
                match self.inlined_return_label() {
                    Some(target) if instruction.opcode == "ret" => Op::Branch { target },
                    _ => Op::Exit,
                }
            }
            "trap" | "brkpt" => Op::Trap,
            "nanosleep" => Op::Yield,
            "call" => self.decode_call(instruction)?,
            "shfl" => self.decode_shuffle(instruction)?,
            "vote" => self.decode_vote(instruction)?,
            "match" => self.decode_match(instruction)?,
            "redux" => self.decode_redux(instruction)?,
            "elect" => {
                check_modifiers(instruction, &["sync"])?;
                let (dst, predicate) = self.result_pair(instruction)?;
                let predicate = predicate.ok_or_else(|| unsupported(instruction, "it needs a lane and a predicate as results"))?;
                Op::Elect { dst, predicate, members: self.source_slot(instruction, 1, 32)? }
            }
            "activemask" => Op::ActiveMask { dst: self.result_slot(instruction, 0)? },
            "bar" | "barrier" => self.decode_barrier(instruction)?,
            "setmaxnreg" | "griddepcontrol" | "pmevent" => Op::Nop,
            _ => return Ok(None),
        }))
    }

    /// Decodes a call. Inlines a function that has a body. A function without a body must be a built-in function of the simulator.
    fn decode_call(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &["uni"])?;
        let mut lists = Vec::new();
        let mut callee = None;
        for operand in &instruction.operands {
            match operand {
                Operand::List(list) => lists.push((callee.is_some(), list)),
                Operand::Name(name) if callee.is_none() => callee = Some(name),
                _ => return Err(unsupported(instruction, "an indirect call")),
            }
        }
        let Some(callee) = callee else { return Err(unsupported(instruction, "it has no callee")) };
        if let Some(function) = self.find_function(callee).filter(|function| function.body.is_some()) {
            return self.inline_call(instruction, function, &lists);
        }
        let function = match &**callee {
            "vprintf" => Builtin::Vprintf,
            "__cuda_syscall_aligned_malloc" => Builtin::AlignedMalloc,
            "malloc" => Builtin::Malloc,
            "free" => Builtin::Free,
            name => return Err(unsupported(instruction, &format!("'{name}' has no body"))),
        };
        let mut result = None;
        let mut args = Vec::new();
        for (is_argument, list) in lists {
            for operand in list {
                let slot = match operand {
                    Operand::Name(name) => match self.argument_slot(name) {
                        Some(slot) => slot,
                        None if is_argument => self.operand_slot(operand, 64)?,
                        None => self.destination_slot(operand)?.0,
                    },
                    other => self.operand_slot(other, 64)?,
                };
                if is_argument { args.push(slot) } else { result = Some(slot) }
            }
        }
        let arity = match function {
            Builtin::Vprintf | Builtin::AlignedMalloc => 2,
            Builtin::Malloc | Builtin::Free => 1,
        };
        if args.len() != arity {
            return Err(unsupported(instruction, "a wrong number of arguments"));
        }
        Ok(Op::Call { function, args: args.into(), result })
    }

    /// Inlines a function at the call. `lists` has the lists of results (`false`) and of arguments (`true`).
    fn inline_call(&mut self, instruction: &Instruction, function: &ptx::Function, lists: &[(bool, &Vec<Operand>)]) -> Result<Op> {
        let list = |arguments: bool| {
            lists.iter().find(|(is_argument, _)| *is_argument == arguments).map_or(&[][..], |(_, list)| &list[..])
        };
        let (results, arguments) = (list(false), list(true));
        if results.len() != function.returns.len() || arguments.len() != function.params.len() {
            return Err(unsupported(instruction, "a wrong number of arguments"));
        }
        let sources = arguments.iter().zip(&function.params).map(|(operand, param)| {
            if param.dims.is_empty() {
                Ok(CallValue::Value(self.operand_slot(operand, 64)?))
            } else {
                self.byte_array_of(instruction, operand, param)
            }
        });
        let sources = sources.collect::<Result<Vec<CallValue>>>()?;
        let destinations = results.iter().zip(&function.returns).map(|(operand, param)| {
            let Operand::Name(name) = operand else { return Err(unsupported(instruction, "this result")) };
            if !param.dims.is_empty() {
                return self.byte_array_of(instruction, operand, param);
            }
            Ok(CallValue::Value(match self.argument_slot(name) {
                Some(slot) => slot,
                None => self.destination_slot(operand)?.0,
            }))
        });
        let destinations = destinations.collect::<Result<Vec<CallValue>>>()?;
        let (end, after) = (self.new_label("end of function"), self.new_label("after call"));
        self.emit_branch_if_guard_is_false(after);
        let (line, opcode) = self.line_and_opcode();
        let caller = self.open_function(end).ok_or_else(|| unsupported(instruction, "calls nest too deep"))?;
        for (param, source) in function.params.iter().zip(sources) {
            if let Some((callee_slot, caller_slot)) = self.declare_call_value(param, source) {
                let copy = self.register_copy(callee_slot, caller_slot);
                self.emit(copy);
            }
        }
        let returned: Vec<_> =
            function.returns.iter().zip(destinations).filter_map(|(param, to)| self.declare_call_value(param, to)).collect();
        self.decode_block(function.body.as_deref().unwrap_or_default())?;
        self.close_function(caller);
        self.set_line_and_opcode(line, opcode);
        self.define_label(end);
        for (callee_slot, caller_slot) in returned {
            let copy = self.register_copy(caller_slot, callee_slot);
            self.emit(copy);
        }
        self.define_label(after);
        Ok(Op::Nop)
    }

    /// Returns the byte array that an argument or result of a call names. The array must have the size of the parameter.
    fn byte_array_of(&mut self, instruction: &Instruction, operand: &Operand, param: &ptx::Variable) -> Result<CallValue> {
        let array = match operand {
            Operand::Name(name) => self.byte_array(name),
            _ => None,
        };
        let array = array.filter(|array| Some(array.bytes) == param.bytes());
        Ok(CallValue::Bytes(array.ok_or_else(|| unsupported(instruction, "an array whose size differs"))?))
    }

    /// Declares a parameter or result of an inlined function. Returns its register and the caller's register. Returns `None` for an
    /// array, because the function and the caller share the array.
    fn declare_call_value(&mut self, param: &ptx::Variable, passed: CallValue) -> Option<(RegSlot, RegSlot)> {
        match passed {
            CallValue::Value(caller_slot) => Some((self.declare_argument(&param.name), caller_slot)),
            CallValue::Bytes(array) => {
                self.declare_byte_array(&param.name, array);
                None
            }
        }
    }

    /// Decodes `shfl.sync`.
    fn decode_shuffle(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &["sync", "up", "down", "bfly", "idx"])?;
        let mode =
            [("up", ShuffleMode::Up), ("down", ShuffleMode::Down), ("bfly", ShuffleMode::Butterfly), ("idx", ShuffleMode::Index)];
        let mode = mode.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, mode)| mode);
        let mode = mode.ok_or_else(|| unsupported(instruction, "it has no mode"))?;
        let (dst, predicate) = self.result_pair(instruction)?;
        Ok(Op::Shuffle {
            mode,
            dst,
            predicate,
            src: self.source_slot(instruction, 1, 32)?,
            lane: self.source_slot(instruction, 2, 32)?,
            clamp: self.source_slot(instruction, 3, 32)?,
            members: self.source_slot(instruction, 4, 32)?,
        })
    }

    /// Decodes `vote.sync`.
    fn decode_vote(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &["sync", "all", "any", "uni", "ballot"])?;
        let mode = [("all", VoteMode::All), ("any", VoteMode::Any), ("uni", VoteMode::Uniform), ("ballot", VoteMode::Ballot)];
        let mode = mode.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, mode)| mode);
        let mode = mode.ok_or_else(|| unsupported(instruction, "it has no mode"))?;
        Ok(Op::Vote {
            mode,
            dst: self.result_slot(instruction, 0)?,
            src: self.source_slot(instruction, 1, 1)?,
            members: self.source_slot(instruction, 2, 32)?,
        })
    }

    /// Decodes `match.sync`.
    fn decode_match(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &["sync", "any", "all"])?;
        let bits = instruction.types().next().map_or(32, Type::bits);
        let (dst, predicate) = self.result_pair(instruction)?;
        Ok(Op::Match {
            all: instruction.has_modifier("all"),
            bits,
            dst,
            predicate,
            src: self.source_slot(instruction, 1, bits)?,
            members: self.source_slot(instruction, 2, 32)?,
        })
    }

    /// Decodes `redux.sync`.
    fn decode_redux(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(instruction, &["sync", "add", "min", "max", "and", "or", "xor", "abs", "NaN"])?;
        let ty = instruction.types().next().unwrap_or(Type::B32);
        Ok(Op::Reduce {
            op: self.atom_op(instruction)?,
            ty,
            abs: instruction.has_modifier("abs"),
            nan: instruction.has_modifier("NaN"),
            dst: self.result_slot(instruction, 0)?,
            src: self.source_slot(instruction, 1, 32)?,
            members: self.source_slot(instruction, 2, 32)?,
        })
    }

    /// Returns the operation that a modifier such as `.add` selects.
    pub(super) fn atom_op(&self, instruction: &Instruction) -> Result<AtomOp> {
        let ops = [
            ("add", AtomOp::Add),
            ("min", AtomOp::Min),
            ("max", AtomOp::Max),
            ("and", AtomOp::And),
            ("or", AtomOp::Or),
            ("xor", AtomOp::Xor),
            ("exch", AtomOp::Exchange),
            ("cas", AtomOp::CompareSwap),
            ("inc", AtomOp::Increment),
            ("dec", AtomOp::Decrement),
        ];
        let op = ops.into_iter().find(|(word, _)| instruction.has_modifier(word)).map(|(_, op)| op);
        op.ok_or_else(|| unsupported(instruction, "it has no operation"))
    }

    /// Decodes `bar`, `barrier` and `barrier.cluster`.
    fn decode_barrier(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(
            instruction,
            &[
                "sync", "arrive", "red", "warp", "cta", "aligned", "cluster", "wait", "relaxed", "release", "acquire", "popc",
                "and", "or",
            ],
        )?;
        if instruction.has_modifier("warp") {
            return Ok(Op::WarpSync { members: self.source_slot(instruction, 0, 32)? });
        }
        if instruction.has_modifier("cluster") {
            return Ok(Op::ClusterBarrier { is_arrival: instruction.has_modifier("arrive") });
        }
        let aligned = instruction.opcode == "bar" || instruction.has_modifier("aligned");
        let count = instruction.operands.len();
        if instruction.has_modifier("red") {
            let mode = match (instruction.has_modifier("popc"), instruction.has_modifier("and")) {
                (true, _) => VoteMode::Ballot,
                (_, true) => VoteMode::All,
                _ => VoteMode::Any,
            };
            let dst = self.result_slot(instruction, 0)?;
            let id = self.source_slot(instruction, 1, 32)?;
            let threads = if count > 3 { Some(self.source_slot(instruction, 2, 32)?) } else { None };
            let src = self.source_slot(instruction, count - 1, 1)?;
            return Ok(Op::Barrier(BarrierOp { id, threads, arrive_only: false, reduce: Some((dst, src, mode)), aligned }));
        }
        let id = self.source_slot(instruction, 0, 32)?;
        let threads = if count > 1 { Some(self.source_slot(instruction, 1, 32)?) } else { None };
        Ok(Op::Barrier(BarrierOp { id, threads, arrive_only: instruction.has_modifier("arrive"), reduce: None, aligned }))
    }

    /// Returns the op that copies a call argument or result between registers.
    pub(super) fn register_copy(&mut self, dst: RegSlot, src: RegSlot) -> Op {
        Op::Move { dst, src }
    }
}
