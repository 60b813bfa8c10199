// RUN: tile-sched --format=text % | grep -oE 'warp_role\(.*|pipeline_[a-z]+\([^)]*|tmem_store\([^)]*|mma\(.*|\(buffers:.*|.*tensor: \(.*\)'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 0
layout #0 = (register: [1, 2], lane: [4, 8, 16, 32, 64], warp: [128, 256])
layout #1 = (register: [1, 2, 4, 8], lane: [16, 32, 64, 128, 0], warp: [0, 0])
layout #2 = (register: [1, 2, 128, 256], lane: [4, 8, 16, 32, 64], warp: [0, 0])
layout #3 = (register: [1, 2, 128, 256], lane: [4, 8, 16, 32, 64], warp: [512, 1024])
layout #4 = (register: [64, 128, 32], lane: [1, 2, 4, 8, 16], warp: [0, 0])
layout #5 = (register: [64, 128, 32], lane: [1, 2, 4, 8, 16], warp: [256, 512])
layout #6 = (register: [1, 2, 4, 8, 16, 32], lane: [64, 128, 256, 512, 1024], warp: [2048, 4096])
layout #7 = (register: [128, 256, 512, 1024, 2048, 4096], lane: [1, 2, 4, 8, 16], warp: [32, 64])
func "scaled"(%0: ptr<f8E4M3FN>, %1: ptr<f8E8M0FNU>, %2: ptr<f32>, %3: i32, %4: i32) (
  warps: 4,
  buffers: [
    (elem: f8E4M3FN, shape: [128, 128], offsets: [1, 2, 4, 8, 16, 32, 64, 144, 288, 576, 1024, 2048, 4096, 8192], align: 1024), // buffer 0
    (elem: f8E4M3FN, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 144, 288, 512, 1024, 2048, 4096], align: 1024), // buffer 1
    (elem: f8E8M0FNU, shape: [128, 4], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256], align: 128), // buffer 2
    (elem: f8E8M0FNU, shape: [4, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 144], align: 128), // buffer 3
    (elem: f8E8M0FNU, shape: [4, 128, 4], offsets: [1, 2, 128, 256, 4, 8, 16, 32, 64, 512, 1024], align: 4, space: tensor), // buffer 4
    (elem: f8E8M0FNU, shape: [4, 4, 64], offsets: [64, 128, 32, 0, 1, 2, 4, 8, 16, 256, 512], align: 4, space: tensor), // buffer 5
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], align: 32, space: tensor), // buffer 6
    (elem: f32, shape: [128, 64], offsets: [1, 2, 4, 8, 16, 32, 68, 136, 272, 512, 1024, 2048, 4096], align: 128), // buffer 7
  ],
  maps: [
    (base: param(0), element: byte, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [param(3)], extent: [128, 128], swizzle: bytes128), // map 0
    (base: param(0), element: byte, dims: [max(param(3), const(1)), max(param(3), const(1))], strides: [param(3)], extent: [64, 128], swizzle: bytes64), // map 1
  ],
) @0 {
  type !0 = memref<?x?xf8E4M3FN, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf8E8M0FNU, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<128x128, !0, padding: zero>
  type !4 = view<128x64, !0, padding: zero>
  type !5 = view<128x4, !1, padding: zero>
  type !6 = view<4x64, !1, padding: zero>
  type !7 = view<128x64, !2>
  %5 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f8E4M3FN> @0
  %6 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f8E8M0FNU> @0
  %7 = assume(value: %3, fact: div_by(divisor: 16)) : i32 @0
  %8 = assume(value: %7, fact: bounded(low: 0)) : i32 @0
  %9 = make_token : token @0
  %10 = make_memref(base: %5, sizes: [%8, %8], strides: [%8]) : !0 @0
  %11 = make_memref(base: %6, sizes: [%8, %8], strides: [%8]) : !1 @0
  %12 = make_memref(base: %2, sizes: [%8, %8], strides: [%8]) : !2 @0
  %13 = make_view(memref: %10) : !3 @0
  %14 = make_view(memref: %10) : !4 @0
  %15 = make_view(memref: %11) : !5 @0
  %16 = make_view(memref: %11) : !6 @0
  %17 = make_view(memref: %12) : !7 @0
  %18 = constant(0) : i32 @0
  %19 = constant(1) : i32 @0
  %20 = constant(true) : i1 @0
  %21 = for(lower: %18, upper: %8, step: %19, init: [%20]) : i1 @0 {
    (%22: i32, %23: i1)
    %24 = tma_load(view: %13, index: [%4, %22], token: %9, order: (semantics: weak), buffer: 0, map: 0) : token @0
    %25 = tma_load(view: %14, index: [%22, %4], token: %9, order: (semantics: weak), buffer: 1, map: 1) : token @0
    %26 = copy_view(view: %15, index: [%4, %22], token: %9, order: (semantics: weak), whole: true, buffer: 2, layout: 0, atom: async(bytes: 4)) : token @0
    %27 = copy_view(view: %16, index: [%22, %4], token: %9, order: (semantics: weak), whole: true, buffer: 3, layout: 1, atom: async(bytes: 16)) : token @0
    %28 = shared_load(buffer: 2, atom: matrix) : tile<128x4xf8E8M0FNU, #2> @0
    %29 = reshape(x: %28) : tile<1x128x4xf8E8M0FNU, #2> @0
    %30 = broadcast(x: %29) : tile<4x128x4xf8E8M0FNU, #3> @0
    tmem_store(x: %30, buffer: 4, from: 0, atom: "32x32b") @0
    %31 = shared_load(buffer: 3, atom: vector(vector_bits: 0)) : tile<4x64xf8E8M0FNU, #4> @0
    %32 = reshape(x: %31) : tile<1x4x64xf8E8M0FNU, #4> @0
    %33 = broadcast(x: %32) : tile<4x4x64xf8E8M0FNU, #5> @0
    tmem_store(x: %33, buffer: 5, from: 0, atom: "32x32b") @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 6), zero_init: %23, lhs_scale: memory(buffer: 4), rhs_scale: memory(buffer: 5), atom: "tcgen05.k32.block32.f32") @0
    %34 = constant(false) : i1 @0
    continue(values: [%34]) @0
  }
  %35 = if(cond: %21) : tile<128x64xf32, #6> @0 {
    %36 = constant(0.0) : tile<128x64xf32, #6> @0
    yield(values: [%36]) @0
  } {
    %37 = tmem_load(buffer: 6, from: 0, atom: "32x32b") : tile<128x64xf32, #6> @0
    yield(values: [%37]) @0
  }
  shared_store(x: %35, buffer: 7, atom: vector(vector_bits: 2)) @0
  %38 = shared_load(buffer: 7, atom: matrix) : tile<128x64xf32, #7> @0
  %39 = store_view(tile: %38, view: %17, index: [%4, %4], token: %9, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @0
  return @0
}
//!tile function "scaled"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 32 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 16 bits per thread; divisibility, bounds or the tile's size limit the width")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory, with block scales")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @0, message: "store of 32 bits per thread; neighbouring elements are not known to be aligned, adjacent and in bounds")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 16384 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 4 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by cp.async in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its rows are shorter than 16 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TensorMap", category: Memory, function: 0, loc: @0, message: "the tile is not copied by TMA: its TMA tiles are too small for a swizzle")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: its address is not known to be a multiple of 16 bytes")
