// RUN: tile-sched --format=text % | grep -oE 'buffers: \[[0-9]\], depth: [0-9]+, fill: tma'
//!tile tileas 7 atoms
//!tile target sm_100
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 5f9c5ee4eae6cb2f1e051fef403990a21dcef7f6e7d6de0413228d290cb86ebf
layout #0 = (register: [1, 2, 4], lane: [16, 32, 64, 128, 8], warp: [256, 512])
layout #1 = (register: [1, 2, 512], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "product"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512], align: 1024), // buffer 1
    (elem: f32, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 64, 128, 0, 256, 512], align: 16, space: tensor), // buffer 2
    (elem: f32, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 36, 72, 128, 256, 512], align: 128), // buffer 3
  ],
  maps: [
    (base: param(0), element: f16, dims: [const(2048), const(64)], strides: [const(4096)], extent: [64, 64], swizzle: bytes128), // map 0
    (base: param(1), element: f16, dims: [const(16), const(2048)], strides: [const(32)], extent: [16, 64], swizzle: bytes32), // map 1
  ],
) @0 {
  type !0 = memref<64x2048xf16, strides: [2048, 1], scope: 1>
  type !1 = memref<2048x16xf16, strides: [16, 1], scope: 2>
  type !2 = memref<192x16xf32, strides: [16, 1], scope: 3>
  type !3 = view<64x1024, !0>
  type !4 = view<64x64, !0>
  type !5 = view<1024x16, !1>
  type !6 = view<64x16, !1>
  type !7 = view<64x16, !2>
  %3 = assume(value: %0, fact: div_by(divisor: 16)) : ptr<f16> @0
  %4 = assume(value: %1, fact: div_by(divisor: 16)) : ptr<f16> @0
  %5 = assume(value: %2, fact: div_by(divisor: 16)) : ptr<f32> @0
  %6 = make_memref(base: %3) : !0 @0
  %7 = make_memref(base: %4) : !1 @0
  %8 = make_memref(base: %5) : !2 @0
  %9 = make_view(memref: %6) : !3 @0
  %10 = make_view(memref: %6) : !4 @0
  %11 = make_view(memref: %7) : !5 @0
  %12 = make_view(memref: %7) : !6 @0
  %13 = make_view(memref: %8) : !7 @0
  %14 = block_id(axis: 0) : i32 @0
  %15 = constant(0) : i32 @0
  %16 = constant(1) : i32 @0
  %17 = constant(true) : i1 @0
  %18 = for(lower: %15, upper: %14, step: %16, init: [%17]) : i1 @0 {
    (%19: i32, %20: i1)
    %21 = constant(16) : i32 @0
    %22 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %21) : i32 @0
    %23 = constant(0) : i32 @0
    %24 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %22, rhs: %23) : i32 @0
    %25 = tma_load(view: %10, index: [%15, %24], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %26 = constant(16) : i32 @0
    %27 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %26) : i32 @0
    %28 = constant(0) : i32 @0
    %29 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %27, rhs: %28) : i32 @0
    %30 = tma_load(view: %12, index: [%29, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %20, atom: "tcgen05.k16.f32") @0
    %31 = constant(false) : i1 @0
    %32 = constant(16) : i32 @0
    %33 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %32) : i32 @0
    %34 = constant(1) : i32 @0
    %35 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %33, rhs: %34) : i32 @0
    %36 = tma_load(view: %10, index: [%15, %35], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %37 = constant(16) : i32 @0
    %38 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %37) : i32 @0
    %39 = constant(1) : i32 @0
    %40 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %38, rhs: %39) : i32 @0
    %41 = tma_load(view: %12, index: [%40, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %31, atom: "tcgen05.k16.f32") @0
    %42 = constant(false) : i1 @0
    %43 = constant(16) : i32 @0
    %44 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %43) : i32 @0
    %45 = constant(2) : i32 @0
    %46 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %44, rhs: %45) : i32 @0
    %47 = tma_load(view: %10, index: [%15, %46], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %48 = constant(16) : i32 @0
    %49 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %48) : i32 @0
    %50 = constant(2) : i32 @0
    %51 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %49, rhs: %50) : i32 @0
    %52 = tma_load(view: %12, index: [%51, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %42, atom: "tcgen05.k16.f32") @0
    %53 = constant(false) : i1 @0
    %54 = constant(16) : i32 @0
    %55 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %54) : i32 @0
    %56 = constant(3) : i32 @0
    %57 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %55, rhs: %56) : i32 @0
    %58 = tma_load(view: %10, index: [%15, %57], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %59 = constant(16) : i32 @0
    %60 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %59) : i32 @0
    %61 = constant(3) : i32 @0
    %62 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %60, rhs: %61) : i32 @0
    %63 = tma_load(view: %12, index: [%62, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %53, atom: "tcgen05.k16.f32") @0
    %64 = constant(false) : i1 @0
    %65 = constant(16) : i32 @0
    %66 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %65) : i32 @0
    %67 = constant(4) : i32 @0
    %68 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %66, rhs: %67) : i32 @0
    %69 = tma_load(view: %10, index: [%15, %68], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %70 = constant(16) : i32 @0
    %71 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %70) : i32 @0
    %72 = constant(4) : i32 @0
    %73 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %71, rhs: %72) : i32 @0
    %74 = tma_load(view: %12, index: [%73, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %64, atom: "tcgen05.k16.f32") @0
    %75 = constant(false) : i1 @0
    %76 = constant(16) : i32 @0
    %77 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %76) : i32 @0
    %78 = constant(5) : i32 @0
    %79 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %77, rhs: %78) : i32 @0
    %80 = tma_load(view: %10, index: [%15, %79], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %81 = constant(16) : i32 @0
    %82 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %81) : i32 @0
    %83 = constant(5) : i32 @0
    %84 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %82, rhs: %83) : i32 @0
    %85 = tma_load(view: %12, index: [%84, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %75, atom: "tcgen05.k16.f32") @0
    %86 = constant(false) : i1 @0
    %87 = constant(16) : i32 @0
    %88 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %87) : i32 @0
    %89 = constant(6) : i32 @0
    %90 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %88, rhs: %89) : i32 @0
    %91 = tma_load(view: %10, index: [%15, %90], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %92 = constant(16) : i32 @0
    %93 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %92) : i32 @0
    %94 = constant(6) : i32 @0
    %95 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %93, rhs: %94) : i32 @0
    %96 = tma_load(view: %12, index: [%95, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %86, atom: "tcgen05.k16.f32") @0
    %97 = constant(false) : i1 @0
    %98 = constant(16) : i32 @0
    %99 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %98) : i32 @0
    %100 = constant(7) : i32 @0
    %101 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %99, rhs: %100) : i32 @0
    %102 = tma_load(view: %10, index: [%15, %101], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %103 = constant(16) : i32 @0
    %104 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %103) : i32 @0
    %105 = constant(7) : i32 @0
    %106 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %104, rhs: %105) : i32 @0
    %107 = tma_load(view: %12, index: [%106, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %97, atom: "tcgen05.k16.f32") @0
    %108 = constant(false) : i1 @0
    %109 = constant(16) : i32 @0
    %110 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %109) : i32 @0
    %111 = constant(8) : i32 @0
    %112 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %110, rhs: %111) : i32 @0
    %113 = tma_load(view: %10, index: [%15, %112], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %114 = constant(16) : i32 @0
    %115 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %114) : i32 @0
    %116 = constant(8) : i32 @0
    %117 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %115, rhs: %116) : i32 @0
    %118 = tma_load(view: %12, index: [%117, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %108, atom: "tcgen05.k16.f32") @0
    %119 = constant(false) : i1 @0
    %120 = constant(16) : i32 @0
    %121 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %120) : i32 @0
    %122 = constant(9) : i32 @0
    %123 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %121, rhs: %122) : i32 @0
    %124 = tma_load(view: %10, index: [%15, %123], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %125 = constant(16) : i32 @0
    %126 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %125) : i32 @0
    %127 = constant(9) : i32 @0
    %128 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %126, rhs: %127) : i32 @0
    %129 = tma_load(view: %12, index: [%128, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %119, atom: "tcgen05.k16.f32") @0
    %130 = constant(false) : i1 @0
    %131 = constant(16) : i32 @0
    %132 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %131) : i32 @0
    %133 = constant(10) : i32 @0
    %134 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %132, rhs: %133) : i32 @0
    %135 = tma_load(view: %10, index: [%15, %134], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %136 = constant(16) : i32 @0
    %137 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %136) : i32 @0
    %138 = constant(10) : i32 @0
    %139 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %137, rhs: %138) : i32 @0
    %140 = tma_load(view: %12, index: [%139, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %130, atom: "tcgen05.k16.f32") @0
    %141 = constant(false) : i1 @0
    %142 = constant(16) : i32 @0
    %143 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %142) : i32 @0
    %144 = constant(11) : i32 @0
    %145 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %143, rhs: %144) : i32 @0
    %146 = tma_load(view: %10, index: [%15, %145], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %147 = constant(16) : i32 @0
    %148 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %147) : i32 @0
    %149 = constant(11) : i32 @0
    %150 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %148, rhs: %149) : i32 @0
    %151 = tma_load(view: %12, index: [%150, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %141, atom: "tcgen05.k16.f32") @0
    %152 = constant(false) : i1 @0
    %153 = constant(16) : i32 @0
    %154 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %153) : i32 @0
    %155 = constant(12) : i32 @0
    %156 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %154, rhs: %155) : i32 @0
    %157 = tma_load(view: %10, index: [%15, %156], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %158 = constant(16) : i32 @0
    %159 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %158) : i32 @0
    %160 = constant(12) : i32 @0
    %161 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %159, rhs: %160) : i32 @0
    %162 = tma_load(view: %12, index: [%161, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %152, atom: "tcgen05.k16.f32") @0
    %163 = constant(false) : i1 @0
    %164 = constant(16) : i32 @0
    %165 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %164) : i32 @0
    %166 = constant(13) : i32 @0
    %167 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %165, rhs: %166) : i32 @0
    %168 = tma_load(view: %10, index: [%15, %167], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %169 = constant(16) : i32 @0
    %170 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %169) : i32 @0
    %171 = constant(13) : i32 @0
    %172 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %170, rhs: %171) : i32 @0
    %173 = tma_load(view: %12, index: [%172, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %163, atom: "tcgen05.k16.f32") @0
    %174 = constant(false) : i1 @0
    %175 = constant(16) : i32 @0
    %176 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %175) : i32 @0
    %177 = constant(14) : i32 @0
    %178 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %176, rhs: %177) : i32 @0
    %179 = tma_load(view: %10, index: [%15, %178], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %180 = constant(16) : i32 @0
    %181 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %180) : i32 @0
    %182 = constant(14) : i32 @0
    %183 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %181, rhs: %182) : i32 @0
    %184 = tma_load(view: %12, index: [%183, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %174, atom: "tcgen05.k16.f32") @0
    %185 = constant(false) : i1 @0
    %186 = constant(16) : i32 @0
    %187 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %186) : i32 @0
    %188 = constant(15) : i32 @0
    %189 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %187, rhs: %188) : i32 @0
    %190 = tma_load(view: %10, index: [%15, %189], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %191 = constant(16) : i32 @0
    %192 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %191) : i32 @0
    %193 = constant(15) : i32 @0
    %194 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %192, rhs: %193) : i32 @0
    %195 = tma_load(view: %12, index: [%194, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: memory(buffer: 2), zero_init: %185, atom: "tcgen05.k16.f32") @0
    %196 = constant(false) : i1 @0
    %197 = join_tokens(tokens: [%25, %36, %47, %58, %69, %80, %91, %102, %113, %124, %135, %146, %157, %168, %179, %190]) : token @0
    %198 = join_tokens(tokens: [%30, %41, %52, %63, %74, %85, %96, %107, %118, %129, %140, %151, %162, %173, %184, %195]) : token @0
    continue(values: [%196]) @0
  }
  %199 = if(cond: %18) : tile<64x16xf32, #0> @0 {
    %200 = constant(0.0) : tile<64x16xf32, #0> @0
    yield(values: [%200]) @0
  } {
    %201 = tmem_load(buffer: 2, from: 0, atom: "16x32bx2") : tile<64x16xf32, #0> @0
    yield(values: [%201]) @0
  }
  shared_store(x: %199, buffer: 3, atom: vector(vector_bits: 2)) @0
  %202 = shared_load(buffer: 3, atom: vector(vector_bits: 2)) : tile<64x16xf32, #1> @0
  %203 = store_view(tile: %202, view: %13, index: [%14, %15], order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "product"
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
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
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
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
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
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
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
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with tcgen05 into tensor memory")
//!tile log (pass: "convert", outcome: Passed, name: "StoreVectorized", category: Memory, function: 0, loc: @0, message: "store of 128 bits per thread")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 8192 bytes")
//!tile log (pass: "copies", outcome: Passed, name: "AsyncCopy", category: Memory, function: 0, loc: @0, message: "the tile is copied to shared memory by TMA in tiles of 2048 bytes")
//!tile log (pass: "copies", outcome: Declined, name: "TmaStore", category: Memory, function: 0, loc: @0, message: "the tile is stored by threads, not by TMA: waiting for TMA takes longer than storing so few bytes")
