// RUN: tile-sched --multicast=on %
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option cluster=1
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 1024, 8, 16, 32, 64, 8192], lane: [2, 4, 128, 256, 512], warp: [2048, 4096])
layout #1 = (register: [128, 256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "load_role"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 8192, 513, 1026, 2052, 8, 16, 32, 64], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 1
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<128x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<128x128, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !3 @0
  %12 = make_view(memref: %9) : !4 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15 = constant(0.0) : tile<128x128xf32, #0> @0
  %16 = for(lower: %13, upper: %6, step: %14, init: [%15]) : tile<128x128xf32, #0> @0 {
    (%17: i32, %18: tile<128x128xf32, #0>)
    %19 = tma_load(view: %10, index: [%3, %17], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %20 = tma_load(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %21 = compare(kind: int(predicate: equal, signedness: signed), lhs: %17, rhs: %13) : i1 @0
    %22 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%18), zero_init: %21, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #0> @0
    continue(values: [%22]) @0
  }
  shared_store(x: %16, buffer: 2, atom: vector(vector_bits: 0)) @0
  %23 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #1> @0
  %24 = store_view(tile: %23, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "load_role"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
