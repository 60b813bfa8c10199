// RUN: tile-sched --roles=off --format=text % | grep -oE '^ +(warp_role|pipeline_[a-z]*|mma)\(([a-z]+: [0-9]+)?'
//!tile tileas 7 atoms
//!tile target sm_107
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input bc225381a4ad2f1ec96e7c26f08d7e79e00539fa947dd64ed695a880fa2ca341
layout #0 = (register: [1, 2, 4], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #1 = (register: [1, 2, 4], lane: [16, 32, 64, 128, 8], warp: [256, 512])
layout #2 = (register: [128, 256, 512], lane: [1, 2, 4, 8, 16], warp: [32, 64])
layout #3 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [64, 128])
layout #4 = (register: [128], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "fuzz"(%0: ptr<i32>, %1: ptr<i32>, %2: ptr<i32>, %3: i32, %4: i32, %5: i32, %6: i32, %7: ptr<f8E4M3FN>,
    %8: ptr<f8E4M3FN>, %9: i32, %10: ptr<i32>, %11: i32, %12: ptr<f16>, %13: i32, %14: i32, %15: ptr<i32>, %16: i32,
    %17: ptr<i32>, %18: i32, %19: ptr<f32>, %20: ptr<f32>, %21: i32, %22: ptr<f32>, %23: ptr<f16>, %24: ptr<f16>,
    %25: ptr<f16>, %26: ptr<i32>, %27: ptr<f16>, %28: ptr<f16>, %29: i32, %30: i32, %31: i32, %32: ptr<i32>, %33: i32,
    %34: i32, %35: i32) (
  warps: 4,
  occupancy: 4,
  buffers: [
    (elem: f8E4M3FN, shape: [64, 64], offsets: [64, 128, 256, 512, 1024, 2048, 1, 1026, 2052, 8, 16, 32], align: 1024), // buffer 0
    (elem: f8E4M3FN, shape: [64, 16], offsets: [16, 32, 64, 128, 256, 512, 1, 258, 516, 8], align: 1024), // buffer 1
    (elem: f16, shape: [64, 16], offsets: [0, 1, 2, 4, 8, 16, 32, 64, 128, 0, 256, 512], align: 16, space: tensor), // buffer 2
    (elem: f16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512], align: 128), // buffer 3
    (elem: f16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 0, 256, 512], align: 8, space: tensor), // buffer 4
    (elem: f16, shape: [16, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128], align: 1024), // buffer 5
    (elem: f16, shape: [64, 16], offsets: [0, 1, 2, 4, 8, 16, 32, 64, 128, 0, 256, 512], align: 16, space: tensor), // buffer 6
    (elem: f16, shape: [16, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128], align: 1024), // buffer 7
    (elem: f16, shape: [64, 16], offsets: [0, 1, 2, 4, 8, 16, 32, 64, 128, 0, 256, 512], align: 16, space: tensor), // buffer 8
    (elem: f16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512], align: 128), // buffer 9
    (elem: f16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512], align: 128), // buffer 10
  ],
  maps: [
    (base: param(7), element: byte, dims: [const(48), const(48)], strides: [const(48)], extent: [64, 64], swizzle: bytes64), // map 0
  ],
) @0 {
  type !0 = memref<48x48xf8E4M3FN, strides: [1, 48], scope: 4>
  type !1 = view<64x64, !0, padding: zero>
  type !2 = memref<48x?xf16, strides: [?, 1], scope: 7>
  type !3 = view<64x16, !2>
  type !4 = memref<1x16xf16, strides: [16, 1], scope: 14>
  type !5 = view<16x16, !4, padding: zero>
  type !6 = memref<16x1xf16, strides: [1, 16], scope: 15>
  type !7 = view<16x16, !6, dims: [1, 0], padding: zero>
  type !8 = memref<1x16xf16, strides: [16, 1], scope: 17>
  type !9 = view<64x16, !8>
  type !10 = memref<?x?xf16, strides: [?, 1], scope: 18>
  type !11 = view<64x16, !10>
  %36 = constant(1) : i32 @0
  %37 = constant(0) : i32 @0
  %38 = assume(value: %7, fact: div_by(divisor: 16)) : ptr<f8E4M3FN> @0
  %39 = make_memref(base: %38) : !0 @0
  %40 = make_view(memref: %39) : !1 @0
  %41 = assume(value: %12, fact: div_by(divisor: 16)) : ptr<f16> @0
  %42 = make_memref(base: %41, sizes: [%13], strides: [%14]) : !2 @0
  %43 = make_view(memref: %42) : !3 @0
  %44 = constant(true) : i1 @0
  %45 = for(lower: %37, upper: %36, step: %36, init: [%44]) : i1 @0 {
    (%46: i32, %47: i1)
    %48 = tma_load(view: %40, index: [%46, %36], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %49 = constant(1.0) : tile<64x16xf8E4M3FN, #0> @0
    shared_store(x: %49, buffer: 1, atom: vector(vector_bits: 0)) @0
    mma(lhs: memory(buffer: 0, transposed: true), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %47, atom: "tcgen05.k32.f16") @0
    %50 = constant(false) : i1 @0
    continue(values: [%50]) @0
  }
  %51 = tmem_load(buffer: 2, from: 0, atom: "16x32bx2") : tile<64x16xf16, #1> @0
  shared_store(x: %51, buffer: 3, atom: vector(vector_bits: 3)) @0
  %52 = shared_load(buffer: 3, atom: vector(vector_bits: 0)) : tile<64x16xf16, #2> @0
  %53 = store_view(tile: %52, view: %43, index: [%36, %37], order: (semantics: relaxed, scope: device), atom: vector(vector_bits: 0)) : token @0
  %54 = constant(2) : i32 @0
  %55 = assume(value: %24, fact: div_by(divisor: 16)) : ptr<f16> @0
  %56 = make_memref(base: %55) : !4 @0
  %57 = make_view(memref: %56) : !5 @0
  %58 = make_memref(base: %25) : !6 @0
  %59 = make_view(memref: %58) : !7 @0
  %60 = constant(true) : i1 @0
  %61 = constant(true) : i1 @0
  %62, %63 = for(lower: %37, upper: %54, step: %36, init: [%60, %61]) : i1, i1 @0 {
    (%64: i32, %65: i1, %66: i1)
    %67, %68 = load_view(view: %57, index: [%64, %37], order: (semantics: weak), atom: vector(vector_bits: 1)) : tile<16x16xf16, #3>, token @0
    %69 = constant(1.0) : tile<64x16xf16, #1> @0
    tmem_store(x: %69, buffer: 4, from: 0, atom: "16x32bx2") @0
    shared_store(x: %67, buffer: 5, atom: vector(vector_bits: 1)) @0
    mma(lhs: memory(buffer: 4), rhs: memory(buffer: 5), acc: memory(buffer: 6), zero_init: %65, atom: "tcgen05.k16.f16") @0
    %70 = constant(false) : i1 @0
    %71, %72 = load_view(view: %59, index: [%36, %37], order: (semantics: weak), atom: vector(vector_bits: 0)) : tile<16x16xf16, #4>, token @0
    %73 = unary(kind: neg_f, x: %71) : tile<16x16xf16, #4> @0
    tmem_store(x: %69, buffer: 4, from: 0, atom: "16x32bx2") @0
    shared_store(x: %73, buffer: 7, atom: vector(vector_bits: 0)) @0
    mma(lhs: memory(buffer: 4), rhs: memory(buffer: 7), acc: memory(buffer: 8), zero_init: %66, atom: "tcgen05.k16.f16") @0
    %74 = constant(false) : i1 @0
    continue(values: [%70, %74]) @0
  }
  %75 = tmem_load(buffer: 6, from: 0, atom: "16x32bx2") : tile<64x16xf16, #1> @0
  %76 = tmem_load(buffer: 8, from: 0, atom: "16x32bx2") : tile<64x16xf16, #1> @0
  %77 = assume(value: %27, fact: div_by(divisor: 16)) : ptr<f16> @0
  %78 = make_memref(base: %77) : !8 @0
  %79 = make_view(memref: %78) : !9 @0
  shared_store(x: %75, buffer: 9, atom: vector(vector_bits: 3)) @0
  %80 = shared_load(buffer: 9, atom: vector(vector_bits: 0)) : tile<64x16xf16, #2> @0
  %81 = store_view(tile: %80, view: %79, index: [%36, %37], order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  %82 = assume(value: %28, fact: div_by(divisor: 16)) : ptr<f16> @0
  %83 = make_memref(base: %82, sizes: [%29, %30], strides: [%31]) : !10 @0
  %84 = make_view(memref: %83) : !11 @0
  shared_store(x: %76, buffer: 10, atom: vector(vector_bits: 3)) @0
  %85 = shared_load(buffer: 10, atom: vector(vector_bits: 0)) : tile<64x16xf16, #2> @0
  %86 = store_view(tile: %85, view: %84, index: [%36, %37], order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "fuzz"
//!tile log (pass: "hoist", outcome: Passed, name: "Hoisted", category: Other, function: 0, loc: @0, message: "1 change")
//!tile log (pass: "duplicates", outcome: Passed, name: "Shared", category: Other, function: 0, loc: @0, message: "26 changes")
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @0, message: "3 changes")
//!tile log (pass: "kernel-spec", outcome: Passed, name: "WorkerWarps", category: Other, function: 0, loc: @0, message: "4 warps, from num_worker_warps_per_cta")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 16 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "LoadNotVectorized", category: Memory, function: 0, loc: @0, message: "load of 16 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 16 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 16 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 4096 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its address is not known to be a multiple of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is loaded through registers: threads store it for MMAs in tensor memory")
//!tile log (pass: "copies", outcome: Declined, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is loaded through registers: its neighbours in memory are not known to be aligned")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: it is ordered against other threads")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: waiting for TMA takes longer than storing so few bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: waiting for TMA takes longer than storing so few bytes")
