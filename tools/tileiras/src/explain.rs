//! What the error codes mean, for `--explain`: a code's letters name the part that found the error, and some codes deserve more
//! words. A test reads all sources and holds that no code is without an explanation.

/// Codes by their letters.
const FAMILIES: &[(&str, &str)] = &[
    (
        "AA",
        "The verifier of .aa refused a file: a stage wrote it wrong, or it was edited. The message names the op and what does not fit.",
    ),
    ("AS", "The verifier of .as refused a file, or (AS9xx) tile-lower-as does not handle an op, type or target."),
    (
        "BUG",
        "An internal error: a bug of the tool that says so, not of its input. The folder that is named holds the input, the file before the pass that failed, and the command to see it again.",
    ),
    (
        "CHK",
        "The independent checker of tile-sched found a schedule that is wrong: a dependence, a resource, a barrier or a buffer that is not as it must be.",
    ),
    ("CLI", "The command line of a stage tool, or its files: what was named cannot be read, written or understood."),
    ("CUB", "A file that should be a cubin is none, or is cut."),
    ("DEP", "The depfile of -MD and -MF cannot be written."),
    ("DMP", "tile-dump does not know the kind of this file."),
    (
        "DRV",
        "tile-launch and the CUDA driver: it was not found, or one of its functions failed. The driver comes with the GPU's system software, not with a toolkit; --driver names its library.",
    ),
    (
        "ENV",
        "The envelope of a stage file: its format, version, hash or location table. The file is of another kind, was written by another version, or was cut or damaged on the way.",
    ),
    ("FUZ", "tile-fuzz cannot read or write one of its files, or was given no target."),
    ("LAA", "tile-lower-aa has no form in .aa for something in the program."),
    ("LAU", "tile-launch has no way to launch this kernel: the cubin has another one, or asks for what a launch cannot give."),
    (
        "LCH",
        "A launch is wrong: its description, a buffer's file that is missing or of another size, or an argument that does not fit the kernel's parameter.",
    ),
    ("LNK", "tile-link: the PTX is not what it says, or ptxas failed. The notes are ptxas's own words."),
    (
        "OPT",
        "An option that travels in the file: it was given before with another value, is needed and was not given, or does not go with another.",
    ),
    ("MCH", "The description of a machine for tile-time is wrong, or says too little."),
    ("PTX", "PTX text that cannot be parsed, or that names what is not there."),
    ("PX", "tile-ptx: LLVM refused what was emitted, or (PX9xx) an op, type or target is not handled."),
    ("RED", "tile-reduce has no folder for programs, cannot run the command, or was given a program that it finds nothing in."),
    (
        "RUN",
        "tile-run executed a program that does what is not defined, such as an access outside every buffer, or that it cannot execute.",
    ),
    ("SC", "The verifier of .sched refused a file, or tile-sched has no schedule for a loop or no machine for a target."),
    ("SCO", "tile-score was given files that cannot be compared."),
    (
        "SIM",
        "tile-sim executed PTX that does what is not defined, such as an access outside every buffer or a race, or that it cannot execute.",
    ),
    ("TI", "Tile IR bytecode or its text: the file is not what the format says, or the program breaks a rule of Tile IR."),
    ("TIM", "tile-time cannot tell the time of a kernel from what it was given."),
    (
        "TKT",
        "A piece of the CUDA toolkit that is needed at run time was not found. scripts/setup brings ptxas and libdevice into the project; CUDA_ROOT, CUDA_HOME, CUDA_PATH and PATH are looked at too.",
    ),
    ("TXT", "The text form of a stage file cannot be parsed; the line is shown."),
];

const CODES: &[(&str, &str)] = &[
    ("AS900", "The op is right but has no lowering for this target yet. Another target, or another way to write it, may work."),
    ("CLI001", "Standard input is a terminal and no file was named."),
    (
        "CLI006",
        "Every tool has a limit of memory and one of time, so that no input can take the machine with it. --max-memory and --max-time set them.",
    ),
    ("CLI004", "Stage files are binary unless --format says otherwise, and a terminal is no place for them."),
    ("CLI005", "--stop-after and --print-after take the names of the tool's passes, which its --help lists."),
    (
        "ENV001",
        "The file is of another format or version than the tool reads. Both sides are named; the tool that reads the file's format is the next one in the pipeline.",
    ),
    (
        "ENV002",
        "A binary stage file says how long it is and carries a hash of its content. One of the two does not match, so the file was cut or changed; write it again, or edit the RON or text form instead.",
    ),
    (
        "LCH005",
        "The grid has a wrong extent, or the launch says one for each target and none for this one. --gpu-name says which target a file without one is run for.",
    ),
    (
        "LCH012",
        "The launch says how much work it is, and it would keep a CPU busy for long. --sample-blocks runs the blocks that the launch names as typical.",
    ),
    (
        "LCH013",
        "The types of the kernel's parameters decide: numbers must fit them, and an array must hold what the pointer points to. PTX does not say what a pointer points to, so tile-sim cannot check that.",
    ),
    ("LNK012", "ptxas could not be run, or its temporary files, which live in memory, could not be written."),
    ("LNK013", "ptxas refused the PTX. `tileiras --emit=ptx` writes what it was given."),
    (
        "LNK022",
        "The kernel takes tensor maps in hidden parameters, which the host object has to fill. It says how in its envelope, but no code for that is written yet.",
    ),
    (
        "OPT001",
        "An option is given once, to the first stage that needs it, and travels in the file. A later stage takes it too, but only with the same value: another one would contradict what was already decided.",
    ),
    ("OPT002", "No target was named. The first tool that needs one is tile-lower-as; --gpu-name says which."),
    ("OPT003", "Optimised programs have no full debug information; use --lineinfo, or -O0."),
    (
        "LNK014",
        "ptxas ended as if all were well, but what it wrote is not a whole cubin with code for each kernel. Another program may stand in its place, or a disk or limit was full.",
    ),
    ("PX007", "Kernels are looked up by name, so a name that PTX cannot write is refused instead of changed."),
    (
        "PX008",
        "A tile is as many instructions in each thread as it has registers there. A program of a few lines can ask for more code than LLVM and ptxas could compile in hours.",
    ),
    ("PX902", "The target has no instruction for this type or operation; NVIDIA's tileiras refuses it with the same words."),
    ("TI001", "The file does not start as Tile IR bytecode does, or its sections are cut. The offset says where."),
    ("TI005", "The program uses what came with a later bytecode version than the one asked for."),
    ("TKT001", "The first of CUDA_ROOT, CUDA_HOME and CUDA_PATH that is set decides alone; what it names does not have the file."),
];

pub(crate) fn explain(code: &str) -> Option<String> {
    let number = code.find(|c: char| c.is_ascii_digit())?;
    let family = FAMILIES.iter().find(|(name, _)| *name == &code[..number]).map(|(_, text)| *text)?;
    let own = CODES.iter().find(|(name, _)| *name == code).map(|(_, text)| *text);
    let text: Vec<&str> = own.into_iter().chain([family]).collect();
    Some(format!("{code}: {}\n", text.join("\n\n")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::path::Path;

    /// Every quoted word of letters and digits that looks like a code, in all sources but this file.
    fn codes(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                codes(&path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tileiras/src/explain.rs") {
                let text = std::fs::read_to_string(path).unwrap();
                found.extend(text.split('"').filter(|word| is_code(word)).map(str::to_string));
            }
        }
    }

    fn is_code(word: &str) -> bool {
        let letters = word.bytes().take_while(u8::is_ascii_uppercase).count();
        (2..=4).contains(&letters) && word.len() == letters + 3 && word[letters..].bytes().all(|byte| byte.is_ascii_digit())
    }

    #[test]
    fn every_code_is_explained() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut found = BTreeSet::new();
        for part in ["formats", "tools"] {
            codes(&root.join(part), &mut found);
        }
        assert!(found.len() > 100, "{found:?}");
        let missing: Vec<&String> = found.iter().filter(|code| explain(code).is_none()).collect();
        assert!(missing.is_empty(), "{missing:?} have no explanation");
        let stale: Vec<&str> = CODES.iter().map(|(code, _)| *code).filter(|code| !found.contains(*code)).collect();
        assert!(stale.is_empty(), "{stale:?} are explained but not used");
    }
}
