// RUN: tile-sched --format=text -o whole.sched %; grep -oE 'tma_store.*token: %[0-9]+|waits: true' whole.sched; tile-ptx whole.sched | grep -oE 'wait_group(.read)? 0|tensor.2d.global'; sed 's/, waits: true//' whole.sched > part.sched; tile-sched --verify-only part.sched
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16, 32], lane: [128, 256, 512, 1024, 64], warp: [2048, 4096])
layout #1 = (register: [1, 2, 4, 8], lane: [32, 64, 128, 256, 16], warp: [512, 1024])
func "ordered"(%0: ptr<f16>, %1: ptr<f16>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 1024), // buffer 2
    (elem: f32, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 0, 2048, 4096], align: 32, space: tensor), // buffer 3
    (elem: f32, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 0, 512, 1024], align: 32, space: tensor), // buffer 4
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 5
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
  %17 = constant(true) : i1 @0
  %18 = constant(true) : i1 @0
  %19, %20 = for(lower: %15, upper: %7, step: %16, init: [%17, %18]) : i1, i1 @0 {
    (%21: i32, %22: i1, %23: i1)
    %24 = tma_load(view: %11, index: [%3, %21], token: %8, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %25 = tma_load(view: %12, index: [%21, %3], token: %8, order: (semantics: weak), buffer: 1, map: 0) : token @0
    %26 = tma_load(view: %13, index: [%21, %3], token: %8, order: (semantics: weak), buffer: 2, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 3), zero_init: %22, atom: "tcgen05.k16.f32") @0
    %27 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 2), acc: memory(buffer: 4), zero_init: %23, atom: "tcgen05.k16.f32") @0
    %28 = constant(false) : i1 @0
    continue(values: [%27, %28]) @0
  }
  %29 = if(cond: %19) : tile<64x128xf32, #0> @0 {
    %30 = constant(0.0) : tile<64x128xf32, #0> @0
    yield(values: [%30]) @0
  } {
    %31 = tmem_load(buffer: 3, from: 0, atom: "16x32bx2") : tile<64x128xf32, #0> @0
    yield(values: [%31]) @0
  }
  %32 = if(cond: %20) : tile<64x32xf32, #1> @0 {
    %33 = constant(0.0) : tile<64x32xf32, #1> @0
    yield(values: [%33]) @0
  } {
    %34 = tmem_load(buffer: 4, from: 0, atom: "16x32bx2") : tile<64x32xf32, #1> @0
    yield(values: [%34]) @0
  }
  %35 = convert(kind: f_to_f(rounding: nearest_even), x: %29) : tile<64x128xf16, #0> @0
  shared_store(x: %35, buffer: 5, atom: vector(vector_bits: 3)) @0
  %36 = tma_store(view: %14, index: [%3, %3], token: %8, order: (semantics: weak), buffer: 5, map: 2) : token @0
  shared_store(x: %35, buffer: 5, atom: vector(vector_bits: 3)) @0
  %37 = tma_store(view: %14, index: [%3, %15], token: %36, order: (semantics: weak), buffer: 5, map: 2) : token @0
  shared_store(x: %35, buffer: 5, atom: vector(vector_bits: 3)) @0
  %38 = tma_store(view: %14, index: [%15, %3], token: %36, order: (semantics: weak), buffer: 5, map: 2) : token @0
  return @0
}
//!tile function "ordered"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 8192 bytes")
