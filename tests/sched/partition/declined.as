// RUN: tile-sched -v -o x % 2>&1 | grep -oE 'TMA copies.*'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile option tma=on
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [128, 256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (register: [1, 1024, 8, 16, 32, 64, 8192], lane: [2, 4, 128, 256, 512], warp: [2048, 4096])
layout #2 = (register: [1, 2, 4, 1024, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512])
func "after_a_store"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
  %16 = store_view(tile: %15, view: %12, index: [%3, %6], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %17 = constant(0.0) : tile<128x128xf32, #1> @0
  %18 = for(lower: %13, upper: %6, step: %14, init: [%17]) : tile<128x128xf32, #1> @0 {
    (%19: i32, %20: tile<128x128xf32, #1>)
    %21 = copy_view(view: %10, index: [%3, %19], token: %16, order: (semantics: weak), whole: true, buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %22 = copy_view(view: %11, index: [%19, %3], token: %16, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %23 = compare(kind: int(predicate: equal, signedness: signed), lhs: %19, rhs: %13) : i1 @0
    %24 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%20), zero_init: %23, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #1> @0
    continue(values: [%24]) @0
  }
  shared_store(x: %18, buffer: 2, atom: vector(vector_bits: 0)) @0
  %25 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #0> @0
  %26 = store_view(tile: %25, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "after_a_load"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
  %15, %16 = load_view(view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<128x128xf32, #0>, token @0
  %17 = constant(0.0) : tile<128x128xf32, #1> @0
  %18 = for(lower: %13, upper: %6, step: %14, init: [%17]) : tile<128x128xf32, #1> @0 {
    (%19: i32, %20: tile<128x128xf32, #1>)
    %21 = tma_load(view: %10, index: [%3, %19], token: %16, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %22 = tma_load(view: %11, index: [%19, %3], token: %16, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %23 = compare(kind: int(predicate: equal, signedness: signed), lhs: %19, rhs: %13) : i1 @0
    %24 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%20), zero_init: %23, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #1> @0
    continue(values: [%24]) @0
  }
  shared_store(x: %18, buffer: 2, atom: vector(vector_bits: 0)) @0
  %25 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #0> @0
  %26 = store_view(tile: %25, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "waits_for_a_grid"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
  %15 = grid_wait(token: %7) : token @0
  %16 = constant(0.0) : tile<128x128xf32, #1> @0
  %17 = for(lower: %13, upper: %6, step: %14, init: [%16]) : tile<128x128xf32, #1> @0 {
    (%18: i32, %19: tile<128x128xf32, #1>)
    %20 = tma_load(view: %10, index: [%3, %18], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %21 = tma_load(view: %11, index: [%18, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %22 = compare(kind: int(predicate: equal, signedness: signed), lhs: %18, rhs: %13) : i1 @0
    %23 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%19), zero_init: %22, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #1> @0
    continue(values: [%23]) @0
  }
  shared_store(x: %17, buffer: 2, atom: vector(vector_bits: 0)) @0
  %24 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #0> @0
  %25 = store_view(tile: %24, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "trip_count_from_memory"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
  %15 = constant(64) : i64 @0
  %16 = int_to_ptr(x: %15) : ptr<i32> @0
  %17, %18 = load(ptr: %16, token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : i32, token @0
  %19 = constant(0.0) : tile<128x128xf32, #1> @0
  %20 = for(lower: %13, upper: %17, step: %14, init: [%19]) : tile<128x128xf32, #1> @0 {
    (%21: i32, %22: tile<128x128xf32, #1>)
    %23 = tma_load(view: %10, index: [%3, %21], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %24 = tma_load(view: %11, index: [%21, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %25 = compare(kind: int(predicate: equal, signedness: signed), lhs: %21, rhs: %13) : i1 @0
    %26 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%22), zero_init: %25, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #1> @0
    continue(values: [%26]) @0
  }
  shared_store(x: %20, buffer: 2, atom: vector(vector_bits: 0)) @0
  %27 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #0> @0
  %28 = store_view(tile: %27, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "leaves_early"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
  %15 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %6, rhs: %14) : i1 @0
  if(cond: %15) @0 {
    return @0
  } {
    yield @0
  }
  %16 = constant(0.0) : tile<128x128xf32, #1> @0
  %17 = for(lower: %13, upper: %6, step: %14, init: [%16]) : tile<128x128xf32, #1> @0 {
    (%18: i32, %19: tile<128x128xf32, #1>)
    %20 = tma_load(view: %10, index: [%3, %18], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %21 = tma_load(view: %11, index: [%18, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %22 = compare(kind: int(predicate: equal, signedness: signed), lhs: %18, rhs: %13) : i1 @0
    %23 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%19), zero_init: %22, atom: "wgmma.m64k16.f32") : tile<128x128xf32, #1> @0
    continue(values: [%23]) @0
  }
  shared_store(x: %17, buffer: 2, atom: vector(vector_bits: 0)) @0
  %24 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x128xf32, #0> @0
  %25 = store_view(tile: %24, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "after_a_store"
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: it is ordered after what this kernel writes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: it is ordered after what this kernel writes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "after_a_load"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 1, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 1, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 1, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "waits_for_a_grid"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 2, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 2, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 2, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "trip_count_from_memory"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 3, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 3, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 3, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 3, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 3, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 3, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 3, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile function "leaves_early"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 4, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 4, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 4, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 4, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 4, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 4, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 4, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
