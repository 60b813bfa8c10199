// RUN: tile-sched --format=text % | grep -oE 'name: "[a-z_]+", first_warp: [0-9]+, warps: [0-9]+|fill: tma, drain: mma, producer: [0-9], consumers: .[0-9].'
// Threads compute the operand of the second MMA in a condition from the first accumulator, so two warps issue MMAs. A load warp fills
// the pipelines of each MMA warp.
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile option plan=[(function: "masked_last_tile_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A1i32_1t1_p16_A2f32_1v4l0_2t1_3i4_p16_I128_I128_I64", plan: (warps: 8), cost: 60851, competitors: ["warps 16: 63479", "no decision: 74274", "warps 8, split_m on: 'masked_last_tile_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A1i32_1t1_p16_A2f32_1v4l0_2t1_3i4_p16_I128_I128_I64' cannot be split along M: both M subtiles need the result of 'mma'"])]
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [0, 0, 0, 0, 0], warp: [0, 0, 0])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32, 64, 0])
layout #2 = (register: [1, 2, 4, 8, 16, 32], lane: [128, 256, 512, 1024, 2048], warp: [4096, 8192, 64])
layout #3 = (register: [1, 2, 4, 8, 16, 32], lane: [0, 0, 0, 0, 0], warp: [0, 0, 64])
layout #4 = (lane: [2, 4, 8, 16, 32], warp: [64, 128, 1])
layout #5 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [64, 128, 0])
layout #6 = (register: [1, 2, 4, 8, 16], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096, 32])
layout #7 = (register: [1, 2, 1024, 2048, 4096], lane: [4, 8, 16, 32, 64], warp: [128, 256, 512])
layout #8 = (register: [16, 32, 64], lane: [0, 0, 0, 0, 1], warp: [2, 4, 8])
layout #9 = (register: [1, 2], lane: [4, 8, 16, 32, 0], warp: [0, 0, 0])
func "masked_last_tile"(
    %0: ptr<f16>, %1: i32, %2: i32, %3: i32, %4: i32, %5: ptr<f16>, %6: i32, %7: i32, %8: i32, %9: i32, %10: ptr<f16>,
    %11: i32, %12: i32, %13: i32, %14: i32, %15: ptr<i32>, %16: i32, %17: i32, %18: ptr<f32>, %19: i32, %20: i32, %21: i32,
    %22: i32) (
  warps: 8,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [128, 2], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 128), // buffer 3
    (elem: f32, shape: [128, 2], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 128), // buffer 4
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 5
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 6
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 7
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 512, 1024, 2048, 4096], align: 128), // buffer 8
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(1), const(1))], strides: [product(param(3), const(2))], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(5), element: f16, dims: [max(param(7), const(1)), max(param(6), const(1))], strides: [product(param(8), const(2))], extent: [64, 128], swizzle: bytes128), // map 1
    (base: param(10), element: f16, dims: [max(param(12), const(1)), max(param(11), const(1))], strides: [product(param(13), const(2))], extent: [64, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf16, strides: [?, 1], scope: 3>
  type !3 = memref<?xi32, strides: [1], scope: 4>
  type !4 = view<1, !3>
  type !5 = view<128x64, !0>
  type !6 = view<128x64, !1, padding: zero>
  type !7 = view<128x64, !2, padding: zero>
  %23 = make_token : token @0
  %24 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %25 = assume(value: %1, fact: div_by(divisor: 8)) : i32 @0
  %26 = assume(value: %2, fact: div_by(divisor: 8)) : i32 @0
  %27 = assume(value: %3, fact: div_by(divisor: 8)) : i32 @0
  %28 = assume(value: %5, fact: div_by(divisor: 16)) : ptr<f16> @0
  %29 = assume(value: %6, fact: div_by(divisor: 8)) : i32 @0
  %30 = assume(value: %7, fact: div_by(divisor: 8)) : i32 @0
  %31 = assume(value: %8, fact: div_by(divisor: 8)) : i32 @0
  %32 = assume(value: %10, fact: div_by(divisor: 16)) : ptr<f16> @0
  %33 = assume(value: %11, fact: div_by(divisor: 8)) : i32 @0
  %34 = assume(value: %12, fact: div_by(divisor: 8)) : i32 @0
  %35 = assume(value: %13, fact: div_by(divisor: 8)) : i32 @0
  %36 = assume(value: %15, fact: div_by(divisor: 16)) : ptr<i32> @0
  %37 = assume(value: %18, fact: div_by(divisor: 16)) : ptr<f32> @0
  %38 = assume(value: %19, fact: div_by(divisor: 4)) : i32 @0
  %39 = assume(value: %20, fact: div_by(divisor: 4)) : i32 @0
  %40 = assume(value: %21, fact: div_by(divisor: 4)) : i32 @0
  %41 = constant(1) : i32 @0
  %42 = assume(value: %25, fact: bounded(low: 0)) : i32 @0
  %43 = assume(value: %26, fact: bounded(low: 0)) : i32 @0
  %44 = assume(value: %27, fact: bounded(low: 0)) : i32 @0
  %45 = make_memref(base: %24, sizes: [%42, %43], strides: [%44]) : !0 @0
  %46 = assume(value: %29, fact: bounded(low: 0)) : i32 @0
  %47 = assume(value: %30, fact: bounded(low: 0)) : i32 @0
  %48 = assume(value: %31, fact: bounded(low: 0)) : i32 @0
  %49 = make_memref(base: %28, sizes: [%46, %47], strides: [%48]) : !1 @0
  %50 = assume(value: %33, fact: bounded(low: 0)) : i32 @0
  %51 = assume(value: %34, fact: bounded(low: 0)) : i32 @0
  %52 = assume(value: %35, fact: bounded(low: 0)) : i32 @0
  %53 = make_memref(base: %32, sizes: [%50, %51], strides: [%52]) : !2 @0
  %54 = assume(value: %16, fact: bounded(low: 0)) : i32 @0
  %55 = make_memref(base: %36, sizes: [%54]) : !3 @0
  %56 = assume(value: %38, fact: bounded(low: 0)) : i32 @0
  %57 = assume(value: %39, fact: bounded(low: 0)) : i32 @0
  %58 = assume(value: %40, fact: bounded(low: 0)) : i32 @0
  %59 = constant(128) : i32 @0
  %60 = block_id(axis: 0) : i32 @0
  %61 = constant(0) : i32 @0
  %62 = make_view(memref: %55) : !4 @0
  %63, %64 = load_view(view: %62, index: [%61], token: %23, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #0>, token @0
  %65 = reshape(x: %63) : i32 @0
  %66 = make_view(memref: %45) : !5 @0
  %67 = tma_load(view: %66, index: [%60, %61], token: %23, order: (semantics: weak), buffer: 0, map: 0) : token @0
  %68 = binary(kind: div_i(signedness: signed, rounding: positive_inf), lhs: %65, rhs: %59) : i32 @0
  %69 = make_view(memref: %49) : !6 @0
  %70 = make_view(memref: %53) : !7 @0
  %71 = constant(true) : i1 @0
  %72 = constant(-1e30[0xF149F2CA]) : tile<128x1xf32, #1> @0
  %73 = constant(0.0) : tile<128x1xf32, #1> @0
  %74, %75, %76 = for(lower: %61, upper: %68, step: %41, init: [%71, %72, %73]) : i1, tile<128x1xf32, #1>, tile<128x1xf32, #1> @0 {
    (%77: i32, %78: i1, %79: tile<128x1xf32, #1>, %80: tile<128x1xf32, #1>)
    %81 = tma_load(view: %69, index: [%77, %61], token: %23, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %82 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1, transposed: true), acc: memory(buffer: 2), zero_init: %82, atom: "tcgen05.k16.f32") @0
    %83 = constant(false) : i1 @0
    %84 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    %85 = constant(0.125) : tile<128x128xf32, #2> @0
    %86 = binary(kind: mul_f(rounding: nearest_even), lhs: %84, rhs: %85) : tile<128x128xf32, #2> @0
    %87 = binary(kind: mul_i(overflow: none), lhs: %77, rhs: %59) : i32 @0
    %88 = binary(kind: add_i(overflow: none), lhs: %87, rhs: %59) : i32 @0
    %89 = compare(kind: int(predicate: greater_than, signedness: signed), lhs: %88, rhs: %65) : i1 @0
    %90 = if(cond: %89) : tile<128x128xf32, #2> @0 {
      %91 = iota : tile<128xi32, #3> @0
      %92 = broadcast(x: %87) : tile<128xi32, #3> @0
      %93 = binary(kind: add_i(overflow: no_wrap), lhs: %91, rhs: %92) : tile<128xi32, #3> @0
      %94 = broadcast(x: %63) : tile<128xi32, #3> @0
      %95 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %93, rhs: %94) : tile<128xi1, #3> @0
      %96 = reshape(x: %95) : tile<1x128xi1, #3> @0
      %97 = broadcast(x: %96) : tile<128x128xi1, #2> @0
      %98 = constant(-1e30[0xF149F2CA]) : tile<128x128xf32, #2> @0
      %99 = select(cond: %97, yes: %86, no: %98) : tile<128x128xf32, #2> @0
      yield(values: [%99]) @0
    } {
      yield(values: [%86]) @0
    }
    %100 = reduce_registers(operands: [%90], dim: 1) : tile<128x2xf32, #4> @0 {
      (%101: f32, %102: f32)
      %103 = binary(kind: max_f, lhs: %101, rhs: %102) : f32 @0
      yield(values: [%103]) @0
    }
    shared_store(x: %100, buffer: 3, atom: vector(vector_bits: 0)) @0
    %104 = shared_load(buffer: 3, atom: vector(vector_bits: 1)) : tile<128x2xf32, #5> @0
    %105 = reduce_registers(operands: [%104], dim: 1) : tile<128x1xf32, #1> @0 {
      (%106: f32, %107: f32)
      %108 = binary(kind: max_f, lhs: %106, rhs: %107) : f32 @0
      yield(values: [%108]) @0
    }
    %109 = reshape(x: %105) : tile<128xf32, #1> @0
    %110 = reshape(x: %109) : tile<128x1xf32, #1> @0
    %111 = binary(kind: max_f, lhs: %79, rhs: %110) : tile<128x1xf32, #1> @0
    %112 = broadcast(x: %111) : tile<128x128xf32, #2> @0
    %113 = binary(kind: sub_f(rounding: nearest_even), lhs: %90, rhs: %112) : tile<128x128xf32, #2> @0
    %114 = unary(kind: exp(rounding: full), x: %113) : tile<128x128xf32, #2> @0
    %115 = binary(kind: sub_f(rounding: nearest_even), lhs: %79, rhs: %111) : tile<128x1xf32, #1> @0
    %116 = unary(kind: exp(rounding: full), x: %115) : tile<128x1xf32, #1> @0
    %117 = reduce_registers(operands: [%114], dim: 1) : tile<128x2xf32, #4> @0 {
      (%118: f32, %119: f32)
      %120 = binary(kind: add_f(rounding: nearest_even), lhs: %118, rhs: %119) : f32 @0
      yield(values: [%120]) @0
    }
    shared_store(x: %117, buffer: 4, atom: vector(vector_bits: 0)) @0
    %121 = shared_load(buffer: 4, atom: vector(vector_bits: 1)) : tile<128x2xf32, #5> @0
    %122 = reduce_registers(operands: [%121], dim: 1) : tile<128x1xf32, #1> @0 {
      (%123: f32, %124: f32)
      %125 = binary(kind: add_f(rounding: nearest_even), lhs: %123, rhs: %124) : f32 @0
      yield(values: [%125]) @0
    }
    %126 = reshape(x: %122) : tile<128xf32, #1> @0
    %127 = reshape(x: %126) : tile<128x1xf32, #1> @0
    %128 = fma(kind: (rounding: nearest_even), a: %80, b: %116, c: %127) : tile<128x1xf32, #1> @0
    %129 = tma_load(view: %70, index: [%77, %61], token: %23, order: (semantics: weak), buffer: 5, map: 2) : token @0
    %130 = convert(kind: f_to_f(rounding: nearest_even), x: %114) : tile<128x128xf16, #2> @0
    tmem_store(x: %130, buffer: 6, from: 0, atom: "32x32b") @0
    tmem_scale(by: %116, buffer: 7, zero_init: %78, atom: "32x32b") @0
    %131 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 6), rhs: memory(buffer: 5), acc: memory(buffer: 7), zero_init: %131, atom: "tcgen05.k16.f32") @0
    %132 = constant(false) : i1 @0
    continue(values: [%132, %111, %128]) @0
  }
  %133 = if(cond: %74) : tile<128x64xf32, #6> @0 {
    %134 = constant(0.0) : tile<128x64xf32, #6> @0
    yield(values: [%134]) @0
  } {
    %135 = tmem_load(buffer: 7, from: 0, atom: "32x32b") : tile<128x64xf32, #6> @0
    yield(values: [%135]) @0
  }
  %136 = binary(kind: mul_i(overflow: no_wrap), lhs: %60, rhs: %59) : i32 @0
  %137 = broadcast(x: %76) : tile<128x64xf32, #6> @0
  %138 = binary(kind: div_f(rounding: nearest_even), lhs: %133, rhs: %137) : tile<128x64xf32, #6> @0
  %139 = convert(kind: ext_i(signedness: signed), x: %58) : i64 @0
  %140 = broadcast(x: %37) : tile<128x64xptr<f32>, #7> @0
  %141 = iota : tile<128xi32, #8> @0
  %142 = broadcast(x: %136) : tile<128xi32, #8> @0
  %143 = binary(kind: add_i(overflow: no_wrap), lhs: %141, rhs: %142) : tile<128xi32, #8> @0
  %144 = reshape(x: %143) : tile<128x1xi32, #8> @0
  %145 = convert(kind: ext_i(signedness: signed), x: %144) : tile<128x1xi64, #8> @0
  %146 = broadcast(x: %139) : tile<128x1xi64, #8> @0
  %147 = binary(kind: mul_i(overflow: no_wrap), lhs: %145, rhs: %146) : tile<128x1xi64, #8> @0
  %148 = broadcast(x: %147) : tile<128x64xi64, #7> @0
  %149 = iota : tile<64xi32, #9> @0
  %150 = reshape(x: %149) : tile<1x64xi32, #9> @0
  %151 = convert(kind: ext_i(signedness: signed), x: %150) : tile<1x64xi64, #9> @0
  %152 = broadcast(x: %151) : tile<128x64xi64, #7> @0
  %153 = binary(kind: add_i(overflow: no_wrap), lhs: %148, rhs: %152) : tile<128x64xi64, #7> @0
  %154 = offset(ptr: %140, offset: %153) : tile<128x64xptr<f32>, #7> @0
  shared_store(x: %138, buffer: 8, atom: vector(vector_bits: 2)) @0
  %155 = shared_load(buffer: 8, atom: vector(vector_bits: 2)) : tile<128x64xf32, #7> @0
  %156 = broadcast(x: %56) : tile<128x1xi32, #8> @0
  %157 = compare(kind: int(predicate: less_than, signedness: unsigned), lhs: %144, rhs: %156) : tile<128x1xi1, #8> @0
  %158 = broadcast(x: %157) : tile<128x64xi1, #7> @0
  %159 = broadcast(x: %57) : tile<1x64xi32, #9> @0
  %160 = compare(kind: int(predicate: less_than, signedness: unsigned), lhs: %150, rhs: %159) : tile<1x64xi1, #9> @0
  %161 = broadcast(x: %160) : tile<128x64xi1, #7> @0
  %162 = binary(kind: and, lhs: %158, rhs: %161) : tile<128x64xi1, #7> @0
  %163 = store(ptr: %154, value: %155, mask: %162, token: %23, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
