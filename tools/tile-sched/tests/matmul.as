//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer test
//!tile input 0
layout #0 = (register: [1, 256, 8], lane: [2, 4, 32, 64, 128], warp: [512, 16])
layout #1 = (register: [1, 2, 4], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 256, 8, 16], lane: [2, 4, 32, 64, 128], warp: [512, 0])
layout #3 = (register: [32, 256, 8, 512], lane: [64, 128, 1, 2, 4], warp: [0, 16])
layout #4 = (register: [1, 2, 512], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "mm"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>, %3: i32) (warps: 4, buffers: [(elem: f16, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512], align: 128), (elem: f16, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512], align: 128), (elem: f32, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 40, 80, 132, 256, 512], align: 128)]) @0 {
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %7 = make_memref(base: %4) : memref<32x1000xf16, strides: [1024, 1], scope: 1> @0
  %8 = make_view(memref: %7) : view<32x32, memref<32x1000xf16, strides: [1024, 1], scope: 1>, padding: zero> @0
  %9 = make_memref(base: %5) : memref<1000x32xf16, strides: [32, 1], scope: 2> @0
  %10 = make_view(memref: %9) : view<32x32, memref<1000x32xf16, strides: [32, 1], scope: 2>, padding: zero> @0
  %11 = make_memref(base: %6) : memref<32x32xf32, strides: [32, 1], scope: 3> @0
  %12 = make_view(memref: %11) : view<32x32, memref<32x32xf32, strides: [32, 1], scope: 3>> @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15 = make_token : token @0
  %16 = constant(0.0) : tile<32x32xf32, #0> @0
  %17 = for(lower: %13, upper: %3, step: %14, init: [%16]) : tile<32x32xf32, #0> @0 {
    (%18: i32, %19: tile<32x32xf32, #0>)
    %20 = copy_view(view: %8, index: [%13, %18], token: %15, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %21 = copy_view(view: %10, index: [%18, %13], token: %15, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @0
    %22 = shared_load(buffer: 0, atom: matrix) : tile<32x32xf16, #2> @0
    %23 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x32xf16, #3> @0
    %24 = mma(lhs: registers(%22), rhs: registers(%23), acc: registers(%19), signed_lhs: true, signed_rhs: true, atom: "mma.m16n8k16.f32") : tile<32x32xf32, #0> @0
    continue(values: [%24]) @0
  }
  shared_store(x: %17, buffer: 2, atom: vector(vector_bits: 1)) @0
  %25 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<32x32xf32, #4> @0
  %26 = store_view(tile: %25, view: %12, index: [%13, %13], token: %15, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
