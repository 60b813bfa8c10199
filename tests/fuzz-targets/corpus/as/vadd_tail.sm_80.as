//!tile tileas 7 atoms
//!tile target sm_80
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input cc32ae8041ed47e3d3b6f5eba2f877f6f9ec102ed7a581accccf3e91e0a28f16
layout #0 = (register: [1], lane: [2, 4, 8, 16, 32], warp: [64, 128])
func "vadd_padded_Kt1_A1f32_1i4t1_p16_A1f32_1i4t1_p16_A1f32_1i4t1_p16_I256"(%0: ptr<f32>, %1: i32, %2: i32, %3: ptr<f32>,
    %4: i32, %5: i32, %6: ptr<f32>, %7: i32, %8: i32) (warps: 4) @1 { // kernels.py:33
  type !0 = memref<?xf32, strides: [1], scope: 1>
  type !1 = memref<?xf32, strides: [1], scope: 2>
  type !2 = memref<?xf32, strides: [1], scope: 3>
  type !3 = view<256, !0, padding: zero>
  type !4 = view<256, !1, padding: zero>
  type !5 = view<256, !2>
  %9 = make_token : token @1 // kernels.py:33
  %10 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f32> @2 // kernels.py:33
  %11 = assume(value: %1, fact: div_by(divisor: 4)) : i32 @2 // kernels.py:33
  %12 = assume(value: %3, fact: div_by(divisor: 16)) : ptr<f32> @3 // kernels.py:33
  %13 = assume(value: %4, fact: div_by(divisor: 4)) : i32 @3 // kernels.py:33
  %14 = assume(value: %6, fact: div_by(divisor: 16)) : ptr<f32> @4 // kernels.py:33
  %15 = assume(value: %7, fact: div_by(divisor: 4)) : i32 @4 // kernels.py:33
  %16 = assume(value: %11, fact: bounded(low: 0)) : i32 @1 // kernels.py:33
  %17 = make_memref(base: %10, sizes: [%16]) : !0 @1 // kernels.py:33
  %18 = assume(value: %13, fact: bounded(low: 0)) : i32 @1 // kernels.py:33
  %19 = make_memref(base: %12, sizes: [%18]) : !1 @1 // kernels.py:33
  %20 = assume(value: %15, fact: bounded(low: 0)) : i32 @1 // kernels.py:33
  %21 = make_memref(base: %14, sizes: [%20]) : !2 @1 // kernels.py:33
  %22 = block_id(axis: 0) : i32 @5 // kernels.py:34
  %23 = make_view(memref: %17) : !3 @6 // kernels.py:35
  %24, %25 = load_view(view: %23, index: [%22], token: %9, order: (semantics: weak), atom: vector(vector_bits: 1)) : tile<256xf32, #0>, token @6 // kernels.py:35
  %26 = make_view(memref: %19) : !4 @7 // kernels.py:36
  %27, %28 = load_view(view: %26, index: [%22], token: %9, order: (semantics: weak), atom: vector(vector_bits: 1)) : tile<256xf32, #0>, token @7 // kernels.py:36
  %29 = binary(kind: add_f(rounding: nearest_even), lhs: %24, rhs: %27) : tile<256xf32, #0> @8 // kernels.py:37
  %30 = make_view(memref: %21) : !5 @9 // kernels.py:37
  %31 = store_view(tile: %29, view: %30, index: [%22], token: %9, order: (semantics: weak), atom: vector(vector_bits: 1)) : token @9 // kernels.py:37
  return @0
}
//!tile function "vadd_padded_Kt1_A1f32_1i4t1_p16_A1f32_1i4t1_p16_A1f32_1i4t1_p16_I256"
//!tile log (pass: "fold", outcome: Passed, name: "Folded", category: Other, function: 0, loc: @1, message: "6 changes")
//!tile log (pass: "duplicates", outcome: Passed, name: "Shared", category: Other, function: 0, loc: @1, message: "4 changes")
//!tile log (pass: "dead", outcome: Passed, name: "Removed", category: Other, function: 0, loc: @1, message: "3 changes")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @6, message: "load of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @7, message: "load of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @9, message: "store of 64 bits a thread; divisibility, bounds or the tile's size allow no more")
//!tile name "kernels.py"
//!tile name "/tmp/tileworks-example"
//!tile name "vadd_padded"
//!tile name "vadd_padded_Kt1_A1f32_1i4t1_p16_A1f32_1i4t1_p16_A1f32_1i4t1_p16_I256"
//!tile name "/tmp/tileworks-example/kernels.py"
//!tile scope File(name:(0),directory:(1))
//!tile scope CompileUnit(file:(0))
//!tile scope Subprogram(file:(0),line:32,name:(2),linkage_name:(3),compile_unit:(1),scope_line:32,declaration:false)
//!tile loc Source(file:(4),line:33,column:0,scope:Some((2)))
//!tile loc Source(file:(4),line:33,column:16,scope:Some((2)))
//!tile loc Source(file:(4),line:33,column:19,scope:Some((2)))
//!tile loc Source(file:(4),line:33,column:22,scope:Some((2)))
//!tile loc Source(file:(4),line:34,column:8,scope:Some((2)))
//!tile loc Source(file:(4),line:35,column:8,scope:Some((2)))
//!tile loc Source(file:(4),line:36,column:8,scope:Some((2)))
//!tile loc Source(file:(4),line:37,column:33,scope:Some((2)))
//!tile loc Source(file:(4),line:37,column:4,scope:Some((2)))
