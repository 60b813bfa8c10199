// RUN: tile-sched --format=text -o whole.sched %; tile-sched --verify-only whole.sched && for left in '$1' '$2'; do perl -0pe 's/( *async_fence[^\n]*\n)( *barrier[^\n]*\n)(?= *\S+ = tma_store)/'"$left/" whole.sched > part.sched; tile-sched --verify-only part.sched; done
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 1024, 8, 16, 32, 64], lane: [2, 4, 128, 256, 512], warp: [2048, 4096])
layout #1 = (register: [1, 256, 8, 16], lane: [2, 4, 32, 64, 128], warp: [512, 1024])
func "stores"(%0: ptr<f16>, %1: ptr<f16>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 1024), // buffer 2
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [32, 64], swizzle: bytes64), // map 1
    (base: param(1), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<64x32, !0, padding: zero>
  type !5 = view<64x128, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %4, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_view(memref: %9) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = constant(0) : i32 @0
  %16 = constant(1) : i32 @0
  %17 = constant(0.0) : tile<64x128xf32, #0> @0
  %18 = constant(0.0) : tile<64x32xf32, #1> @0
  %19, %20 = for(lower: %15, upper: %7, step: %16, init: [%17, %18]) : tile<64x128xf32, #0>, tile<64x32xf32, #1> @0 {
    (%21: i32, %22: tile<64x128xf32, #0>, %23: tile<64x32xf32, #1>)
    %24 = tma_load(view: %11, index: [%3, %21], token: %8, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %25 = tma_load(view: %12, index: [%21, %3], token: %8, order: (semantics: weak), buffer: 1, map: 0) : token @0
    %26 = tma_load(view: %13, index: [%21, %3], token: %8, order: (semantics: weak), buffer: 2, map: 1) : token @0
    %27 = compare(kind: int(predicate: equal, signedness: signed), lhs: %21, rhs: %15) : i1 @0
    %28 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%22), zero_init: %27, atom: "wgmma.m64k16.f32") : tile<64x128xf32, #0> @0
    %29 = compare(kind: int(predicate: equal, signedness: signed), lhs: %21, rhs: %15) : i1 @0
    %30 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 2), acc: registers(%23), zero_init: %29, atom: "wgmma.m64k16.f32") : tile<64x32xf32, #1> @0
    continue(values: [%28, %30]) @0
  }
  %31 = convert(kind: f_to_f(rounding: nearest_even), x: %19) : tile<64x128xf16, #0> @0
  shared_store(x: %31, buffer: 3, atom: matrix) @0
  %32 = tma_store(view: %14, index: [%3, %3], token: %8, order: (semantics: weak), buffer: 3, map: 2) : token @0
  return @0
}
//!tile function "stores"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
