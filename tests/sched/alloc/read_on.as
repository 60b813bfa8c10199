// RUN: tile-sched --roles=off -o k.sched %; tile-dump k.sched | grep -oE 'offset: [0-9]+, depth: [0-9]+'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option occupancy=2
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [1, 2, 4, 8, 16], warp: [32, 64, 0])
layout #1 = (register: [1, 2, 4, 8, 16, 32], lane: [128, 256, 512, 1024, 2048], warp: [4096, 8192, 64])
layout #2 = (register: [1, 2, 128, 256, 4096, 8192], lane: [4, 8, 16, 32, 64], warp: [512, 1024, 2048])
layout #3 = (register: [1, 2, 4, 2048, 4096, 8192], lane: [8, 16, 32, 64, 128], warp: [256, 512, 1024])
layout #4 = (register: [1, 2, 4, 8, 16], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096, 32])
func "read_on"(%0: ptr<f16>, %1: i32, %2: ptr<f16>) (
  warps: 8,
  occupancy: 2,
  buffers: [
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 0
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f16, shape: [128, 1], offsets: [1, 2, 4, 8, 16, 32, 64], align: 128), // buffer 3
    (elem: f16, shape: [1, 128], offsets: [1, 2, 4, 8, 16, 32, 64], align: 128), // buffer 4
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 544, 1024, 2048, 4096, 8192], align: 128), // buffer 5
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 6
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 7
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(1), const(1)), max(param(1), const(1))], strides: [product(param(1), const(2))], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(2), element: f16, dims: [max(param(1), const(1)), max(param(1), const(1))], strides: [product(param(1), const(2))], extent: [64, 128], swizzle: bytes128), // map 1
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = view<128x128, !0>
  type !2 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !3 = view<128x128, !2>
  type !4 = view<128x64, !2>
  %3 = make_token : token @0
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: bounded(low: 0)) : i32 @0
  %6 = assume(value: %5, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f16> @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_view(memref: %8) : !1 @0
  %10 = constant(0) : i32 @0
  %11 = constant(1) : i32 @0
  %12 = constant(2) : i32 @0
  %13 = constant(true) : i1 @0
  %14 = constant(1.0) : tile<128xf32, #0> @0
  %15, %16 = for(lower: %10, upper: %11, step: %11, init: [%13, %14]) : i1, tile<128xf32, #0> @0 {
    (%17: i32, %18: i1, %19: tile<128xf32, #0>)
    %20 = binary(kind: sub_f(rounding: nearest_even), lhs: %19, rhs: %14) : tile<128xf32, #0> @0
    %21 = unary(kind: exp2(ftz: true), x: %20) : tile<128xf32, #0> @0
    %22 = reshape(x: %21) : tile<128x1xf32, #0> @0
    %23 = tma_load(view: %9, index: [%17, %10], token: %3, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %24 = constant(1.0) : tile<128x128xf16, #1> @0
    tmem_store(x: %24, buffer: 1, from: 0, atom: "32x32b") @0
    tmem_scale(by: %22, buffer: 2, zero_init: %18, atom: "32x32b") @0
    %25 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: memory(buffer: 2), zero_init: %25, atom: "tcgen05.k16.f32") @0
    %26 = constant(false) : i1 @0
    continue(values: [%26, %14]) @0
  }
  %27, %28 = for(lower: %11, upper: %12, step: %11, init: [%15, %16]) : i1, tile<128xf32, #0> @0 {
    (%29: i32, %30: i1, %31: tile<128xf32, #0>)
    %32 = constant(1.0) : tile<128x128xf32, #2> @0
    %33 = constant(1.0) : tile<128x1xf16, #0> @0
    shared_store(x: %33, buffer: 3, atom: vector(vector_bits: 0)) @0
    %34 = constant(1.0) : tile<1x128xf16, #0> @0
    shared_store(x: %34, buffer: 4, atom: vector(vector_bits: 0)) @0
    %35 = mma(lhs: memory(buffer: 3), rhs: memory(buffer: 4), acc: registers(%32), atom: "multiply_add.k1") : tile<128x128xf32, #2> @0
    %36 = fma(kind: (rounding: nearest_even), a: %35, b: %32, c: %32) : tile<128x128xf32, #2> @0
    %37 = unary(kind: exp2(ftz: true), x: %36) : tile<128x128xf32, #2> @0
    %38 = binary(kind: sub_f(rounding: nearest_even), lhs: %31, rhs: %14) : tile<128xf32, #0> @0
    %39 = unary(kind: exp2(ftz: true), x: %38) : tile<128xf32, #0> @0
    %40 = reshape(x: %39) : tile<128x1xf32, #0> @0
    %41 = convert(kind: f_to_f(rounding: nearest_even), x: %37) : tile<128x128xf16, #2> @0
    shared_store(x: %41, buffer: 5, atom: vector(vector_bits: 2)) @0
    %42 = shared_load(buffer: 5, atom: vector(vector_bits: 3)) : tile<128x128xf16, #1> @0
    tmem_store(x: %42, buffer: 1, from: 0, atom: "32x32b") @0
    %43 = constant(1.0) : tile<128x128xf16, #3> @0
    shared_store(x: %43, buffer: 6, atom: vector(vector_bits: 3)) @0
    tmem_scale(by: %40, buffer: 2, zero_init: %30, atom: "32x32b") @0
    %44 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 1), rhs: memory(buffer: 6), acc: memory(buffer: 2), zero_init: %44, atom: "tcgen05.k16.f32") @0
    %45 = constant(false) : i1 @0
    continue(values: [%45, %14]) @0
  }
  %46 = make_memref(base: %7, sizes: [%6, %6], strides: [%6]) : !2 @0
  %47 = make_view(memref: %46) : !3 @0
  %48 = make_view(memref: %46) : !4 @0
  %49 = constant(0) : i32 @0
  %50 = constant(0) : i32 @0
  %51 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #4> @0
  %52 = convert(kind: f_to_f(rounding: nearest_even), x: %51) : tile<128x64xf16, #4> @0
  %53 = constant(2) : i32 @0
  %54 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %10, rhs: %53) : i32 @0
  %55 = constant(0) : i32 @0
  %56 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %54, rhs: %55) : i32 @0
  shared_store(x: %52, buffer: 7, atom: vector(vector_bits: 3)) @0
  %57 = tma_store(view: %48, index: [%10, %56], token: %3, order: (semantics: weak), buffer: 7, map: 1) : token @0
  %58 = constant(0) : i32 @0
  %59 = constant(1) : i32 @0
  %60 = tmem_load(buffer: 2, from: 64, atom: "32x32b") : tile<128x64xf32, #4> @0
  %61 = convert(kind: f_to_f(rounding: nearest_even), x: %60) : tile<128x64xf16, #4> @0
  %62 = constant(2) : i32 @0
  %63 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %10, rhs: %62) : i32 @0
  %64 = constant(1) : i32 @0
  %65 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %63, rhs: %64) : i32 @0
  shared_store(x: %61, buffer: 7, atom: vector(vector_bits: 3)) @0
  %66 = tma_store(view: %48, index: [%10, %65], token: %3, order: (semantics: weak), buffer: 7, map: 1) : token @0
  return @0
}
//!tile function "read_on"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Declined, name: "NoTensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by FMA instructions: no tensor core atom takes these types and sizes")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
