// RUN: tile-sched --roles=on --format=text -o whole.sched %; grep -oE '(warp_role|for|tma_load|pipeline_[a-z]+|mma)\((role: [0-9]+|pipeline: [0-9]+)?|^ +\((name|buffers).*' whole.sched | uniq -c; perl -0pe 's/ *pipeline_release\(pipeline: 0[^\n]*\n//' whole.sched > part.sched; tile-sched --verify-only part.sched
//!tile tileas 7 atoms
//!tile target sm_90
//!tile option opt-level=3
//!tile producer tile-lower-as 0.1.0
//!tile input 5f9c5ee4eae6cb2f1e051fef403990a21dcef7f6e7d6de0413228d290cb86ebf
layout #0 = (register: [1, 128, 8], lane: [2, 4, 16, 32, 64], warp: [256, 512])
layout #1 = (register: [1, 2, 512], lane: [4, 8, 16, 32, 64], warp: [128, 256])
func "product"(%0: ptr<f16>, %1: ptr<f16>, %2: ptr<f32>) (
  warps: 4,
  buffers: [
    (elem: f16, shape: [64, 64], offsets: [1, 2, 4, 8, 16, 32, 72, 144, 288, 512, 1024, 2048], align: 1024), // buffer 0
    (elem: f16, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 32, 72, 128, 256, 512], align: 1024), // buffer 1
    (elem: f32, shape: [64, 16], offsets: [1, 2, 4, 8, 16, 40, 68, 128, 256, 512], align: 128), // buffer 2
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
  %17 = constant(0.0) : tile<64x16xf32, #0> @0
  %18 = for(lower: %15, upper: %14, step: %16, init: [%17]) : tile<64x16xf32, #0> @0 {
    (%19: i32, %20: tile<64x16xf32, #0>)
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
    %31 = compare(kind: int(predicate: equal, signedness: signed), lhs: %19, rhs: %15) : i1 @0
    %32 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%20), zero_init: %31, atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %33 = constant(16) : i32 @0
    %34 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %33) : i32 @0
    %35 = constant(1) : i32 @0
    %36 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %34, rhs: %35) : i32 @0
    %37 = tma_load(view: %10, index: [%15, %36], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %38 = constant(16) : i32 @0
    %39 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %38) : i32 @0
    %40 = constant(1) : i32 @0
    %41 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %39, rhs: %40) : i32 @0
    %42 = tma_load(view: %12, index: [%41, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %43 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%32), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %44 = constant(16) : i32 @0
    %45 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %44) : i32 @0
    %46 = constant(2) : i32 @0
    %47 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %45, rhs: %46) : i32 @0
    %48 = tma_load(view: %10, index: [%15, %47], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %49 = constant(16) : i32 @0
    %50 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %49) : i32 @0
    %51 = constant(2) : i32 @0
    %52 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %50, rhs: %51) : i32 @0
    %53 = tma_load(view: %12, index: [%52, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %54 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%43), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %55 = constant(16) : i32 @0
    %56 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %55) : i32 @0
    %57 = constant(3) : i32 @0
    %58 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %56, rhs: %57) : i32 @0
    %59 = tma_load(view: %10, index: [%15, %58], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %60 = constant(16) : i32 @0
    %61 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %60) : i32 @0
    %62 = constant(3) : i32 @0
    %63 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %61, rhs: %62) : i32 @0
    %64 = tma_load(view: %12, index: [%63, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %65 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%54), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %66 = constant(16) : i32 @0
    %67 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %66) : i32 @0
    %68 = constant(4) : i32 @0
    %69 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %67, rhs: %68) : i32 @0
    %70 = tma_load(view: %10, index: [%15, %69], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %71 = constant(16) : i32 @0
    %72 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %71) : i32 @0
    %73 = constant(4) : i32 @0
    %74 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %72, rhs: %73) : i32 @0
    %75 = tma_load(view: %12, index: [%74, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %76 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%65), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %77 = constant(16) : i32 @0
    %78 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %77) : i32 @0
    %79 = constant(5) : i32 @0
    %80 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %78, rhs: %79) : i32 @0
    %81 = tma_load(view: %10, index: [%15, %80], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %82 = constant(16) : i32 @0
    %83 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %82) : i32 @0
    %84 = constant(5) : i32 @0
    %85 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %83, rhs: %84) : i32 @0
    %86 = tma_load(view: %12, index: [%85, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %87 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%76), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %88 = constant(16) : i32 @0
    %89 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %88) : i32 @0
    %90 = constant(6) : i32 @0
    %91 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %89, rhs: %90) : i32 @0
    %92 = tma_load(view: %10, index: [%15, %91], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %93 = constant(16) : i32 @0
    %94 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %93) : i32 @0
    %95 = constant(6) : i32 @0
    %96 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %94, rhs: %95) : i32 @0
    %97 = tma_load(view: %12, index: [%96, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %98 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%87), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %99 = constant(16) : i32 @0
    %100 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %99) : i32 @0
    %101 = constant(7) : i32 @0
    %102 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %100, rhs: %101) : i32 @0
    %103 = tma_load(view: %10, index: [%15, %102], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %104 = constant(16) : i32 @0
    %105 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %104) : i32 @0
    %106 = constant(7) : i32 @0
    %107 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %105, rhs: %106) : i32 @0
    %108 = tma_load(view: %12, index: [%107, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %109 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%98), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %110 = constant(16) : i32 @0
    %111 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %110) : i32 @0
    %112 = constant(8) : i32 @0
    %113 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %111, rhs: %112) : i32 @0
    %114 = tma_load(view: %10, index: [%15, %113], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %115 = constant(16) : i32 @0
    %116 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %115) : i32 @0
    %117 = constant(8) : i32 @0
    %118 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %116, rhs: %117) : i32 @0
    %119 = tma_load(view: %12, index: [%118, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %120 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%109), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %121 = constant(16) : i32 @0
    %122 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %121) : i32 @0
    %123 = constant(9) : i32 @0
    %124 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %122, rhs: %123) : i32 @0
    %125 = tma_load(view: %10, index: [%15, %124], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %126 = constant(16) : i32 @0
    %127 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %126) : i32 @0
    %128 = constant(9) : i32 @0
    %129 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %127, rhs: %128) : i32 @0
    %130 = tma_load(view: %12, index: [%129, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %131 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%120), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %132 = constant(16) : i32 @0
    %133 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %132) : i32 @0
    %134 = constant(10) : i32 @0
    %135 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %133, rhs: %134) : i32 @0
    %136 = tma_load(view: %10, index: [%15, %135], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %137 = constant(16) : i32 @0
    %138 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %137) : i32 @0
    %139 = constant(10) : i32 @0
    %140 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %138, rhs: %139) : i32 @0
    %141 = tma_load(view: %12, index: [%140, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %142 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%131), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %143 = constant(16) : i32 @0
    %144 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %143) : i32 @0
    %145 = constant(11) : i32 @0
    %146 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %144, rhs: %145) : i32 @0
    %147 = tma_load(view: %10, index: [%15, %146], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %148 = constant(16) : i32 @0
    %149 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %148) : i32 @0
    %150 = constant(11) : i32 @0
    %151 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %149, rhs: %150) : i32 @0
    %152 = tma_load(view: %12, index: [%151, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %153 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%142), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %154 = constant(16) : i32 @0
    %155 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %154) : i32 @0
    %156 = constant(12) : i32 @0
    %157 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %155, rhs: %156) : i32 @0
    %158 = tma_load(view: %10, index: [%15, %157], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %159 = constant(16) : i32 @0
    %160 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %159) : i32 @0
    %161 = constant(12) : i32 @0
    %162 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %160, rhs: %161) : i32 @0
    %163 = tma_load(view: %12, index: [%162, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %164 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%153), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %165 = constant(16) : i32 @0
    %166 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %165) : i32 @0
    %167 = constant(13) : i32 @0
    %168 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %166, rhs: %167) : i32 @0
    %169 = tma_load(view: %10, index: [%15, %168], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %170 = constant(16) : i32 @0
    %171 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %170) : i32 @0
    %172 = constant(13) : i32 @0
    %173 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %171, rhs: %172) : i32 @0
    %174 = tma_load(view: %12, index: [%173, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %175 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%164), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %176 = constant(16) : i32 @0
    %177 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %176) : i32 @0
    %178 = constant(14) : i32 @0
    %179 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %177, rhs: %178) : i32 @0
    %180 = tma_load(view: %10, index: [%15, %179], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %181 = constant(16) : i32 @0
    %182 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %181) : i32 @0
    %183 = constant(14) : i32 @0
    %184 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %182, rhs: %183) : i32 @0
    %185 = tma_load(view: %12, index: [%184, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %186 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%175), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %187 = constant(16) : i32 @0
    %188 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %187) : i32 @0
    %189 = constant(15) : i32 @0
    %190 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %188, rhs: %189) : i32 @0
    %191 = tma_load(view: %10, index: [%15, %190], order: (semantics: weak), buffer: 0, map: 0) : token @0
    %192 = constant(16) : i32 @0
    %193 = binary(kind: mul_i(overflow: no_signed_wrap), lhs: %19, rhs: %192) : i32 @0
    %194 = constant(15) : i32 @0
    %195 = binary(kind: add_i(overflow: no_signed_wrap), lhs: %193, rhs: %194) : i32 @0
    %196 = tma_load(view: %12, index: [%195, %15], order: (semantics: weak), buffer: 1, map: 1) : token @0
    %197 = mma(lhs: memory(buffer: 0), rhs: memory(buffer: 1), acc: registers(%186), atom: "wgmma.m64k16.f32") : tile<64x16xf32, #0> @0
    %198 = join_tokens(tokens: [%25, %37, %48, %59, %70, %81, %92, %103, %114, %125, %136, %147, %158, %169, %180, %191]) : token @0
    %199 = join_tokens(tokens: [%30, %42, %53, %64, %75, %86, %97, %108, %119, %130, %141, %152, %163, %174, %185, %196]) : token @0
    continue(values: [%197]) @0
  }
  shared_store(x: %18, buffer: 2, atom: vector(vector_bits: 1)) @0
  %200 = shared_load(buffer: 2, atom: vector(vector_bits: 2)) : tile<64x16xf32, #1> @0
  %201 = store_view(tile: %200, view: %13, index: [%14, %15], order: (semantics: weak), atom: vector(vector_bits: 2)) : token @0
  return @0
}
//!tile function "product"
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "LoadVectorized", category: Memory, function: 0, loc: @0, message: "load of 128 bits per thread")
//!tile log (pass: "convert", outcome: Passed, name: "TensorCore", category: TensorCore, function: 0, loc: @0, message: "MMA by tensor cores, with wgmma")
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
