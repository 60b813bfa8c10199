// RUN: tile-sched  -v -o x % 2>&1 | grep -oE 'the loop is.*'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 1024, 8, 16, 32, 64, 8192], lane: [2, 4, 128, 256, 512], warp: [2048, 4096])
layout #1 = (register: [1, 2, 4, 1024, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [128, 256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "warp_groups"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 8192, 513, 1026, 2052, 8, 16, 32, 64], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<128x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<128x128, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = make_token : token @0
  %7 = make_memref(base: %4, sizes: [%5, %5], strides: [%5]) : !0 @0
  %8 = make_memref(base: %1, sizes: [%5, %5], strides: [%5]) : !1 @0
  %9 = make_view(memref: %7) : !2 @0
  %10 = make_view(memref: %7) : !3 @0
  %11 = make_view(memref: %8) : !4 @0
  %12 = constant(0) : i32 @0
  %13 = constant(1) : i32 @0
  %14 = constant(0.0) : tile<128x128xf32, #0> @0
  %15 = for(lower: %12, upper: %5, step: %13, init: [%14]) : tile<128x128xf32, #0> @0 {
    (%16: i32, %17: tile<128x128xf32, #0>)
    %18 = copy_view(view: %9, index: [%3, %16], token: %6, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %19 = copy_view(view: %10, index: [%16, %3], token: %6, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @0
    %20 = compare(kind: int(predicate: equal, signedness: signed), lhs: %16, rhs: %12) : i1 @0
    %21 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%17), zero_init: %20, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #0> @0
    continue(values: [%21]) @0
  }
  shared_store(x: %15, buffer: 2, atom: vector(vector_bits: 0)) @0
  %22 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #2> @0
  %23 = store_view(tile: %22, view: %11, index: [%3, %3], token: %6, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "warp_groups"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
