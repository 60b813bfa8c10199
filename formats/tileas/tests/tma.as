//!tile tileas 7 atoms
//!tile target sm_120
//!tile option opt-level=3
//!tile option tma=on
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 512, 1024, 8, 16], lane: [2, 4, 64, 128, 256], warp: [2048, 32])
layout #1 = (register: [1, 256, 8, 16, 512], lane: [2, 4, 32, 64, 128], warp: [1024, 0])
layout #2 = (register: [64, 512, 8, 1024, 16], lane: [128, 256, 1, 2, 4], warp: [0, 32])
layout #3 = (register: [128, 256, 512, 1024, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "k"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 512), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [32, 64], swizzle: bytes64), // map 0
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 32], swizzle: bytes128), // map 1
  ],
) {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x32, !0, padding: zero>
  type !3 = view<32x64, !0, padding: zero>
  type !4 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16>
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32
  %7 = make_token : token
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1
  %10 = make_view(memref: %8) : !2
  %11 = make_view(memref: %8) : !3
  %12 = make_view(memref: %9) : !4
  %13 = constant(0) : i32
  %14 = constant(1) : i32
  %15 = constant(0.0) : tile<64x64xf32, #0>
  %16 = for(lower: %13, upper: %6, step: %14, init: [%15]) : tile<64x64xf32, #0> {
    (%17: i32, %18: tile<64x64xf32, #0>)
    %19 = tma_load(view: %10, index: [%3, %17], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token
    %20 = tma_load(view: %11, index: [%17, %3], token: %7, order: (semantics: weak), buffer: 1, map: 1) : token
    %21 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #1>
    %22 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #2>
    %23 = mma(lhs: registers(%21), rhs: registers(%22), acc: registers(%18), signed_lhs: true, signed_rhs: true, atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0>
    continue(values: [%23])
  }
  shared_store(x: %16, buffer: 2, atom: vector(vector_bits: 1))
  %24 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #3>
  %25 = store_view(tile: %24, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token
  return
}
