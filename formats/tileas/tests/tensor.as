//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer written by hand
//!tile input 0
layout #0 = (register: [1, 2, 4, 1024], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #1 = (register: [1, 2, 4], lane: [8, 16, 32, 64, 128], warp: [256, 0])
layout #2 = (register: [1, 2, 4, 8, 16], lane: [32, 64, 128, 256, 512], warp: [1024, 2048])
func "product"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (warps: 4, buffers: [(elem: f16, shape: [128, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512, 1024], align: 1024), (elem: f16, shape: [16, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256], align: 1024), (elem: f32, shape: [128, 32], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048], align: 32, space: tensor)]) @0 {
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = make_memref(base: %4) : memref<128x144xf16, strides: [144, 1], scope: 1> @0
  %6 = make_view(memref: %5) : view<128x16, memref<128x144xf16, strides: [144, 1], scope: 1>> @0
  %7 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %8 = make_memref(base: %7) : memref<144x32xf16, strides: [32, 1], scope: 2> @0
  %9 = make_view(memref: %8) : view<16x32, memref<144x32xf16, strides: [32, 1], scope: 2>> @0
  %10 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %11 = make_memref(base: %10) : memref<128x32xf32, strides: [32, 1], scope: 3> @0
  %12 = make_view(memref: %11) : view<128x32, memref<128x32xf32, strides: [32, 1], scope: 3>> @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15 = constant(3) : i32 @0
  for(lower: %13, upper: %3, step: %14) @0 {
    (%16: i32)
    %17, %18 = load_view(view: %6, index: [%13, %16], order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<128x16xf16, #0>, token @0
    %19, %20 = load_view(view: %9, index: [%16, %13], order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<16x32xf16, #1>, token @0
    shared_store(x: %17, buffer: 0, atom: vector(vector_bits: 3)) @0
    shared_store(x: %19, buffer: 1, atom: vector(vector_bits: 3)) @0
    %21 = compare(kind: int(predicate: equal, signedness: signed), lhs: %16, rhs: %13) : i1 @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %21, signed_lhs: true, signed_rhs: true, atom: "tcgen05.k16.f32") @0
    continue @0
  }
  %22 = compare(kind: int(predicate: less_than, signedness: signed), lhs: %13, rhs: %3) : i1 @0
  if(cond: %22) @0 {
    %23 = tmem_load(buffer: 2, from: 0, atom: "32x32b") : tile<128x32xf32, #2> @0
    %24 = constant(0) : i32 @0
    %25 = store_view(tile: %23, view: %12, index: [%13, %24], order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    yield @0
  } {
    %26 = constant(0.0) : tile<128x32xf32, #2> @0
    %27 = constant(0) : i32 @0
    %28 = store_view(tile: %26, view: %12, index: [%13, %27], order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
    yield @0
  }
  return @0
}
