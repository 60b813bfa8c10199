//! Decodes asynchronous copies and mbarrier instructions.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::program::*;
use ptx::{Instruction, Modifier, Operand, Type};

const MODIFIERS: &[&str] = &[
    "async",
    "bulk",
    "tensor",
    "tile",
    "tile::gather4",
    "tile::scatter4",
    "mbarrier::complete_tx::bytes",
    "multicast::cluster",
    "L2::cache_hint",
    "bulk_group",
    "cta_group::1",
    "cta_group::2",
    "1d",
    "2d",
    "3d",
    "4d",
    "5d",
    "commit_group",
    "wait_group",
    "wait_all",
    "read",
    "ca",
    "cg",
    "L2::64B",
    "L2::128B",
    "L2::256B",
    "reduce",
    "add",
    "min",
    "max",
    "and",
    "or",
    "xor",
    "inc",
    "dec",
    "noftz",
];

impl Builder<'_> {
    pub(super) fn decode_async(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "cp" => self.copy_instruction(instruction)?,
            "mbarrier" => self.mbarrier(instruction)?,
            "mapa" => {
                check_modifiers(instruction, &[])?;
                Op::MapToCta {
                    dst: self.result(instruction, 0)?,
                    address: self.source(instruction, 1, 32)?,
                    rank: self.source(instruction, 2, 32)?,
                }
            }
            "getctarank" => Op::CtaRank { dst: self.result(instruction, 0)?, address: self.source(instruction, 1, 64)? },
            _ => return Ok(None),
        }))
    }

    fn copy_instruction(&mut self, instruction: &Instruction) -> Result<Op> {
        if instruction.has("mbarrier") {
            check_modifiers(instruction, &["async", "mbarrier", "arrive", "noinc"])?;
            let address = self.address(instruction, 0)?;
            return Ok(Op::CopyArrive { address, increment: !instruction.has("noinc") });
        }
        if instruction.has("prefetch") {
            return Ok(Op::Nothing);
        }
        check_modifiers(instruction, MODIFIERS)?;
        let bulk = instruction.has("bulk");
        if instruction.has("commit_group") {
            return Ok(if bulk { Op::BulkCommit } else { Op::CopyCommit });
        }
        if instruction.has("wait_all") {
            return Ok(Op::CopyWait { max_open: None });
        }
        if instruction.has("wait_group") {
            let Operand::Integer(max_open) = self.operand(instruction, 0)? else {
                return Err(unsupported(instruction, "it needs a number"));
            };
            let max_open = (*max_open).clamp(0, 1 << 20) as u32;
            return Ok(if bulk {
                Op::BulkWait { max_open, read: instruction.has("read") }
            } else {
                Op::CopyWait { max_open: Some(max_open) }
            });
        }
        if bulk { self.bulk(instruction) } else { self.plain_copy(instruction) }
    }

    fn plain_copy(&mut self, instruction: &Instruction) -> Result<Op> {
        let to = self.address(instruction, 0)?;
        let from = self.address(instruction, 1)?;
        let Operand::Integer(bytes @ (4 | 8 | 16)) = self.operand(instruction, 2)? else {
            return Err(unsupported(instruction, "a size other than 4, 8 and 16"));
        };
        let last = instruction.operands.len() - usize::from(instruction.has("L2::cache_hint"));
        let src_size = if last > 3 { Some(self.source(instruction, 3, 32)?) } else { None };
        Ok(Op::CopyAsync { bytes: *bytes as u32, to, from, src_size })
    }

    fn bulk(&mut self, instruction: &Instruction) -> Result<Op> {
        let mut spaces = instruction.modifiers.iter().filter_map(|modifier| match modifier {
            Modifier::Space(space) => Some(*space),
            _ => None,
        });
        let side = |space: Option<ptx::Space>| match space {
            Some(ptx::Space::Global) => Ok(Side::Global),
            Some(ptx::Space::SharedCta | ptx::Space::SharedCluster | ptx::Space::Shared) => Ok(Side::Shared),
            _ => Err(unsupported(instruction, "it needs two spaces")),
        };
        let (to_side, from_side) = (side(spaces.next())?, side(spaces.next())?);
        let none = Address { base: 0, offset: 0 };
        let mut op = BulkOp {
            tensor: instruction.has("tensor"),
            to_side,
            from_side,
            to: none,
            from: none,
            map: 0,
            map_offset: 0,
            coordinates: Box::default(),
            four_rows: instruction.has("tile::gather4") || instruction.has("tile::scatter4"),
            bytes: 0,
            barrier: None,
            multicast: 0,
            is_multicast: instruction.has("multicast::cluster"),
            pair: instruction.has("cta_group::2"),
            reduce: None,
        };
        if instruction.has("reduce") {
            let ty = instruction.types().next();
            op.reduce = Some((self.atom_op(instruction)?, ty.unwrap_or(Type::B8)));
        }
        let tensor_operand = if to_side == Side::Global { 0 } else { 1 };
        for index in 0..2 {
            if op.tensor && index == tensor_operand {
                self.tensor_operand(instruction, index, &mut op)?;
            } else if index == 0 {
                op.to = self.address(instruction, 0)?;
            } else {
                op.from = self.address(instruction, 1)?;
            }
        }
        let mut next = 2;
        if !op.tensor {
            op.bytes = self.source(instruction, 2, 32)?;
            next = 3;
        }
        if to_side == Side::Shared {
            op.barrier = Some(self.address(instruction, next)?);
            next += 1;
        }
        if op.is_multicast {
            op.multicast = self.source(instruction, next, 16)?;
        }
        Ok(Op::Bulk(Box::new(op)))
    }

    fn tensor_operand(&mut self, instruction: &Instruction, index: usize, op: &mut BulkOp) -> Result<()> {
        let Operand::Address(address) = self.operand(instruction, index)? else {
            return Err(unsupported(instruction, "it needs a tensor map"));
        };
        let [Operand::Vector(coordinates)] = &*address.trailing_operands else {
            return Err(unsupported(instruction, "these coordinates"));
        };
        let map = self.plain_address(&ptx::Address { trailing_operands: Vec::new(), ..address.clone() })?;
        (op.map, op.map_offset) = (map.base, map.offset);
        op.coordinates = coordinates.iter().map(|coordinate| self.value(coordinate, 32)).collect::<Result<_>>()?;
        Ok(())
    }

    fn mbarrier(&mut self, instruction: &Instruction) -> Result<Op> {
        check_modifiers(
            instruction,
            &[
                "init",
                "inval",
                "arrive",
                "arrive_drop",
                "expect_tx",
                "complete_tx",
                "test_wait",
                "try_wait",
                "parity",
                "noComplete",
                "relaxed",
                "release",
                "acquire",
                "cta",
                "cluster",
            ],
        )?;
        let has = |word: &str| instruction.has(word);
        let has_result = !matches!(instruction.operands.first(), Some(Operand::Address(_)));
        let first = usize::from(has_result);
        let dst = if has_result { Some(self.result(instruction, 0)?) } else { None };
        let address = self.address(instruction, first)?;
        let given = instruction.operands.len() > first + 1;
        let op = if has("init") {
            MbarrierOp::Init
        } else if has("inval") {
            MbarrierOp::Invalidate
        } else if has("try_wait") || has("test_wait") {
            MbarrierOp::Wait { parity: has("parity"), blocking: has("try_wait") }
        } else if (has("arrive") || has("arrive_drop")) && has("expect_tx") {
            MbarrierOp::ArriveExpect
        } else if has("arrive") || has("arrive_drop") {
            MbarrierOp::Arrive { drop: has("arrive_drop") }
        } else if has("expect_tx") {
            MbarrierOp::Expect
        } else if has("complete_tx") {
            MbarrierOp::Complete
        } else {
            return Err(unsupported(instruction, "this operation"));
        };
        let bits = if matches!(op, MbarrierOp::Wait { parity: false, .. }) { 64 } else { 32 };
        let operand = match (given, op) {
            (true, _) => self.source(instruction, first + 1, bits)?,
            (false, MbarrierOp::Arrive { .. }) => self.constant(1),
            (false, MbarrierOp::Invalidate) => 0,
            (false, _) => return Err(unsupported(instruction, "it needs an operand")),
        };
        Ok(Op::Mbarrier { op, address, operand, dst })
    }
}
