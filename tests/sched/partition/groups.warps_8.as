// RUN: tile-sched --format=text % | grep -c 'name: "compute'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile option warps=8
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 2048, 4096, 8192], lane: [8, 16, 32, 64, 128], warp: [256, 512, 1024])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32, 64, 0])
layout #2 = (register: [1, 2, 4, 8, 16, 32], lane: [128, 256, 512, 1024, 2048], warp: [4096, 8192, 64])
layout #3 = (lane: [2, 4, 8, 16, 32], warp: [64, 128, 1])
layout #4 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [64, 128, 0])
func "attention_groups"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f16>, %3: ptr<f16>, %4: i32) (
  warps: 8,
  buffers: [
    (elem: f16, shape: [128, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 1025, 2050, 4100, 8, 16, 32, 64, 8192], align: 1024), // buffer 0
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f32, shape: [128, 2], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 128), // buffer 3
    (elem: f32, shape: [128, 2], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 128), // buffer 4
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 5
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 6
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 7
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 8
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 9
    (elem: f32, shape: [128, 2], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 128), // buffer 10
    (elem: f32, shape: [128, 2], offsets: [1, 2, 4, 8, 16, 32, 64, 128], align: 128), // buffer 11
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 12
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 13
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 14
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 15
  ],
  maps: [
    (base: param(1), element: f16, dims: [const(128), const(384)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(2), element: f16, dims: [const(128), const(384)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 1
    (base: param(3), element: f16, dims: [const(128), const(256)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<256x128xf16, strides: [128, 1], scope: 1>
  type !1 = view<128x128, !0>
  type !2 = memref<384x128xf16, strides: [128, 1], scope: 2>
  type !3 = view<128x128, !2, dims: [1, 0]>
  type !4 = memref<384x128xf16, strides: [128, 1], scope: 3>
  type !5 = view<128x128, !4>
  type !6 = memref<256x128xf16, strides: [128, 1], scope: 4>
  type !7 = view<128x128, !6>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %7 = constant(0) : i32 @0
  %8 = constant(2) : i32 @0
  %9 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %7, rhs: %8) : i32 @0
  %10 = constant(1) : i32 @0
  %11 = make_memref(base: %5) : !0 @0
  %12 = make_view(memref: %11) : !1 @0
  %13 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f16> @0
  %14 = make_memref(base: %6) : !2 @0
  %15 = make_view(memref: %14) : !3 @0
  %16 = make_memref(base: %13) : !4 @0
  %17 = make_view(memref: %16) : !5 @0
  %18, %19 = load_view(view: %12, index: [%9, %7], order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<128x128xf16, #0>, token @0
  %20 = constant(2) : i32 @0
  %21 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %7, rhs: %20) : i32 @0
  %22 = constant(1) : i32 @0
  %23 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %21, rhs: %22) : i32 @0
  %24 = make_view(memref: %11) : !1 @0
  %25, %26 = load_view(view: %24, index: [%23, %7], order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<128x128xf16, #0>, token @0
  %27 = constant(true) : i1 @0
  %28 = constant(true) : i1 @0
  %29 = constant(0.0) : tile<128x1xf32, #1> @0
  %30 = constant(0.0) : tile<128x1xf32, #1> @0
  %31 = constant(0xFF800000) : tile<128x1xf32, #1> @0
  %32 = constant(0xFF800000) : tile<128x1xf32, #1> @0
  shared_store(x: %18, buffer: 1, atom: vector(vector_bits: 3)) @0
  shared_store(x: %25, buffer: 8, atom: vector(vector_bits: 3)) @0
  %33, %34, %35, %36, %37, %38 = for(lower: %7, upper: %4, step: %10, init: [%27, %28, %29, %30, %31, %32]) : i1, i1, tile<128x1xf32, #1>, tile<128x1xf32, #1>, tile<128x1xf32, #1>, tile<128x1xf32, #1> @0 {
    (%39: i32, %40: i1, %41: i1, %42: tile<128x1xf32, #1>, %43: tile<128x1xf32, #1>, %44: tile<128x1xf32, #1>, %45: tile<128x1xf32, #1>)
    %46 = tma_load(view: %15, index: [%7, %39], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %47 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: memory(buffer: 2), zero_init: %47, atom: "tcgen05.k16.f32") @0
    %48 = constant(false) : i1 @0
    %49 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    %50 = constant(0.25) : tile<128x128xf32, #2> @0
    %51 = binary(kind: mul_f(rounding: nearest_even), lhs: %49, rhs: %50) : tile<128x128xf32, #2> @0
    %52 = reduce_registers(operands: [%51], dim: 1) : tile<128x2xf32, #3> @0 {
      (%53: f32, %54: f32)
      %55 = binary(kind: max_f, lhs: %53, rhs: %54) : f32 @0
      yield(values: [%55]) @0
    }
    shared_store(x: %52, buffer: 3, atom: vector(vector_bits: 0)) @0
    %56 = shared_load(buffer: 3, atom: vector(vector_bits: 1)) : tile<128x2xf32, #4> @0
    %57 = reduce_registers(operands: [%56], dim: 1) : tile<128x1xf32, #1> @0 {
      (%58: f32, %59: f32)
      %60 = binary(kind: max_f, lhs: %58, rhs: %59) : f32 @0
      yield(values: [%60]) @0
    }
    %61 = reshape(x: %57) : tile<128xf32, #1> @0
    %62 = reshape(x: %61) : tile<128x1xf32, #1> @0
    %63 = binary(kind: max_f, lhs: %44, rhs: %62) : tile<128x1xf32, #1> @0
    %64 = broadcast(x: %63) : tile<128x128xf32, #2> @0
    %65 = binary(kind: sub_f(rounding: nearest_even), lhs: %51, rhs: %64) : tile<128x128xf32, #2> @0
    %66 = unary(kind: exp2, x: %65) : tile<128x128xf32, #2> @0
    %67 = reduce_registers(operands: [%66], dim: 1) : tile<128x2xf32, #3> @0 {
      (%68: f32, %69: f32)
      %70 = binary(kind: add_f(rounding: nearest_even), lhs: %68, rhs: %69) : f32 @0
      yield(values: [%70]) @0
    }
    shared_store(x: %67, buffer: 4, atom: vector(vector_bits: 0)) @0
    %71 = shared_load(buffer: 4, atom: vector(vector_bits: 1)) : tile<128x2xf32, #4> @0
    %72 = reduce_registers(operands: [%71], dim: 1) : tile<128x1xf32, #1> @0 {
      (%73: f32, %74: f32)
      %75 = binary(kind: add_f(rounding: nearest_even), lhs: %73, rhs: %74) : f32 @0
      yield(values: [%75]) @0
    }
    %76 = reshape(x: %72) : tile<128xf32, #1> @0
    %77 = reshape(x: %76) : tile<128x1xf32, #1> @0
    %78 = binary(kind: sub_f(rounding: nearest_even), lhs: %44, rhs: %63) : tile<128x1xf32, #1> @0
    %79 = unary(kind: exp2, x: %78) : tile<128x1xf32, #1> @0
    %80 = binary(kind: mul_f(rounding: nearest_even), lhs: %42, rhs: %79) : tile<128x1xf32, #1> @0
    %81 = binary(kind: add_f(rounding: nearest_even), lhs: %80, rhs: %77) : tile<128x1xf32, #1> @0
    %82 = tma_load(view: %17, index: [%39, %7], order: (semantics: weak), buffer: 5, map: 1) : token @0
    %83 = convert(kind: f_to_f(rounding: nearest_even), x: %66) : tile<128x128xf16, #2> @0
    tmem_store(x: %83, buffer: 6, from: 0, atom: "32x32b") @0
    tmem_scale(by: %79, buffer: 7, zero_init: %40, atom: "32x32b") @0
    %84 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 6), rhs: memory(buffer: 5), acc: memory(buffer: 7), zero_init: %84, atom: "tcgen05.k16.f32") @0
    %85 = constant(false) : i1 @0
    %86 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 8), rhs: memory(buffer: 0), acc: memory(buffer: 9), zero_init: %86, atom: "tcgen05.k16.f32") @0
    %87 = constant(false) : i1 @0
    %88 = tmem_load(buffer: 9, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    %89 = constant(0.25) : tile<128x128xf32, #2> @0
    %90 = binary(kind: mul_f(rounding: nearest_even), lhs: %88, rhs: %89) : tile<128x128xf32, #2> @0
    %91 = reduce_registers(operands: [%90], dim: 1) : tile<128x2xf32, #3> @0 {
      (%92: f32, %93: f32)
      %94 = binary(kind: max_f, lhs: %92, rhs: %93) : f32 @0
      yield(values: [%94]) @0
    }
    shared_store(x: %91, buffer: 10, atom: vector(vector_bits: 0)) @0
    %95 = shared_load(buffer: 10, atom: vector(vector_bits: 1)) : tile<128x2xf32, #4> @0
    %96 = reduce_registers(operands: [%95], dim: 1) : tile<128x1xf32, #1> @0 {
      (%97: f32, %98: f32)
      %99 = binary(kind: max_f, lhs: %97, rhs: %98) : f32 @0
      yield(values: [%99]) @0
    }
    %100 = reshape(x: %96) : tile<128xf32, #1> @0
    %101 = reshape(x: %100) : tile<128x1xf32, #1> @0
    %102 = binary(kind: max_f, lhs: %45, rhs: %101) : tile<128x1xf32, #1> @0
    %103 = broadcast(x: %102) : tile<128x128xf32, #2> @0
    %104 = binary(kind: sub_f(rounding: nearest_even), lhs: %90, rhs: %103) : tile<128x128xf32, #2> @0
    %105 = unary(kind: exp2, x: %104) : tile<128x128xf32, #2> @0
    %106 = reduce_registers(operands: [%105], dim: 1) : tile<128x2xf32, #3> @0 {
      (%107: f32, %108: f32)
      %109 = binary(kind: add_f(rounding: nearest_even), lhs: %107, rhs: %108) : f32 @0
      yield(values: [%109]) @0
    }
    shared_store(x: %106, buffer: 11, atom: vector(vector_bits: 0)) @0
    %110 = shared_load(buffer: 11, atom: vector(vector_bits: 1)) : tile<128x2xf32, #4> @0
    %111 = reduce_registers(operands: [%110], dim: 1) : tile<128x1xf32, #1> @0 {
      (%112: f32, %113: f32)
      %114 = binary(kind: add_f(rounding: nearest_even), lhs: %112, rhs: %113) : f32 @0
      yield(values: [%114]) @0
    }
    %115 = reshape(x: %111) : tile<128xf32, #1> @0
    %116 = reshape(x: %115) : tile<128x1xf32, #1> @0
    %117 = binary(kind: sub_f(rounding: nearest_even), lhs: %45, rhs: %102) : tile<128x1xf32, #1> @0
    %118 = unary(kind: exp2, x: %117) : tile<128x1xf32, #1> @0
    %119 = binary(kind: mul_f(rounding: nearest_even), lhs: %43, rhs: %118) : tile<128x1xf32, #1> @0
    %120 = binary(kind: add_f(rounding: nearest_even), lhs: %119, rhs: %116) : tile<128x1xf32, #1> @0
    %121 = convert(kind: f_to_f(rounding: nearest_even), x: %105) : tile<128x128xf16, #2> @0
    tmem_store(x: %121, buffer: 12, from: 0, atom: "32x32b") @0
    tmem_scale(by: %118, buffer: 13, zero_init: %41, atom: "32x32b") @0
    %122 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 12), rhs: memory(buffer: 5), acc: memory(buffer: 13), zero_init: %122, atom: "tcgen05.k16.f32") @0
    %123 = constant(false) : i1 @0
    continue(values: [%85, %123, %81, %120, %63, %102]) @0
  }
  %124 = if(cond: %33) : tile<128x128xf32, #2> @0 {
    %125 = constant(0.0) : tile<128x128xf32, #2> @0
    yield(values: [%125]) @0
  } {
    %126 = tmem_load(buffer: 7, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    yield(values: [%126]) @0
  }
  %127 = if(cond: %34) : tile<128x128xf32, #2> @0 {
    %128 = constant(0.0) : tile<128x128xf32, #2> @0
    yield(values: [%128]) @0
  } {
    %129 = tmem_load(buffer: 13, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    yield(values: [%129]) @0
  }
  %130 = broadcast(x: %35) : tile<128x128xf32, #2> @0
  %131 = binary(kind: div_f(rounding: nearest_even), lhs: %124, rhs: %130) : tile<128x128xf32, #2> @0
  %132 = convert(kind: f_to_f(rounding: nearest_even), x: %131) : tile<128x128xf16, #2> @0
  %133 = assume(value: %3, fact: div_by(divisor: 16)) : ptr<f16> @0
  %134 = make_memref(base: %133) : !6 @0
  %135 = make_view(memref: %134) : !7 @0
  shared_store(x: %132, buffer: 14, atom: vector(vector_bits: 3)) @0
  %136 = tma_store(view: %135, index: [%9, %7], order: (semantics: weak), buffer: 14, map: 2) : token @0
  %137 = broadcast(x: %36) : tile<128x128xf32, #2> @0
  %138 = binary(kind: div_f(rounding: nearest_even), lhs: %127, rhs: %137) : tile<128x128xf32, #2> @0
  %139 = convert(kind: f_to_f(rounding: nearest_even), x: %138) : tile<128x128xf16, #2> @0
  %140 = make_view(memref: %134) : !7 @0
  shared_store(x: %139, buffer: 15, atom: vector(vector_bits: 3)) @0
  %141 = tma_store(view: %140, index: [%23, %7], order: (semantics: weak), buffer: 15, map: 2) : token @0
  return @0
}
//!tile function "attention_groups"
//!tile log (pass: "split-m", outcome: Passed, name: "SplitM", category: Other, function: 0, loc: @0, message: "rows run as two M subtiles, one after the other, which halves the live operands and accumulators between MMAs")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: with two compute roles, neither can wait for it")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: with two compute roles, neither can wait for it")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored from shared memory in TMA tiles of 16384 bytes")
