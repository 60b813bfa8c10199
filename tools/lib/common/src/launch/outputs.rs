//! The outputs of a launch, as files and as text.

use super::{Buffer, Call, Contents, Element, LaunchOptions, Param, ParamType, io};
use base::diag::{Diagnostic, Result};
use numerics::{Scalar, float};
use std::io::Write as _;
use std::path::Path;

/// The number of printed elements per dimension.
const MAX_PER_DIMENSION: usize = 6;

impl LaunchOptions {
    /// Writes and prints the outputs. `memory` returns the current contents of a buffer.
    pub fn finish<'a>(&self, call: &Call, memory: impl Fn(&Buffer) -> Option<&'a Contents>) -> Result<()> {
        if let Some(folder) = &self.out_dir {
            call.write_outputs(folder, &memory)?;
        }
        if !self.print_outputs {
            return Ok(());
        }
        for name in call.launch.output_names() {
            let buffer = call.launch.buffer(name)?;
            let contents = memory(buffer).unwrap_or(&buffer.contents);
            let _ = writeln!(std::io::stdout(), "{name}: {}", call.array_text(buffer, contents));
        }
        Ok(())
    }
}

impl Call {
    /// Writes the outputs: arrays of a known type as `<folder>/<name>.npy`, others as `<name>.bin`.
    pub fn write_outputs<'a>(&self, folder: &Path, memory: impl Fn(&Buffer) -> Option<&'a Contents>) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| io(folder, &error))?;
        for name in self.launch.output_names() {
            let buffer = self.launch.buffer(name)?;
            let contents =
                memory(buffer).ok_or_else(|| Diagnostic::invalid("LCH002", format!("the memory of '{name}' is gone")))?;
            let (extension, head) = match &buffer.array {
                Some(array) => ("npy", array.header()),
                None => ("bin", Vec::new()),
            };
            let path = folder.join(format!("{name}.{extension}"));
            let written = crate::files::replace_with_writer(&path, |file| contents.write_to(file, &head));
            written.map_err(|error| io(&path, &error))?;
        }
        Ok(())
    }

    /// A buffer as an array. Its element type comes from the kernel's pointer, the buffer or its fill; otherwise it is bytes.
    fn array_text(&self, buffer: &Buffer, contents: &Contents) -> String {
        let parameter = self.launch.params.iter().position(|param| *param == Param::Ptr(buffer.name.clone()));
        let pointee = match parameter.and_then(|index| self.types.get(index)) {
            Some(ParamType::Pointer(Some(pointee))) => Some(Element { scalar: *pointee, unsigned: false }),
            _ => None,
        };
        let of_array = buffer.array.as_ref().and_then(|array| array.print_element());
        let of_fill = || buffer.fill.as_ref().and_then(|fill| fill.element());
        // The kernel's pointee type is more precise than a numpy type.
        let element = pointee.or(of_array).or_else(of_fill).unwrap_or(Element { scalar: Scalar::I8, unsigned: true });
        let item = element.scalar.bytes() as usize;
        let count = contents.len() / item;
        let shape = buffer.array.as_ref().map(|array| array.shape.clone()).filter(|shape| shape.iter().product::<usize>() == count);
        let shape = shape.unwrap_or_else(|| vec![count]);
        let extents: Vec<_> = shape.iter().map(usize::to_string).collect();
        let text_of = |at: usize| {
            let mut bytes = [0; 8];
            contents.read(at * item, &mut bytes[..item]);
            element_text(element, u64::from_le_bytes(bytes))
        };
        let name = if pointee.is_some() { element.scalar.name().to_string() } else { String::from(element) };
        format!("{name}[{}] {}", extents.join(", "), nested_list(&shape, MAX_PER_DIMENSION, &text_of))
    }
}

fn element_text(Element { scalar, unsigned }: Element, bits: u64) -> String {
    match scalar {
        Scalar::F64 => format!("{}", float::decode(scalar, bits)),
        _ if scalar.is_float() => format!("{}", float::decode(scalar, bits) as f32),
        Scalar::I1 => (bits & 1).to_string(),
        _ if unsigned => bits.to_string(),
        _ => scalar.sign_extend(bits).to_string(),
    }
}

/// The elements of an array as nested lists. Long dimensions show the first and last elements, at most `most`.
pub fn nested_list(shape: &[usize], most: usize, element: &dyn Fn(usize) -> String) -> String {
    fn sublist(shape: &[usize], start: usize, most: usize, element: &dyn Fn(usize) -> String) -> String {
        let Some((extent, inner)) = shape.split_first() else { return element(start) };
        let step: usize = inner.iter().product();
        let hidden = if *extent > most { most / 2..extent - most / 2 } else { 0..0 };
        let ends = (0..hidden.start).chain(hidden.end..*extent);
        let mut parts: Vec<String> = ends.map(|i| sublist(inner, start + i * step, most, element)).collect();
        if !hidden.is_empty() {
            parts.insert(hidden.start, "...".into());
        }
        format!("[{}]", parts.join(", "))
    }
    sublist(shape, 0, most, element)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_dimensions_are_shortened() {
        let number = |at: usize| at.to_string();
        assert_eq!(nested_list(&[], 6, &number), "0");
        assert_eq!(nested_list(&[2, 3], 6, &number), "[[0, 1, 2], [3, 4, 5]]");
        assert_eq!(nested_list(&[8], 6, &number), "[0, 1, 2, ..., 5, 6, 7]");
        assert_eq!(nested_list(&[1 << 40], 2, &number), "[0, ..., 1099511627775]");
    }
}
