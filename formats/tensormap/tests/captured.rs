//! Decodes tensor maps captured from NVIDIA's host code and encodes them again. The bytes must be equal, so a recipe can express
//! every bit of these maps.

use tensormap::{BYTES, DataType, Expr, Map, Swizzle, WORDS};

/// Decodes the words of a map into a recipe whose expressions are constants.
fn decode_map(words: [u64; WORDS]) -> Map {
    let bits = |word: usize, from: u32, count: u32| words[word] >> from & (u64::MAX >> (64 - count));
    let rank = bits(1, 4, 3) as usize + 1;
    let [element_bits, swizzle_bits] = [bits(1, 7, 4), bits(1, 13, 2) | bits(1, 19, 1) << 2];
    let element = match element_bits {
        0 => DataType::Byte,
        1 => DataType::Int16,
        2 => DataType::Int32,
        4 => DataType::Int64,
        6 => DataType::F16,
        7 => DataType::F32,
        9 => DataType::F64,
        10 => DataType::Bf16,
        other => panic!("element type {other}"),
    };
    let swizzles = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];
    let swizzle = if swizzle_bits == 7 { Swizzle::Bytes128Atom32 } else { swizzles[swizzle_bits as usize] };
    let halves = |first: usize, index: usize| bits(first + index / 2, 32 * (index as u32 % 2), 32);
    let extent = |index: usize| if index == 0 { bits(6, 56, 8) } else { bits(7, 8 * (index as u32 - 1), 8) };
    Map {
        base: Expr::Const(words[0] as i64),
        element,
        dims: (0..rank).map(|index| Expr::Const(halves(4, index) as i64 + 1)).collect(),
        strides: (1..rank).map(|index| Expr::Const((halves(1, index) << 4) as i64)).collect(),
        extent: (0..rank).map(|index| extent(index) as u32 + 1).collect(),
        swizzle,
        tf32: bits(1, 16, 1) == 1,
    }
}

/// Decodes and encodes a map, and compares the words. `what` names the map in messages.
fn check_round_trip(words: [u64; WORDS], what: &str) {
    let encoded = decode_map(words).encode(&[]).unwrap_or_else(|error| panic!("{what}: {}", error.message));
    let encoded_words: Vec<u64> = encoded.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    assert_eq!(encoded_words[..WORDS], words, "{what}");
    assert!(encoded_words[WORDS..].iter().all(|word| *word == 0), "{what}");
}

/// Tensors of rank 1 to 5 with several swizzles and element types. The last map has zero strides and an extent of 2^32.
#[test]
fn selected_maps_round_trip() {
    let maps: [[u64; WORDS]; 9] = [
        [0x7f00_0000_0000, 0x40382, 0, 0, 0x1ff, 0, 0x7f << 56, 0],
        [0x7f00_1000_0000, 0x240382, 0, 0, 0x7fff, 0, 0x3f << 56, 0],
        [0x7f00_0000_0000, 0x46312 | 16 << 32, 0, 0, 99 | 29 << 32, 0, 0x3f << 56, 7],
        [0x7f00_0000_0000, 0x44012 | 8 << 32, 0, 0, 127 | 63 << 32, 0, 0x3f << 56, 63],
        [0x7f00_0000_0000, 0x42012 | 2 << 32, 0, 0, 31 | 63 << 32, 0, 0x1f << 56, 63],
        [0x7f00_0000_0000, 0xd6392 | 16 << 32, 0, 0, 63 | 31 << 32, 0, 0x1f << 56, 31],
        [0x7f00_0000_0000, 0x246522 | 18 << 32, 3168, 0, 143 | 175 << 32, 15, 0x3f << 56, 127],
        [0x7f00_0000_0000, 0x246332 | 16 << 32, 155_648 | 4864 << 32, 0, 127 | 303 << 32, 31 << 32, 0x3f << 56, 63],
        [0x1000, 0x2463c2, 1 << 32, 0, 0xffff_ffff, 1, 3 | 0x1f << 56, 0xff | 2 << 24],
    ];
    for (index, words) in maps.into_iter().enumerate() {
        check_round_trip(words, &format!("map {index}"));
    }
}

/// Tests the maps in the folder that the environment variable `TILEWORKS_TENSOR_MAPS` names. Each file is a sequence of 128-byte
/// maps. Without the variable, the test is skipped.
#[test]
fn maps_of_a_folder_round_trip() {
    let Some(folder) = std::env::var_os("TILEWORKS_TENSOR_MAPS") else {
        eprintln!("skipped: TILEWORKS_TENSOR_MAPS names no folder with captured tensor maps");
        return;
    };
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        for (index, map) in bytes.chunks_exact(BYTES).enumerate() {
            let word = |word_index: usize| u64::from_le_bytes(map[8 * word_index..8 * word_index + 8].try_into().unwrap());
            assert!((WORDS..2 * WORDS).all(|word_index| word(word_index) == 0));
            check_round_trip(std::array::from_fn(word), &format!("map {index} of {}", path.display()));
            count += 1;
        }
    }
    println!("{count} maps");
    assert!(count > 0, "the folder has no maps");
}
