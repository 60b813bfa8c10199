//! Tile IR as the payload of a stage file, `.tile`.

use crate::module::Module;
use crate::{text, verify};
use base::diag::{Diagnostic, Result};
use base::{Envelope, Payload, Source};

impl Payload for Module {
    const FORMAT: &'static str = "tileir";
    const VERSION: u32 = 2;

    fn verify(&self, envelope: &Envelope) -> Result<()> {
        verify::check_references(self, &envelope.debug).map_err(|message| Diagnostic::invalid("TI002", message))?;
        verify::verify(self, &envelope.debug)
            .and_then(|()| verify::check_expressible(self))
            .map_err(|failure| Diagnostic::invalid("TI003", failure.message).at_loc(&envelope.debug, failure.loc))
    }

    fn print(&self, envelope: &Envelope, _: base::Locations) -> String {
        text::header(self) + &text::print_complete(self, &envelope.debug)
    }

    fn parse(source: Source<'_>, envelope: &mut Envelope) -> Result<Self> {
        text::parse(source.text, source.name, source.first_line, &mut envelope.debug)
    }
}
