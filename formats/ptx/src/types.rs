//! Element types, state spaces and instruction modifiers.

/// Defines an enum of PTX names. Each variant has its spelling, without the dot before it.
macro_rules! names {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),* $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($variant),* }

        impl $name {
            /// Returns the spelling, without the dot.
            pub fn name(self) -> &'static str {
                match self { $($name::$variant => $text),* }
            }
            /// Finds the variant with this spelling.
            pub fn parse(name: &str) -> Option<$name> {
                match name { $($text => Some($name::$variant),)* _ => None }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

names! {
    /// An operand or variable type.
    Type {
        Pred = "pred",
        B8 = "b8", B16 = "b16", B32 = "b32", B64 = "b64", B128 = "b128",
        U8 = "u8", U16 = "u16", U32 = "u32", U64 = "u64",
        S8 = "s8", S16 = "s16", S32 = "s32", S64 = "s64",
        U16x2 = "u16x2", S16x2 = "s16x2",
        F16 = "f16", F16x2 = "f16x2", Bf16 = "bf16", Bf16x2 = "bf16x2",
        Tf32 = "tf32", F32 = "f32", F32x2 = "f32x2", F64 = "f64",
        E4m3 = "e4m3", E5m2 = "e5m2", E3m2 = "e3m2", E2m3 = "e2m3", E2m1 = "e2m1", Ue8m0 = "ue8m0", Ue4m3 = "ue4m3",
        E4m3x2 = "e4m3x2", E5m2x2 = "e5m2x2", E3m2x2 = "e3m2x2", E2m3x2 = "e2m3x2", E2m1x2 = "e2m1x2", Ue8m0x2 = "ue8m0x2",
        E4m3x4 = "e4m3x4", E5m2x4 = "e5m2x4", E2m1x4 = "e2m1x4",
        B4x16 = "b4x16", B4x16P64 = "b4x16_p64", B6x16P32 = "b6x16_p32", B6p2x16 = "b6p2x16",
        U4 = "u4", S4 = "s4", B1 = "b1",
    }
}

names! {
    /// A state space, with a sub-qualifier if it has one (`shared::cta`).
    Space {
        Global = "global", Shared = "shared", SharedCta = "shared::cta", SharedCluster = "shared::cluster",
        Local = "local", Param = "param", ParamEntry = "param::entry", ParamFunc = "param::func", Const = "const",
    }
}

impl Type {
    /// Returns the number of bits of a register or memory element of this type. A packed type such as `f16x2` counts all its
    /// elements.
    pub fn bits(self) -> u32 {
        use Type::*;
        match self {
            Pred | B1 => 1,
            U4 | S4 | E2m1 => 4,
            B8 | U8 | S8 | E4m3 | E5m2 | E3m2 | E2m3 | Ue8m0 | Ue4m3 | E2m1x2 => 8,
            B16 | U16 | S16 | F16 | Bf16 | E4m3x2 | E5m2x2 | E3m2x2 | E2m3x2 | Ue8m0x2 | E2m1x4 => 16,
            B32 | U32 | S32 | U16x2 | S16x2 | F16x2 | Bf16x2 | Tf32 | F32 | E4m3x4 | E5m2x4 => 32,
            B64 | U64 | S64 | F64 | F32x2 | B4x16 => 64,
            B128 | B4x16P64 | B6x16P32 | B6p2x16 => 128,
        }
    }
    /// Returns the number of bytes of a memory element of this type.
    pub fn bytes(self) -> u32 {
        self.bits().div_ceil(8)
    }
    /// Returns whether the type is a signed scalar integer of 8 to 64 bits.
    pub fn is_signed(self) -> bool {
        matches!(self, Type::S8 | Type::S16 | Type::S32 | Type::S64)
    }
    /// Returns whether the type is a scalar float of 16 bits or more.
    pub fn is_float(self) -> bool {
        matches!(self, Type::F16 | Type::Bf16 | Type::Tf32 | Type::F32 | Type::F64)
    }
}

/// A modifier: one `.word` after an opcode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Modifier {
    Type(Type),
    Space(Space),
    /// Any other modifier: rounding, comparison, scope, shape, `kind::…`.
    Word(Box<str>),
}

impl Modifier {
    /// Classifies a modifier from its spelling, without the dot.
    pub fn parse(name: &str) -> Modifier {
        if let Some(ty) = Type::parse(name) {
            Modifier::Type(ty)
        } else if let Some(space) = Space::parse(name) {
            Modifier::Space(space)
        } else {
            Modifier::Word(name.into())
        }
    }
    /// Returns the spelling, without the dot.
    pub fn name(&self) -> &str {
        match self {
            Modifier::Type(ty) => ty.name(),
            Modifier::Space(space) => space.name(),
            Modifier::Word(word) => word,
        }
    }
}
