// RUN: tile-sched --format=text % | grep -E '^ +\(name'
// Three CTAs share the registers of an SM. With helper warps, a compute thread has 128 registers, and ptxas needs no spills: the tile
// from tensor memory has 64 registers.
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #1 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
func "attention_128x64"(
    %0: ptr<bf16>, %1: i32, %2: i32, %3: i32, %4: i32, %5: i32, %6: i32, %7: ptr<bf16>, %8: i32, %9: i32, %10: i32,
    %11: i32, %12: i32, %13: i32, %14: ptr<bf16>, %15: i32, %16: i32, %17: i32, %18: i32, %19: i32, %20: i32,
    %21: ptr<bf16>, %22: i32, %23: i32, %24: i32, %25: i32, %26: i32, %27: i32, %28: f32) (
  warps: 4,
  buffers: [
    (elem: bf16, shape: [1, 128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: bf16, shape: [1, 64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 2
    (elem: bf16, shape: [1, 64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 3
    (elem: bf16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 4
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 5
    (elem: bf16, shape: [1, 128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 6
  ],
  maps: [
    (base: param(0), element: bf16, dims: [max(param(3), const(1)), max(param(2), const(1)), max(param(1), const(1))], strides: [product(param(5), const(2)), product(param(4), const(2))], extent: [64, 128, 1], swizzle: bytes128), // map 0
    (base: param(7), element: bf16, dims: [max(param(10), const(1)), max(param(9), const(1)), max(param(8), const(1))], strides: [product(param(12), const(2)), product(param(11), const(2))], extent: [64, 64, 1], swizzle: bytes128), // map 1
    (base: param(14), element: bf16, dims: [max(param(17), const(1)), max(param(16), const(1)), max(param(15), const(1))], strides: [product(param(19), const(2)), product(param(18), const(2))], extent: [64, 64, 1], swizzle: bytes128), // map 2
    (base: param(21), element: bf16, dims: [max(param(24), const(1)), max(param(23), const(1)), max(param(22), const(1))], strides: [product(param(26), const(2)), product(param(25), const(2))], extent: [64, 128, 1], swizzle: bytes128), // map 3
  ],
) @0 {
  type !0 = memref<?x?x?xbf16, strides: [?, ?, 1], scope: 1>
  type !1 = memref<?x?x?xbf16, strides: [?, ?, 1], scope: 2>
  type !2 = memref<?x?x?xbf16, strides: [?, ?, 1], scope: 3>
  type !3 = memref<?x?x?xbf16, strides: [?, ?, 1], scope: 4>
  type !4 = view<1x128x64, !0>
  type !5 = view<1x64x64, !1>
  type !6 = view<1x64x64, !2>
  type !7 = view<1x128x64, !3>
  %29 = make_token : token @0
  %30 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %31 = assume(value: %1, fact: div_by(divisor: 8)) : i32 @0
  %32 = assume(value: %2, fact: div_by(divisor: 8)) : i32 @0
  %33 = assume(value: %3, fact: div_by(divisor: 8)) : i32 @0
  %34 = assume(value: %4, fact: div_by(divisor: 8)) : i32 @0
  %35 = assume(value: %5, fact: div_by(divisor: 8)) : i32 @0
  %36 = assume(value: %7, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %37 = assume(value: %8, fact: div_by(divisor: 8)) : i32 @0
  %38 = assume(value: %9, fact: div_by(divisor: 8)) : i32 @0
  %39 = assume(value: %10, fact: div_by(divisor: 8)) : i32 @0
  %40 = assume(value: %11, fact: div_by(divisor: 8)) : i32 @0
  %41 = assume(value: %12, fact: div_by(divisor: 8)) : i32 @0
  %42 = assume(value: %14, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %43 = assume(value: %15, fact: div_by(divisor: 8)) : i32 @0
  %44 = assume(value: %16, fact: div_by(divisor: 8)) : i32 @0
  %45 = assume(value: %17, fact: div_by(divisor: 8)) : i32 @0
  %46 = assume(value: %18, fact: div_by(divisor: 8)) : i32 @0
  %47 = assume(value: %19, fact: div_by(divisor: 8)) : i32 @0
  %48 = assume(value: %21, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %49 = assume(value: %22, fact: div_by(divisor: 8)) : i32 @0
  %50 = assume(value: %23, fact: div_by(divisor: 8)) : i32 @0
  %51 = assume(value: %24, fact: div_by(divisor: 8)) : i32 @0
  %52 = assume(value: %25, fact: div_by(divisor: 8)) : i32 @0
  %53 = assume(value: %26, fact: div_by(divisor: 8)) : i32 @0
  %54 = constant(1) : i32 @0
  %55 = assume(value: %31, fact: bounded(low: 0)) : i32 @0
  %56 = assume(value: %32, fact: bounded(low: 0)) : i32 @0
  %57 = assume(value: %33, fact: bounded(low: 0)) : i32 @0
  %58 = assume(value: %34, fact: bounded(low: 0)) : i32 @0
  %59 = assume(value: %35, fact: bounded(low: 0)) : i32 @0
  %60 = make_memref(base: %30, sizes: [%55, %56, %57], strides: [%58, %59]) : !0 @0
  %61 = assume(value: %37, fact: bounded(low: 0)) : i32 @0
  %62 = assume(value: %38, fact: bounded(low: 0)) : i32 @0
  %63 = assume(value: %39, fact: bounded(low: 0)) : i32 @0
  %64 = assume(value: %40, fact: bounded(low: 0)) : i32 @0
  %65 = assume(value: %41, fact: bounded(low: 0)) : i32 @0
  %66 = make_memref(base: %36, sizes: [%61, %62, %63], strides: [%64, %65]) : !1 @0
  %67 = assume(value: %43, fact: bounded(low: 0)) : i32 @0
  %68 = assume(value: %44, fact: bounded(low: 0)) : i32 @0
  %69 = assume(value: %45, fact: bounded(low: 0)) : i32 @0
  %70 = assume(value: %46, fact: bounded(low: 0)) : i32 @0
  %71 = assume(value: %47, fact: bounded(low: 0)) : i32 @0
  %72 = make_memref(base: %42, sizes: [%67, %68, %69], strides: [%70, %71]) : !2 @0
  %73 = assume(value: %49, fact: bounded(low: 0)) : i32 @0
  %74 = assume(value: %50, fact: bounded(low: 0)) : i32 @0
  %75 = assume(value: %51, fact: bounded(low: 0)) : i32 @0
  %76 = assume(value: %52, fact: bounded(low: 0)) : i32 @0
  %77 = assume(value: %53, fact: bounded(low: 0)) : i32 @0
  %78 = make_memref(base: %48, sizes: [%73, %74, %75], strides: [%76, %77]) : !3 @0
  %79 = constant(64) : i32 @0
  %80 = block_id(axis: 0) : i32 @0
  %81 = block_id(axis: 1) : i32 @0
  %82 = constant(0) : i32 @0
  %83 = make_view(memref: %60) : !4 @0
  %84 = tma_load(view: %83, index: [%81, %80, %82], token: %29, order: (semantics: weak), buffer: 0, map: 0) : token @0
  %85 = binary(kind: div_i(signedness: unsigned, rounding: positive_inf), lhs: %62, rhs: %79) : i32 @0
  %86 = make_view(memref: %66) : !5 @0
  %87 = make_view(memref: %72) : !6 @0
  %88 = constant(true) : i1 @0
  %89 = constant(-1e30[0xF149F2CA]) : tile<128x1xf32, #0> @0
  %90 = constant(0.0) : tile<128x1xf32, #0> @0
  %91, %92, %93 = for(lower: %82, upper: %85, step: %54, init: [%88, %89, %90]) : i1, tile<128x1xf32, #0>, tile<128x1xf32, #0> @0 {
    (%94: i32, %95: i1, %96: tile<128x1xf32, #0>, %97: tile<128x1xf32, #0>)
    %98 = tma_load(view: %86, index: [%81, %94, %82], token: %29, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %99 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1, transposed: true), acc: memory(buffer: 2), zero_init: %99, atom: "tcgen05.k16.f32") @0
    %100 = constant(false) : i1 @0
    %101 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x64xf32, #1> @0
    %102 = broadcast(x: %28) : tile<128x64xf32, #1> @0
    %103 = binary(kind: mul_f(rounding: nearest_even), lhs: %101, rhs: %102) : tile<128x64xf32, #1> @0
    %104 = reduce_registers(operands: [%103], dim: 1) : tile<128x1xf32, #0> @0 {
      (%105: f32, %106: f32)
      %107 = binary(kind: max_f, lhs: %105, rhs: %106) : f32 @0
      yield(values: [%107]) @0
    }
    %108 = reshape(x: %104) : tile<128xf32, #0> @0
    %109 = reshape(x: %108) : tile<128x1xf32, #0> @0
    %110 = binary(kind: max_f, lhs: %96, rhs: %109) : tile<128x1xf32, #0> @0
    %111 = broadcast(x: %110) : tile<128x64xf32, #1> @0
    %112 = binary(kind: sub_f(rounding: nearest_even), lhs: %103, rhs: %111) : tile<128x64xf32, #1> @0
    %113 = unary(kind: exp2, x: %112) : tile<128x64xf32, #1> @0
    %114 = binary(kind: sub_f(rounding: nearest_even), lhs: %96, rhs: %110) : tile<128x1xf32, #0> @0
    %115 = unary(kind: exp2, x: %114) : tile<128x1xf32, #0> @0
    %116 = reduce_registers(operands: [%113], dim: 1) : tile<128x1xf32, #0> @0 {
      (%117: f32, %118: f32)
      %119 = binary(kind: add_f(rounding: nearest_even), lhs: %117, rhs: %118) : f32 @0
      yield(values: [%119]) @0
    }
    %120 = reshape(x: %116) : tile<128xf32, #0> @0
    %121 = reshape(x: %120) : tile<128x1xf32, #0> @0
    %122 = fma(kind: (rounding: nearest_even), a: %97, b: %115, c: %121) : tile<128x1xf32, #0> @0
    %123 = tma_load(view: %87, index: [%81, %94, %82], token: %29, order: (semantics: weak), buffer: 3, map: 2) : token @0
    %124 = convert(kind: f_to_f(rounding: nearest_even), x: %113) : tile<128x64xbf16, #1> @0
    tmem_store(x: %124, buffer: 4, from: 0, atom: "32x32b") @0
    tmem_scale(by: %115, buffer: 5, zero_init: %95, atom: "32x32b") @0
    %125 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 4), rhs: memory(buffer: 3), acc: memory(buffer: 5), zero_init: %125, atom: "tcgen05.k16.f32") @0
    %126 = constant(false) : i1 @0
    continue(values: [%126, %110, %122]) @0
  }
  %127 = if(cond: %91) : tile<128x64xf32, #1> @0 {
    %128 = constant(0.0) : tile<128x64xf32, #1> @0
    yield(values: [%128]) @0
  } {
    %129 = tmem_load(buffer: 5, from: 0, atom: "32x32b") : tile<128x64xf32, #1> @0
    yield(values: [%129]) @0
  }
  %130 = broadcast(x: %93) : tile<128x64xf32, #1> @0
  %131 = binary(kind: div_f(rounding: nearest_even), lhs: %127, rhs: %130) : tile<128x64xf32, #1> @0
  %132 = convert(kind: f_to_f(rounding: nearest_even), x: %131) : tile<128x64xbf16, #1> @0
  %133 = reshape(x: %132) : tile<1x128x64xbf16, #1> @0
  %134 = make_view(memref: %78) : !7 @0
  shared_store(x: %133, buffer: 6, atom: vector(vector_bits: 3)) @0
  %135 = tma_store(view: %134, index: [%81, %80, %82], token: %29, order: (semantics: weak), buffer: 6, map: 3) : token @0
  return @0
}
