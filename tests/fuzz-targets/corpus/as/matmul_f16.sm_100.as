//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 18e1996435824f9c4b9e25915a38a3f44cc3abc5e1209ebca616382844827cae
layout #0 = (register: [1, 256, 8], lane: [2, 4, 32, 64, 128], warp: [512, 16])
layout #1 = (register: [1, 2, 4], lane: [8, 16, 32, 64, 128], warp: [256, 0])
layout #2 = (register: [1, 128, 8], lane: [2, 4, 16, 32, 64], warp: [256, 0])
layout #3 = (register: [32, 256, 8], lane: [64, 128, 1, 2, 4], warp: [0, 16])
layout #4 = (register: [1, 2, 512], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "matmul_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f32_1v4l0_2t1_3i4_p16_I32_I32_I16"(%0: ptr<f16>,
    %1: i32, %2: i32, %3: i32, %4: i32, %5: ptr<f16>, %6: i32, %7: i32, %8: i32, %9: i32, %10: ptr<f32>, %11: i32,
    %12: i32, %13: i32, %14: i32) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [32, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256], align: 128), // buffer 0
    (elem: f16, shape: [16, 32], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 256], align: 128), // buffer 1
    (elem: f32, shape: [32, 32], offsets: [1, 2, 4, 8, 16, 40, 80, 132, 256, 512], align: 128), // buffer 2
  ],
) @1 { // kernels.py:122
  type !0 = memref<?x?xf16, strides: [?, 1], scope: 1>
  type !1 = memref<?x?xf16, strides: [?, 1], scope: 2>
  type !2 = memref<?x?xf32, strides: [?, 1], scope: 3>
  type !3 = view<32x16, !0>
  type !4 = view<32x16, !0, padding: zero>
  type !5 = view<16x32, !1, padding: zero>
  type !6 = view<32x32, !2>
  %15 = make_token : token @1 // kernels.py:122
  %16 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @2 // kernels.py:122
  %17 = assume(value: %1, fact: div_by(divisor: 8)) : i32 @2 // kernels.py:122
  %18 = assume(value: %2, fact: div_by(divisor: 8)) : i32 @2 // kernels.py:122
  %19 = assume(value: %3, fact: div_by(divisor: 8)) : i32 @2 // kernels.py:122
  %20 = assume(value: %5, fact: div_by(divisor: 16)) : ptr<f16> @3 // kernels.py:122
  %21 = assume(value: %6, fact: div_by(divisor: 8)) : i32 @3 // kernels.py:122
  %22 = assume(value: %7, fact: div_by(divisor: 8)) : i32 @3 // kernels.py:122
  %23 = assume(value: %8, fact: div_by(divisor: 8)) : i32 @3 // kernels.py:122
  %24 = assume(value: %10, fact: div_by(divisor: 16)) : ptr<f32> @4 // kernels.py:122
  %25 = assume(value: %11, fact: div_by(divisor: 4)) : i32 @4 // kernels.py:122
  %26 = assume(value: %12, fact: div_by(divisor: 4)) : i32 @4 // kernels.py:122
  %27 = assume(value: %13, fact: div_by(divisor: 4)) : i32 @4 // kernels.py:122
  %28 = constant(1) : i32 @1 // kernels.py:122
  %29 = assume(value: %17, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %30 = assume(value: %18, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %31 = assume(value: %19, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %32 = make_memref(base: %16, sizes: [%29, %30], strides: [%31]) : !0 @1 // kernels.py:122
  %33 = assume(value: %21, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %34 = assume(value: %22, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %35 = assume(value: %23, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %36 = make_memref(base: %20, sizes: [%33, %34], strides: [%35]) : !1 @1 // kernels.py:122
  %37 = assume(value: %25, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %38 = assume(value: %26, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %39 = assume(value: %27, fact: bounded(low: 0)) : i32 @1 // kernels.py:122
  %40 = make_memref(base: %24, sizes: [%37, %38], strides: [%39]) : !2 @1 // kernels.py:122
  %41 = block_id(axis: 0) : i32 @5 // kernels.py:123
  %42 = block_id(axis: 1) : i32 @5 // kernels.py:123
  %43 = make_view(memref: %32) : !3 @8 // kernels.py:125
  %44, %45 = view_shape(view: %43) : i32, i32 @8 // kernels.py:125
  %46 = constant(0) : i32 @9 // kernels.py:125
  %47 = make_view(memref: %32) : !4 @11 // kernels.py:126
  %48 = make_view(memref: %36) : !5 @12 // kernels.py:127
  %49 = constant(0.0) : tile<32x32xf32, #0> @7 // kernels.py:124
  %50 = for(lower: %46, upper: %45, step: %28, init: [%49]) : tile<32x32xf32, #0> @10 { // kernels.py:125
    (%51: i32, %52: tile<32x32xf32, #0>)
    %53 = copy_view(view: %47, index: [%41, %51], token: %15, order: (semantics: weak), whole: true, buffer: 0, layout: 1, atom: async(bytes: 16)) : token @11 // kernels.py:126
    %54 = copy_view(view: %48, index: [%51, %42], token: %15, order: (semantics: weak), whole: true, buffer: 1, layout: 1, atom: async(bytes: 16)) : token @12 // kernels.py:127
    %55 = shared_load(buffer: 0, atom: matrix) : tile<32x16xf16, #2> @11 // kernels.py:126
    %56 = shared_load(buffer: 1, atom: matrix(trans: true)) : tile<16x32xf16, #3> @12 // kernels.py:127
    %57 = mma(lhs: registers(%55), rhs: registers(%56), acc: registers(%52), atom: "mma.m16n8k16.f32") : tile<32x32xf32, #0> @13 // kernels.py:128
    continue(values: [%57]) @10 // kernels.py:125
  }
  %58 = make_view(memref: %40) : !6 @14 // kernels.py:129
  shared_store(x: %50, buffer: 2, atom: vector(vector_bits: 1)) @10 // kernels.py:125
  %59 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<32x32xf32, #4> @10 // kernels.py:125
  %60 = store_view(tile: %59, view: %58, index: [%41, %42], token: %15, order: (semantics: weak), atom: vector(vector_bits: 2)) : token @14 // kernels.py:129
  return @0
}
//!tile function "matmul_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f32_1v4l0_2t1_3i4_p16_I32_I32_I16"
//!tile log (pass: "fold", outcome: Passed, name: "Folded", category: Other, function: 0, loc: @1, message: "18 changes")
//!tile log (pass: "duplicates", outcome: Passed, name: "Shared", category: Other, function: 0, loc: @1, message: "12 changes")
//!tile log (pass: "hoist", outcome: Passed, name: "Hoisted", category: Other, function: 0, loc: @1, message: "2 changes")
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @1, message: "1 change")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @11, message: "load of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @12, message: "load of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @13, message: "product by tensor cores, with mma.sync: tcgen05 has 64 rows or more, 16 columns, and not all types of elements and accumulators")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @14, message: "store of 128 bits a thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @11, message: "the tile is copied to shared memory in pieces of 16 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @12, message: "the tile is copied to shared memory in pieces of 16 bytes")
//!tile name "kernels.py"
//!tile name "/tmp/tileworks-example"
//!tile name "matmul"
//!tile name "matmul_Kt1_A2f16_1v8l0_2t1_3i8_p16_A2f16_1v8l0_2t1_3i8_p16_A2f32_1v4l0_2t1_3i4_p16_I32_I32_I16"
//!tile name "/tmp/tileworks-example/kernels.py"
//!tile scope File(name:(0),directory:(1))
//!tile scope CompileUnit(file:(0))
//!tile scope Subprogram(file:(0),line:121,name:(2),linkage_name:(3),compile_unit:(1),scope_line:121,declaration:false)
//!tile loc Source(file:(4),line:122,column:0,scope:Some((2)))
//!tile loc Source(file:(4),line:122,column:11,scope:Some((2)))
//!tile loc Source(file:(4),line:122,column:14,scope:Some((2)))
//!tile loc Source(file:(4),line:122,column:17,scope:Some((2)))
//!tile loc Source(file:(4),line:123,column:11,scope:Some((2)))
//!tile loc Source(file:(4),line:123,column:22,scope:Some((2)))
//!tile loc Source(file:(4),line:124,column:12,scope:Some((2)))
//!tile loc Source(file:(4),line:125,column:19,scope:Some((2)))
//!tile loc Source(file:(4),line:125,column:13,scope:Some((2)))
//!tile loc Source(file:(4),line:125,column:4,scope:Some((2)))
//!tile loc Source(file:(4),line:126,column:12,scope:Some((2)))
//!tile loc Source(file:(4),line:127,column:12,scope:Some((2)))
//!tile loc Source(file:(4),line:128,column:16,scope:Some((2)))
//!tile loc Source(file:(4),line:129,column:4,scope:Some((2)))
