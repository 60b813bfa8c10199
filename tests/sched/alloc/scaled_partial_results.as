// RUN: tile-sched --format=text % | grep -oE 'buffers: \[[0-9]+\], depth: [0-9]+, fill: mma'
// Threads scale the partial results of each iteration and store no operand, so the accumulator (buffer 2) has two stages.
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #2 = (lane: [0, 0, 0, 0, 0], warp: [0, 0])
func "scaled_groups"(
    %0: ptr<f16>, %1: i32, %2: i32, %3: i32, %4: i32, %5: ptr<f16>, %6: i32, %7: i32, %8: i32, %9: i32, %10: ptr<f32>,
    %11: i32, %12: i32, %13: i32, %14: i32, %15: ptr<f32>, %16: i32, %17: i32, %18: i32, %19: i32, %20: ptr<f32>, %21: i32,
    %22: i32, %23: i32, %24: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 68, 136, 272, 512, 1024, 2048, 4096, 32], align: 1024), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(1), const(1))], strides: [product(param(3), const(2))], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(5), element: f16, dims: [max(param(7), const(1)), max(param(6), const(1))], strides: [product(param(8), const(2))], extent: [64, 64], swizzle: bytes128), // map 1
    (base: param(20), element: f32, dims: [max(param(22), const(1)), max(param(21), const(1))], strides: [product(param(23), const(4))], extent: [32, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = memref<?x?xf32, strides: [?, 1], scope: 4>
  type !4 = memref<?x?xf32, strides: [?, 1], scope: 5>
  type !5 = view<128x64, !0>
  type !6 = view<128x64, !0, padding: zero>
  type !7 = view<64x64, !1, padding: zero>
  type !8 = view<128x1, !2>
  type !9 = view<1x1, !3>
  type !10 = view<128x64, !4>
  %25 = make_token : token @0
  %26 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %27 = assume(value: %1, fact: div_by(divisor: 8)) : i32 @0
  %28 = assume(value: %2, fact: div_by(divisor: 8)) : i32 @0
  %29 = assume(value: %3, fact: div_by(divisor: 8)) : i32 @0
  %30 = assume(value: %5, fact: div_by(divisor: 16)) : ptr<f16> @0
  %31 = assume(value: %6, fact: div_by(divisor: 8)) : i32 @0
  %32 = assume(value: %7, fact: div_by(divisor: 8)) : i32 @0
  %33 = assume(value: %8, fact: div_by(divisor: 8)) : i32 @0
  %34 = assume(value: %10, fact: div_by(divisor: 16)) : ptr<f32> @0
  %35 = assume(value: %11, fact: div_by(divisor: 4)) : i32 @0
  %36 = assume(value: %13, fact: div_by(divisor: 4)) : i32 @0
  %37 = assume(value: %15, fact: div_by(divisor: 16)) : ptr<f32> @0
  %38 = assume(value: %18, fact: div_by(divisor: 4)) : i32 @0
  %39 = assume(value: %20, fact: div_by(divisor: 16)) : ptr<f32> @0
  %40 = assume(value: %21, fact: div_by(divisor: 4)) : i32 @0
  %41 = assume(value: %22, fact: div_by(divisor: 4)) : i32 @0
  %42 = assume(value: %23, fact: div_by(divisor: 4)) : i32 @0
  %43 = constant(1) : i32 @0
  %44 = assume(value: %27, fact: bounded(low: 0)) : i32 @0
  %45 = assume(value: %28, fact: bounded(low: 0)) : i32 @0
  %46 = assume(value: %29, fact: bounded(low: 0)) : i32 @0
  %47 = make_memref(base: %26, sizes: [%44, %45], strides: [%46]) : !0 @0
  %48 = assume(value: %31, fact: bounded(low: 0)) : i32 @0
  %49 = assume(value: %32, fact: bounded(low: 0)) : i32 @0
  %50 = assume(value: %33, fact: bounded(low: 0)) : i32 @0
  %51 = make_memref(base: %30, sizes: [%48, %49], strides: [%50]) : !1 @0
  %52 = assume(value: %35, fact: bounded(low: 0)) : i32 @0
  %53 = assume(value: %12, fact: bounded(low: 0)) : i32 @0
  %54 = assume(value: %36, fact: bounded(low: 0)) : i32 @0
  %55 = make_memref(base: %34, sizes: [%52, %53], strides: [%54]) : !2 @0
  %56 = assume(value: %16, fact: bounded(low: 0)) : i32 @0
  %57 = assume(value: %17, fact: bounded(low: 0)) : i32 @0
  %58 = assume(value: %38, fact: bounded(low: 0)) : i32 @0
  %59 = make_memref(base: %37, sizes: [%56, %57], strides: [%58]) : !3 @0
  %60 = assume(value: %40, fact: bounded(low: 0)) : i32 @0
  %61 = assume(value: %41, fact: bounded(low: 0)) : i32 @0
  %62 = assume(value: %42, fact: bounded(low: 0)) : i32 @0
  %63 = make_memref(base: %39, sizes: [%60, %61], strides: [%62]) : !4 @0
  %64 = block_id(axis: 0) : i32 @0
  %65 = make_view(memref: %47) : !5 @0
  %66, %67 = view_shape(view: %65) : i32, i32 @0
  %68 = block_count(axis: 0) : i32 @0
  %69 = constant(0) : i32 @0
  %70 = make_view(memref: %47) : !6 @0
  %71 = make_view(memref: %51) : !7 @0
  %72 = make_view(memref: %55) : !8 @0
  %73 = make_view(memref: %59) : !9 @0
  %74 = make_view(memref: %63) : !10 @0
  for(lower: %64, upper: %66, step: %68) @0 {
    (%75: i32)
    %76 = constant(0.0) : tile<128x64xf32, #0> @0
    %77 = for(lower: %69, upper: %67, step: %43, init: [%76]) : tile<128x64xf32, #0> @0 {
      (%78: i32, %79: tile<128x64xf32, #0>)
      %80 = tma_load(view: %70, index: [%75, %78], token: %25, order: (semantics: weak), buffer: 0, map: 0) : token @0
      %81 = tma_load(view: %71, index: [%78, %69], token: %25, order: (semantics: weak), buffer: 1, map: 1) : token @0
      %82 = constant(true) : i1 @0
      mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %82, atom: "tcgen05.k16.f32") @0
      %83 = constant(false) : i1 @0
      %84 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #0> @0
      %85, %86 = load_view(view: %72, index: [%75, %78], token: %25, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<128x1xf32, #1>, token @0
      %87 = broadcast(x: %85) : tile<128x64xf32, #0> @0
      %88 = binary(kind: mul_f(rounding: nearest_even), lhs: %84, rhs: %87) : tile<128x64xf32, #0> @0
      %89, %90 = load_view(view: %73, index: [%78, %69], token: %25, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1x1xf32, #2>, token @0
      %91 = broadcast(x: %89) : tile<128x64xf32, #0> @0
      %92 = fma(kind: (rounding: nearest_even), a: %88, b: %91, c: %79) : tile<128x64xf32, #0> @0
      continue(values: [%92]) @0
    }
    shared_store(x: %77, buffer: 3, atom: vector(vector_bits: 2)) @0
    %93 = tma_store(view: %74, index: [%75, %69], token: %25, order: (semantics: weak), buffer: 3, map: 2) : token @0
    continue @0
  }
  return @0
}
