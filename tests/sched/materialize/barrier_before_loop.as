// RUN: tile-sched --roles=on --format=text % | grep -oE '(for|copy_wait|barrier|fence[a-z_]*|mma|shared_store|pipeline_wait)(\(|$| @)'
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile option tma=on
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 1024, 2048], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #1 = (register: [1, 512, 8, 16, 32], lane: [2, 4, 64, 128, 256], warp: [1024, 2048])
layout #2 = (register: [128, 256, 512, 1024, 2048], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "one_operand_for_all_iterations"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 1
    (elem: f32, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 260, 512, 1024, 2048], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x64, !1>
  %4 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %6 = assume(value: %5, fact: bounded(low: 0)) : i32 @0
  %7 = make_token : token @0
  %8 = make_memref(base: %4, sizes: [%6, %6], strides: [%6]) : !0 @0
  %9 = make_memref(base: %1, sizes: [%6, %6], strides: [%6]) : !1 @0
  %10 = make_view(memref: %8) : !2 @0
  %11 = make_view(memref: %8) : !2 @0
  %12 = make_view(memref: %9) : !3 @0
  %13 = constant(0) : i32 @0
  %14 = constant(1) : i32 @0
  %15, %16 = load_view(view: %10, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<64x64xf16, #0>, token @0
  %17 = constant(0.0) : tile<64x64xf32, #1> @0
  shared_store(x: %15, buffer: 1, atom: vector(vector_bits: 3)) @0
  %18 = for(lower: %13, upper: %6, step: %14, init: [%17]) : tile<64x64xf32, #1> @0 {
    (%19: i32, %20: tile<64x64xf32, #1>)
    %21 = tma_load(view: %11, index: [%19, %3], token: %7, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %22 = compare(kind: int(predicate: equal, signedness: signed), lhs: %19, rhs: %13) : i1 @0
    %23 = mma(lhs: memory(buffer: 1), rhs: memory(buffer: 0), acc: registers(%20), zero_init: %22, atom: "wgmma.m64k16.f32") : tile<64x64xf32, #1> @0
    continue(values: [%23]) @0
  }
  shared_store(x: %18, buffer: 2, atom: vector(vector_bits: 1)) @0
  %24 = shared_load(buffer: 2, atom: matrix) : tile<64x64xf32, #2> @0
  %25 = store_view(tile: %24, view: %12, index: [%3, %3], token: %7, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "one_operand_for_all_iterations"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: the author disallows TMA")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
