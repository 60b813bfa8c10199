// RUN: tile-sched --stages=8 -o x % 2>&1 | grep -v '^ *|'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2048, 8, 16, 32, 64, 128], lane: [2, 4, 256, 512, 1024], warp: [4096, 8192, 16384])
layout #1 = (register: [1, 2, 4, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512, 1024])
layout #2 = (register: [1, 2, 4, 2048, 4096, 8192], lane: [8, 16, 32, 64, 128], warp: [256, 512, 1024])
layout #3 = (register: [256, 512, 1024, 2048, 4096, 8192, 16384], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
layout #4 = (register: [1, 8, 16, 32, 64, 128], lane: [2, 4, 256, 512, 1024], warp: [2048, 4096, 8192])
layout #5 = (register: [256, 512, 1024, 2048, 4096, 8192], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
layout #6 = (register: [256, 512, 1024, 4096, 8192, 16384, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64, 128])
func "pipelined"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 8,
  buffers: [
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 0
    (elem: f16, shape: [64, 256], offsets: [1, 2, 4, 8, 16, 32, 264, 528, 1056, 2048, 4096, 8192, 64, 128], align: 1024), // buffer 1
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 2
    (elem: f32, shape: [8, 1, 8, 256], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 264, 528, 1028, 2048, 4096, 8192], align: 128), // buffer 3
    (elem: f32, shape: [8, 1, 8, 256], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 264, 528, 1028, 2048, 4096, 8192], align: 128), // buffer 4
    (elem: f32, shape: [8, 1, 8, 256], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 264, 528, 1028, 2048, 4096, 8192], align: 128), // buffer 5
    (elem: f32, shape: [8, 1, 8, 256], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 264, 528, 1028, 2048, 4096, 8192], align: 128), // buffer 6
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<128x64, !0, padding: zero>
  type !3 = view<64x256, !0, padding: zero>
  type !4 = view<128x256, !1>
  %4 = constant(1073741822) : i32 @0
  %5 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %4) : i32 @0
  %6 = constant(-1) : i32 @0
  %7 = binary(kind: max_i(signedness: signed), lhs: %5, rhs: %6) : i32 @0
  %8 = constant(2) : i32 @0
  %9 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %7, rhs: %8) : i32 @0
  %10 = constant(1073741822) : i32 @0
  %11 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %10) : i32 @0
  %12 = constant(-1) : i32 @0
  %13 = binary(kind: max_i(signedness: signed), lhs: %11, rhs: %12) : i32 @0
  %14 = constant(2) : i32 @0
  %15 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %13, rhs: %14) : i32 @0
  %16 = constant(1) : i32 @0
  %17 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %15, rhs: %16) : i32 @0
  %18 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %19 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %20 = make_token : token @0
  %21 = make_memref(base: %18, sizes: [%19, %19], strides: [%19]) : !0 @0
  %22 = make_memref(base: %1, sizes: [%19, %19], strides: [%19]) : !1 @0
  %23 = make_view(memref: %21) : !2 @0
  %24 = make_view(memref: %21) : !3 @0
  %25 = make_view(memref: %22) : !4 @0
  %26 = constant(0) : i32 @0
  %27 = constant(1) : i32 @0
  %28 = make_view(memref: %21) : !2 @0
  %29 = make_view(memref: %22) : !4 @0
  %30 = constant(0.0) : tile<128x256xf32, #0> @0
  %31 = constant(0.0) : tile<128x256xf32, #0> @0
  %32, %33 = for(lower: %26, upper: %19, step: %27, init: [%30, %31]) : tile<128x256xf32, #0>, tile<128x256xf32, #0> @0 {
    (%34: i32, %35: tile<128x256xf32, #0>, %36: tile<128x256xf32, #0>)
    %37 = copy_view(view: %23, index: [%9, %34], token: %20, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %38 = copy_view(view: %24, index: [%34, %3], token: %20, order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %39 = compare(kind: int(predicate: equal, signedness: signed), lhs: %34, rhs: %26) : i1 @0
    %40 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%35), zero_init: %39, atom: "wgmma.m64k16.f32") : tile<128x256xf32, #0> @0
    %41 = copy_view(view: %28, index: [%17, %34], token: %20, order: (semantics: weak), whole: true, buffer: 2, layout: 1, atom: async(bytes: 16)) : token @0
    %42 = compare(kind: int(predicate: equal, signedness: signed), lhs: %34, rhs: %26) : i1 @0
    %43 = mma(lhs: memory(buffer: 2), rhs: memory(buffer: 1), acc: registers(%36), zero_init: %42, atom: "wgmma.m64k16.f32") : tile<128x256xf32, #0> @0
    continue(values: [%40, %43]) @0
  }
  %44 = reshape(x: %32) : tile<8x2x8x256xf32, #0> @0
  %45 = constant(0) : i32 @0
  %46 = constant(0) : i32 @0
  %47 = constant(0) : i32 @0
  %48 = constant(0) : i32 @0
  %49 = extract(x: %44, indices: [%45, %46, %47, %48]) : tile<8x1x8x256xf32, #4> @0
  shared_store(x: %49, buffer: 3, atom: vector(vector_bits: 1)) @0
  %50 = shared_load(buffer: 3, atom: matrix) : tile<8x1x8x256xf32, #5> @0
  %51 = constant(0) : i32 @0
  %52 = constant(1) : i32 @0
  %53 = constant(0) : i32 @0
  %54 = constant(0) : i32 @0
  %55 = extract(x: %44, indices: [%51, %52, %53, %54]) : tile<8x1x8x256xf32, #4> @0
  shared_store(x: %55, buffer: 4, atom: vector(vector_bits: 1)) @0
  %56 = shared_load(buffer: 4, atom: matrix) : tile<8x1x8x256xf32, #5> @0
  %57 = cat(lhs: %50, rhs: %56, dim: 1) : tile<8x2x8x256xf32, #6> @0
  %58 = reshape(x: %57) : tile<128x256xf32, #6> @0
  %59 = convert_layout(x: %58, route: registers) : tile<128x256xf32, #3> @0
  %60 = store_view(tile: %59, view: %25, index: [%9, %3], token: %20, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %61 = reshape(x: %33) : tile<8x2x8x256xf32, #0> @0
  %62 = constant(0) : i32 @0
  %63 = constant(0) : i32 @0
  %64 = constant(0) : i32 @0
  %65 = constant(0) : i32 @0
  %66 = extract(x: %61, indices: [%62, %63, %64, %65]) : tile<8x1x8x256xf32, #4> @0
  shared_store(x: %66, buffer: 5, atom: vector(vector_bits: 1)) @0
  %67 = shared_load(buffer: 5, atom: matrix) : tile<8x1x8x256xf32, #5> @0
  %68 = constant(0) : i32 @0
  %69 = constant(1) : i32 @0
  %70 = constant(0) : i32 @0
  %71 = constant(0) : i32 @0
  %72 = extract(x: %61, indices: [%68, %69, %70, %71]) : tile<8x1x8x256xf32, #4> @0
  shared_store(x: %72, buffer: 6, atom: vector(vector_bits: 1)) @0
  %73 = shared_load(buffer: 6, atom: matrix) : tile<8x1x8x256xf32, #5> @0
  %74 = cat(lhs: %67, rhs: %73, dim: 1) : tile<8x2x8x256xf32, #6> @0
  %75 = reshape(x: %74) : tile<128x256xf32, #6> @0
  %76 = convert_layout(x: %75, route: registers) : tile<128x256xf32, #3> @0
  %77 = store_view(tile: %76, view: %29, index: [%17, %3], token: %20, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "pipelined"
//!tile log (pass: "split-m", outcome: Passed, name: "SplitM", category: Other, function: 0, loc: @0, message: "rows run as two M subtiles, one after the other, which halves the live operands and accumulators between MMAs")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its strides are not known to fit a map")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
