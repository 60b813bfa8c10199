// RUN: tile-sched --roles=off --format=text -o whole.sched %; tile-sched --verify-only whole.sched && for left in '$1' '$2'; do perl -0pe 's/( *async_fence[^\n]*\n)( *barrier[^\n]*\n)(?=(?:(?!async_fence).)*?pipeline_acquire\(pipeline: 0)/'"$left/s" whole.sched > part.sched; tile-sched --verify-only part.sched; done
//!tile tileas 7 atoms
//!tile target sm_120
//!tile option opt-level=3
//!tile option tma=on
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 512, 1024, 8, 16], lane: [2, 4, 64, 128, 256], warp: [2048, 32])
layout #1 = (register: [1, 2, 4, 1024, 2048], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 512, 8, 16, 32, 1024], lane: [2, 4, 64, 128, 256], warp: [2048, 0])
layout #3 = (register: [64, 512, 8, 1024, 2048, 16], lane: [128, 256, 1, 2, 4], warp: [0, 32])
layout #4 = (register: [128, 256, 512, 1024, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "two_loops"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 128), // buffer 0
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 128), // buffer 1
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 2
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 3
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 4
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15 = constant(0.0) : tile<64x64xf32, #0> @0
  %16 = for(lower: %13, upper: %6, step: %14, init: [%15]) : tile<64x64xf32, #0> @0 {
    (%17: i32, %18: tile<64x64xf32, #0>)
    %19 = copy_view(view: %10, index: [%3, %17], token: %7, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %20 = copy_view(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @0
    %21 = shared_load(buffer: 0, atom: matrix) : tile<64x64xf16, #2> @0
    %22 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<64x64xf16, #3> @0
    %23 = mma(lhs: registers(%21), rhs: registers(%22), acc: registers(%18), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%23]) @0
  }
  %24 = for(lower: %13, upper: %6, step: %14, init: [%16]) : tile<64x64xf32, #0> @0 {
    (%25: i32, %26: tile<64x64xf32, #0>)
    %27 = tma_load(view: %10, index: [%3, %25], token: %7, order: (semantics: weak), buffer: 2, map: 0) : token @0
    %28 = tma_load(view: %11, index: [%25, %3], token: %7, order: (semantics: weak), buffer: 3, map: 0) : token @0
    %29 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf16, #2> @0
    %30 = shared_load(buffer: 3, atom: matrix(trans: true)) : tile<64x64xf16, #3> @0
    %31 = mma(lhs: registers(%29), rhs: registers(%30), acc: registers(%26), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%31]) @0
  }
  shared_store(x: %24, buffer: 4, atom: vector(vector_bits: 1)) @0
  %32 = shared_load(buffer: 4, atom: matrix) : tile<64x64xf32, #4> @0
  %33 = store_view(tile: %32, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "two_loops"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
