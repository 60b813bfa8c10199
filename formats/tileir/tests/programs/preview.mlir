// Preview content of 13.5.
preview$func extern @scale<[n: index, m: index, T: !cuda_tile<preview$Datatype>]>(%arg0: tile<[n]x[n*2+m]x8xf32> {cuda_tile.preview$access = #cuda_tile<preview$access<in>>}, %arg1: tile<[(n+1)*-m]xpreview$sym_t<T>> {cuda_tile.preview$access = #cuda_tile<preview$access<inout>>, some.thing = 3 : i32}) -> tile<8xf32>
entry @caller(%arg0: tile<ptr<f32>>) {
  %x = constant <f32: 0.000000e+00> : tile<8xf32>
  %0 = preview$call @scale<[8, -3, n/2, n/+(m+1), (8, 4), "text", f32, context.warp, #cuda_tile<preview$expr_div<#cuda_tile<preview$expr_int<8>>, #cuda_tile<preview$expr_int<2>>>>]>(%x, %x) {arg_attrs = [{a.b = true}, {}]} : (!cuda_tile.tile<8xf32>, !cuda_tile.tile<8xf32>) -> !cuda_tile.tile<8xf32>
  %1:2 = preview$call @other(%0) : (!cuda_tile.tile<8xf32>) -> (!cuda_tile.tile<8xf32>, !cuda_tile.tile<8xf32>)
  preview$call @nothing() : () -> ()
  return
}
preview$extern_impl @scale_8<[n: index, s: !cuda_tile<preview$shape>, t: !cuda_tile<preview$string>]> implements @scale<[n]> (%arg0: preview$fragment<[n]x4xf32, smem, mem_layout = <((4, 2), 1):((2, 1), 0)>, fragmap = <(1, 32, 8):(0, 1, 1)>, alignment = 4> {cuda_tile.preview$access = #cuda_tile<preview$access<in>>}, %arg1: preview$fragment<8xf32, local, mem_layout = <(8):(1)>, fragmap = <(1, 64, 8):(0, 0, 1)>> {cuda_tile.preview$access = #cuda_tile<preview$access<out>>}) synchronization = #cuda_tile<preview$synchronization<warp>> arch = ["sm_100", "sm_90"] scratch {smem.size = #cuda_tile<preview$expr_mul<#cuda_tile<preview$expr_var<"n">>, #cuda_tile<preview$expr_int<4>>>>, smem.alignment = #cuda_tile<preview$expr_int<16>>} {frontendABI = {x = "y"}, provider_score = 2 : i64}
