//! Converts control flow, tokens, assertions, prints and views.

use super::Converter;
use core_dialect::core_ops::Core;
use tileir::Op;

impl Converter<'_> {
    pub(super) fn structured(&mut self, op: &Op) -> Option<Core> {
        self.control(op).or_else(|| self.tokens(op)).or_else(|| self.views(op))
    }

    fn control(&mut self, op: &Op) -> Option<Core> {
        Some(match op {
            Op::If { condition, then_region, else_region } => {
                Core::If { cond: self.value(*condition), then: self.region(*then_region), otherwise: self.region(*else_region) }
            }
            Op::For { unsigned_cmp, lower_bound, upper_bound, step, init_values, body } => Core::For {
                lower: self.value(*lower_bound),
                upper: self.value(if common::fault_injected("aa.bound") { *lower_bound } else { *upper_bound }),
                step: self.value(*step),
                init: self.values(init_values),
                unsigned: *unsigned_cmp,
                body: self.region(*body),
            },
            Op::Loop { init_values, body } => Core::Loop { init: self.values(init_values), body: self.region(*body) },
            Op::Yield { operands } => Core::Yield { values: self.values(operands) },
            Op::Continue { operands } => Core::Continue { values: self.values(operands) },
            Op::Break { operands } => Core::Break { values: self.values(operands) },
            // The verifier of .tile checks that entries return no values.
            Op::Return { .. } => Core::Return {},
            _ => return None,
        })
    }

    fn tokens(&self, op: &Op) -> Option<Core> {
        Some(match op {
            Op::MakeToken {} => Core::MakeToken {},
            Op::JoinTokens { tokens } => Core::JoinTokens { tokens: self.values(tokens) },
            Op::MemoryFenceAliasTko { token } => Core::AliasFence { token: self.value(*token) },
            Op::GdcWaitTko { token } => Core::GridWait { token: self.optional(*token) },
            Op::GdcLaunchDependentsTko { token } => Core::GridLaunch { token: self.optional(*token) },
            Op::Assert { message, condition } => {
                Core::Assert { cond: self.value(*condition), message: self.module.string(*message).into() }
            }
            Op::PrintTko { format, args, token } => {
                let args = if common::fault_injected("aa.print") { &args[1..] } else { args };
                Core::Print { format: self.module.string(*format).into(), args: self.values(args), token: self.optional(*token) }
            }
            _ => return None,
        })
    }

    fn views(&self, op: &Op) -> Option<Core> {
        Some(match op {
            Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => Core::MakeMemRef {
                base: self.value(*base),
                sizes: self.values(dynamic_shape),
                strides: self.values(dynamic_strides),
            },
            Op::MakePartitionView { tensor_view }
            | Op::MakeStridedView { tensor_view }
            | Op::MakeGatherScatterView { tensor_view } => Core::MakeView { memref: self.value(*tensor_view) },
            Op::GetTensorShape { src } => Core::MemRefShape { memref: self.value(*src) },
            Op::GetIndexSpaceShape { src } => Core::ViewShape { view: self.value(*src) },
            Op::GetGlobal { name } => Core::GlobalAddress { name: self.module.string(name.0).into() },
            Op::Alloca { global, num_elem, alignment } => {
                Core::Alloca { count: *num_elem as u64, align: *alignment as u64, shareable: *global }
            }
            _ => return None,
        })
    }
}
