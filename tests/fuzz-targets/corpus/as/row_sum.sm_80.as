//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 446ac5f5214200618cc00d2fd5ebd99c0527d00c61e03eb3951daf30ace88ab3
layout #0 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [64])
layout #1 = (lane: [1, 2, 4, 8, 16], warp: [32])
layout #2 = (lane: [0, 0, 0, 0, 0], warp: [1])
layout #3 = (register: [1], lane: [0, 0, 0, 0, 0], warp: [0])
layout #4 = (lane: [0, 0, 0, 0, 0], warp: [0])
func "row_sum_Kt1_A2f32_1v4l0_2t1_3i4_p16_A1f32_1i4t1_p16_I128"(%0: ptr<f32>, %1: i32, %2: i32, %3: i32, %4: i32,
    %5: ptr<f32>, %6: i32, %7: i32) (
  warps: 2,
  buffers: [
    (elem: f32, shape: [1, 2], offsets: [1], align: 128), // buffer 0
  ],
) @1 { // kernels.py:100
  type !0 = memref<?x?xf32, strides: [?, 1], scope: 1>
  type !1 = memref<?xf32, strides: [1], scope: 2>
  type !2 = view<1x128, !0>
  type !3 = view<1, !1>
  %8 = make_token : token @1 // kernels.py:100
  %9 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @2 // kernels.py:100
  %10 = assume(value: %1, fact: div_by(divisor: 4)) : i32 @2 // kernels.py:100
  %11 = assume(value: %2, fact: div_by(divisor: 4)) : i32 @2 // kernels.py:100
  %12 = assume(value: %3, fact: div_by(divisor: 4)) : i32 @2 // kernels.py:100
  %13 = assume(value: %5, fact: div_by(divisor: 16)) : ptr<f32> @3 // kernels.py:100
  %14 = assume(value: %6, fact: div_by(divisor: 4)) : i32 @3 // kernels.py:100
  %15 = assume(value: %10, fact: bounded(low: 0)) : i32 @1 // kernels.py:100
  %16 = assume(value: %11, fact: bounded(low: 0)) : i32 @1 // kernels.py:100
  %17 = assume(value: %12, fact: bounded(low: 0)) : i32 @1 // kernels.py:100
  %18 = make_memref(base: %9, sizes: [%15, %16], strides: [%17]) : !0 @1 // kernels.py:100
  %19 = assume(value: %14, fact: bounded(low: 0)) : i32 @1 // kernels.py:100
  %20 = make_memref(base: %13, sizes: [%19]) : !1 @1 // kernels.py:100
  %21 = block_id(axis: 0) : i32 @4 // kernels.py:101
  %22 = constant(0) : i32 @5 // kernels.py:102
  %23 = make_view(memref: %18) : !2 @6 // kernels.py:102
  %24, %25 = load_view(view: %23, index: [%21, %22], token: %8, order: (semantics: weak), atom: vector(vector_bits: 1)) : tile<1x128xf32, #0>, token @6 // kernels.py:102
  %26 = reduce_registers(operands: [%24], dim: 1) : tile<1x64xf32, #1> @7 { // kernels.py:103
    (%27: f32, %28: f32)
    %29 = binary(kind: add_f(rounding: nearest_even), lhs: %27, rhs: %28) : f32 @7 // kernels.py:103
    yield(values: [%29]) @7 // kernels.py:103
  }
  %30 = reduce_lanes(operands: [%26], dim: 1) : tile<1x2xf32, #2> @7 { // kernels.py:103
    (%31: f32, %32: f32)
    %33 = binary(kind: add_f(rounding: nearest_even), lhs: %31, rhs: %32) : f32 @7 // kernels.py:103
    yield(values: [%33]) @7 // kernels.py:103
  }
  shared_store(x: %30, buffer: 0, atom: vector(vector_bits: 0)) @7 // kernels.py:103
  %34 = shared_load(buffer: 0, atom: vector(vector_bits: 1)) : tile<1x2xf32, #3> @7 // kernels.py:103
  %35 = reduce_registers(operands: [%34], dim: 1) : tile<1x1xf32, #4> @7 { // kernels.py:103
    (%36: f32, %37: f32)
    %38 = binary(kind: add_f(rounding: nearest_even), lhs: %36, rhs: %37) : f32 @7 // kernels.py:103
    yield(values: [%38]) @7 // kernels.py:103
  }
  %39 = reshape(x: %35) : tile<1xf32, #4> @7 // kernels.py:103
  %40 = make_view(memref: %20) : !3 @8 // kernels.py:103
  %41 = store_view(tile: %39, view: %40, index: [%21], token: %8, order: (semantics: weak), atom: vector(vector_bits: 0)) : token @8 // kernels.py:103
  return @0
}
//!tile function "row_sum_Kt1_A2f32_1v4l0_2t1_3i4_p16_A1f32_1i4t1_p16_I128"
//!tile log (pass: "fold", outcome: Passed, name: "Folded", category: Other, function: 0, loc: @1, message: "8 changes")
//!tile log (pass: "duplicates", outcome: Passed, name: "Shared", category: Other, function: 0, loc: @1, message: "2 changes")
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @1, message: "3 changes")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @6, message: "load of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile log (pass: "convert", outcome: Missed, name: "StoreNotVectorized", category: Memory, function: 0, loc: @8, message: "store of 32 bits a thread; neighbouring elements are not known to be aligned, together and in bounds")
//!tile name "kernels.py"
//!tile name "/tmp/tileworks-example"
//!tile name "row_sum"
//!tile name "row_sum_Kt1_A2f32_1v4l0_2t1_3i4_p16_A1f32_1i4t1_p16_I128"
//!tile name "/tmp/tileworks-example/kernels.py"
//!tile scope File(name:(0),directory:(1))
//!tile scope CompileUnit(file:(0))
//!tile scope Subprogram(file:(0),line:99,name:(2),linkage_name:(3),compile_unit:(1),scope_line:99,declaration:false)
//!tile loc Source(file:(4),line:100,column:0,scope:Some((2)))
//!tile loc Source(file:(4),line:100,column:12,scope:Some((2)))
//!tile loc Source(file:(4),line:100,column:15,scope:Some((2)))
//!tile loc Source(file:(4),line:101,column:8,scope:Some((2)))
//!tile loc Source(file:(4),line:102,column:29,scope:Some((2)))
//!tile loc Source(file:(4),line:102,column:8,scope:Some((2)))
//!tile loc Source(file:(4),line:103,column:33,scope:Some((2)))
//!tile loc Source(file:(4),line:103,column:4,scope:Some((2)))
