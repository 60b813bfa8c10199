//! Decodes asynchronous copies and mbarrier instructions.

use super::builder::Builder;
use super::{check_modifiers, unsupported};
use crate::fault::Result;
use crate::program::*;
use ptx::{Instruction, Modifier, Operand, Type};

/// The supported modifiers of `cp` instructions.
const CP_MODIFIERS: &[&str] = &[
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
    /// Decodes `cp`, `mbarrier`, `mapa` and `getctarank`. Returns `None` for other instructions.
    pub(super) fn decode_async(&mut self, instruction: &Instruction) -> Result<Option<Op>> {
        Ok(Some(match &*instruction.opcode {
            "cp" => self.decode_cp(instruction)?,
            "mbarrier" => self.decode_mbarrier(instruction)?,
            "mapa" => {
                check_modifiers(instruction, &[])?;
                Op::MapToCta {
                    dst: self.result_slot(instruction, 0)?,
                    address: self.source_slot(instruction, 1, 32)?,
                    rank: self.source_slot(instruction, 2, 32)?,
                }
            }
            "getctarank" => Op::CtaRank { dst: self.result_slot(instruction, 0)?, address: self.source_slot(instruction, 1, 64)? },
            _ => return Ok(None),
        }))
    }

    /// Decodes the instructions with the opcode `cp`.
    fn decode_cp(&mut self, instruction: &Instruction) -> Result<Op> {
        if instruction.has_modifier("mbarrier") {
            check_modifiers(instruction, &["async", "mbarrier", "arrive", "noinc"])?;
            let address = self.address_operand(instruction, 0)?;
            return Ok(Op::CopyArrive { address, increment: !instruction.has_modifier("noinc") });
        }
        if instruction.has_modifier("prefetch") {
            return Ok(Op::Nop);
        }
        check_modifiers(instruction, CP_MODIFIERS)?;
        let bulk = instruction.has_modifier("bulk");
        if instruction.has_modifier("commit_group") {
            return Ok(if bulk { Op::BulkCommit } else { Op::CopyCommit });
        }
        if instruction.has_modifier("wait_all") {
            return Ok(Op::CopyWait { max_open: None });
        }
        if instruction.has_modifier("wait_group") {
            let Operand::Integer(max_open) = self.operand(instruction, 0)? else {
                return Err(unsupported(instruction, "it needs a number"));
            };
            let max_open = (*max_open).clamp(0, 1 << 20) as u32;
            return Ok(if bulk {
                Op::BulkWait { max_open, read: instruction.has_modifier("read") }
            } else {
                Op::CopyWait { max_open: Some(max_open) }
            });
        }
        if bulk { self.decode_bulk_copy(instruction) } else { self.decode_cp_async(instruction) }
    }

    /// Decodes a `cp.async` of 4, 8 or 16 bytes.
    fn decode_cp_async(&mut self, instruction: &Instruction) -> Result<Op> {
        let to = self.address_operand(instruction, 0)?;
        let from = self.address_operand(instruction, 1)?;
        let Operand::Integer(bytes @ (4 | 8 | 16)) = self.operand(instruction, 2)? else {
            return Err(unsupported(instruction, "a size other than 4, 8 and 16"));
        };
        let last = instruction.operands.len() - usize::from(instruction.has_modifier("L2::cache_hint"));
        let src_size = if last > 3 { Some(self.source_slot(instruction, 3, 32)?) } else { None };
        Ok(Op::CopyAsync { bytes: *bytes as u32, to, from, src_size })
    }

    /// Decodes `cp.async.bulk`, with and without a tensor map.
    fn decode_bulk_copy(&mut self, instruction: &Instruction) -> Result<Op> {
        let mut spaces = instruction.modifiers.iter().filter_map(|modifier| match modifier {
            Modifier::Space(space) => Some(*space),
            _ => None,
        });
        let copy_space = |space: Option<ptx::Space>| match space {
            Some(ptx::Space::Global) => Ok(BulkCopySpace::Global),
            Some(ptx::Space::SharedCta | ptx::Space::SharedCluster | ptx::Space::Shared) => Ok(BulkCopySpace::Shared),
            _ => Err(unsupported(instruction, "it needs two spaces")),
        };
        let (to_space, from_space) = (copy_space(spaces.next())?, copy_space(spaces.next())?);
        let no_address = Address { base: 0, offset: 0 };
        let mut op = BulkOp {
            tensor: instruction.has_modifier("tensor"),
            to_space,
            from_space,
            to: no_address,
            from: no_address,
            tensor_map: 0,
            map_offset: 0,
            coordinates: Box::default(),
            four_rows: instruction.has_modifier("tile::gather4") || instruction.has_modifier("tile::scatter4"),
            bytes: 0,
            barrier: None,
            cta_mask: 0,
            is_multicast: instruction.has_modifier("multicast::cluster"),
            cta_pair: instruction.has_modifier("cta_group::2"),
            reduce: None,
        };
        if instruction.has_modifier("reduce") {
            let ty = instruction.types().next();
            op.reduce = Some((self.atom_op(instruction)?, ty.unwrap_or(Type::B8)));
        }
        let tensor_operand = if to_space == BulkCopySpace::Global { 0 } else { 1 };
        for index in 0..2 {
            if op.tensor && index == tensor_operand {
                self.decode_tensor_operand(instruction, index, &mut op)?;
            } else if index == 0 {
                op.to = self.address_operand(instruction, 0)?;
            } else {
                op.from = self.address_operand(instruction, 1)?;
            }
        }
        let mut next_operand = 2;
        if !op.tensor {
            op.bytes = self.source_slot(instruction, 2, 32)?;
            next_operand = 3;
        }
        if to_space == BulkCopySpace::Shared {
            op.barrier = Some(self.address_operand(instruction, next_operand)?);
            next_operand += 1;
        }
        if op.is_multicast {
            op.cta_mask = self.source_slot(instruction, next_operand, 16)?;
        }
        Ok(Op::Bulk(Box::new(op)))
    }

    /// Decodes the tensor map and the coordinates of a tensor copy.
    fn decode_tensor_operand(&mut self, instruction: &Instruction, index: usize, op: &mut BulkOp) -> Result<()> {
        let Operand::Address(address) = self.operand(instruction, index)? else {
            return Err(unsupported(instruction, "it needs a tensor map"));
        };
        let [Operand::Vector(coordinates)] = &*address.trailing_operands else {
            return Err(unsupported(instruction, "these coordinates"));
        };
        let map = self.plain_address(&ptx::Address { trailing_operands: Vec::new(), ..address.clone() })?;
        (op.tensor_map, op.map_offset) = (map.base, map.offset);
        op.coordinates = coordinates.iter().map(|coordinate| self.operand_slot(coordinate, 32)).collect::<Result<_>>()?;
        Ok(())
    }

    /// Decodes the instructions with the opcode `mbarrier`.
    fn decode_mbarrier(&mut self, instruction: &Instruction) -> Result<Op> {
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
        let has = |word: &str| instruction.has_modifier(word);
        let has_result = !matches!(instruction.operands.first(), Some(Operand::Address(_)));
        let address_index = usize::from(has_result);
        let dst = if has_result { Some(self.result_slot(instruction, 0)?) } else { None };
        let address = self.address_operand(instruction, address_index)?;
        let has_operand = instruction.operands.len() > address_index + 1;
        let op = if has("init") {
            MbarrierOp::Init
        } else if has("inval") {
            MbarrierOp::Invalidate
        } else if has("try_wait") || has("test_wait") {
            MbarrierOp::Wait { parity: has("parity"), blocking: has("try_wait") }
        } else if (has("arrive") || has("arrive_drop")) && has("expect_tx") {
            MbarrierOp::ArriveExpectTx
        } else if has("arrive") || has("arrive_drop") {
            MbarrierOp::Arrive { drop: has("arrive_drop") }
        } else if has("expect_tx") {
            MbarrierOp::ExpectTx
        } else if has("complete_tx") {
            MbarrierOp::CompleteTx
        } else {
            return Err(unsupported(instruction, "this operation"));
        };
        let bits = if matches!(op, MbarrierOp::Wait { parity: false, .. }) { 64 } else { 32 };
        let operand = match (has_operand, op) {
            (true, _) => self.source_slot(instruction, address_index + 1, bits)?,
            (false, MbarrierOp::Arrive { .. }) => self.constant_slot(1),
            (false, MbarrierOp::Invalidate) => 0,
            (false, _) => return Err(unsupported(instruction, "it needs an operand")),
        };
        Ok(Op::Mbarrier { op, address, operand, dst })
    }
}
