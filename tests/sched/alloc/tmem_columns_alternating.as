// RUN: tile-sched --stop-after=alloc --format=text % | grep -oE 'tensor: .*|space: tensor.*|\(offset: [0-9]+, depth: [0-9]+.*'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 8], lane: [32, 64, 128, 256, 16], warp: [512, 1024])
layout #1 = (register: [1, 2, 4, 1024, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 2, 4, 1024, 2048], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #3 = (register: [1, 2, 4, 8, 16, 32], lane: [128, 256, 512, 1024, 64], warp: [2048, 4096])
layout #4 = (register: [1, 2, 512, 1024, 2048], lane: [32, 64, 128, 256, 4], warp: [8, 16])
layout #5 = (register: [1, 2, 4, 1024], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #6 = (register: [1, 2, 4, 8, 16], lane: [64, 128, 256, 512, 32], warp: [1024, 2048])
layout #7 = (register: [1, 2, 512, 1024], lane: [32, 64, 128, 256, 4], warp: [8, 16])
layout #8 = (register: [1, 2, 4], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #9 = (register: [1, 2, 512], lane: [32, 64, 128, 256, 4], warp: [8, 16])
layout #10 = (register: [1, 2, 4], lane: [8, 16, 32, 64, 128], warp: [256, 0])
layout #11 = (register: [1, 2, 4], lane: [16, 32, 64, 128, 8], warp: [256, 512])
layout #12 = (register: [1, 2], lane: [32, 64, 128, 256, 4], warp: [8, 16])
layout #13 = (register: [1, 2, 512, 1024], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "operands_in_turn"(%0: ptr<bf16>, %1: ptr<bf16>, %2: ptr<bf16>, %3: ptr<bf16>, %4: ptr<bf16>, %5: ptr<bf16>,
    %6: ptr<bf16>, %7: ptr<bf16>, %8: ptr<f32>) (
  warps: 4,
  buffers: [
    (elem: bf16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 544, 1024, 2048, 4096], align: 128), // buffer 0
    (elem: bf16, shape: [128, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024, 2048], align: 128), // buffer 1
    (elem: tf32, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 0, 2048, 4096], align: 32, space: tensor), // buffer 2
    (elem: tf32, shape: [128, 32], offsets: [32, 64, 128, 256, 512, 129, 258, 516, 8, 16, 1024, 2048], align: 1024), // buffer 3
    (elem: f32, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 0, 512, 1024], align: 32, space: tensor), // buffer 4
    (elem: bf16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 128), // buffer 5
    (elem: bf16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 6
    (elem: tf32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 0, 1024, 2048], align: 32, space: tensor), // buffer 7
    (elem: tf32, shape: [64, 32], offsets: [32, 64, 128, 256, 512, 129, 258, 516, 8, 16, 1024], align: 1024), // buffer 8
    (elem: bf16, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024], align: 128), // buffer 9
    (elem: bf16, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512], align: 128), // buffer 10
    (elem: tf32, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 0, 512, 1024], align: 32, space: tensor), // buffer 11
    (elem: tf32, shape: [32, 32], offsets: [32, 64, 128, 256, 512, 129, 258, 516, 8, 16], align: 1024), // buffer 12
    (elem: bf16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512], align: 128), // buffer 13
    (elem: bf16, shape: [16, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256], align: 128), // buffer 14
    (elem: tf32, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 0, 256, 512], align: 16, space: tensor), // buffer 15
    (elem: tf32, shape: [16, 32], offsets: [32, 64, 128, 256, 1, 130, 260, 8, 16], align: 1024), // buffer 16
    (elem: f32, shape: [64, 32], offsets: [1, 2, 4, 8, 16, 36, 72, 144, 256, 512, 1024], align: 128), // buffer 17
  ],
) @0 {
  type !0 = memref<64x256xbf16, strides: [256, 1], scope: 1>
  type !1 = view<64x128, !0>
  type !2 = memref<256x32xbf16, strides: [32, 1], scope: 2>
  type !3 = view<128x32, !2>
  type !4 = memref<64x128xbf16, strides: [128, 1], scope: 3>
  type !5 = view<64x64, !4>
  type !6 = memref<128x32xbf16, strides: [32, 1], scope: 4>
  type !7 = view<64x32, !6>
  type !8 = memref<64x64xbf16, strides: [64, 1], scope: 5>
  type !9 = view<64x32, !8>
  type !10 = memref<64x32xbf16, strides: [32, 1], scope: 6>
  type !11 = view<32x32, !10>
  type !12 = memref<64x32xbf16, strides: [32, 1], scope: 7>
  type !13 = view<64x16, !12>
  type !14 = memref<32x32xbf16, strides: [32, 1], scope: 8>
  type !15 = view<16x32, !14>
  type !16 = memref<192x32xf32, strides: [32, 1], scope: 9>
  type !17 = view<64x32, !16>
  %9 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %10 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %11 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %12 = assume(value: %3, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %13 = assume(value: %4, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %14 = assume(value: %5, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %15 = assume(value: %6, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %16 = assume(value: %7, fact: div_by(divisor: 16)) : ptr<bf16> @0
  %17 = assume(value: %8, fact: div_by(divisor: 16)) : ptr<f32> @0
  %18 = block_id(axis: 0) : i32 @0
  %19 = constant(0) : i32 @0
  %20 = constant(1) : i32 @0
  %21 = make_memref(base: %9) : !0 @0
  %22 = make_view(memref: %21) : !1 @0
  %23 = make_memref(base: %10) : !2 @0
  %24 = make_view(memref: %23) : !3 @0
  %25 = make_memref(base: %11) : !4 @0
  %26 = make_view(memref: %25) : !5 @0
  %27 = make_memref(base: %12) : !6 @0
  %28 = make_view(memref: %27) : !7 @0
  %29 = make_memref(base: %13) : !8 @0
  %30 = make_view(memref: %29) : !9 @0
  %31 = make_memref(base: %14) : !10 @0
  %32 = make_view(memref: %31) : !11 @0
  %33 = make_memref(base: %15) : !12 @0
  %34 = make_view(memref: %33) : !13 @0
  %35 = make_memref(base: %16) : !14 @0
  %36 = make_view(memref: %35) : !15 @0
  %37 = constant(0.0) : tile<64x32xf32, #0> @0
  %38 = for(lower: %19, upper: %18, step: %20, init: [%37]) : tile<64x32xf32, #0> @0 {
    (%39: i32, %40: tile<64x32xf32, #0>)
    %41 = copy_view(view: %22, index: [%19, %39], order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @0
    %42 = copy_view(view: %24, index: [%39, %19], order: (semantics: weak), whole: true, buffer: 1, layout: 2, atom: async(bytes: 16)) : token @0
    %43 = shared_load(buffer: 0, atom: vector(vector_bits: 3)) : tile<64x128xbf16, #3> @0
    %44 = convert(kind: f_to_f(rounding: nearest_even), x: %43) : tile<64x128xf32, #3> @0
    %45 = convert(kind: f_to_f(rounding: nearest_even), x: %44) : tile<64x128xtf32, #3> @0
    tmem_store(x: %45, buffer: 2, from: 0, atom: "16x32bx2") @0
    %46 = shared_load(buffer: 1, atom: vector(vector_bits: 2)) : tile<128x32xbf16, #4> @0
    %47 = convert(kind: f_to_f(rounding: nearest_even), x: %46) : tile<128x32xf32, #4> @0
    %48 = convert(kind: f_to_f(rounding: nearest_even), x: %47) : tile<128x32xtf32, #4> @0
    shared_store(x: %48, buffer: 3, atom: matrix) @0
    %49 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 2), rhs: memory(buffer: 3), acc: memory(buffer: 4), zero_init: %49, atom: "tcgen05.k8.f32") @0
    %50 = constant(false) : i1 @0
    %51 = tmem_load(buffer: 4, from: 0, atom: "16x32bx2") : tile<64x32xf32, #0> @0
    %52 = binary(kind: sub_f(rounding: nearest_even), lhs: %51, rhs: %40) : tile<64x32xf32, #0> @0
    %53 = copy_view(view: %26, index: [%19, %39], order: (semantics: weak), whole: true, buffer: 5, layout: 2, atom: async(bytes: 16)) : token @0
    %54 = copy_view(view: %28, index: [%39, %19], order: (semantics: weak), whole: true, buffer: 6, layout: 5, atom: async(bytes: 16)) : token @0
    %55 = shared_load(buffer: 5, atom: vector(vector_bits: 3)) : tile<64x64xbf16, #6> @0
    %56 = convert(kind: f_to_f(rounding: nearest_even), x: %55) : tile<64x64xf32, #6> @0
    %57 = convert(kind: f_to_f(rounding: nearest_even), x: %56) : tile<64x64xtf32, #6> @0
    tmem_store(x: %57, buffer: 7, from: 0, atom: "16x32bx2") @0
    %58 = shared_load(buffer: 6, atom: vector(vector_bits: 2)) : tile<64x32xbf16, #7> @0
    %59 = convert(kind: f_to_f(rounding: nearest_even), x: %58) : tile<64x32xf32, #7> @0
    %60 = convert(kind: f_to_f(rounding: nearest_even), x: %59) : tile<64x32xtf32, #7> @0
    shared_store(x: %60, buffer: 8, atom: matrix) @0
    %61 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 7), rhs: memory(buffer: 8), acc: memory(buffer: 4), zero_init: %61, atom: "tcgen05.k8.f32") @0
    %62 = constant(false) : i1 @0
    %63 = tmem_load(buffer: 4, from: 0, atom: "16x32bx2") : tile<64x32xf32, #0> @0
    %64 = binary(kind: sub_f(rounding: nearest_even), lhs: %63, rhs: %52) : tile<64x32xf32, #0> @0
    %65 = copy_view(view: %30, index: [%19, %39], order: (semantics: weak), whole: true, buffer: 9, layout: 5, atom: async(bytes: 16)) : token @0
    %66 = copy_view(view: %32, index: [%39, %19], order: (semantics: weak), whole: true, buffer: 10, layout: 8, atom: async(bytes: 16)) : token @0
    %67 = shared_load(buffer: 9, atom: vector(vector_bits: 3)) : tile<64x32xbf16, #0> @0
    %68 = convert(kind: f_to_f(rounding: nearest_even), x: %67) : tile<64x32xf32, #0> @0
    %69 = convert(kind: f_to_f(rounding: nearest_even), x: %68) : tile<64x32xtf32, #0> @0
    tmem_store(x: %69, buffer: 11, from: 0, atom: "16x32bx2") @0
    %70 = shared_load(buffer: 10, atom: vector(vector_bits: 2)) : tile<32x32xbf16, #9> @0
    %71 = convert(kind: f_to_f(rounding: nearest_even), x: %70) : tile<32x32xf32, #9> @0
    %72 = convert(kind: f_to_f(rounding: nearest_even), x: %71) : tile<32x32xtf32, #9> @0
    shared_store(x: %72, buffer: 12, atom: matrix) @0
    %73 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 11), rhs: memory(buffer: 12), acc: memory(buffer: 4), zero_init: %73, atom: "tcgen05.k8.f32") @0
    %74 = constant(false) : i1 @0
    %75 = tmem_load(buffer: 4, from: 0, atom: "16x32bx2") : tile<64x32xf32, #0> @0
    %76 = binary(kind: sub_f(rounding: nearest_even), lhs: %75, rhs: %64) : tile<64x32xf32, #0> @0
    %77 = copy_view(view: %34, index: [%19, %39], order: (semantics: weak), whole: true, buffer: 13, layout: 8, atom: async(bytes: 16)) : token @0
    %78 = copy_view(view: %36, index: [%39, %19], order: (semantics: weak), whole: true, buffer: 14, layout: 10, atom: async(bytes: 16)) : token @0
    %79 = shared_load(buffer: 13, atom: vector(vector_bits: 3)) : tile<64x16xbf16, #11> @0
    %80 = convert(kind: f_to_f(rounding: nearest_even), x: %79) : tile<64x16xf32, #11> @0
    %81 = convert(kind: f_to_f(rounding: nearest_even), x: %80) : tile<64x16xtf32, #11> @0
    tmem_store(x: %81, buffer: 15, from: 0, atom: "16x32bx2") @0
    %82 = shared_load(buffer: 14, atom: vector(vector_bits: 2)) : tile<16x32xbf16, #12> @0
    %83 = convert(kind: f_to_f(rounding: nearest_even), x: %82) : tile<16x32xf32, #12> @0
    %84 = convert(kind: f_to_f(rounding: nearest_even), x: %83) : tile<16x32xtf32, #12> @0
    shared_store(x: %84, buffer: 16, atom: matrix) @0
    %85 = constant(true) : i1 @0
    mma(lhs: memory(buffer: 15), rhs: memory(buffer: 16), acc: memory(buffer: 4), zero_init: %85, atom: "tcgen05.k8.f32") @0
    %86 = constant(false) : i1 @0
    %87 = tmem_load(buffer: 4, from: 0, atom: "16x32bx2") : tile<64x32xf32, #0> @0
    %88 = binary(kind: sub_f(rounding: nearest_even), lhs: %87, rhs: %76) : tile<64x32xf32, #0> @0
    continue(values: [%88]) @0
  }
  %89 = make_memref(base: %17) : !16 @0
  %90 = make_view(memref: %89) : !17 @0
  shared_store(x: %38, buffer: 17, atom: vector(vector_bits: 2)) @0
  %91 = shared_load(buffer: 17, atom: vector(vector_bits: 2)) : tile<64x32xf32, #13> @0
  %92 = store_view(tile: %91, view: %90, index: [%18, %19], order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "operands_in_turn"
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @0, message: "2 changes")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: waiting for TMA takes longer than storing so few bytes")
