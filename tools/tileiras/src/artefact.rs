//! Checks the output of a stage that exited with success. Reason: a pipeline file may name a program that writes nothing, or a
//! stage may end early without a message.

use base::envelope::is_truncated;

/// Returns a description of the defect of a stage output; `None` if the output is valid. `kind` is the kind of file that the stage
/// should write.
pub(crate) fn describe_defect(kind: &str, bytes: &[u8]) -> Option<String> {
    match kind {
        _ if bytes.is_empty() => Some(format!("it reported success, but wrote no {kind}")),
        "cubin" => cubin::check(bytes, "its output", &[]).err().map(|error| error.message),
        "fatbin" => cubin::fatbin::check(bytes).err().map(str::to_string),
        "host-object" => cubin::fatbin::check_object(bytes).err(),
        _ if is_truncated(bytes) => Some(format!("it reported success, but its {kind} is truncated")),
        _ => None,
    }
}
