// RUN: tile-sched --roles=on --stop-after=alloc --format=text % | grep -oE '^func "[a-z]+"|depth: [0-9]+|latency: [0-9]+'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16], lane: [64, 128, 256, 512, 32], warp: [1024, 2048])
func "unsaid"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 1024), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0, 1024, 2048], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 68, 136, 272, 512, 1024, 2048, 32], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(2))], extent: [32, 64], swizzle: bytes64), // map 0
    (base: param(1), element: f16, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(2))], extent: [64, 32], swizzle: bytes128), // map 1
    (base: param(2), element: f32, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(4))], extent: [32, 64], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !1, padding: zero>
  type !5 = view<64x64, !2>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %4, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %11) : !4 @0
  %15 = make_view(memref: %12) : !5 @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(true) : i1 @0
  %19 = for(lower: %16, upper: %8, step: %17, init: [%18]) : i1 @0 {
    (%20: i32, %21: i1)
    %22 = tma_load(view: %13, index: [%16, %20], token: %9, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %23 = tma_load(view: %14, index: [%20, %16], token: %9, order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %21, atom: "tcgen05.k16.f32") @0
    %24 = constant(false) : i1 @0
    continue(values: [%24]) @0
  }
  %25 = if(cond: %19) : tile<64x64xf32, #0> @0 {
    %26 = constant(0.0) : tile<64x64xf32, #0> @0
    yield(values: [%26]) @0
  } {
    %27 = tmem_load(buffer: 2, from: 0, atom: "16x32bx2") : tile<64x64xf32, #0> @0
    yield(values: [%27]) @0
  }
  shared_store(x: %25, buffer: 3, atom: vector(vector_bits: 2)) @0
  %28 = tma_store(view: %15, index: [%16, %16], token: %9, order: (semantics: weak), buffer: 3, map: 2) : token @0
  return @0
}
func "soon"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 1024), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0, 1024, 2048], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 68, 136, 272, 512, 1024, 2048, 32], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(2))], extent: [32, 64], swizzle: bytes64), // map 0
    (base: param(1), element: f16, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(2))], extent: [64, 32], swizzle: bytes128), // map 1
    (base: param(2), element: f32, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(4))], extent: [32, 64], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !1, padding: zero>
  type !5 = view<64x64, !2>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %4, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %11) : !4 @0
  %15 = make_view(memref: %12) : !5 @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(true) : i1 @0
  %19 = for(lower: %16, upper: %8, step: %17, init: [%18]) : i1 @0 {
    (%20: i32, %21: i1)
    %22 = tma_load(view: %13, index: [%16, %20], token: %9, order: (semantics: weak), buffer: 0, latency: 1, map: 0) : token @0
    %23 = tma_load(view: %14, index: [%20, %16], token: %9, order: (semantics: weak), buffer: 1, latency: 2, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %21, atom: "tcgen05.k16.f32") @0
    %24 = constant(false) : i1 @0
    continue(values: [%24]) @0
  }
  %25 = if(cond: %19) : tile<64x64xf32, #0> @0 {
    %26 = constant(0.0) : tile<64x64xf32, #0> @0
    yield(values: [%26]) @0
  } {
    %27 = tmem_load(buffer: 2, from: 0, atom: "16x32bx2") : tile<64x64xf32, #0> @0
    yield(values: [%27]) @0
  }
  shared_store(x: %25, buffer: 3, atom: vector(vector_bits: 2)) @0
  %28 = tma_store(view: %15, index: [%16, %16], token: %9, order: (semantics: weak), buffer: 3, map: 2) : token @0
  return @0
}
func "late"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 1024), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0, 1024, 2048], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 68, 136, 272, 512, 1024, 2048, 32], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(2))], extent: [32, 64], swizzle: bytes64), // map 0
    (base: param(1), element: f16, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(2))], extent: [64, 32], swizzle: bytes128), // map 1
    (base: param(2), element: f32, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [product(param(3), const(4))], extent: [32, 64], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !1, padding: zero>
  type !5 = view<64x64, !2>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %4, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %11) : !4 @0
  %15 = make_view(memref: %12) : !5 @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(true) : i1 @0
  %19 = for(lower: %16, upper: %8, step: %17, init: [%18]) : i1 @0 {
    (%20: i32, %21: i1)
    %22 = tma_load(view: %13, index: [%16, %20], token: %9, order: (semantics: weak), buffer: 0, latency: 1, map: 0) : token @0
    %23 = tma_load(view: %14, index: [%20, %16], token: %9, order: (semantics: weak), buffer: 1, latency: 3, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %21, atom: "tcgen05.k16.f32") @0
    %24 = constant(false) : i1 @0
    continue(values: [%24]) @0
  }
  %25 = if(cond: %19) : tile<64x64xf32, #0> @0 {
    %26 = constant(0.0) : tile<64x64xf32, #0> @0
    yield(values: [%26]) @0
  } {
    %27 = tmem_load(buffer: 2, from: 0, atom: "16x32bx2") : tile<64x64xf32, #0> @0
    yield(values: [%27]) @0
  }
  shared_store(x: %25, buffer: 3, atom: vector(vector_bits: 2)) @0
  %28 = tma_store(view: %15, index: [%16, %16], token: %9, order: (semantics: weak), buffer: 3, map: 2) : token @0
  return @0
}
//!tile function "unsaid"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
//!tile function "soon"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 1, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 1, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
//!tile function "late"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 2, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 2, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 2, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
