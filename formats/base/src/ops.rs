//! The op table macro. Each row expands to an enum variant, its mnemonic, and its arms of the [`Operation`] functions.
//!
//! ```
//! use base::ir::Value;
//! base::ops! {
//!     /// Example.
//!     pub enum Example {
//!         /// Adds.
//!         Add "add" { lhs: Value, rhs: Value },
//!         Stop "stop" terminator {},
//!     }
//! }
//! ```
//! The mnemonic is also the variant's name in the text form. The types of a row's fields determine its operands and regions.
//!
//! With `with TYPE` after the enum's name, every row ends in `= EXPRESSION`, which may use the row's fields. The expression
//! describes the op's side effects, and the function `effects()` returns its value. A row without an expression does not compile.
//!
//! ```
//! use base::ir::Value;
//! base::ops! {
//!     pub enum Example with &'static str {
//!         Add "add" { lhs: Value, rhs: Value } = "nothing",
//!         Stop "stop" terminator {} = "leaves",
//!     }
//! }
//! assert_eq!(Example::Stop {}.effects(), "leaves");
//! ```
//!
//! [`Operation`]: crate::ir::Operation

use crate::ir::{Region, Value};

/// A type that a field of an op can have. The functions call `f` for each operand or region that the field contains.
pub trait Field {
    fn values(&self, _f: &mut dyn FnMut(Value)) {}
    fn values_mut(&mut self, _f: &mut dyn FnMut(&mut Value)) {}
    fn regions(&self, _f: &mut dyn FnMut(Region)) {}
    fn regions_mut(&mut self, _f: &mut dyn FnMut(&mut Region)) {}
}

impl Field for Value {
    fn values(&self, f: &mut dyn FnMut(Value)) {
        f(*self);
    }
    fn values_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        f(self);
    }
}

impl Field for Region {
    fn regions(&self, f: &mut dyn FnMut(Region)) {
        f(*self);
    }
    fn regions_mut(&mut self, f: &mut dyn FnMut(&mut Region)) {
        f(self);
    }
}

impl<F: Field> Field for Option<F> {
    fn values(&self, f: &mut dyn FnMut(Value)) {
        self.iter().for_each(|field| field.values(f));
    }
    fn values_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(|field| field.values_mut(f));
    }
}

impl<F: Field> Field for Vec<F> {
    fn values(&self, f: &mut dyn FnMut(Value)) {
        self.iter().for_each(|field| field.values(f));
    }
    fn values_mut(&mut self, f: &mut dyn FnMut(&mut Value)) {
        self.iter_mut().for_each(|field| field.values_mut(f));
    }
}

/// Implements `Field` for types that contain neither operands nor regions.
#[macro_export]
macro_rules! plain_fields {
    ($($ty:ty),* $(,)?) => { $(impl $crate::ops::Field for $ty {})* };
}

plain_fields! {
    bool, u8, u32, u64, i32, i64, usize, String, crate::ir::Dense, numerics::Scalar,
    numerics::arith::Rounding, numerics::arith::Signedness, numerics::arith::Overflow, numerics::arith::Predicate,
    numerics::arith::Unary, numerics::arith::Binary, numerics::arith::Compare, numerics::arith::Convert, numerics::arith::Fma,
}

/// Defines an op enum from its table. `includes ENUM` adds the ops of another enum as the first variant, `Core`.
#[macro_export]
macro_rules! ops {
    ($(#[$meta:meta])* pub enum $name:ident $(includes $inner:ty,)? with $effects:ty { $($(#[$doc:meta])* $variant:ident $mnemonic:literal $($terminator:ident)? { $($field:ident : $ty:ty),* $(,)? } = $effect:expr),* $(,)? }) => {
        $crate::ops! {
            $(#[$meta])* pub enum $name $(includes $inner)? { $($(#[$doc])* $variant $mnemonic $($terminator)? { $($field: $ty),* }),* }
        }

        impl $name {
            /// The op's side effects: the last column of the table.
            pub fn effects(&self) -> $effects {
                match self {
                    $(Self::Core(inner) => <$inner>::effects(inner).into(),)?
                    $(Self::$variant { $($field),* } => { $(let _ = $field;)* $effect })*
                }
            }
        }
    };
    ($(#[$meta:meta])* pub enum $name:ident includes $inner:ty { $($(#[$doc:meta])* $variant:ident $mnemonic:literal $($terminator:ident)? { $($field:ident : $ty:ty),* $(,)? }),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            #[serde(rename = "core")]
            Core($inner),
            $($(#[$doc])* #[serde(rename = $mnemonic)] $variant { $($field: $ty),* }),*
        }

        impl $name {
            /// The mnemonics, except those of the included enum.
            pub const MNEMONICS: &'static [&'static str] = &[$($mnemonic),*];
        }

        impl $crate::ir::Operation for $name {
            fn mnemonic(&self) -> &'static str {
                match self { Self::Core(inner) => inner.mnemonic(), $(Self::$variant { .. } => $mnemonic),* }
            }
            fn for_each_operand(&self, f: &mut dyn FnMut($crate::ir::Value)) {
                match self { Self::Core(inner) => inner.for_each_operand(f), $(Self::$variant { $($field),* } => { $($crate::ops::Field::values($field, f);)* let _ = f; })* }
            }
            fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut $crate::ir::Value)) {
                match self { Self::Core(inner) => inner.for_each_operand_mut(f), $(Self::$variant { $($field),* } => { $($crate::ops::Field::values_mut($field, f);)* let _ = f; })* }
            }
            fn for_each_region(&self, f: &mut dyn FnMut($crate::ir::Region)) {
                match self { Self::Core(inner) => inner.for_each_region(f), $(Self::$variant { $($field),* } => { $($crate::ops::Field::regions($field, f);)* let _ = f; })* }
            }
            fn for_each_region_mut(&mut self, f: &mut dyn FnMut(&mut $crate::ir::Region)) {
                match self { Self::Core(inner) => inner.for_each_region_mut(f), $(Self::$variant { $($field),* } => { $($crate::ops::Field::regions_mut($field, f);)* let _ = f; })* }
            }
            fn is_terminator(&self) -> bool {
                match self { Self::Core(inner) => inner.is_terminator(), $(Self::$variant { .. } => $crate::ops!(@terminator $($terminator)?)),* }
            }
        }

        impl From<$inner> for $name {
            fn from(inner: $inner) -> Self {
                Self::Core(inner)
            }
        }
    };
    ($(#[$meta:meta])* pub enum $name:ident { $($(#[$doc:meta])* $variant:ident $mnemonic:literal $($terminator:ident)? { $($field:ident : $ty:ty),* $(,)? }),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        pub enum $name {
            $($(#[$doc])* #[serde(rename = $mnemonic)] $variant { $($field: $ty),* }),*
        }

        impl $name {
            /// The mnemonics.
            pub const MNEMONICS: &'static [&'static str] = &[$($mnemonic),*];
        }

        impl $crate::ir::Operation for $name {
            fn mnemonic(&self) -> &'static str {
                match self { $(Self::$variant { .. } => $mnemonic),* }
            }
            fn for_each_operand(&self, f: &mut dyn FnMut($crate::ir::Value)) {
                match self { $(Self::$variant { $($field),* } => { $($crate::ops::Field::values($field, f);)* let _ = f; })* }
            }
            fn for_each_operand_mut(&mut self, f: &mut dyn FnMut(&mut $crate::ir::Value)) {
                match self { $(Self::$variant { $($field),* } => { $($crate::ops::Field::values_mut($field, f);)* let _ = f; })* }
            }
            fn for_each_region(&self, f: &mut dyn FnMut($crate::ir::Region)) {
                match self { $(Self::$variant { $($field),* } => { $($crate::ops::Field::regions($field, f);)* let _ = f; })* }
            }
            fn for_each_region_mut(&mut self, f: &mut dyn FnMut(&mut $crate::ir::Region)) {
                match self { $(Self::$variant { $($field),* } => { $($crate::ops::Field::regions_mut($field, f);)* let _ = f; })* }
            }
            fn is_terminator(&self) -> bool {
                match self { $(Self::$variant { .. } => $crate::ops!(@terminator $($terminator)?)),* }
            }
        }
    };
    (@terminator terminator) => { true };
    (@terminator) => { false };
}
