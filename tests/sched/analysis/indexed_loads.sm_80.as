// RUN: tile-sched -v -o x % 2>&1 | grep -oE 'the loop is.*'
//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile option tma=on
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 512, 1024, 8, 16], lane: [2, 4, 64, 128, 256], warp: [2048, 32])
layout #1 = (lane: [0, 0, 0, 0, 0], warp: [0, 0])
layout #2 = (register: [1, 2, 4, 1024], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #3 = (register: [1, 256, 8, 16, 512], lane: [2, 4, 32, 64, 128], warp: [1024, 0])
layout #4 = (register: [64, 512, 8, 1024, 16], lane: [128, 256, 1, 2, 4], warp: [0, 32])
layout #5 = (register: [128, 256, 512, 1024, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #6 = (lane: [1, 0, 0, 0, 0], warp: [0, 0])
func "looked_up"(%0: ptr<f16>, %1: ptr<f32>, %2: ptr<i32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = memref<?xi32, strides: [1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !0, padding: zero>
  type !5 = view<64x64, !1>
  type !6 = view<1, !2>
  type !7 = view<2, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %1, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_memref(base: %2, sizes: [%7]) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = make_view(memref: %11) : !6 @0
  %16 = make_view(memref: %11) : !7 @0
  %17 = constant(0) : i32 @0
  %18 = constant(1) : i32 @0
  %19 = constant(0.0) : tile<64x64xf32, #0> @0
  %20 = for(lower: %17, upper: %7, step: %18, init: [%19]) : tile<64x64xf32, #0> @0 {
    (%21: i32, %22: tile<64x64xf32, #0>)
    %23, %24 = load_view(view: %15, index: [%21], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #1>, token @0
    %25 = reshape(x: %23) : i32 @0
    %26 = copy_view(view: %12, index: [%4, %25], token: %8, order: (semantics: weak), whole: true, buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %27 = copy_view(view: %13, index: [%25, %4], token: %8, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %28 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #3> @0
    %29 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #4> @0
    %30 = mma(lhs: registers(%28), rhs: registers(%29), acc: registers(%22), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%30]) @0
  }
  shared_store(x: %20, buffer: 2, atom: vector(vector_bits: 1)) @0
  %31 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #5> @0
  %32 = store_view(tile: %31, view: %14, index: [%4, %4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "through_a_pointer"(%0: ptr<f16>, %1: ptr<f32>, %2: ptr<i32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = memref<?xi32, strides: [1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !0, padding: zero>
  type !5 = view<64x64, !1>
  type !6 = view<1, !2>
  type !7 = view<2, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %1, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_memref(base: %2, sizes: [%7]) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = make_view(memref: %11) : !6 @0
  %16 = make_view(memref: %11) : !7 @0
  %17 = constant(0) : i32 @0
  %18 = constant(1) : i32 @0
  %19 = constant(0.0) : tile<64x64xf32, #0> @0
  %20 = for(lower: %17, upper: %7, step: %18, init: [%19]) : tile<64x64xf32, #0> @0 {
    (%21: i32, %22: tile<64x64xf32, #0>)
    %23 = offset(ptr: %2, offset: %21) : ptr<i32> @0
    %24, %25 = load(ptr: %23, order: (semantics: weak), atom: vector(vector_bits: 0)) : i32, token @0
    %26 = copy_view(view: %12, index: [%4, %24], token: %8, order: (semantics: weak), whole: true, buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %27 = copy_view(view: %13, index: [%24, %4], token: %8, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %28 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #3> @0
    %29 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #4> @0
    %30 = mma(lhs: registers(%28), rhs: registers(%29), acc: registers(%22), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%30]) @0
  }
  shared_store(x: %20, buffer: 2, atom: vector(vector_bits: 1)) @0
  %31 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #5> @0
  %32 = store_view(tile: %31, view: %14, index: [%4, %4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "looked_up_twice"(%0: ptr<f16>, %1: ptr<f32>, %2: ptr<i32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = memref<?xi32, strides: [1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !0, padding: zero>
  type !5 = view<64x64, !1>
  type !6 = view<1, !2>
  type !7 = view<2, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %1, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_memref(base: %2, sizes: [%7]) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = make_view(memref: %11) : !6 @0
  %16 = make_view(memref: %11) : !7 @0
  %17 = constant(0) : i32 @0
  %18 = constant(1) : i32 @0
  %19 = constant(0.0) : tile<64x64xf32, #0> @0
  %20 = for(lower: %17, upper: %7, step: %18, init: [%19]) : tile<64x64xf32, #0> @0 {
    (%21: i32, %22: tile<64x64xf32, #0>)
    %23, %24 = load_view(view: %15, index: [%21], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #1>, token @0
    %25 = reshape(x: %23) : i32 @0
    %26, %27 = load_view(view: %15, index: [%25], token: %24, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #1>, token @0
    %28 = reshape(x: %26) : i32 @0
    %29 = copy_view(view: %12, index: [%4, %28], token: %8, order: (semantics: weak), whole: true, buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %30 = copy_view(view: %13, index: [%28, %4], token: %8, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %31 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #3> @0
    %32 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #4> @0
    %33 = mma(lhs: registers(%31), rhs: registers(%32), acc: registers(%22), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%33]) @0
  }
  shared_store(x: %20, buffer: 2, atom: vector(vector_bits: 1)) @0
  %34 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #5> @0
  %35 = store_view(tile: %34, view: %14, index: [%4, %4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "several_elements"(%0: ptr<f16>, %1: ptr<f32>, %2: ptr<i32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = memref<?xi32, strides: [1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !0, padding: zero>
  type !5 = view<64x64, !1>
  type !6 = view<1, !2>
  type !7 = view<2, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %1, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_memref(base: %2, sizes: [%7]) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = make_view(memref: %11) : !6 @0
  %16 = make_view(memref: %11) : !7 @0
  %17 = constant(0) : i32 @0
  %18 = constant(1) : i32 @0
  %19 = constant(0.0) : tile<64x64xf32, #0> @0
  %20 = for(lower: %17, upper: %7, step: %18, init: [%19]) : tile<64x64xf32, #0> @0 {
    (%21: i32, %22: tile<64x64xf32, #0>)
    %23, %24 = load_view(view: %16, index: [%21], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<2xi32, #6>, token @0
    %25 = reduce_lanes(operands: [%23], dim: 0) : tile<1xi32, #1> @0 {
      (%26: i32, %27: i32)
      %28 = binary(kind: add_i(overflow: none), lhs: %26, rhs: %27) : i32 @0
      yield(values: [%28]) @0
    }
    %29 = reshape(x: %25) : i32 @0
    %30 = reshape(x: %29) : i32 @0
    %31 = copy_view(view: %12, index: [%4, %30], token: %8, order: (semantics: weak), whole: true, buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %32 = copy_view(view: %13, index: [%30, %4], token: %8, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %33 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #3> @0
    %34 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #4> @0
    %35 = mma(lhs: registers(%33), rhs: registers(%34), acc: registers(%22), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%35]) @0
  }
  shared_store(x: %20, buffer: 2, atom: vector(vector_bits: 1)) @0
  %36 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #5> @0
  %37 = store_view(tile: %36, view: %14, index: [%4, %4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "after_another_thread"(%0: ptr<f16>, %1: ptr<f32>, %2: ptr<i32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: i32, shape: [1], align: 128), // buffer 0
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 1
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 2
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 3
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = memref<?xi32, strides: [1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !0, padding: zero>
  type !5 = view<64x64, !1>
  type !6 = view<1, !2>
  type !7 = view<2, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %1, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_memref(base: %2, sizes: [%7]) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = make_view(memref: %11) : !6 @0
  %16 = make_view(memref: %11) : !7 @0
  %17 = constant(0) : i32 @0
  %18 = constant(1) : i32 @0
  %19 = constant(0.0) : tile<64x64xf32, #0> @0
  %20 = for(lower: %17, upper: %7, step: %18, init: [%19]) : tile<64x64xf32, #0> @0 {
    (%21: i32, %22: tile<64x64xf32, #0>)
    %23, %24 = load_view(view: %15, index: [%21], token: %8, order: (semantics: acquire, scope: device), atom: vector(vector_bits: 0)) : tile<1xi32, #1>, token @0
    shared_store(x: %23, buffer: 0, atom: vector(vector_bits: 0)) @0
    %25 = shared_load(buffer: 0, atom: vector(vector_bits: 0)) : tile<1xi32, #1> @0
    %26 = reshape(x: %25) : i32 @0
    %27 = copy_view(view: %12, index: [%4, %26], token: %8, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %28 = copy_view(view: %13, index: [%26, %4], token: %8, order: (semantics: weak), whole: true, buffer: 2, layout: 2, atom: async(bytes: 16)) : token @0
    %29 = shared_load(buffer: 1, atom: matrix) : tile<64x32xf16, #3> @0
    %30 = shared_load(buffer: 2, atom: matrix(trans: true)) : tile<32x64xf16, #4> @0
    %31 = mma(lhs: registers(%29), rhs: registers(%30), acc: registers(%22), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%31]) @0
  }
  shared_store(x: %20, buffer: 3, atom: vector(vector_bits: 1)) @0
  %32 = shared_load(buffer: 3, atom: matrix) : tile<64x64xf32, #5> @0
  %33 = store_view(tile: %32, view: %14, index: [%4, %4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
func "after_a_store"(%0: ptr<f16>, %1: ptr<f32>, %2: ptr<i32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 0
    (elem: f16, shape: [32, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024], align: 128), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = memref<?xi32, strides: [1], scope: 3>
  type !3 = view<64x32, !0, padding: zero>
  type !4 = view<32x64, !0, padding: zero>
  type !5 = view<64x64, !1>
  type !6 = view<1, !2>
  type !7 = view<2, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %6 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %7 = assume(value: %6, fact: bounded(low: 0)) : i32 @0
  %8 = make_token : token @0
  %9 = make_memref(base: %5, sizes: [%7, %7], strides: [%7]) : !0 @0
  %10 = make_memref(base: %1, sizes: [%7, %7], strides: [%7]) : !1 @0
  %11 = make_memref(base: %2, sizes: [%7]) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = make_view(memref: %9) : !4 @0
  %14 = make_view(memref: %10) : !5 @0
  %15 = make_view(memref: %11) : !6 @0
  %16 = make_view(memref: %11) : !7 @0
  %17 = constant(0) : i32 @0
  %18 = constant(1) : i32 @0
  %19 = constant(5) : tile<1xi32, #1> @0
  %20 = store_view(tile: %19, view: %15, index: [%4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %21 = constant(0.0) : tile<64x64xf32, #0> @0
  %22 = for(lower: %17, upper: %7, step: %18, init: [%21]) : tile<64x64xf32, #0> @0 {
    (%23: i32, %24: tile<64x64xf32, #0>)
    %25, %26 = load_view(view: %15, index: [%23], token: %20, order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<1xi32, #1>, token @0
    %27 = reshape(x: %25) : i32 @0
    %28 = copy_view(view: %12, index: [%4, %27], token: %8, order: (semantics: weak), whole: true, buffer: 0, layout: 2, atom: async(bytes: 16)) : token @0
    %29 = copy_view(view: %13, index: [%27, %4], token: %8, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %30 = shared_load(buffer: 0, atom: matrix) : tile<64x32xf16, #3> @0
    %31 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<32x64xf16, #4> @0
    %32 = mma(lhs: registers(%30), rhs: registers(%31), acc: registers(%24), atom: "mma.m16n8k16.f32") : tile<64x64xf32, #0> @0
    continue(values: [%32]) @0
  }
  shared_store(x: %22, buffer: 2, atom: vector(vector_bits: 1)) @0
  %33 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #5> @0
  %34 = store_view(tile: %33, view: %14, index: [%4, %4], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "looked_up"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile function "through_a_pointer"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 1, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 1, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 1, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 1, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 1, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 1, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile function "looked_up_twice"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 2, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 2, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 2, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 2, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 2, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 2, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 2, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 2, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile function "several_elements"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 3, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 3, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 3, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 3, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 3, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 3, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 3, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 3, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 3, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile function "after_another_thread"
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 4, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 4, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 4, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 4, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 4, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 4, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 4, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 4, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 4, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile function "after_a_store"
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 5, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 5, loc: @0, message: "load of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 5, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 5, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 5, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 5, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 5, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 5, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 5, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 5, loc: @0, message: "the tile is not copied by TMA: the target has no TMA")
