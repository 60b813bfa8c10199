//! Parses and checks the contents of a PTX file. Error messages contain the name of the file.

use crate::{Module, check, parse};
use base::diag::{Diagnostic, Place, Result};
use base::envelope::{Sniffed, sniff};

/// Parses and checks the contents of the file `name`. Returns the module and the file's text, or the first error.
pub fn open<'a>(bytes: &'a [u8], name: &str) -> Result<(Module, &'a str)> {
    let not_ptx = |what: String| Diagnostic::invalid("PTX002", format!("{name} is {what}; this tool reads PTX"));
    let text = match sniff(bytes) {
        Sniffed::Ptx | Sniffed::Text => std::str::from_utf8(bytes)
            .map_err(|error| not_ptx("not text".into()).in_input(name, Some(error.valid_up_to() as u64)))?,
        Sniffed::Other if bytes.is_empty() => return Err(not_ptx("empty".into())),
        kind => return Err(not_ptx(kind.describe())),
    };
    let with_file_name = |mut error: Box<Diagnostic>| {
        if let Some(Place::Text { file, .. }) = &mut error.place {
            *file = name.into();
        }
        error
    };
    let module = parse(text).map_err(with_file_name)?;
    match check(&module).into_iter().next() {
        Some(error) => Err(with_file_name(Box::new(error))),
        None => Ok((module, text)),
    }
}
