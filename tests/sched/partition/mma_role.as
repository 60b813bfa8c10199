// RUN: tile-sched -v --format=text % 2>&1 | grep -oE 'TMA copies.*|^ +\(name.*|^ +\(buffers.*|(warp_role|for|tma_load|pipeline_[a-z]+|barrier|async_fence|mma|tmem_[a-z]+|shared_[a-z]+|store_view|return)(\(|$| @)(role: [0-9]+|id: [0-9]+, threads: [0-9]+|pipeline: [0-9]+)?'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16, 32], lane: [128, 256, 512, 1024, 2048], warp: [4096, 8192, 64])
layout #1 = (register: [1, 2, 4, 8, 16], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096, 32])
layout #2 = (register: [256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
func "operand_of_threads"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 8,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 1
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 2
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 3
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 4
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 5
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 512, 1024, 2048, 4096], align: 128), // buffer 6
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 512, 1024, 2048, 4096], align: 128), // buffer 7
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
  type !5 = view<128x64, !1>
  type !6 = view<128x128, !0, padding: zero>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !3 @0
  %12 = make_view(memref: %9) : !4 @0
  %13 = make_view(memref: %9) : !5 @0
  %14 = make_view(memref: %8) : !6 @0
  %15 = tma_load(view: %10, index: [%3, %3], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
  %16 = constant(0) : i32 @0
  %17 = constant(1) : i32 @0
  %18 = constant(true) : i1 @0
  %19 = for(lower: %16, upper: %6, step: %17, init: [%18]) : i1 @0 {
    (%20: i32, %21: i1)
    %22 = tma_load(view: %14, index: [%3, %20], token: %7, order: (semantics: weak), buffer: 1, map: 0) : token @0
    %23 = tma_load(view: %11, index: [%20, %3], token: %7, order: (semantics: weak), buffer: 2, map: 1) : token @0
    %24 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 2), acc: memory(buffer: 3), zero_init: %24, atom: "tcgen05.k16.f32") @0
    %25 = constant(false) : i1 @0
    %26 = tmem_load(buffer: 3, from: 0, atom: "32x32b") : tile<128x128xf32, #0> @0
    %27 = convert(kind: f_to_f(rounding: nearest_even), x: %26) : tile<128x128xf16, #0> @0
    tmem_store(x: %27, buffer: 4, from: 0, atom: "32x32b") @0
    mma(lhs: memory(buffer: 4), rhs: memory(buffer: 1), acc: memory(buffer: 5), zero_init: %21, atom: "tcgen05.k16.f32") @0
    %28 = constant(false) : i1 @0
    continue(values: [%28]) @0
  }
  %29 = constant(0) : i32 @0
  %30 = constant(0) : i32 @0
  %31 = if(cond: %19) : tile<128x64xf32, #1> @0 {
    %32 = constant(0.0) : tile<128x64xf32, #1> @0
    yield(values: [%32]) @0
  } {
    %33 = tmem_load(buffer: 5, from: 0, atom: "32x32b") : tile<128x64xf32, #1> @0
    yield(values: [%33]) @0
  }
  %34 = constant(1073741822) : i32 @0
  %35 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %34) : i32 @0
  %36 = constant(-1) : i32 @0
  %37 = binary(kind: max_i(signedness: signed), lhs: %35, rhs: %36) : i32 @0
  %38 = constant(2) : i32 @0
  %39 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %37, rhs: %38) : i32 @0
  %40 = constant(0) : i32 @0
  %41 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %39, rhs: %40) : i32 @0
  shared_store(x: %31, buffer: 6, atom: vector(vector_bits: 2)) @0
  %42 = shared_load(buffer: 6, atom: matrix) : tile<128x64xf32, #2> @0
  %43 = store_view(tile: %42, view: %13, index: [%3, %41], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %44 = constant(0) : i32 @0
  %45 = constant(1) : i32 @0
  %46 = if(cond: %19) : tile<128x64xf32, #1> @0 {
    %47 = constant(0.0) : tile<128x64xf32, #1> @0
    yield(values: [%47]) @0
  } {
    %48 = tmem_load(buffer: 5, from: 64, atom: "32x32b") : tile<128x64xf32, #1> @0
    yield(values: [%48]) @0
  }
  %49 = constant(1073741822) : i32 @0
  %50 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %49) : i32 @0
  %51 = constant(-1) : i32 @0
  %52 = binary(kind: max_i(signedness: signed), lhs: %50, rhs: %51) : i32 @0
  %53 = constant(2) : i32 @0
  %54 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %52, rhs: %53) : i32 @0
  %55 = constant(1) : i32 @0
  %56 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %54, rhs: %55) : i32 @0
  shared_store(x: %46, buffer: 7, atom: vector(vector_bits: 2)) @0
  %57 = shared_load(buffer: 7, atom: matrix) : tile<128x64xf32, #2> @0
  %58 = store_view(tile: %57, view: %13, index: [%3, %56], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "operand_of_threads"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
