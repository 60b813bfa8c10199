// RUN: tile-sched --format=text % | grep -c 'name: "compute'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile option warps=4
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 1024, 2048, 4096, 8192], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #2 = (register: [1, 2, 4, 8, 16, 32, 64], lane: [128, 256, 512, 1024, 2048], warp: [4096, 8192])
func "attention_groups"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f16>, %3: ptr<f16>, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 1025, 2050, 4100, 8, 16, 32, 64, 8192], align: 1024), // buffer 0
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 1
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 2
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 3
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 4
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 5
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 6
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 7
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 8
    (elem: f32, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192], align: 32, space: tensor), // buffer 9
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 10
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 11
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
  shared_store(x: %25, buffer: 6, atom: vector(vector_bits: 3)) @0
  %33, %34, %35, %36, %37, %38 = for(lower: %7, upper: %4, step: %10, init: [%27, %28, %29, %30, %31, %32]) : i1, i1, tile<128x1xf32, #1>, tile<128x1xf32, #1>, tile<128x1xf32, #1>, tile<128x1xf32, #1> @0 {
    (%39: i32, %40: i1, %41: i1, %42: tile<128x1xf32, #1>, %43: tile<128x1xf32, #1>, %44: tile<128x1xf32, #1>, %45: tile<128x1xf32, #1>)
    %46 = tma_load(view: %15, index: [%7, %39], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %47 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: memory(buffer: 2), zero_init: %47, atom: "tcgen05.k16.f32") @0
    %48 = constant(false) : i1 @0
    %49 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    %50 = constant(0.25) : tile<128x128xf32, #2> @0
    %51 = binary(kind: mul_f(rounding: nearest_even), lhs: %49, rhs: %50) : tile<128x128xf32, #2> @0
    %52 = reduce_registers(operands: [%51], dim: 1) : tile<128x1xf32, #1> @0 {
      (%53: f32, %54: f32)
      %55 = binary(kind: max_f, lhs: %53, rhs: %54) : f32 @0
      yield(values: [%55]) @0
    }
    %56 = reshape(x: %52) : tile<128xf32, #1> @0
    %57 = reshape(x: %56) : tile<128x1xf32, #1> @0
    %58 = binary(kind: max_f, lhs: %44, rhs: %57) : tile<128x1xf32, #1> @0
    %59 = broadcast(x: %58) : tile<128x128xf32, #2> @0
    %60 = binary(kind: sub_f(rounding: nearest_even), lhs: %51, rhs: %59) : tile<128x128xf32, #2> @0
    %61 = unary(kind: exp2, x: %60) : tile<128x128xf32, #2> @0
    %62 = reduce_registers(operands: [%61], dim: 1) : tile<128x1xf32, #1> @0 {
      (%63: f32, %64: f32)
      %65 = binary(kind: add_f(rounding: nearest_even), lhs: %63, rhs: %64) : f32 @0
      yield(values: [%65]) @0
    }
    %66 = reshape(x: %62) : tile<128xf32, #1> @0
    %67 = reshape(x: %66) : tile<128x1xf32, #1> @0
    %68 = binary(kind: sub_f(rounding: nearest_even), lhs: %44, rhs: %58) : tile<128x1xf32, #1> @0
    %69 = unary(kind: exp2, x: %68) : tile<128x1xf32, #1> @0
    %70 = binary(kind: mul_f(rounding: nearest_even), lhs: %42, rhs: %69) : tile<128x1xf32, #1> @0
    %71 = binary(kind: add_f(rounding: nearest_even), lhs: %70, rhs: %67) : tile<128x1xf32, #1> @0
    %72 = tma_load(view: %17, index: [%39, %7], order: (semantics: weak), buffer: 3, map: 1) : token @0
    %73 = convert(kind: f_to_f(rounding: nearest_even), x: %61) : tile<128x128xf16, #2> @0
    tmem_store(x: %73, buffer: 4, from: 0, atom: "32x32b") @0
    tmem_scale(by: %69, buffer: 5, zero_init: %40, atom: "32x32b") @0
    %74 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 4), rhs: memory(buffer: 3), acc: memory(buffer: 5), zero_init: %74, atom: "tcgen05.k16.f32") @0
    %75 = constant(false) : i1 @0
    %76 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 6), rhs: memory(buffer: 0), acc: memory(buffer: 7), zero_init: %76, atom: "tcgen05.k16.f32") @0
    %77 = constant(false) : i1 @0
    %78 = tmem_load(buffer: 7, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    %79 = constant(0.25) : tile<128x128xf32, #2> @0
    %80 = binary(kind: mul_f(rounding: nearest_even), lhs: %78, rhs: %79) : tile<128x128xf32, #2> @0
    %81 = reduce_registers(operands: [%80], dim: 1) : tile<128x1xf32, #1> @0 {
      (%82: f32, %83: f32)
      %84 = binary(kind: max_f, lhs: %82, rhs: %83) : f32 @0
      yield(values: [%84]) @0
    }
    %85 = reshape(x: %81) : tile<128xf32, #1> @0
    %86 = reshape(x: %85) : tile<128x1xf32, #1> @0
    %87 = binary(kind: max_f, lhs: %45, rhs: %86) : tile<128x1xf32, #1> @0
    %88 = broadcast(x: %87) : tile<128x128xf32, #2> @0
    %89 = binary(kind: sub_f(rounding: nearest_even), lhs: %80, rhs: %88) : tile<128x128xf32, #2> @0
    %90 = unary(kind: exp2, x: %89) : tile<128x128xf32, #2> @0
    %91 = reduce_registers(operands: [%90], dim: 1) : tile<128x1xf32, #1> @0 {
      (%92: f32, %93: f32)
      %94 = binary(kind: add_f(rounding: nearest_even), lhs: %92, rhs: %93) : f32 @0
      yield(values: [%94]) @0
    }
    %95 = reshape(x: %91) : tile<128xf32, #1> @0
    %96 = reshape(x: %95) : tile<128x1xf32, #1> @0
    %97 = binary(kind: sub_f(rounding: nearest_even), lhs: %45, rhs: %87) : tile<128x1xf32, #1> @0
    %98 = unary(kind: exp2, x: %97) : tile<128x1xf32, #1> @0
    %99 = binary(kind: mul_f(rounding: nearest_even), lhs: %43, rhs: %98) : tile<128x1xf32, #1> @0
    %100 = binary(kind: add_f(rounding: nearest_even), lhs: %99, rhs: %96) : tile<128x1xf32, #1> @0
    %101 = convert(kind: f_to_f(rounding: nearest_even), x: %90) : tile<128x128xf16, #2> @0
    tmem_store(x: %101, buffer: 8, from: 0, atom: "32x32b") @0
    tmem_scale(by: %98, buffer: 9, zero_init: %41, atom: "32x32b") @0
    %102 = constant(false) : i1 @0
    mma(lhs: memory(buffer: 8), rhs: memory(buffer: 3), acc: memory(buffer: 9), zero_init: %102, atom: "tcgen05.k16.f32") @0
    %103 = constant(false) : i1 @0
    continue(values: [%75, %103, %71, %100, %58, %87]) @0
  }
  %104 = if(cond: %33) : tile<128x128xf32, #2> @0 {
    %105 = constant(0.0) : tile<128x128xf32, #2> @0
    yield(values: [%105]) @0
  } {
    %106 = tmem_load(buffer: 5, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    yield(values: [%106]) @0
  }
  %107 = if(cond: %34) : tile<128x128xf32, #2> @0 {
    %108 = constant(0.0) : tile<128x128xf32, #2> @0
    yield(values: [%108]) @0
  } {
    %109 = tmem_load(buffer: 9, from: 0, atom: "32x32b") : tile<128x128xf32, #2> @0
    yield(values: [%109]) @0
  }
  %110 = broadcast(x: %35) : tile<128x128xf32, #2> @0
  %111 = binary(kind: div_f(rounding: nearest_even), lhs: %104, rhs: %110) : tile<128x128xf32, #2> @0
  %112 = convert(kind: f_to_f(rounding: nearest_even), x: %111) : tile<128x128xf16, #2> @0
  %113 = assume(value: %3, fact: div_by(divisor: 16)) : ptr<f16> @0
  %114 = make_memref(base: %113) : !6 @0
  %115 = make_view(memref: %114) : !7 @0
  shared_store(x: %112, buffer: 10, atom: vector(vector_bits: 3)) @0
  %116 = tma_store(view: %115, index: [%9, %7], order: (semantics: weak), buffer: 10, map: 2) : token @0
  %117 = broadcast(x: %36) : tile<128x128xf32, #2> @0
  %118 = binary(kind: div_f(rounding: nearest_even), lhs: %107, rhs: %117) : tile<128x128xf32, #2> @0
  %119 = convert(kind: f_to_f(rounding: nearest_even), x: %118) : tile<128x128xf16, #2> @0
  %120 = make_view(memref: %114) : !7 @0
  shared_store(x: %119, buffer: 11, atom: vector(vector_bits: 3)) @0
  %121 = tma_store(view: %120, index: [%23, %7], order: (semantics: weak), buffer: 11, map: 2) : token @0
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
