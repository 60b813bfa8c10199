//! Converts control flow, token ops, assertions, prints, views, and addresses of globals and of `alloca`.

use super::Converter;
use super::wrong_group;
use core_dialect::core_ops::Core;
use tileir::Op;

impl Converter<'_> {
    /// The core op for control flow.
    pub(super) fn control_flow_op(&mut self, op: &Op) -> Core {
        match op {
            Op::If { condition, then_region, else_region } => Core::If {
                cond: self.new_value(*condition),
                then: self.queue_region(*then_region),
                otherwise: self.queue_region(*else_region),
            },
            Op::For { unsigned_cmp, lower_bound, upper_bound, step, init_values, body } => Core::For {
                lower: self.new_value(*lower_bound),
                upper: self.new_value(*upper_bound),
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
            op => wrong_group(op),
        }
    }

    /// The core op for an op on tokens, or for an assert or print.
    pub(super) fn token_or_message_op(&self, op: &Op) -> Core {
        match op {
            Op::MakeToken {} => Core::MakeToken {},
            Op::JoinTokens { tokens } => Core::JoinTokens { tokens: self.new_values(tokens) },
            Op::MemoryFenceAliasTko { token } => Core::AliasFence { token: self.new_value(*token) },
            Op::GdcWaitTko { token } => Core::GridWait { token: self.new_optional_value(*token) },
            Op::GdcLaunchDependentsTko { token } => Core::GridLaunch { token: self.new_optional_value(*token) },
            Op::Assert { message, condition } => {
                Core::Assert { cond: self.new_value(*condition), message: self.module.string(*message).into() }
            }
            Op::PrintTko { format, args, token } => Core::Print {
                format: self.module.string(*format).into(),
                args: self.new_values(args),
                token: self.new_optional_value(*token),
            },
            op => wrong_group(op),
        }
    }

    /// The core op that makes a view or an address, or that gives the shape of a view.
    pub(super) fn view_or_address_op(&self, op: &Op) -> Core {
        match op {
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
            op => wrong_group(op),
        }
    }
}
