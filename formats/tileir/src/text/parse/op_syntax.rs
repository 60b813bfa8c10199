//! The parts of an op: attributes, operand lists, types and the forms of single ops.

use super::{BodyReader, PartialOp, index_of_base};
use crate::enums::{PointerSharing, WireEnum};
use crate::fields::{FieldShape, FieldValue};
use crate::ops::Opcode;
use crate::text::format::{FormatPiece, Slot, TypeListForm};
use crate::text::lex::tokens;
use crate::types::{Attribute, DYNAMIC, Element, Type, TypeId};
use base::diag::Result;
use base::ir::Value;

impl<'a> BodyReader<'_, 'a, '_> {
    /// Parses an op according to the pieces of its text form, and stores the fields and types in `partial`.
    pub(super) fn parse_pieces(&mut self, pieces: &[FormatPiece], partial: &mut PartialOp<'a>) -> Result<()> {
        for piece in pieces {
            match piece {
                FormatPiece::Literal(text) => {
                    for token in tokens(text) {
                        self.cursor().expect(token)?;
                    }
                }
                FormatPiece::Field(field) => {
                    let value = self.parse_field(*field, partial)?;
                    partial.fields[*field] = Some(value);
                }
                FormatPiece::Types(slot, form) => self.parse_types(*slot, *form, partial)?,
                FormatPiece::Group { slot, pieces, .. } => {
                    if self.is_present(*slot, pieces, partial) {
                        if let Slot::Field(field) = slot
                            && partial.opcode.info().fields[*field].shape == FieldShape::Flag
                        {
                            partial.fields[*field] = Some(FieldValue::Flag(true));
                        }
                        self.parse_pieces(pieces, partial)?;
                    }
                }
                // The parser skips spaces.
                FormatPiece::Absent { .. } => {}
                FormatPiece::Attributes(field) => {
                    let variant = self.parse_enum_attribute(*field, partial)?;
                    partial.fields[*field] = Some(FieldValue::Enum(variant));
                }
                FormatPiece::Loop => self.parse_loop_head(partial)?,
                FormatPiece::TensorViewShape => self.parse_tensor_view_shape(partial)?,
                FormatPiece::Call => self.parse_call(partial)?,
            }
        }
        Ok(())
    }

    /// Whether an optional part of the text is present: the parser has already read its field, or the following text begins the
    /// part.
    fn is_present(&mut self, slot: Slot, pieces: &[FormatPiece], partial: &PartialOp<'_>) -> bool {
        if let Slot::Field(field) = slot
            && let Some(value) = &partial.fields[field]
        {
            return match value {
                FieldValue::OptionalOperand(value) => value.is_some(),
                FieldValue::Operands(values) => !values.is_empty(),
                _ => true,
            };
        }
        let first_token_or_field = pieces.iter().find_map(|piece| match piece {
            FormatPiece::Literal(text) => tokens(text).next().map(Ok),
            FormatPiece::Field(field) => Some(Err(*field)),
            _ => None,
        });
        match first_token_or_field {
            Some(Ok(token)) => {
                // A comma begins an operand. A comma before a type belongs to a part whose field is already known.
                self.cursor().continues_with(token) && (token != "," || self.operand_follows())
            }
            Some(Err(field)) => match partial.opcode.info().fields[field].shape {
                FieldShape::OptionalEnum(spellings) => spellings.contains(&self.cursor().peek_word()),
                _ => self.cursor().peek() == Some('%'),
            },
            None => false,
        }
    }

    /// Parses an enumeration in an attribute dictionary, and returns the number of its value. Without a dictionary, the number is
    /// 0.
    fn parse_enum_attribute(&mut self, field: usize, partial: &PartialOp<'_>) -> Result<u8> {
        if !self.cursor().skip_if_next("attributes") {
            return Ok(0);
        }
        let name = partial.opcode.info().fields[field].wire_name;
        for token in ["{", name, "=", "#cuda_tile.multimem_reduction_kind"] {
            self.cursor().expect(token)?;
        }
        let kind = crate::text::parse_types::parse_multicast_reduction(self.cursor())?;
        self.cursor().expect("}")?;
        Ok(kind.number())
    }

    /// Whether a comma and the word `token` follow.
    fn token_follows(&mut self) -> bool {
        let mut ahead = self.cursor().clone();
        ahead.skip_if_next(",") && ahead.peek_word() == "token"
    }

    /// Whether a comma and a value name follow.
    fn operand_follows(&mut self) -> bool {
        let mut ahead = self.cursor().clone();
        ahead.skip_if_next(",") && ahead.peek() == Some('%')
    }

    fn parse_field(&mut self, field: usize, partial: &PartialOp<'_>) -> Result<FieldValue> {
        let info = &partial.opcode.info().fields[field];
        Ok(match info.shape {
            FieldShape::Operand => FieldValue::Operand(self.parse_operand()?),
            FieldShape::OptionalOperand => FieldValue::OptionalOperand(Some(self.parse_operand()?)),
            FieldShape::Operands => FieldValue::Operands(self.parse_operands()?.into()),
            FieldShape::Enum(spellings) | FieldShape::Byte(spellings) => FieldValue::Enum(self.parse_one_of(spellings)?),
            FieldShape::OptionalEnum(spellings) => FieldValue::OptionalEnum(Some(self.parse_one_of(spellings)?)),
            FieldShape::Int32 | FieldShape::Int64 => FieldValue::Int(self.cursor().integer("a number")?),
            FieldShape::String => {
                let text = self.cursor().string()?;
                FieldValue::String(self.module.tables.intern_string(&text))
            }
            FieldShape::Symbol => FieldValue::String(self.module.parse_symbol()?),
            FieldShape::Attribute => FieldValue::Attribute(self.module.tables.parse_predicate(&mut self.module.cursor)?),
            FieldShape::Attributes => FieldValue::Attributes(self.module.tables.parse_attributes(&mut self.module.cursor)?),
            FieldShape::OptionalDictionary => {
                FieldValue::OptionalDictionary(Some(Box::new(self.module.tables.parse_hints(&mut self.module.cursor)?)))
            }
            FieldShape::Bools => {
                let values = crate::text::parse_types::parse_list(self.cursor(), |cursor| match cursor.word("true or false")? {
                    "true" => Ok(true),
                    "false" => Ok(false),
                    _ => Err(cursor.error("expected true or false")),
                })?;
                FieldValue::Bools(values.into())
            }
            FieldShape::Ints => {
                let values = crate::text::parse_types::parse_list(self.cursor(), |cursor| cursor.integer("a number"))?;
                FieldValue::Ints(values.into_iter().map(|value| value as i32).collect())
            }
            FieldShape::Flag | FieldShape::Constant | FieldShape::Region | FieldShape::OptionalAttributes => {
                return Err(self.cursor().error("an op is written in an unknown way"));
            }
        })
    }

    /// Parses one of the given words, and returns its index.
    fn parse_one_of(&mut self, spellings: &[&str]) -> Result<u8> {
        self.cursor().skip_space();
        let offset = self.cursor().offset();
        let expected = format!("one of: {}", spellings.join(", "));
        let word = self.cursor().word(&expected)?;
        let variant = spellings.iter().position(|name| *name == word);
        variant.map(|variant| variant as u8).ok_or_else(|| self.cursor().error_at(offset, format!("expected {expected}")))
    }

    /// Parses the types of an operand field or a result. Checks the types of operands, and records the types of results.
    fn parse_types(&mut self, slot: Slot, form: TypeListForm, partial: &mut PartialOp<'_>) -> Result<()> {
        self.cursor().skip_space();
        let offset = self.cursor().offset();
        let Slot::Field(field) = slot else {
            let types = match form {
                TypeListForm::Each if !self.is_variadic(slot, partial) => {
                    vec![self.module.tables.parse_type(&mut self.module.cursor)?]
                }
                TypeListForm::One => vec![self.module.tables.parse_type(&mut self.module.cursor)?],
                _ => self.module.tables.parse_types(&mut self.module.cursor)?,
            };
            partial.result_types.extend(types);
            return Ok(());
        };
        let values: Vec<Value> = match &partial.fields[field] {
            Some(FieldValue::Operand(value)) => vec![*value],
            Some(FieldValue::OptionalOperand(value)) => value.iter().copied().collect(),
            Some(FieldValue::Operands(values)) => values.to_vec(),
            _ => Vec::new(),
        };
        let mut written_types = Vec::new();
        for i in 0..values.len() {
            // If one type stands for all indices, the token type after the comma belongs to the next operand.
            if i > 0 && (self.token_follows() || !self.cursor().skip_if_next(",")) {
                break;
            }
            written_types.push(self.module.tables.parse_type(&mut self.module.cursor)?);
        }
        if form == TypeListForm::Splat && written_types.len() == 1 {
            written_types.resize(values.len(), written_types[0]);
        }
        let actual_types: Vec<TypeId> = values.iter().map(|value| *self.body.ty(*value)).collect();
        if written_types != actual_types {
            let name = partial.opcode.info().fields[field].name;
            let text = |id: &TypeId| {
                crate::text::types::type_text(self.module.tables.type_tables(), *id, crate::text::types::TypeTextForm::Short)
            };
            let actual_types = actual_types.iter().map(text).collect::<Vec<_>>().join(", ");
            return Err(self.cursor().error_at(offset, format!("'{name}' is of type {actual_types}")));
        }
        Ok(())
    }

    /// Whether a result stands for any number of values.
    pub(super) fn is_variadic(&self, slot: Slot, partial: &PartialOp<'_>) -> bool {
        matches!(slot, Slot::Result(index) if partial.opcode.info().results[index].variadic)
    }

    /// Parses the head of a loop, up to the brace.
    fn parse_loop_head(&mut self, partial: &mut PartialOp<'a>) -> Result<()> {
        let is_for = partial.opcode == Opcode::For;
        let info = partial.opcode.info();
        let index = |name: &str| info.field(name).expect("the table has the fields of loops");
        if is_for {
            let variable = self.cursor().identifier('%', "a loop variable such as %i")?;
            for (prefix, field) in [("in (", "lower_bound"), ("to", "upper_bound"), (", step", "step")] {
                for token in tokens(prefix) {
                    self.cursor().expect(token)?;
                }
                partial.fields[index(field)] = Some(FieldValue::Operand(self.parse_operand()?));
            }
            self.cursor().expect(")")?;
            self.cursor().expect(":")?;
            let ty = self.module.tables.parse_type(&mut self.module.cursor)?;
            partial.args.push((variable, ty));
        }
        let (mut names, mut init_values) = (Vec::new(), Vec::new());
        if self.cursor().skip_if_next("iter_values") {
            self.cursor().expect("(")?;
            loop {
                names.push(self.cursor().identifier('%', "a name such as %iter")?);
                self.cursor().expect("=")?;
                init_values.push(self.parse_operand()?);
                if !self.cursor().skip_if_next(",") {
                    break;
                }
            }
            self.cursor().expect(")")?;
        }
        let mut carried_types = Vec::new();
        if is_for && !init_values.is_empty() {
            self.cursor().expect("->")?;
            self.cursor().expect("(")?;
            carried_types = self.module.tables.parse_types(&mut self.module.cursor)?;
            self.cursor().expect(")")?;
            partial.result_types = carried_types.clone();
        } else if !is_for && self.cursor().skip_if_next(":") {
            let types = self.module.tables.parse_types(&mut self.module.cursor)?;
            match init_values.is_empty() {
                true => partial.result_types = types,
                false => {
                    carried_types = types;
                    if self.cursor().skip_if_next("->") {
                        partial.result_types = self.module.tables.parse_types(&mut self.module.cursor)?;
                    }
                }
            }
        }
        if carried_types.len() != init_values.len() {
            return Err(self.cursor().error(format!(
                "the loop carries {} values, and has types for {}",
                init_values.len(),
                carried_types.len()
            )));
        }
        partial.args.extend(names.into_iter().zip(carried_types));
        partial.fields[index("init_values")] = Some(FieldValue::Operands(init_values.into()));
        Ok(())
    }

    /// Parses `@name<[arguments]>(operands) {attributes} : function type`.
    fn parse_call(&mut self, partial: &mut PartialOp<'_>) -> Result<()> {
        let module = &mut *self.module;
        let callee = FieldValue::String(module.parse_symbol()?);
        let const_args = module.tables.parse_const_list(&mut module.cursor, false)?.into_iter().map(Attribute::Preview);
        let const_args = FieldValue::Attributes(const_args.collect());
        self.cursor().expect("(")?;
        let operands = self.parse_operands()?;
        self.cursor().expect(")")?;
        let mut attribute_lists = [None, None];
        if self.cursor().skip_if_next("{") {
            for (list, name) in attribute_lists.iter_mut().zip(["arg_attrs", "res_attrs"]) {
                self.cursor().skip_if_next(",");
                if self.cursor().skip_if_next(name) {
                    self.cursor().expect("=")?;
                    *list = Some(self.module.tables.parse_attributes(&mut self.module.cursor)?);
                }
            }
            self.cursor().expect("}")?;
        }
        self.cursor().expect(":")?;
        let [arguments, results] = self.parse_function_type()?;
        let operand_types: Vec<TypeId> = operands.iter().map(|value| *self.body.ty(*value)).collect();
        if arguments != operand_types {
            return Err(self.cursor().error_at(partial.offset, "the types of a call's operands are not theirs"));
        }
        partial.result_types = results;
        let [arg_attrs, res_attrs] = attribute_lists.map(FieldValue::OptionalAttributes);
        let fields = [callee, const_args, arg_attrs, res_attrs, FieldValue::Operands(operands.into())];
        partial.fields = fields.into_iter().map(Some).collect();
        Ok(())
    }

    /// Parses `(types) -> types`.
    fn parse_function_type(&mut self) -> Result<[Vec<TypeId>; 2]> {
        let module = &mut *self.module;
        let mut type_lists = [Vec::new(), Vec::new()];
        for (i, types) in type_lists.iter_mut().enumerate() {
            if i == 1 {
                module.cursor.expect("->")?;
            }
            if !module.cursor.skip_if_next("(") {
                types.push(module.tables.parse_type(&mut module.cursor)?);
                continue;
            }
            if !module.cursor.continues_with(")") {
                *types = module.tables.parse_types(&mut module.cursor)?;
            }
            module.cursor.expect(")")?;
        }
        Ok(type_lists)
    }

    /// Parses the shape and the strides of a tensor view; dynamic extents and strides are operands.
    fn parse_tensor_view_shape(&mut self, partial: &mut PartialOp<'_>) -> Result<()> {
        let info = partial.opcode.info();
        let mut dim_lists: Vec<Vec<i64>> = Vec::new();
        let mut first_dynamic = None;
        for (label, field) in [("shape = ", "dynamic_shape"), (", strides = ", "dynamic_strides")] {
            for token in tokens(label) {
                self.cursor().expect(token)?;
            }
            let (mut dims, mut values) = (Vec::new(), Vec::new());
            self.cursor().expect("[")?;
            while !self.cursor().continues_with("]") {
                if self.cursor().peek() == Some('%') {
                    values.push(self.parse_operand()?);
                    dims.push(DYNAMIC);
                } else {
                    dims.push(self.cursor().integer("a number or an operand")?);
                }
                if !self.cursor().skip_if_next(",") {
                    break;
                }
            }
            self.cursor().expect("]")?;
            first_dynamic = first_dynamic.or(values.first().copied());
            let index = info.field(field).expect("the table has the fields of tensor views");
            partial.fields[index] = Some(FieldValue::Operands(values.into()));
            dim_lists.push(dims);
        }
        self.cursor().expect(":")?;
        self.cursor().skip_space();
        let offset = self.cursor().offset();
        let Some(FieldValue::Operand(base)) = partial.fields[index_of_base(info)] else {
            return Err(self.cursor().error("a tensor view has a base"));
        };
        let base_type = *self.body.ty(base);
        let has_attribute =
            |ty: &Type| matches!(ty, Type::Tile { element: Element::Ptr(pointer), .. } if pointer.space != PointerSharing::Absent);
        let base_with_attribute = has_attribute(&self.module.tables.types[base_type]).then_some(base);
        for (i, value) in base_with_attribute.into_iter().chain(first_dynamic).enumerate() {
            if i > 0 {
                self.cursor().expect(",")?;
            }
            let ty = self.module.tables.parse_type(&mut self.module.cursor)?;
            if ty != *self.body.ty(value) {
                return Err(self.cursor().error_at(offset, "this is not the type of the base or of the dynamic sizes"));
            }
        }
        if base_with_attribute.or(first_dynamic).is_some() {
            self.cursor().expect("->")?;
        }
        let offset = self.cursor().offset();
        let ty = self.module.tables.parse_type(&mut self.module.cursor)?;
        let Type::TensorView { shape, strides, .. } = &self.module.tables.types[ty] else {
            return Err(self.module.cursor.error_at(offset, "expected a tensor_view type"));
        };
        if dim_lists[0][..] != shape[..] || dim_lists[1][..] != strides[..] {
            return Err(self.module.cursor.error_at(offset, "shape and strides are not those of the type"));
        }
        partial.result_types.push(ty);
        Ok(())
    }
}

/// Returns the enumeration value with the spelling `value`; `None` if there is none.
pub(super) fn variant_number(spellings: &[&str], value: &str) -> Option<FieldValue> {
    spellings.iter().position(|spelling| *spelling == value).map(|number| FieldValue::Enum(number as u8))
}

/// Returns the enumeration value for which the op's text omits the field.
pub(super) fn implied_enum_value(opcode: Opcode, field: &str) -> Option<&'static str> {
    let form = opcode.info().format;
    let rest = &form[form.find(&format!("({field}!"))? + field.len() + 2..];
    rest.split_once('?').map(|(value, _)| value)
}
