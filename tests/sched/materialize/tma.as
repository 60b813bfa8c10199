// RUN: tile-sched --roles=off --format=text % | sed -E 's/^( *)%[^=]*= /\1/' | grep -oE '^ +(for|if|pipeline_[a-z]+|tma_load|barrier|async_fence|mma|group_wait|shared_[a-z]+|store_view)(\(| @)((in_flight|pipeline|pending): [a-z0-9]+)?|offset:.*|\(buffers.*|^func.*"'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile option tma=on
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 1024, 8, 16, 32, 64, 8192], lane: [2, 4, 128, 256, 512], warp: [2048, 4096])
layout #1 = (register: [128, 256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #2 = (register: [128, 256, 2048, 1, 4096, 16], lane: [512, 1056, 2, 4, 8], warp: [64, 32])
func "one_loop"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
func "two_loops"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 2
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 3
    (elem: f32, shape: [128, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 8192, 513, 1026, 2052, 8, 16, 32, 64], align: 128), // buffer 4
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
  %23 = for(lower: %13, upper: %6, step: %14, init: [%16]) : tile<128x128xf32, #0> @0 {
    (%24: i32, %25: tile<128x128xf32, #0>)
    %26 = tma_load(view: %10, index: [%3, %24], token: %7, order: (semantics: weak), buffer: 2, map: 0) : token @0
    %27 = tma_load(view: %11, index: [%24, %3], token: %7, order: (semantics: weak), buffer: 3, map: 1) : token @0
    %28 = mma(lhs: memory(buffer: 2), rhs: memory(buffer: 3), acc: registers(%25), atom: "wgmma.m64k16.f32") : tile<128x128xf32, #0> @0
    continue(values: [%28]) @0
  }
  shared_store(x: %23, buffer: 4, atom: vector(vector_bits: 0)) @0
  %29 = shared_load(buffer: 4, atom: vector(vector_bits: 2)) : tile<128x128xf32, #1> @0
  %30 = store_view(tile: %29, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "during_a_product"(%0: ptr<i8>, %1: ptr<i32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: i8, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: i8, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 144, 288, 576, 1024, 2048, 4096], align: 1024), // buffer 1
    (elem: i8, shape: [64, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 1, 2050, 4100, 8, 16, 32, 64], align: 1024), // buffer 2
    (elem: i32, shape: [128, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 8192, 513, 1026, 2052, 8, 16, 32, 64], align: 128), // buffer 3
  ],
  maps: [
    (base: param(0), element: byte, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [param(2)], extent: [64, 128], swizzle: bytes64), // map 0
    (base: param(0), element: byte, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [param(2)], extent: [128, 64], swizzle: bytes128), // map 1
  ],
) @0 {
  type !0 = memref<?x?xi8, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xi32, strides: [?, 1], scope: 2>
  type !2 = view<128x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<128x128, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<i8> @0
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
  %15 = constant(0) : tile<128x128xi32, #0> @0
  %16 = for(lower: %13, upper: %6, step: %14, init: [%15]) : tile<128x128xi32, #0> @0 {
    (%17: i32, %18: tile<128x128xi32, #0>)
    %19 = tma_load(view: %10, index: [%3, %17], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %20 = tma_load(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %21 = compare(kind: int(predicate: equal, signedness: signed), lhs: %17, rhs: %13) : i1 @0
    %22 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<64x128xi8, #2> @0
    shared_store(x: %22, buffer: 2, atom: vector(vector_bits: 2)) @0
    %23 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 2), acc: registers(%18), zero_init: %21, signed_lhs: true, signed_rhs: true, atom: "wgmma.m64k32.s32") : tile<128x128xi32, #0> @0
    continue(values: [%23]) @0
  }
  shared_store(x: %16, buffer: 3, atom: vector(vector_bits: 0)) @0
  %24 = shared_load(buffer: 3, atom: vector(vector_bits: 2)) : tile<128x128xi32, #1> @0
  %25 = store_view(tile: %24, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "one_loop"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "two_loops"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 1, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 1, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "during_a_product"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 2, loc: @0, message: "MMA by tensor cores, with wgmma; an operand is transposed in shared memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 2, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 2, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
