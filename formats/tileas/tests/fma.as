//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (lane: [1, 2, 4, 8, 16], warp: [32, 0])
layout #1 = (register: [16], lane: [1, 2, 4, 8, 32], warp: [64, 128])
layout #2 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "k"(%0: ptr<f32>) (
  warps: 4,
  buffers: [
    (elem: f32, shape: [16, 4], offsets: [4, 8, 16, 32, 1, 34], align: 128), // buffer 0
    (elem: f32, shape: [4, 16], offsets: [1, 2, 4, 8, 16, 36], align: 128), // buffer 1
    (elem: f32, shape: [16, 16], offsets: [16, 32, 64, 128, 1, 34, 68, 136], align: 128), // buffer 2
  ],
) {
  type !0 = memref<16x4xf32, strides: [4, 1], scope: 1>
  type !1 = view<16x4, !0>
  type !2 = memref<4x16xf32, strides: [16, 1], scope: 1>
  type !3 = view<4x16, !2>
  type !4 = memref<16x16xf32, strides: [16, 1], scope: 1>
  type !5 = view<16x16, !4>
  %1 = make_memref(base: %0) : !0
  %2 = make_view(memref: %1) : !1
  %3 = make_memref(base: %0) : !2
  %4 = make_view(memref: %3) : !3
  %5 = make_memref(base: %0) : !4
  %6 = make_view(memref: %5) : !5
  %7 = constant(0) : i32
  %8, %9 = load_view(view: %2, index: [%7, %7], order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<16x4xf32, #0>, token
  %10, %11 = load_view(view: %4, index: [%7, %7], order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<4x16xf32, #0>, token
  %12 = constant(0.0) : tile<16x16xf32, #1>
  shared_store(x: %8, buffer: 0, atom: vector(vector_bits: 0))
  shared_store(x: %10, buffer: 1, atom: vector(vector_bits: 0))
  %13 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%12), atom: "multiply_add.k4") : tile<16x16xf32, #1>
  shared_store(x: %13, buffer: 2, atom: vector(vector_bits: 1))
  %14 = shared_load(buffer: 2, atom: vector(vector_bits: 0)) : tile<16x16xf32, #2>
  %15 = store_view(tile: %14, view: %6, index: [%7, %7], token: %9, order: (semantics: weak), atom: vector(vector_bits: 0)) : token
  return
}
