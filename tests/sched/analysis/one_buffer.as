// RUN: tile-sched  -v -o x % 2>&1 | grep -oE 'the loop is.*'
//!tile tileas 7 atoms
//!tile target sm_120
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 1024, 2048, 4096, 8, 16, 32], lane: [2, 4, 128, 256, 512], warp: [16384, 8192, 64])
layout #1 = (register: [1, 2, 4, 2048, 4096, 8192], lane: [8, 16, 32, 64, 128], warp: [256, 512, 1024])
layout #2 = (register: [1, 2, 4, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512, 1024])
layout #3 = (register: [1, 512, 8, 16, 32, 1024, 2048], lane: [2, 4, 64, 128, 256], warp: [8192, 4096, 0])
layout #4 = (register: [128, 1024, 8, 2048, 4096, 16, 32], lane: [256, 512, 1, 2, 4], warp: [0, 0, 64])
layout #5 = (register: [256, 512, 1024, 2048, 4096, 8192, 16384], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
layout #6 = (register: [1, 1024, 2048, 8, 16, 32], lane: [2, 4, 128, 256, 512], warp: [8192, 4096, 64])
layout #7 = (register: [256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
layout #8 = (register: [1, 1024, 8, 16, 32], lane: [2, 4, 128, 256, 512], warp: [4096, 2048, 64])
layout #9 = (register: [256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
layout #10 = (register: [256, 512, 1024, 4096, 8192, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
layout #11 = (register: [256, 512, 1024, 2048, 8192, 16384, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
func "one_buffer"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 8,
  buffers: [
    (elem: f16, shape: [256, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096, 8192], align: 128), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 544, 1024, 2048, 4096], align: 128), // buffer 1
    (elem: f16, shape: [256, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096, 8192], align: 128), // buffer 2
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 544, 1024, 2048, 4096], align: 128), // buffer 3
    (elem: f32, shape: [4, 1, 1, 1, 16, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 516, 1024, 2048, 4096], align: 128), // buffer 4
    (elem: f32, shape: [4, 1, 1, 1, 16, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 516, 1024, 2048, 4096], align: 128), // buffer 5
    (elem: f32, shape: [4, 1, 1, 1, 16, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 516, 1024, 2048, 4096], align: 128), // buffer 6
    (elem: f32, shape: [4, 1, 1, 1, 16, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 516, 1024, 2048, 4096], align: 128), // buffer 7
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<256x128, !0, padding: zero>
  type !3 = view<256x64, !0, padding: zero>
  type !4 = view<128x128, !0, padding: zero>
  type !5 = view<64x128, !0, padding: zero>
  type !6 = view<256x128, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = make_token : token @0
  %7 = make_memref(base: %4, sizes: [%5, %5], strides: [%5]) : !0 @0
  %8 = make_memref(base: %1, sizes: [%5, %5], strides: [%5]) : !1 @0
  %9 = make_view(memref: %7) : !2 @0
  %10 = make_view(memref: %7) : !3 @0
  %11 = make_view(memref: %7) : !4 @0
  %12 = make_view(memref: %7) : !5 @0
  %13 = make_view(memref: %8) : !6 @0
  %14 = constant(0) : i32 @0
  %15 = constant(1) : i32 @0
  %16 = constant(0.0) : tile<256x128xf32, #0> @0
  %17 = for(lower: %14, upper: %5, step: %15, init: [%16]) : tile<256x128xf32, #0> @0 {
    (%18: i32, %19: tile<256x128xf32, #0>)
    %20 = constant(1073741822) : i32 @0
    %21 = binary(kind: min_i(signedness: signed), lhs: %18, rhs: %20) : i32 @0
    %22 = constant(-1) : i32 @0
    %23 = binary(kind: max_i(signedness: signed), lhs: %21, rhs: %22) : i32 @0
    %24 = constant(2) : i32 @0
    %25 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %23, rhs: %24) : i32 @0
    %26 = constant(0) : i32 @0
    %27 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %25, rhs: %26) : i32 @0
    %28 = copy_view(view: %10, index: [%3, %27], token: %6, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %29 = constant(1073741822) : i32 @0
    %30 = binary(kind: min_i(signedness: signed), lhs: %18, rhs: %29) : i32 @0
    %31 = constant(-1) : i32 @0
    %32 = binary(kind: max_i(signedness: signed), lhs: %30, rhs: %31) : i32 @0
    %33 = constant(2) : i32 @0
    %34 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %32, rhs: %33) : i32 @0
    %35 = constant(0) : i32 @0
    %36 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %34, rhs: %35) : i32 @0
    %37 = copy_view(view: %12, index: [%36, %3], token: %6, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %38 = constant(1073741822) : i32 @0
    %39 = binary(kind: min_i(signedness: signed), lhs: %18, rhs: %38) : i32 @0
    %40 = constant(-1) : i32 @0
    %41 = binary(kind: max_i(signedness: signed), lhs: %39, rhs: %40) : i32 @0
    %42 = constant(2) : i32 @0
    %43 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %41, rhs: %42) : i32 @0
    %44 = constant(1) : i32 @0
    %45 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %43, rhs: %44) : i32 @0
    %46 = copy_view(view: %10, index: [%3, %45], token: %6, order: (semantics: weak), whole: true, buffer: 2, layout: 1, atom: async(bytes: 16)) : token @0
    %47 = constant(1073741822) : i32 @0
    %48 = binary(kind: min_i(signedness: signed), lhs: %18, rhs: %47) : i32 @0
    %49 = constant(-1) : i32 @0
    %50 = binary(kind: max_i(signedness: signed), lhs: %48, rhs: %49) : i32 @0
    %51 = constant(2) : i32 @0
    %52 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %50, rhs: %51) : i32 @0
    %53 = constant(1) : i32 @0
    %54 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %52, rhs: %53) : i32 @0
    %55 = copy_view(view: %12, index: [%54, %3], token: %6, order: (semantics: weak), whole: true, buffer: 3, layout: 2, atom: async(bytes: 16)) : token @0
    %56 = shared_load(buffer: 0, atom: matrix) : tile<256x64xf16, #3> @0
    %57 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<64x128xf16, #4> @0
    %58 = mma(lhs: registers(%56), rhs: registers(%57), acc: registers(%19), atom: "mma.m16n8k16.f32") : tile<256x128xf32, #0> @0
    %59 = shared_load(buffer: 2, atom: matrix) : tile<256x64xf16, #3> @0
    %60 = shared_load(buffer: 3, atom: matrix(trans: true)) : tile<64x128xf16, #4> @0
    %61 = mma(lhs: registers(%59), rhs: registers(%60), acc: registers(%58), atom: "mma.m16n8k16.f32") : tile<256x128xf32, #0> @0
    %62 = join_tokens(tokens: [%28, %46]) : token @0
    %63 = join_tokens(tokens: [%37, %55]) : token @0
    continue(values: [%61]) @0
  }
  %64 = reshape(x: %17) : tile<4x2x32x128xf32, #0> @0
  %65 = constant(0) : i32 @0
  %66 = constant(0) : i32 @0
  %67 = constant(0) : i32 @0
  %68 = constant(0) : i32 @0
  %69 = extract(x: %64, indices: [%65, %66, %67, %68]) : tile<4x1x32x128xf32, #6> @0
  %70 = reshape(x: %69) : tile<4x1x1x2x16x128xf32, #6> @0
  %71 = constant(0) : i32 @0
  %72 = constant(0) : i32 @0
  %73 = constant(0) : i32 @0
  %74 = constant(0) : i32 @0
  %75 = constant(0) : i32 @0
  %76 = constant(0) : i32 @0
  %77 = extract(x: %70, indices: [%71, %72, %73, %74, %75, %76]) : tile<4x1x1x1x16x128xf32, #8> @0
  shared_store(x: %77, buffer: 4, atom: vector(vector_bits: 1)) @0
  %78 = shared_load(buffer: 4, atom: matrix) : tile<4x1x1x1x16x128xf32, #9> @0
  %79 = constant(0) : i32 @0
  %80 = constant(0) : i32 @0
  %81 = constant(0) : i32 @0
  %82 = constant(1) : i32 @0
  %83 = constant(0) : i32 @0
  %84 = constant(0) : i32 @0
  %85 = extract(x: %70, indices: [%79, %80, %81, %82, %83, %84]) : tile<4x1x1x1x16x128xf32, #8> @0
  shared_store(x: %85, buffer: 5, atom: vector(vector_bits: 1)) @0
  %86 = shared_load(buffer: 5, atom: matrix) : tile<4x1x1x1x16x128xf32, #9> @0
  %87 = cat(lhs: %78, rhs: %86, dim: 3) : tile<4x1x1x2x16x128xf32, #10> @0
  %88 = reshape(x: %87) : tile<4x1x32x128xf32, #10> @0
  %89 = convert_layout(x: %88, route: registers) : tile<4x1x32x128xf32, #7> @0
  %90 = constant(0) : i32 @0
  %91 = constant(1) : i32 @0
  %92 = constant(0) : i32 @0
  %93 = constant(0) : i32 @0
  %94 = extract(x: %64, indices: [%90, %91, %92, %93]) : tile<4x1x32x128xf32, #6> @0
  %95 = reshape(x: %94) : tile<4x1x1x2x16x128xf32, #6> @0
  %96 = constant(0) : i32 @0
  %97 = constant(0) : i32 @0
  %98 = constant(0) : i32 @0
  %99 = constant(0) : i32 @0
  %100 = constant(0) : i32 @0
  %101 = constant(0) : i32 @0
  %102 = extract(x: %95, indices: [%96, %97, %98, %99, %100, %101]) : tile<4x1x1x1x16x128xf32, #8> @0
  shared_store(x: %102, buffer: 6, atom: vector(vector_bits: 1)) @0
  %103 = shared_load(buffer: 6, atom: matrix) : tile<4x1x1x1x16x128xf32, #9> @0
  %104 = constant(0) : i32 @0
  %105 = constant(0) : i32 @0
  %106 = constant(0) : i32 @0
  %107 = constant(1) : i32 @0
  %108 = constant(0) : i32 @0
  %109 = constant(0) : i32 @0
  %110 = extract(x: %95, indices: [%104, %105, %106, %107, %108, %109]) : tile<4x1x1x1x16x128xf32, #8> @0
  shared_store(x: %110, buffer: 7, atom: vector(vector_bits: 1)) @0
  %111 = shared_load(buffer: 7, atom: matrix) : tile<4x1x1x1x16x128xf32, #9> @0
  %112 = cat(lhs: %103, rhs: %111, dim: 3) : tile<4x1x1x2x16x128xf32, #10> @0
  %113 = reshape(x: %112) : tile<4x1x32x128xf32, #10> @0
  %114 = convert_layout(x: %113, route: registers) : tile<4x1x32x128xf32, #7> @0
  %115 = cat(lhs: %89, rhs: %114, dim: 1) : tile<4x2x32x128xf32, #11> @0
  %116 = reshape(x: %115) : tile<256x128xf32, #11> @0
  %117 = convert_layout(x: %116, route: registers) : tile<256x128xf32, #5> @0
  %118 = store_view(tile: %117, view: %13, index: [%3, %3], token: %6, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "one_buffer"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
