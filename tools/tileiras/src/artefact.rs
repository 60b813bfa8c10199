//! Whether what a stage wrote is what it should have written, as far as the driver can tell: a stage may have been replaced by
//! something that does nothing, or stopped in the middle without a arg.

use base::envelope::is_cut;

/// What is wrong with a file of this kind, if anything is.
pub(crate) fn fault(kind: &str, bytes: &[u8]) -> Option<String> {
    match kind {
        _ if bytes.is_empty() => Some(format!("it ended well, but wrote no {kind}")),
        "cubin" => cubin::check(bytes, "its output", &[]).err().map(|error| error.message),
        "fatbin" => cubin::fatbin::check(bytes).err().map(str::to_string),
        "host-object" => cubin::fatbin::check_object(bytes).err(),
        _ if is_cut(bytes) => Some(format!("it ended well, but its {kind} is cut short")),
        _ => None,
    }
}
