// RUN: tile-sched --multicast=off --format=text % | grep -c "multicast: "
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option cluster=2
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 1024, 8, 16, 32, 64], lane: [2, 4, 128, 256, 512], warp: [2048, 4096])
layout #1 = (register: [128, 256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "load_role"(%0: ptr<f16>, %1: ptr<f32>, %2: i32, %3: i32) (
  warps: 4,
  cluster: 2,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 64], align: 1024), // buffer 1
    (elem: f32, shape: [64, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 513, 1026, 2052, 8, 16, 32, 64], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(2), const(1))], strides: [product(param(2), const(2))], extent: [64, 64], swizzle: bytes128), // map 0
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf32, strides: [?, 1], scope: 2>
  type !2 = view<64x64, !0, padding: zero>
  type !3 = view<64x128, !0, padding: zero>
  type !4 = view<64x128, !1>
  %4 = cluster_rank : i32 @0
  %5 = constant(1073741822) : i32 @0
  %6 = binary(kind: min_i(signedness: signed), lhs: %3, rhs: %5) : i32 @0
  %7 = constant(-1) : i32 @0
  %8 = binary(kind: max_i(signedness: signed), lhs: %6, rhs: %7) : i32 @0
  %9 = constant(2) : i32 @0
  %10 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %8, rhs: %9) : i32 @0
  %11 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %10, rhs: %4) : i32 @0
  %12 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %13 = assume(value: %2, fact: div_by(divisor: 16)) : i32 @0
  %14 = assume(value: %13, fact: bounded(low: 0)) : i32 @0
  %15 = make_token : token @0
  %16 = make_memref(base: %12, sizes: [%14, %14], strides: [%14]) : !0 @0
  %17 = make_memref(base: %1, sizes: [%14, %14], strides: [%14]) : !1 @0
  %18 = make_view(memref: %16) : !2 @0
  %19 = make_view(memref: %16) : !3 @0
  %20 = make_view(memref: %17) : !4 @0
  %21 = constant(0) : i32 @0
  %22 = constant(1) : i32 @0
  %23 = constant(0.0) : tile<64x128xf32, #0> @0
  %24 = for(lower: %21, upper: %14, step: %22, init: [%23]) : tile<64x128xf32, #0> @0 {
    (%25: i32, %26: tile<64x128xf32, #0>)
    %27 = tma_load(view: %18, index: [%11, %25], token: %15, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %28 = tma_load(view: %19, index: [%25, %3], token: %15, order: (semantics: weak), buffer: 1, map: 0) : token @0
    %29 = compare(kind: int(predicate: equal, signedness: signed), lhs: %25, rhs: %21) : i1 @0
    %30 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%26), zero_init: %29, atom: "wgmma.m64k16.f32") : tile<64x128xf32, #0> @0
    continue(values: [%30]) @0
  }
  shared_store(x: %24, buffer: 2, atom: vector(vector_bits: 0)) @0
  %31 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<64x128xf32, #1> @0
  %32 = store_view(tile: %31, view: %20, index: [%11, %3], token: %15, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "load_role"
//!tile log (pass: "cluster", outcome: Passed, name: "Cluster", category: Other, function: 0, loc: @0, message: "2 CTAs of a cluster share each tile block, as num_cta_in_cga requests")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
