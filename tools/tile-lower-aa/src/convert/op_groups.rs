//! Divides the Tile IR ops into groups. One function of [`super::Converter`] converts each group, and a new op of Tile IR needs a
//! group.

use tileir::Op;

/// The group of an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OpGroup {
    /// A unary function of one element.
    Unary,
    /// A binary function of one element.
    Binary,
    /// A conversion of element types.
    Conversion,
    /// A constant, or another element-wise op.
    OtherElementwise,
    /// An op that moves elements.
    Shape,
    /// Control flow.
    ControlFlow,
    /// An op on tokens, or an op with a message.
    TokenOrMessage,
    /// An op that creates or inspects views and addresses.
    ViewOrAddress,
    /// A reduction, scan or MMA.
    ReductionOrMma,
    /// An access to a tile of a view.
    ViewAccess,
    /// An access through a tile of pointers.
    PointerAccess,
    /// An op with a result for each axis of the grid.
    PerAxis,
    /// A call, which [`super::convert_module`] rejects.
    Call,
}

impl OpGroup {
    /// The group of an op.
    #[rustfmt::skip]
    pub(super) fn of_op(op: &Op) -> OpGroup {
        match op {
            Op::AbsF { .. } | Op::AbsI { .. } | Op::Ceil { .. } | Op::Cos { .. } | Op::CosH { .. } | Op::Exp { .. }
            | Op::Exp2 { .. } | Op::Floor { .. } | Op::Log { .. } | Op::Log2 { .. } | Op::NegF { .. } | Op::NegI { .. }
            | Op::Rsqrt { .. } | Op::Sin { .. } | Op::SinH { .. } | Op::Sqrt { .. } | Op::Tan { .. }
            | Op::TanH { .. } => OpGroup::Unary,
            Op::AddF { .. } | Op::AddI { .. } | Op::AndI { .. } | Op::Atan2 { .. } | Op::DivF { .. } | Op::DivI { .. }
            | Op::FPowF { .. } | Op::FPowI { .. } | Op::MaxF { .. } | Op::MaxI { .. } | Op::MinF { .. } | Op::MinI { .. }
            | Op::MulF { .. } | Op::MulI { .. } | Op::MulhiI { .. } | Op::OrI { .. } | Op::RemF { .. } | Op::RemI { .. }
            | Op::ShLI { .. } | Op::ShRI { .. } | Op::SubF { .. } | Op::SubI { .. } | Op::XOrI { .. } => OpGroup::Binary,
            Op::Bitcast { .. } | Op::ExtI { .. } | Op::FToF { .. } | Op::FToI { .. } | Op::IToF { .. }
            | Op::TruncI { .. } => OpGroup::Conversion,
            Op::CmpF { .. } | Op::CmpI { .. } | Op::Constant { .. } | Op::Fma { .. } | Op::IntToPtr { .. } | Op::Offset { .. }
            | Op::PtrToInt { .. } | Op::PtrToPtr { .. } | Op::Select { .. } => OpGroup::OtherElementwise,
            Op::Assume { .. } | Op::Broadcast { .. } | Op::Cat { .. } | Op::Extract { .. } | Op::Insert { .. }
            | Op::Iota { .. } | Op::Pack { .. } | Op::Permute { .. } | Op::Reshape { .. } | Op::Unpack { .. } => OpGroup::Shape,
            Op::Break { .. } | Op::Continue { .. } | Op::For { .. } | Op::If { .. } | Op::Loop { .. } | Op::Return { .. }
            | Op::Yield { .. } => OpGroup::ControlFlow,
            Op::Assert { .. } | Op::GdcLaunchDependentsTko { .. } | Op::GdcWaitTko { .. } | Op::JoinTokens { .. }
            | Op::MakeToken { .. } | Op::MemoryFenceAliasTko { .. } | Op::PrintTko { .. } => OpGroup::TokenOrMessage,
            Op::Alloca { .. } | Op::GetGlobal { .. } | Op::GetIndexSpaceShape { .. } | Op::GetTensorShape { .. }
            | Op::MakeGatherScatterView { .. } | Op::MakePartitionView { .. } | Op::MakeStridedView { .. }
            | Op::MakeTensorView { .. } => OpGroup::ViewOrAddress,
            Op::MmaF { .. } | Op::MmaFScaled { .. } | Op::MmaI { .. } | Op::Reduce { .. }
            | Op::Scan { .. } => OpGroup::ReductionOrMma,
            Op::AtomicRedViewTko { .. } | Op::LoadViewTko { .. } | Op::MultimemLoadReduceViewTko { .. }
            | Op::MultimemReduceViewTko { .. } | Op::MultimemStoreViewTko { .. }
            | Op::StoreViewTko { .. } => OpGroup::ViewAccess,
            Op::AtomicCASTko { .. } | Op::AtomicRMWTko { .. } | Op::LoadPtrTko { .. }
            | Op::StorePtrTko { .. } => OpGroup::PointerAccess,
            Op::GetNumTileBlocks { .. } | Op::GetTileBlockId { .. } => OpGroup::PerAxis,
            Op::PreviewCall { .. } => OpGroup::Call,
        }
    }
}
