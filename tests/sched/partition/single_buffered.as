// RUN: tile-sched --stages=1 --format=text -o whole.sched %; grep -oE '(warp_role|for|tma_load|pipeline_[a-z]+|mma)\((role: [0-9]+|pipeline: [0-9]+)?|buffers: \[[0-9]\].*drain: [a-z]+' whole.sched
//!tile tileas 7 atoms
//!tile target sm_120
//!tile option opt-level=3
//!tile option warps=4
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2, 4, 1024, 2048, 4096], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #1 = (register: [1, 2, 4, 1024, 2048], lane: [8, 16, 32, 64, 128], warp: [256, 512])
layout #2 = (register: [1, 1024, 8, 16, 32, 64], lane: [2, 4, 128, 256, 512], warp: [4096, 2048])
layout #3 = (register: [128, 1024, 8, 2048, 4096, 8192, 16, 32, 64], lane: [256, 512, 1, 2, 4], warp: [0, 0])
layout #4 = (register: [1, 8, 1024, 16, 32, 64, 2048, 4096, 8192], lane: [2, 4, 128, 256, 512], warp: [0, 0])
layout #5 = (register: [1, 512, 8, 16, 32], lane: [2, 4, 64, 128, 256], warp: [2048, 1024])
layout #6 = (register: [128, 1024, 8, 2048, 4096, 16, 32, 64], lane: [256, 512, 1, 2, 4], warp: [0, 0])
layout #7 = (register: [1, 8, 512, 16, 32, 1024, 2048, 4096], lane: [2, 4, 64, 128, 256], warp: [0, 0])
layout #8 = (register: [128, 256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "keys_in_two"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f16>, %3: ptr<f16>, %4: ptr<f16>, %5: ptr<f32>, %6: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 136, 272, 544, 1024, 2048, 4096, 8192, 64], align: 1024), // buffer 0
    (elem: f16, shape: [64, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 136, 272, 544, 1024, 2048, 4096], align: 128), // buffer 1
    (elem: f16, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 2
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 128), // buffer 3
    (elem: f32, shape: [64, 128], offsets: [128, 256, 512, 1024, 2048, 4096, 513, 1026, 2052, 8, 16, 32, 64], align: 128), // buffer 4
  ],
  maps: [
    (base: param(2), element: f16, dims: [const(128), const(256)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 0
    (base: param(3), element: f16, dims: [const(64), const(256)], strides: [const(128)], extent: [64, 128], swizzle: bytes128), // map 1
    (base: param(4), element: f16, dims: [const(128), const(256)], strides: [const(256)], extent: [64, 128], swizzle: bytes128), // map 2
  ],
) @0 {
  type !0 = memref<64x128xf16, strides: [128, 1], scope: 1>
  type !1 = view<64x128, !0>
  type !2 = memref<64x64xf16, strides: [64, 1], scope: 2>
  type !3 = view<64x64, !2>
  type !4 = memref<256x128xf16, strides: [128, 1], scope: 3>
  type !5 = view<128x128, !4>
  type !6 = memref<256x64xf16, strides: [64, 1], scope: 4>
  type !7 = view<128x64, !6>
  type !8 = memref<256x128xf16, strides: [128, 1], scope: 5>
  type !9 = view<128x128, !8>
  type !10 = memref<64x128xf32, strides: [128, 1], scope: 6>
  type !11 = view<64x128, !10>
  %7 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %8 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %9 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f16> @0
  %10 = assume(value: %3, fact: div_by(divisor: 16)) : ptr<f16> @0
  %11 = assume(value: %4, fact: div_by(divisor: 16)) : ptr<f16> @0
  %12 = constant(0) : i32 @0
  %13 = constant(1) : i32 @0
  %14 = make_memref(base: %7) : !0 @0
  %15 = make_view(memref: %14) : !1 @0
  %16 = make_memref(base: %8) : !2 @0
  %17 = make_view(memref: %16) : !3 @0
  %18 = make_memref(base: %9) : !4 @0
  %19 = make_view(memref: %18) : !5 @0
  %20 = make_memref(base: %10) : !6 @0
  %21 = make_view(memref: %20) : !7 @0
  %22 = make_memref(base: %11) : !8 @0
  %23 = make_view(memref: %22) : !9 @0
  %24, %25 = load_view(view: %15, index: [%12, %12], order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<64x128xf16, #0>, token @0
  %26, %27 = load_view(view: %17, index: [%12, %12], order: (semantics: weak), atom: vector(vector_bits: 3)) : tile<64x64xf16, #1>, token @0
  %28 = constant(0.0) : tile<64x128xf32, #2> @0
  shared_store(x: %24, buffer: 1, atom: vector(vector_bits: 3)) @0
  %29 = shared_load(buffer: 1, atom: matrix) : tile<64x128xf16, #2> @0
  shared_store(x: %26, buffer: 3, atom: vector(vector_bits: 3)) @0
  %30 = shared_load(buffer: 3, atom: matrix) : tile<64x64xf16, #5> @0
  %31 = for(lower: %12, upper: %6, step: %13, init: [%28]) : tile<64x128xf32, #2> @0 {
    (%32: i32, %33: tile<64x128xf32, #2>)
    %34 = binary(kind: and, lhs: %32, rhs: %13) : i32 @0
    %35 = tma_load(view: %19, index: [%34, %12], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %36 = shared_load(buffer: 0, atom: matrix) : tile<128x128xf16, #4> @0
    %37 = permute(x: %36, order: [1, 0]) : tile<128x128xf16, #3> @0
    %38 = mma(lhs: registers(%29), rhs: registers(%37), acc: registers(%28), atom: "mma.m16n8k16.f32") : tile<64x128xf32, #2> @0
    %39 = tma_load(view: %21, index: [%34, %12], order: (semantics: weak), buffer: 2, map: 1) : token @0
    %40 = shared_load(buffer: 2, atom: matrix) : tile<128x64xf16, #7> @0
    %41 = permute(x: %40, order: [1, 0]) : tile<64x128xf16, #6> @0
    %42 = mma(lhs: registers(%30), rhs: registers(%41), acc: registers(%38), atom: "mma.m16n8k16.f32") : tile<64x128xf32, #2> @0
    %43 = convert(kind: f_to_f(rounding: nearest_even), x: %42) : tile<64x128xf16, #2> @0
    %44 = tma_load(view: %23, index: [%34, %12], order: (semantics: weak), buffer: 0, map: 2) : token @0
    %45 = shared_load(buffer: 0, atom: matrix(trans: true)) : tile<128x128xf16, #3> @0
    %46 = mma(lhs: registers(%43), rhs: registers(%45), acc: registers(%33), atom: "mma.m16n8k16.f32") : tile<64x128xf32, #2> @0
    continue(values: [%46]) @0
  }
  %47 = make_memref(base: %5) : !10 @0
  %48 = make_view(memref: %47) : !11 @0
  shared_store(x: %31, buffer: 4, atom: vector(vector_bits: 0)) @0
  %49 = shared_load(buffer: 4, atom: vector(vector_bits: 2)) : tile<64x128xf32, #8> @0
  %50 = store_view(tile: %49, view: %48, index: [%12, %12], order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "keys_in_two"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with mma.sync")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: threads read it into registers, once for all iterations")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: threads read it into registers, once for all iterations")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
