// RUN: tile-sched --format=text % | grep -oE 'buffers: \[[0-9]+\], depth: [0-9]+, fill: [a-z]+, drain: [a-z]+'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 1024, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #1 = (register: [1, 2, 4, 1024, 2048], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
layout #3 = (register: [1, 2, 32, 1024, 2048], lane: [64, 128, 256, 512, 4], warp: [8, 16])
func "converted_to_tf32"(%0: ptr<bf16>, %1: ptr<bf16>, %2: ptr<f32>) (
  warps: 4,
  buffers: [
    (elem: bf16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: bf16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: bf16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 128), // buffer 2
    (elem: tf32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 3
    (elem: bf16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 544, 1024, 2048], align: 128), // buffer 4
    (elem: tf32, shape: [64, 64], offsets: [64, 128, 256, 512, 1024, 257, 514, 1028, 8, 16, 32, 2048], align: 1024), // buffer 5
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 6
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 68, 136, 272, 512, 1024, 2048, 4096, 32], align: 1024), // buffer 7
  ],
  maps: [
    (base: param(0), element: bf16, dims: [const(128), const(128)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(1), element: bf16, dims: [const(64), const(128)], strides: [const(128)], extent: [64, 64], swizzle: bytes128), // map 1
    (base: param(2), element: f32, dims: [const(64), const(384)], strides: [const(256)], extent: [32, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<128x128xbf16, strides: [128, 1], scope: 1>
  type !1 = view<128x64, !0>
  type !2 = memref<128x64xbf16, strides: [64, 1], scope: 2>
  type !3 = view<64x64, !2>
  type !4 = memref<384x64xf32, strides: [64, 1], scope: 3>
  type !5 = view<128x64, !4>
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %4 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %6 = block_id(axis: 0) : i32 @0
  %7 = constant(0) : i32 @0
  %8 = constant(1) : i32 @0
  %9 = make_memref(base: %3) : !0 @0
  %10 = make_view(memref: %9) : !1 @0
  %11 = make_memref(base: %4) : !2 @0
  %12 = make_view(memref: %11) : !3 @0
  %13 = constant(true) : i1 @0
  %14 = for(lower: %7, upper: %6, step: %8, init: [%13]) : i1 @0 {
    (%15: i32, %16: i1)
    %17 = tma_load(view: %10, index: [%7, %15], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %18 = shared_load(buffer: 0, atom: vector(vector_bits: 3)) : tile<128x64xbf16, #0> @0
    %19 = tma_load(view: %12, index: [%15, %7], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %20 = shared_load(buffer: 1, atom: vector(vector_bits: 3)) : tile<64x64xbf16, #1> @0
    %21 = convert(kind: f_to_f(rounding: nearest_even), x: %18) : tile<128x64xf32, #0> @0
    %22 = convert(kind: f_to_f(rounding: nearest_even), x: %20) : tile<64x64xf32, #1> @0
    %23 = convert(kind: f_to_f(rounding: nearest_even), x: %21) : tile<128x64xtf32, #0> @0
    %24 = convert(kind: f_to_f(rounding: nearest_even), x: %22) : tile<64x64xtf32, #1> @0
    shared_store(x: %18, buffer: 2, atom: vector(vector_bits: 3)) @0
    %25 = shared_load(buffer: 2, atom: vector(vector_bits: 3)) : tile<128x64xbf16, #2> @0
    %26 = convert(kind: f_to_f(rounding: nearest_even), x: %25) : tile<128x64xf32, #2> @0
    %27 = convert(kind: f_to_f(rounding: nearest_even), x: %26) : tile<128x64xtf32, #2> @0
    tmem_store(x: %27, buffer: 3, from: 0, atom: "32x32b") @0
    shared_store(x: %20, buffer: 4, atom: vector(vector_bits: 2)) @0
    %28 = shared_load(buffer: 4, atom: vector(vector_bits: 2)) : tile<64x64xbf16, #3> @0
    %29 = convert(kind: f_to_f(rounding: nearest_even), x: %28) : tile<64x64xf32, #3> @0
    %30 = convert(kind: f_to_f(rounding: nearest_even), x: %29) : tile<64x64xtf32, #3> @0
    shared_store(x: %30, buffer: 5, atom: matrix) @0
    mma(lhs: memory(buffer: 3), rhs: memory(buffer: 5), acc: memory(buffer: 6), zero_init: %16, atom: "tcgen05.k8.f32") @0
    %31 = constant(false) : i1 @0
    continue(values: [%31]) @0
  }
  %32 = if(cond: %14) : tile<128x64xf32, #2> @0 {
    %33 = constant(0.0) : tile<128x64xf32, #2> @0
    yield(values: [%33]) @0
  } {
    %34 = tmem_load(buffer: 6, from: 0, atom: "32x32b") : tile<128x64xf32, #2> @0
    yield(values: [%34]) @0
  }
  %35 = make_memref(base: %5) : !4 @0
  %36 = make_view(memref: %35) : !5 @0
  shared_store(x: %32, buffer: 7, atom: vector(vector_bits: 2)) @0
  %37 = tma_store(view: %36, index: [%6, %7], order: (semantics: weak), buffer: 7, map: 2) : token @0
  return @0
}
//!tile function "converted_to_tf32"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
