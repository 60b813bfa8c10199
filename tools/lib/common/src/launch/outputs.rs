//! The outputs of a launch, as files and as text.

use super::{Buffer, Call, Contents, Element, LaunchOptions, Param, ParamType, io_error};
use base::diag::{Diagnostic, Result};
use numerics::{Scalar, float};
use std::io::Write as _;
use std::path::Path;

/// The maximum number of printed elements per dimension.
const MAX_PER_DIMENSION: usize = 6;

impl LaunchOptions {
    /// Writes and prints the outputs as the options request. `final_contents` returns the contents of a buffer after the launch.
    pub fn finish<'a>(&self, call: &Call, final_contents: impl Fn(&Buffer) -> Option<&'a Contents>) -> Result<()> {
        if let Some(folder) = &self.out_dir {
            call.write_outputs(folder, &final_contents)?;
        }
        if !self.print_outputs {
            return Ok(());
        }
        for name in call.launch.output_names() {
            let buffer = call.launch.buffer(name)?;
            let contents = final_contents(buffer).unwrap_or(&buffer.contents);
            let _ = writeln!(std::io::stdout(), "{name}: {}", call.array_text(buffer, contents));
        }
        Ok(())
    }
}

impl Call {
    /// Writes the outputs: buffers with an array type as `<folder>/<name>.npy`, others as `<folder>/<name>.bin`. `final_contents`
    /// returns the contents of a buffer after the launch.
    pub fn write_outputs<'a>(&self, folder: &Path, final_contents: impl Fn(&Buffer) -> Option<&'a Contents>) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|error| io_error(folder, &error))?;
        for name in self.launch.output_names() {
            let buffer = self.launch.buffer(name)?;
            let contents =
                final_contents(buffer).ok_or_else(|| Diagnostic::invalid("LCH002", format!("the memory of '{name}' is gone")))?;
            let (extension, header) = match &buffer.array {
                Some(array) => ("npy", array.header()),
                None => ("bin", Vec::new()),
            };
            let path = folder.join(format!("{name}.{extension}"));
            let result = crate::files::replace_with_writer(&path, |file| contents.write_to(file, &header));
            result.map_err(|error| io_error(&path, &error))?;
        }
        Ok(())
    }

    /// Returns the text of a buffer as an array. The element type is that of the kernel's pointer, of the buffer's array type or of
    /// its fill, in this order; without any of them, it is `u8`.
    fn array_text(&self, buffer: &Buffer, contents: &Contents) -> String {
        let parameter = self.launch.params.iter().position(|param| *param == Param::Ptr(buffer.name.clone()));
        let pointee = match parameter.and_then(|index| self.types.get(index)) {
            Some(ParamType::Pointer(Some(pointee))) => Some(Element { scalar: *pointee, unsigned: false }),
            _ => None,
        };
        let array_element = buffer.array.as_ref().and_then(|array| array.print_element());
        let fill_element = || buffer.fill.as_ref().and_then(|fill| fill.element());
        // The kernel's pointee type takes precedence, because a numpy type can stand for several types, such as u16 and bf16.
        let element = pointee.or(array_element).or_else(fill_element).unwrap_or(Element { scalar: Scalar::I8, unsigned: true });
        let element_bytes = element.scalar.bytes() as usize;
        let count = contents.len() / element_bytes;
        let shape = buffer.array.as_ref().map(|array| array.shape.clone()).filter(|shape| shape.iter().product::<usize>() == count);
        let shape = shape.unwrap_or_else(|| vec![count]);
        let extents: Vec<_> = shape.iter().map(usize::to_string).collect();
        let text_at = |index: usize| {
            let mut bytes = [0; 8];
            contents.read(index * element_bytes, &mut bytes[..element_bytes]);
            element_text(element, u64::from_le_bytes(bytes))
        };
        let name = if pointee.is_some() { element.scalar.name().to_string() } else { String::from(element) };
        format!("{name}[{}] {}", extents.join(", "), nested_list(&shape, MAX_PER_DIMENSION, &text_at))
    }
}

/// The text of an element with these bits.
fn element_text(Element { scalar, unsigned }: Element, bits: u64) -> String {
    match scalar {
        Scalar::F64 => format!("{}", float::decode(scalar, bits)),
        _ if scalar.is_float() => format!("{}", float::decode(scalar, bits) as f32),
        Scalar::I1 => (bits & 1).to_string(),
        _ if unsigned => bits.to_string(),
        _ => scalar.sign_extend(bits).to_string(),
    }
}

/// Returns the elements of a row-major array as nested lists. A dimension longer than `max_per_dimension` shows the first and the
/// last `max_per_dimension / 2` elements. `text_at` returns the text of the element at an index.
pub fn nested_list(shape: &[usize], max_per_dimension: usize, text_at: &dyn Fn(usize) -> String) -> String {
    fn sublist(shape: &[usize], start: usize, max_per_dimension: usize, text_at: &dyn Fn(usize) -> String) -> String {
        let Some((extent, inner)) = shape.split_first() else { return text_at(start) };
        let step: usize = inner.iter().product();
        let hidden = if *extent > max_per_dimension { max_per_dimension / 2..extent - max_per_dimension / 2 } else { 0..0 };
        let ends = (0..hidden.start).chain(hidden.end..*extent);
        let mut parts: Vec<String> = ends.map(|i| sublist(inner, start + i * step, max_per_dimension, text_at)).collect();
        if !hidden.is_empty() {
            parts.insert(hidden.start, "...".into());
        }
        format!("[{}]", parts.join(", "))
    }
    sublist(shape, 0, max_per_dimension, text_at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_dimensions_are_shortened() {
        let index_text = |index: usize| index.to_string();
        assert_eq!(nested_list(&[], 6, &index_text), "0");
        assert_eq!(nested_list(&[2, 3], 6, &index_text), "[[0, 1, 2], [3, 4, 5]]");
        assert_eq!(nested_list(&[8], 6, &index_text), "[0, 1, 2, ..., 5, 6, 7]");
        assert_eq!(nested_list(&[1 << 40], 2, &index_text), "[0, ..., 1099511627775]");
    }
}
