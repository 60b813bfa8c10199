// RUN: tile-sched --format=text % | sed -n '/^func/,/^}/p' | grep -E ' (warp_role|for|continue|pipeline_|mma|tmem_load|store_view)|^ +\(%|buffers: .[0-9]|tensor: ' | sed -E 's/ @[0-9]+//'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
layout #1 = (register: [128, 256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "persistent"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
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
  %16 = for(lower: %3, upper: %6, step: %15, init: [%7]) : token @0 {
    (%17: i32, %18: token)
    %19 = constant(true) : i1 @0
    %20 = for(lower: %14, upper: %6, step: %15, init: [%19]) : i1 @0 {
      (%21: i32, %22: i1)
      %23 = tma_load(view: %10, index: [%17, %21], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
      %24 = tma_load(view: %11, index: [%21, %17], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token @0
      mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %22, atom: "tcgen05.k16.f32") @0
      %25 = constant(false) : i1 @0
      continue(values: [%25]) @0
    }
    %26 = constant(0) : i32 @0
    %27 = constant(0) : i32 @0
    %28 = if(cond: %20) : tile<128x64xf32, #0> @0 {
      %29 = constant(0.0) : tile<128x64xf32, #0> @0
      yield(values: [%29]) @0
    } {
      %30 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #0> @0
      yield(values: [%30]) @0
    }
    %31 = constant(1073741822) : i32 @0
    %32 = binary(kind: min_i(signedness: signed), lhs: %17, rhs: %31) : i32 @0
    %33 = constant(-1) : i32 @0
    %34 = binary(kind: max_i(signedness: signed), lhs: %32, rhs: %33) : i32 @0
    %35 = constant(2) : i32 @0
    %36 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %34, rhs: %35) : i32 @0
    %37 = constant(0) : i32 @0
    %38 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %36, rhs: %37) : i32 @0
    shared_store(x: %28, buffer: 3, atom: vector(vector_bits: 2)) @0
    %39 = shared_load(buffer: 3, atom: matrix) : tile<128x64xf32, #1> @0
    %40 = store_view(tile: %39, view: %13, index: [%17, %38], token: %18, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    %41 = constant(0) : i32 @0
    %42 = constant(1) : i32 @0
    %43 = if(cond: %20) : tile<128x64xf32, #0> @0 {
      %44 = constant(0.0) : tile<128x64xf32, #0> @0
      yield(values: [%44]) @0
    } {
      %45 = tmem_load(buffer: 2, from: 64, atom: "32x32b") : tile<128x64xf32, #0> @0
      yield(values: [%45]) @0
    }
    %46 = constant(1073741822) : i32 @0
    %47 = binary(kind: min_i(signedness: signed), lhs: %17, rhs: %46) : i32 @0
    %48 = constant(-1) : i32 @0
    %49 = binary(kind: max_i(signedness: signed), lhs: %47, rhs: %48) : i32 @0
    %50 = constant(2) : i32 @0
    %51 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %49, rhs: %50) : i32 @0
    %52 = constant(1) : i32 @0
    %53 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %51, rhs: %52) : i32 @0
    shared_store(x: %43, buffer: 4, atom: vector(vector_bits: 2)) @0
    %54 = shared_load(buffer: 4, atom: matrix) : tile<128x64xf32, #1> @0
    %55 = store_view(tile: %54, view: %13, index: [%17, %53], token: %18, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    %56 = join_tokens(tokens: [%40, %55]) : token @0
    continue(values: [%56]) @0
  }
  return @0
}
//!tile function "persistent"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
