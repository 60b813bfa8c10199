// RUN: tile-sched --roles=on --format=text -o whole.sched %; tile-sched --verify-only whole.sched && perl -0pe 's/(role: 1.*?)( *)(if\(cond: .\d+\)[^\n]*\n)(.*?)\n\2\} \{\n(.*?)\n\2\}\n/$1$2$3$5\n$2} {\n$4\n$2}\n/s' whole.sched > part.sched; ! cmp -s whole.sched part.sched && tile-sched --verify-only part.sched
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 66af1a2c4d9ed4cd20be260bbba2736cffa580117b5d5a40676a497f4d0875a4
layout #0 = (register: [1, 64], lane: [2, 4, 8, 16, 32], warp: [128, 256])
layout #1 = (register: [1, 2], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "product"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 8], offsets: [8, 16, 32, 64, 128, 256, 65, 130, 260], align: 1024), // buffer 1
    (elem: f32, shape: [64, 8], offsets: [1, 2, 4, 8, 16, 36, 64, 128, 256], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [const(192), const(64)], strides: [const(384)], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<64x192xf16, strides: [192, 1], scope: 1>
  type !1 = memref<192x8xf16, strides: [8, 1], scope: 2>
  type !2 = memref<256x8xf32, strides: [8, 1], scope: 3>
  type !3 = view<64x64, !0>
  type !4 = view<64x8, !1>
  type !5 = view<64x8, !2>
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %4 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %6 = make_memref(base: %3) : !0 @0
  %7 = make_memref(base: %4) : !1 @0
  %8 = make_memref(base: %5) : !2 @0
  %9 = make_view(memref: %6) : !3 @0
  %10 = make_view(memref: %7) : !4 @0
  %11 = make_view(memref: %8) : !5 @0
  %12 = block_id(axis: 0) : i32 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15 = compare(kind: int(predicate: greater_than, signedness: signed), lhs: %12, rhs: %13) : i1 @0
  %16 = if(cond: %15) : tile<64x8xf32, #0> @0 {
    %17 = constant(0.0) : tile<64x8xf32, #0> @0
    %18 = for(lower: %13, upper: %12, step: %14, init: [%17]) : tile<64x8xf32, #0> @0 {
      (%19: i32, %20: tile<64x8xf32, #0>)
      %21 = tma_load(view: %9, index: [%13, %19], order: (semantics: weak), buffer: 0, map: 0) : token @0
      %22, %23 = load_view(view: %10, index: [%19, %13], order: (semantics: weak), atom: vector(vector_bits: 2)) : tile<64x8xf16, #1>, token @0
      %24 = compare(kind: int(predicate: equal, signedness: signed), lhs: %19, rhs: %13) : i1 @0
      shared_store(x: %22, buffer: 1, atom: vector(vector_bits: 0)) @0
      %25 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%20), zero_init: %24, atom: "wgmma.m64k16.f32") : tile<64x8xf32, #0> @0
      continue(values: [%25]) @0
    }
    yield(values: [%18]) @0
  } {
    %26 = constant(0.0) : tile<64x8xf32, #0> @0
    yield(values: [%26]) @0
  }
  shared_store(x: %16, buffer: 2, atom: vector(vector_bits: 1)) @0
  %27 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<64x8xf32, #1> @0
  %28 = store_view(tile: %27, view: %11, index: [%12, %13], order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "product"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its rows are too short for a matrix descriptor")
//!tile log (pass: "copies", outcome: Declined, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is loaded through registers: its rows are too short for a matrix descriptor")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: waiting for TMA takes longer than storing so few bytes")
