// RUN: tile-sched -v --format=text % 2>&1 | grep -oE 'TMA copies.*|^ +\(name.*|^ +\(buffers.*|(warp_role|for|tma_load|pipeline_[a-z]+|barrier|mma|tmem_[a-z]+|return)(\(|$| @)(role: [0-9]+|id: [0-9]+, threads: [0-9]+|pipeline: [0-9]+)?'; tile-sched --overlap=off --format=text % | grep -c 'name: "mma'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
layout #2 = (register: [1, 2, 4, 8, 16, 32, 64], lane: [128, 256, 512, 1024, 2048], warp: [4096, 8192])
layout #3 = (register: [128, 256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "attention_latent"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 2
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 3
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 4
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 132, 264, 528, 1024, 2048, 4096, 8192], align: 128), // buffer 5
  ],
  maps: [
    (base: param(0), element: f16, dims: [const(128), const(128)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(1), element: f16, dims: [const(128), const(256)], strides: [const(256)], extent: [64, 64], swizzle: bytes128), // map 1
  ],
) @0 {
  type !0 = memref<128x128xf16, strides: [128, 1], scope: 1>
  type !1 = view<128x128, !0>
  type !2 = memref<256x128xf16, strides: [128, 1], scope: 2>
  type !3 = view<64x128, !2>
  type !4 = memref<128x128xf32, strides: [128, 1], scope: 3>
  type !5 = view<128x128, !4>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = constant(0) : i32 @0
  %7 = constant(1) : i32 @0
  %8 = make_memref(base: %4) : !0 @0
  %9 = make_view(memref: %8) : !1 @0
  %10 = make_memref(base: %5) : !2 @0
  %11 = make_view(memref: %10) : !3 @0
  %12 = tma_load(view: %9, index: [%6, %6], order: (semantics: weak), buffer: 0, map: 0) : token @0
  %13 = constant(true) : i1 @0
  %14 = constant(0.0) : tile<128x1xf32, #0> @0
  %15 = constant(0xFF800000) : tile<128x1xf32, #0> @0
  %16, %17, %18 = for(lower: %6, upper: %3, step: %7, init: [%13, %14, %15]) : i1, tile<128x1xf32, #0>, tile<128x1xf32, #0> @0 {
    (%19: i32, %20: i1, %21: tile<128x1xf32, #0>, %22: tile<128x1xf32, #0>)
    %23 = tma_load(view: %11, index: [%19, %6], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %24 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1, transposed: true), acc: memory(buffer: 2), zero_init: %24, atom: "tcgen05.k16.f32") @0
    %25 = constant(false) : i1 @0
    %26 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #1> @0
    %27 = constant(0.25) : tile<128x64xf32, #1> @0
    %28 = binary(kind: mul_f(rounding: nearest_even), lhs: %26, rhs: %27) : tile<128x64xf32, #1> @0
    %29 = reduce_registers(operands: [%28], dim: 1) : tile<128x1xf32, #0> @0 {
      (%30: f32, %31: f32)
      %32 = binary(kind: max_f, lhs: %30, rhs: %31) : f32 @0
      yield(values: [%32]) @0
    }
    %33 = reshape(x: %29) : tile<128xf32, #0> @0
    %34 = reshape(x: %33) : tile<128x1xf32, #0> @0
    %35 = binary(kind: max_f, lhs: %22, rhs: %34) : tile<128x1xf32, #0> @0
    %36 = broadcast(x: %35) : tile<128x64xf32, #1> @0
    %37 = binary(kind: sub_f(rounding: nearest_even), lhs: %28, rhs: %36) : tile<128x64xf32, #1> @0
    %38 = unary(kind: exp2, x: %37) : tile<128x64xf32, #1> @0
    %39 = reduce_registers(operands: [%38], dim: 1) : tile<128x1xf32, #0> @0 {
      (%40: f32, %41: f32)
      %42 = binary(kind: add_f(rounding: nearest_even), lhs: %40, rhs: %41) : f32 @0
      yield(values: [%42]) @0
    }
    %43 = reshape(x: %39) : tile<128xf32, #0> @0
    %44 = reshape(x: %43) : tile<128x1xf32, #0> @0
    %45 = binary(kind: sub_f(rounding: nearest_even), lhs: %22, rhs: %35) : tile<128x1xf32, #0> @0
    %46 = unary(kind: exp2, x: %45) : tile<128x1xf32, #0> @0
    %47 = binary(kind: mul_f(rounding: nearest_even), lhs: %21, rhs: %46) : tile<128x1xf32, #0> @0
    %48 = binary(kind: add_f(rounding: nearest_even), lhs: %47, rhs: %44) : tile<128x1xf32, #0> @0
    %49 = convert(kind: f_to_f(rounding: nearest_even), x: %38) : tile<128x64xf16, #1> @0
    tmem_store(x: %49, buffer: 3, from: 0, atom: "32x32b") @0
    tmem_scale(by: %46, buffer: 4, zero_init: %20, atom: "32x32b") @0
    %50 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 3), rhs: memory(buffer: 1), acc: memory(buffer: 4), zero_init: %50, atom: "tcgen05.k16.f32") @0
    %51 = constant(false) : i1 @0
    continue(values: [%51, %48, %35]) @0
  }
  %52 = if(cond: %16) : tile<128x128xf32, #2> @0 {
    %53 = constant(0.0) : tile<128x128xf32, #2> @0
    yield(values: [%53]) @0
  } {
    %54 = tmem_load(buffer: 4, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    yield(values: [%54]) @0
  }
  %55 = broadcast(x: %17) : tile<128x128xf32, #2> @0
  %56 = binary(kind: div_f(rounding: nearest_even), lhs: %52, rhs: %55) : tile<128x128xf32, #2> @0
  %57 = make_memref(base: %2) : !4 @0
  %58 = make_view(memref: %57) : !5 @0
  shared_store(x: %56, buffer: 5, atom: vector(vector_bits: 2)) @0
  %59 = shared_load(buffer: 5, atom: matrix) : tile<128x128xf32, #3> @0
  %60 = store_view(tile: %59, view: %58, index: [%6, %6], order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "attention_latent"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
