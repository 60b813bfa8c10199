//!tile tileas 7 atoms
//!tile target sm_90
//!tile option cluster=4
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 3e72b315d5f0adde7f6db3aacf3355b2debdd57300024fc3ac804f8d533b0a68
layout #0 = (register: [1, 128, 8, 1024], lane: [2, 4, 16, 32, 64], warp: [256, 512])
layout #1 = (register: [1, 2, 512, 1024], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "cluster_matmul_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f32_1v4l0_2t1_3i4_p16_I128_I64_I32"(
    %0: ptr<f16>, %1: i32, %2: i32, %3: i32, %4: i32, %5: ptr<f16>, %6: i32, %7: i32, %8: i32, %9: i32, %10: ptr<f32>,
    %11: i32, %12: i32, %13: i32, %14: i32) (
  warps: 4,
  cluster: 4,
  buffers: [
    (elem: f16, shape: [128, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [32, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256], align: 1024), // buffer 1
    (elem: f32, shape: [128, 16], offsets: [1, 2, 4, 8, 16, 40, 68, 128, 256, 512, 1024], align: 128), // buffer 2
  ],
  maps: [
    (base: param(0), element: f16, dims: [max(param(2), const(1)), max(param(1), const(1))], strides: [product(param(3), const(2))], extent: [32, 128], swizzle: bytes64), // map 0
    (base: param(5), element: f16, dims: [max(param(7), const(1)), max(param(6), const(1))], strides: [product(param(8), const(2))], extent: [16, 32], swizzle: bytes32), // map 1
  ],
) @0 {
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<128x32, !0>
  type !4 = view<128x32, !0, padding: zero>
  type !5 = view<32x16, !1, padding: zero>
  type !6 = view<128x16, !2>
  %15 = cluster_rank : i32 @0
  %16 = make_token : token @0
  %17 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %18 = assume(value: %1, fact: div_by(divisor: 8)) : i32 @0
  %19 = assume(value: %2, fact: div_by(divisor: 8)) : i32 @0
  %20 = assume(value: %3, fact: div_by(divisor: 8)) : i32 @0
  %21 = assume(value: %5, fact: div_by(divisor: 16)) : ptr<f16> @0
  %22 = assume(value: %6, fact: div_by(divisor: 8)) : i32 @0
  %23 = assume(value: %7, fact: div_by(divisor: 8)) : i32 @0
  %24 = assume(value: %8, fact: div_by(divisor: 8)) : i32 @0
  %25 = assume(value: %10, fact: div_by(divisor: 16)) : ptr<f32> @0
  %26 = assume(value: %11, fact: div_by(divisor: 4)) : i32 @0
  %27 = assume(value: %12, fact: div_by(divisor: 4)) : i32 @0
  %28 = assume(value: %13, fact: div_by(divisor: 4)) : i32 @0
  %29 = constant(1) : i32 @0
  %30 = assume(value: %18, fact: bounded(low: 0)) : i32 @0
  %31 = assume(value: %19, fact: bounded(low: 0)) : i32 @0
  %32 = assume(value: %20, fact: bounded(low: 0)) : i32 @0
  %33 = make_memref(base: %17, sizes: [%30, %31], strides: [%32]) : !0 @0
  %34 = assume(value: %22, fact: bounded(low: 0)) : i32 @0
  %35 = assume(value: %23, fact: bounded(low: 0)) : i32 @0
  %36 = assume(value: %24, fact: bounded(low: 0)) : i32 @0
  %37 = make_memref(base: %21, sizes: [%34, %35], strides: [%36]) : !1 @0
  %38 = assume(value: %26, fact: bounded(low: 0)) : i32 @0
  %39 = assume(value: %27, fact: bounded(low: 0)) : i32 @0
  %40 = assume(value: %28, fact: bounded(low: 0)) : i32 @0
  %41 = make_memref(base: %25, sizes: [%38, %39], strides: [%40]) : !2 @0
  %42 = block_id(axis: 0) : i32 @0
  %43 = block_id(axis: 1) : i32 @0
  %44 = constant(4) : i32 @0
  %45 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %43, rhs: %44) : i32 @0
  %46 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %45, rhs: %15) : i32 @0
  %47 = make_view(memref: %33) : !3 @0
  %48, %49 = view_shape(view: %47) : i32, i32 @0
  %50 = constant(0) : i32 @0
  %51 = make_view(memref: %33) : !4 @0
  %52 = make_view(memref: %37) : !5 @0
  %53 = constant(0.0) : tile<128x16xf32, #0> @0
  %54 = for(lower: %50, upper: %49, step: %29, init: [%53]) : tile<128x16xf32, #0> @0 {
    (%55: i32, %56: tile<128x16xf32, #0>)
    %57 = tma_load(view: %51, index: [%42, %55], token: %16, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %58 = tma_load(view: %52, index: [%55, %46], token: %16, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %59 = compare(kind: int(predicate: equal, signedness: signed), lhs: %55, rhs: %50) : i1 @0
    %60 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%56), zero_init: %59, atom: "wgmma.m64k16.f32") : tile<128x16xf32, #0> @0
    continue(values: [%60]) @0
  }
  %61 = block_count(axis: 1) : i32 @0
  %62 = convert(kind: i_to_f(signedness: signed, rounding: nearest_even), x: %61) : f32 @0
  %63 = broadcast(x: %62) : tile<128x16xf32, #0> @0
  %64 = binary(kind: add_f(rounding: nearest_even), lhs: %54, rhs: %63) : tile<128x16xf32, #0> @0
  %65 = make_view(memref: %41) : !6 @0
  shared_store(x: %64, buffer: 2, atom: vector(vector_bits: 1)) @0
  %66 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<128x16xf32, #1> @0
  %67 = store_view(tile: %66, view: %65, index: [%42, %46], token: %16, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "cluster_matmul_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f32_1v4l0_2t1_3i4_p16_I128_I64_I32"
//!tile log (pass: "fold", outcome: Passed, name: "Folded", category: Other, function: 0, loc: @0, message: "19 changes")
//!tile log (pass: "duplicates", outcome: Passed, name: "Shared", category: Other, function: 0, loc: @0, message: "12 changes")
//!tile log (pass: "hoist", outcome: Passed, name: "Hoisted", category: Other, function: 0, loc: @0, message: "2 changes")
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @0, message: "4 changes")
//!tile log (pass: "cluster", outcome: Passed, name: "Cluster", category: Other, function: 0, loc: @0, message: "4 blocks of a cluster share each tile block out, as num_cta_in_cga says")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits a thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "product by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits a thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by boxes of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by boxes of 1024 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by boxes of a tensor map: waiting for the copy engine takes longer than storing so little")
