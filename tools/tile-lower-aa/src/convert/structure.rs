//! Converts control flow, token ops, assertions, prints, views, and addresses of globals and of `alloca`.

use super::Converter;
use core_dialect::core_ops::Core;
use tileir::Op;

impl Converter<'_> {
    /// Converts an op of the kinds that the module header lists. Returns `None` for other ops.
    pub(super) fn structure_op(&mut self, op: &Op) -> Option<Core> {
        self.control_flow_op(op).or_else(|| self.token_or_message_op(op)).or_else(|| self.view_or_address_op(op))
    }

    /// The core op for control flow; `None` for other ops.
    fn control_flow_op(&mut self, op: &Op) -> Option<Core> {
        Some(match op {
            Op::If { condition, then_region, else_region } => Core::If {
                cond: self.new_value(*condition),
                then: self.queue_region(*then_region),
                otherwise: self.queue_region(*else_region),
            },
            Op::For { unsigned_cmp, lower_bound, upper_bound, step, init_values, body } => Core::For {
                lower: self.new_value(*lower_bound),
                upper: self.new_value(if common::fault_injected("aa.bound") { *lower_bound } else { *upper_bound }),
                step: self.new_value(*step),
                init: self.new_values(init_values),
                unsigned: *unsigned_cmp,
                body: self.queue_region(*body),
            },
            Op::Loop { init_values, body } => Core::Loop { init: self.new_values(init_values), body: self.queue_region(*body) },
            Op::Yield { operands } => Core::Yield { values: self.new_values(operands) },
            Op::Continue { operands } => Core::Continue { values: self.new_values(operands) },
            Op::Break { operands } => Core::Break { values: self.new_values(operands) },
            // The verifier of .tile checks that entries return no values.
            Op::Return { .. } => Core::Return {},
            _ => return None,
        })
    }

    /// The core op for an op on tokens, or for an assert or print; `None` for other ops.
    fn token_or_message_op(&self, op: &Op) -> Option<Core> {
        Some(match op {
            Op::MakeToken {} => Core::MakeToken {},
            Op::JoinTokens { tokens } => Core::JoinTokens { tokens: self.new_values(tokens) },
            Op::MemoryFenceAliasTko { token } => Core::AliasFence { token: self.new_value(*token) },
            Op::GdcWaitTko { token } => Core::GridWait { token: self.new_optional_value(*token) },
            Op::GdcLaunchDependentsTko { token } => Core::GridLaunch { token: self.new_optional_value(*token) },
            Op::Assert { message, condition } => {
                Core::Assert { cond: self.new_value(*condition), message: self.module.string(*message).into() }
            }
            Op::PrintTko { format, args, token } => {
                let args = if common::fault_injected("aa.print") { &args[1..] } else { args };
                Core::Print {
                    format: self.module.string(*format).into(),
                    args: self.new_values(args),
                    token: self.new_optional_value(*token),
                }
            }
            _ => return None,
        })
    }

    /// The core op that makes a view or an address, or that gives the shape of a view; `None` for other ops.
    fn view_or_address_op(&self, op: &Op) -> Option<Core> {
        Some(match op {
            Op::MakeTensorView { base, dynamic_shape, dynamic_strides } => Core::MakeMemRef {
                base: self.new_value(*base),
                sizes: self.new_values(dynamic_shape),
                strides: self.new_values(dynamic_strides),
            },
            Op::MakePartitionView { tensor_view }
            | Op::MakeStridedView { tensor_view }
            | Op::MakeGatherScatterView { tensor_view } => Core::MakeView { memref: self.new_value(*tensor_view) },
            Op::GetTensorShape { src } => Core::MemRefShape { memref: self.new_value(*src) },
            Op::GetIndexSpaceShape { src } => Core::ViewShape { view: self.new_value(*src) },
            Op::GetGlobal { name } => Core::GlobalAddress { name: self.module.string(name.0).into() },
            Op::Alloca { global, num_elem, alignment } => {
                Core::Alloca { count: *num_elem as u64, align: *alignment as u64, shareable: *global }
            }
            _ => return None,
        })
    }
}
