//! All forms of a program are equivalent: text, bytecode of every version, and the stage file.

mod common;

use base::envelope::Form;
use base::{Envelope, File, Payload};
use common::{PROGRAMS, bytecode_files, parse};
use tileir::bytecode::Features;
use tileir::{Module, Version, text};

#[test]
fn sample_programs_pass_the_verifier() {
    for (name, text, _) in PROGRAMS {
        let (module, debug) = parse(name, text);
        tileir::verify::check_references(&module, &debug).unwrap_or_else(|error| panic!("{name}: {error}"));
        tileir::verify::verify(&module, &debug).unwrap_or_else(|failure| panic!("{name}: {}", failure.message));
    }
}

/// A test file in text form begins with a comment that has the test's command, so comments may precede the header.
#[test]
fn comments_may_precede_the_header() {
    let (module, _) = parse("plain", "//!tileir version 13.2\ncuda_tile.module @m { entry @k() { return } }");
    let (other, _) =
        parse("after comments", "// one\n// two\n//!tileir version 13.2\ncuda_tile.module @m { entry @k() { return } }");
    assert_eq!((module.version, other.version), (Version::V13_2, Version::V13_2));
}

#[test]
fn text_reads_back_to_the_same_text() {
    for (name, text, _) in PROGRAMS {
        let (module, debug) = parse(name, text);
        for locations in [None, Some(&debug)] {
            let printed = text::print(&module, locations);
            let (again, again_debug) = parse(name, &printed);
            assert_eq!(text::print(&again, locations.map(|_| &again_debug)), printed, "{name}");
        }
    }
}

#[test]
fn hints_of_any_name_and_kind_read_back_to_the_same_text() {
    let hints =
        r#""*m 100" = {"1st" = 1}, sm_90 = {a = 0x7F800000 : f32, b = 1.500000e+00, c = [0x7FC00000 : f32, "s"], d = f32, "#;
    let hints = hints.to_string()
        + "e = dense<3> : !cuda_tile.tile<4xi32>, f = dense<[[1.000000e+00, 0x7F80], [0.000000e+00, 2.000000e+00]]> : !cuda_tile.tile<2x2xbf16>, "
        + "g = #cuda_tile.optimization_hints<x = {y = true}>, h = #cuda_tile.div_by<16, every 2 along 0>, "
        + "i = [#cuda_tile.same_elements<[2]>, #cuda_tile.bounded<?, 4>]}";
    let (module, _) = parse("hints", &format!("cuda_tile.module @m {{ entry @k() optimization_hints=<{hints}> {{ return }} }}"));
    let printed = text::print(&module, None);
    assert_eq!(printed.lines().find(|line| line.contains("entry")), Some(&*format!("entry @k() optimization_hints=<{hints}> {{")));
    let (again, _) = parse("printed", &printed);
    assert_eq!(text::print(&again, None), printed);
    for deep in ["[", "{x = ", "#cuda_tile.optimization_hints<x = {y = "] {
        let text = format!("cuda_tile.module @m {{ entry @k() optimization_hints=<a = {{b = {}", deep.repeat(100_000));
        assert!(text::parse(&text, "deep", 1, &mut Default::default()).is_err(), "{deep}");
    }
}

#[test]
fn bytecode_of_every_version_reads_back_to_the_same_text() {
    for (name, bytes) in bytecode_files() {
        let read = tileir::bytecode::read(&bytes, Features::ALL).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let (program, _) = name.split_once(' ').expect("a program and a version");
        let (_, text, _) = PROGRAMS.iter().find(|(known, ..)| *known == program).expect("a known program");
        let (module, debug) = parse(program, text);
        assert_eq!(text::print(&read.module, Some(&read.debug)), text::print(&module, Some(&debug)), "{name}");
    }
}

#[test]
fn stage_files_of_every_form_preserve_the_program() {
    for (name, bytes) in bytecode_files() {
        let read = tileir::bytecode::read(&bytes, Features::ALL).expect("it was just written");
        let mut envelope = Envelope::new::<Module>("read", "a test", &bytes);
        envelope.debug = read.debug;
        let file = File { envelope, payload: read.module };
        for form in [Form::Binary, Form::Ron, Form::Text] {
            let written = file.write(form).unwrap_or_else(|error| panic!("{name} {form:?}: {error:?}"));
            let again = File::<Module>::read(&written, &name).unwrap_or_else(|error| panic!("{name} {form:?}: {error:?}"));
            let version = file.payload.version;
            let bytes_again = tileir::bytecode::write(&again.payload, &again.envelope.debug, version).expect("the same version");
            let read_again = tileir::bytecode::read(&bytes_again, Features::ALL).expect("it was just written");
            let complete_text = |module: &Module, debug| text::header(module) + &text::print_complete(module, debug);
            assert_eq!(
                complete_text(&read_again.module, &read_again.debug),
                complete_text(&file.payload, &file.envelope.debug),
                "{name} {form:?}"
            );
            assert_eq!(again.write(form).expect("it was just read"), written, "{name} {form:?}");
            if form != Form::Text {
                assert_eq!(again, file, "{name} {form:?}");
            }
        }
    }
}

/// Expected text from tileirdisasm 13.5.37, without and with -g.
#[test]
fn an_empty_module_has_a_line_and_its_location() {
    let (module, debug) = parse("empty", "\n");
    assert_eq!(text::print(&module, None), "\n");
    assert_eq!(text::print(&module, Some(&debug)), "\n#loc = loc(unknown)\n");
    let (again, _) = parse("printed", "\n#loc = loc(unknown)\n");
    assert_eq!(text::print(&again, None), "\n");
}

#[test]
fn the_framed_container_holds_programs_of_13_1() {
    for (name, text, _) in &PROGRAMS[..4] {
        let (module, debug) = parse(name, text);
        let bytes = tileir::framed::write(&module, &debug).unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let file = tileir::import::open(&bytes, name, "a test").unwrap_or_else(|error| panic!("{name}: {error:?}"));
        let printed = text::print(&file.payload, Some(&file.envelope.debug));
        assert_eq!(printed, text::print(&module, Some(&debug)), "{name}");
        for length in 0..bytes.len() {
            assert!(tileir::framed::read(&bytes[..length], name).is_err(), "{name} cut to {length} bytes");
        }
    }
}

#[test]
fn the_framed_container_names_a_construct_that_it_cannot_hold() {
    let entry = |body: &str| format!("entry @k(%n: tile<i32>) {{ {body} return }}");
    let x = "%x = constant <f32: 1.0> : tile<8xf32>";
    let cases = [
        (entry(&format!("{x} %y = atan2 %x, %x : tile<8xf32>")), "op atan2"),
        (entry(&format!("{x} %y = tanh %x rounding<approx> : tile<8xf32>")), "rounding_mode of tanh"),
        (entry(&format!("{x} %y = ftoi %x signed saturating : tile<8xf32> -> tile<8xi32>")), "saturating of ftoi"),
        (entry("%t = make_token : token %u = print_tko \"x\" token=%t : -> token"), "token of print_tko"),
        ("global private constant @g alignment = 16 <f32: 1.0> : tile<4xf32>".into(), "the visibility or constness of global @g"),
        (
            "preview$func extern @e(%a: tile<8xf32> {cuda_tile.preview$access = #cuda_tile<preview$access<in>>})".into(),
            "the external function @e",
        ),
    ];
    for (text, what) in cases {
        let (module, debug) = parse("k", &text);
        let error = tileir::framed::write(&module, &debug).expect_err(&text);
        assert!(error.message.ends_with(&format!("cannot hold {what}")), "{text}: {}", error.message);
    }
}

#[test]
fn writing_an_op_that_the_version_lacks_is_an_error() {
    let (name, text, _) = PROGRAMS[4];
    let (module, debug) = parse(name, text);
    let error = tileir::bytecode::write(&module, &debug, Version::V13_1).expect_err("13.1 has no atan2");
    assert!(error.message.contains("needs bytecode 13."), "{}", error.message);
    assert_eq!(error.exit_code(), 3);
}

#[test]
fn an_error_in_a_text_shows_its_line_and_column() {
    let text = "entry @k() {\n  %0 = iota : tile<6xi32>\n  return\n}\n";
    let error = tileir::text::parse(text, "k.mlir", 1, &mut base::DebugInfo::default()).expect_err("six is no power of two");
    let Some(base::diag::Place::Text { line, column, excerpt, .. }) = error.place else { panic!("{error:?}") };
    assert_eq!((line, column, &*excerpt), (2, 15, "  %0 = iota : tile<6xi32>"));
    assert!(error.message.contains("powers of two"), "{}", error.message);
}

#[test]
fn a_stage_file_with_a_wrong_reference_is_refused() {
    let (module, debug) = parse(PROGRAMS[0].0, PROGRAMS[0].1);
    let mut envelope = Envelope::new::<Module>("read", "a test", b"");
    envelope.debug = debug;
    let mut broken = module.clone();
    broken.functions[0].name = tileir::StringId(1000);
    assert!(broken.verify(&envelope).is_err());
    let mut broken = module;
    broken.constants = base::Arena::new();
    assert!(broken.verify(&envelope).is_err());
}

#[test]
fn preview_content_needs_its_feature() {
    let (name, text, since) = PROGRAMS[6];
    let (module, debug) = parse(name, text);
    let bytes = tileir::bytecode::write(&module, &debug, since).expect("the version has preview content");
    let error = tileir::bytecode::read(&bytes, Features::default()).expect_err("no feature is enabled");
    assert!(error.lines[0].message.ends_with("public-preview bytecode requires at least one enabled preview feature"), "{error:?}");
    let error = tileir::bytecode::write(&module, &debug, Version::V13_4).expect_err("13.4 has no preview content");
    assert!(error.message.ends_with("needs bytecode 13.5, and 13.4 was requested"), "{}", error.message);
    // Clears the header bit that signals preview content.
    let mut bytes = bytes;
    bytes[10] = 0;
    let error = tileir::bytecode::read(&bytes, Features::ALL).expect_err("the header does not signal it");
    assert!(error.lines[0].message.contains("the header does not advertise preview content"), "{error:?}");
}

#[test]
fn wrong_preview_content_is_refused() {
    let access = "{cuda_tile.preview$access = #cuda_tile<preview$access<in>>}";
    let inout = "{cuda_tile.preview$access = #cuda_tile<preview$access<inout>>}";
    let fragment = "preview$fragment<8xf32, local, mem_layout = <(8):(1)>, fragmap = <(1, 8):(0, 1)>>";
    let cases = [
        (format!("preview$func extern @e(%a: tile<[n]xf32> {access})"), "references undeclared symbolic variable 'n'"),
        ("preview$func extern @e(%a: tile<8xf32>)".into(), "extern function argument 0 must have a 'cuda_tile.preview$access'"),
        (format!("preview$func extern @e(%a: tile<8xf32> {inout})"), "number of bound inouts exceeded the number of results"),
        ("preview$func extern @e() -> tile<8xf32>".into(), "extern functions must declare at least one input"),
        (format!("preview$func extern @e(%a: token {access})"), "input type 0 must be a cuda_tile.tile, got '!cuda_tile.token'"),
        (format!("preview$extern_impl @i implements @e (%a: {fragment} {access})"), "fragmap must have 3 shape modes"),
        (format!("preview$extern_impl @i implements @e (%a: tile<8xf32> {access})"), "all inputs must be fragment types"),
    ];
    for (text, expected) in cases {
        let mut debug = base::DebugInfo::default();
        let module = tileir::text::parse(&text, "k", 1, &mut debug).unwrap_or_else(|error| panic!("{text}: {error:?}"));
        tileir::verify::check_references(&module, &debug).unwrap_or_else(|error| panic!("{text}: {error}"));
        let failure = tileir::verify::verify(&module, &debug).expect_err(&text);
        assert!(failure.message.contains(expected), "{text}: {}", failure.message);
    }
}
