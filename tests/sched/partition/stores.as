// RUN: tile-sched --format=text % | grep -oE '^func.*"|^ +(shared_bytes|tensor:|\((name|offset|buffers)).*|(warp_role|pipeline_[a-z]*|for|tma_store|shared_store)\(.*|async_fence.*| barrier.*'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
func "two_blocks_at_a_time"(%0: ptr<f16>, %1: ptr<f16>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 1
    (base: param(1), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = view<128x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<128x128, !1>
  type !5 = view<128x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %4, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_view(memref: %9) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %10) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = constant(0) : i32 @0
  %16 = constant(1) : i32 @0
  %17 = constant(true) : i1 @0
  %18 = for(lower: %15, upper: %7, step: %16, init: [%17]) : i1 @0 {
    (%19: i32, %20: i1)
    %21 = tma_load(view: %11, index: [%3, %19], token: %8, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %22 = tma_load(view: %12, index: [%19, %3], token: %8, order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %20, atom: "tcgen05.k16.f32") @0
    %23 = constant(false) : i1 @0
    continue(values: [%23]) @0
  }
  %24 = constant(0) : i32 @0
  %25 = constant(0) : i32 @0
  %26 = if(cond: %18) : tile<128x64xf32, #0> @0 {
    %27 = constant(0.0) : tile<128x64xf32, #0> @0
    yield(values: [%27]) @0
  } {
    %28 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #0> @0
    yield(values: [%28]) @0
  }
  %29 = convert(kind: f_to_f(rounding: nearest_even), x: %26) : tile<128x64xf16, #0> @0
  %30 = constant(1073741822) : i32 @0
  %31 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %30) : i32 @0
  %32 = constant(-1) : i32 @0
  %33 = binary(kind: max_i(signedness: signed), lhs: %31, rhs: %32) : i32 @0
  %34 = constant(2) : i32 @0
  %35 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %33, rhs: %34) : i32 @0
  %36 = constant(0) : i32 @0
  %37 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %35, rhs: %36) : i32 @0
  shared_store(x: %29, buffer: 3, atom: vector(vector_bits: 3)) @0
  %38 = tma_store(view: %14, index: [%3, %37], token: %8, order: (semantics: weak), buffer: 3, map: 2) : token @0
  %39 = constant(0) : i32 @0
  %40 = constant(1) : i32 @0
  %41 = if(cond: %18) : tile<128x64xf32, #0> @0 {
    %42 = constant(0.0) : tile<128x64xf32, #0> @0
    yield(values: [%42]) @0
  } {
    %43 = tmem_load(buffer: 2, from: 64, atom: "32x32b") : tile<128x64xf32, #0> @0
    yield(values: [%43]) @0
  }
  %44 = convert(kind: f_to_f(rounding: nearest_even), x: %41) : tile<128x64xf16, #0> @0
  %45 = constant(1073741822) : i32 @0
  %46 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %45) : i32 @0
  %47 = constant(-1) : i32 @0
  %48 = binary(kind: max_i(signedness: signed), lhs: %46, rhs: %47) : i32 @0
  %49 = constant(2) : i32 @0
  %50 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %48, rhs: %49) : i32 @0
  %51 = constant(1) : i32 @0
  %52 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %50, rhs: %51) : i32 @0
  shared_store(x: %44, buffer: 3, atom: vector(vector_bits: 3)) @0
  %53 = tma_store(view: %14, index: [%3, %52], token: %8, order: (semantics: weak), buffer: 3, map: 2) : token @0
  return @0
}
func "ordered_by_iteration"(%0: ptr<f16>, %1: ptr<f16>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 1
    (base: param(1), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = view<128x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<128x128, !1>
  type !5 = view<128x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %4, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_view(memref: %9) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %10) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = constant(0) : i32 @0
  %16 = constant(1) : i32 @0
  %17 = for(lower: %15, upper: %3, step: %16, init: [%8]) : token @0 {
    (%18: i32, %19: token)
    %20 = constant(true) : i1 @0
    %21 = for(lower: %15, upper: %7, step: %16, init: [%20]) : i1 @0 {
      (%22: i32, %23: i1)
      %24 = tma_load(view: %11, index: [%18, %22], token: %8, order: (semantics: weak), buffer: 0, map: 0) : token @0
      %25 = tma_load(view: %12, index: [%22, %18], token: %8, order: (semantics: weak), buffer: 1, map: 1) : token @0
      mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %23, atom: "tcgen05.k16.f32") @0
      %26 = constant(false) : i1 @0
      continue(values: [%26]) @0
    }
    %27 = constant(0) : i32 @0
    %28 = constant(0) : i32 @0
    %29 = if(cond: %21) : tile<128x64xf32, #0> @0 {
      %30 = constant(0.0) : tile<128x64xf32, #0> @0
      yield(values: [%30]) @0
    } {
      %31 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #0> @0
      yield(values: [%31]) @0
    }
    %32 = convert(kind: f_to_f(rounding: nearest_even), x: %29) : tile<128x64xf16, #0> @0
    %33 = constant(1073741822) : i32 @0
    %34 = binary(kind: min_i(signedness: signed), lhs: %18, rhs: %33) : i32 @0
    %35 = constant(-1) : i32 @0
    %36 = binary(kind: max_i(signedness: signed), lhs: %34, rhs: %35) : i32 @0
    %37 = constant(2) : i32 @0
    %38 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %36, rhs: %37) : i32 @0
    %39 = constant(0) : i32 @0
    %40 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %38, rhs: %39) : i32 @0
    shared_store(x: %32, buffer: 3, atom: vector(vector_bits: 3)) @0
    %41 = tma_store(view: %14, index: [%18, %40], token: %19, order: (semantics: weak), buffer: 3, map: 2) : token @0
    %42 = constant(0) : i32 @0
    %43 = constant(1) : i32 @0
    %44 = if(cond: %21) : tile<128x64xf32, #0> @0 {
      %45 = constant(0.0) : tile<128x64xf32, #0> @0
      yield(values: [%45]) @0
    } {
      %46 = tmem_load(buffer: 2, from: 64, atom: "32x32b") : tile<128x64xf32, #0> @0
      yield(values: [%46]) @0
    }
    %47 = convert(kind: f_to_f(rounding: nearest_even), x: %44) : tile<128x64xf16, #0> @0
    %48 = constant(1073741822) : i32 @0
    %49 = binary(kind: min_i(signedness: signed), lhs: %18, rhs: %48) : i32 @0
    %50 = constant(-1) : i32 @0
    %51 = binary(kind: max_i(signedness: signed), lhs: %49, rhs: %50) : i32 @0
    %52 = constant(2) : i32 @0
    %53 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %51, rhs: %52) : i32 @0
    %54 = constant(1) : i32 @0
    %55 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %53, rhs: %54) : i32 @0
    shared_store(x: %47, buffer: 3, atom: vector(vector_bits: 3)) @0
    %56 = tma_store(view: %14, index: [%18, %55], token: %19, order: (semantics: weak), buffer: 3, map: 2) : token @0
    %57 = join_tokens(tokens: [%41, %56]) : token @0
    continue(values: [%57]) @0
  }
  return @0
}
//!tile function "two_blocks_at_a_time"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
//!tile function "ordered_by_iteration"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 1, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 1, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 1, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 1, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
