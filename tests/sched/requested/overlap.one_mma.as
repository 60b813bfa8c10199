// RUN: tile-sched --overlap=on %
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
layout #1 = (register: [128, 256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "load_role"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 512, 1024, 2048, 4096], align: 128), // buffer 3
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 512, 1024, 2048, 4096], align: 128), // buffer 4
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
  %14 = constant(0) : i32 @0
  %15 = constant(1) : i32 @0
  %16 = constant(true) : i1 @0
  %17 = for(lower: %14, upper: %6, step: %15, init: [%16]) : i1 @0 {
    (%18: i32, %19: i1)
    %20 = tma_load(view: %10, index: [%3, %18], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %21 = tma_load(view: %11, index: [%18, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %19, atom: "tcgen05.k16.f32") @0
    %22 = constant(false) : i1 @0
    continue(values: [%22]) @0
  }
  %23 = constant(0) : i32 @0
  %24 = constant(0) : i32 @0
  %25 = if(cond: %17) : tile<128x64xf32, #0> @0 {
    %26 = constant(0.0) : tile<128x64xf32, #0> @0
    yield(values: [%26]) @0
  } {
    %27 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #0> @0
    yield(values: [%27]) @0
  }
  %28 = constant(1073741822) : i32 @0
  %29 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %28) : i32 @0
  %30 = constant(-1) : i32 @0
  %31 = binary(kind: max_i(signedness: signed), lhs: %29, rhs: %30) : i32 @0
  %32 = constant(2) : i32 @0
  %33 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %31, rhs: %32) : i32 @0
  %34 = constant(0) : i32 @0
  %35 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %33, rhs: %34) : i32 @0
  shared_store(x: %25, buffer: 3, atom: vector(vector_bits: 2)) @0
  %36 = shared_load(buffer: 3, atom: matrix) : tile<128x64xf32, #1> @0
  %37 = store_view(tile: %36, view: %13, index: [%3, %35], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %38 = constant(0) : i32 @0
  %39 = constant(1) : i32 @0
  %40 = if(cond: %17) : tile<128x64xf32, #0> @0 {
    %41 = constant(0.0) : tile<128x64xf32, #0> @0
    yield(values: [%41]) @0
  } {
    %42 = tmem_load(buffer: 2, from: 64, atom: "32x32b") : tile<128x64xf32, #0> @0
    yield(values: [%42]) @0
  }
  %43 = constant(1073741822) : i32 @0
  %44 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %43) : i32 @0
  %45 = constant(-1) : i32 @0
  %46 = binary(kind: max_i(signedness: signed), lhs: %44, rhs: %45) : i32 @0
  %47 = constant(2) : i32 @0
  %48 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %46, rhs: %47) : i32 @0
  %49 = constant(1) : i32 @0
  %50 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %48, rhs: %49) : i32 @0
  shared_store(x: %40, buffer: 4, atom: vector(vector_bits: 2)) @0
  %51 = shared_load(buffer: 4, atom: matrix) : tile<128x64xf32, #1> @0
  %52 = store_view(tile: %51, view: %13, index: [%3, %50], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "load_role"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
