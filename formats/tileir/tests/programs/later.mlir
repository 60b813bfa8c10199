// Additions of 13.2, 13.3 and 13.4.
global private  constant @table alignment = 16 <f32: 1.000000e+00> : tile<4xf32>
entry @later(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) {
  %x = constant <f32: 1.000000e+00> : tile<8xf32>
  %i = constant <i32: 2> : tile<8xi32>
  %0 = atan2 %x, %x : tile<8xf32>
  %1 = tanh %0 rounding<approx> : tile<8xf32>
  %2 = exp %1 rounding<approx> : tile<8xf32>
  %3 = negi %i overflow<no_signed_wrap> : tile<8xi32>
  %4 = fpowi %2, %3 : tile<8xf32>, tile<8xi32>
  %5 = ftoi %4 signed  saturating : tile<8xf32> -> tile<8xi32>
  %6 = pack %x : tile<8xf32> -> tile<32xi8>
  %7 = unpack %6 : tile<32xi8> -> tile<64xf4E2M1FN>
  %8 = alloca num_elem = 64, alignment = 128 global : tile<ptr<f32>>
  %a = constant <f8E4M3FN: 1.000000e+00> : tile<16x32xf8E4M3FN>
  %b = constant <f8E4M3FN: 1.000000e+00> : tile<32x16xf8E4M3FN>
  %c = constant <f32: 0.000000e+00> : tile<16x16xf32>
  %s = constant <f8E8M0FNU: 1.000000e+00> : tile<16x1xf8E8M0FNU>
  %t = constant <f8E8M0FNU: 5.877470e-39> : tile<1x16xf8E8M0FNU>
  %9 = mmaf %a, %b, %c fast_acc : tile<16x32xf8E4M3FN>, tile<32x16xf8E4M3FN>, tile<16x16xf32>
  %10 = mmaf_scaled %a, %b, %9, %s, %t : tile<16x32xf8E4M3FN>, tile<32x16xf8E4M3FN>, tile<16x16xf32>, tile<16x1xf8E8M0FNU>, tile<1x16xf8E8M0FNU>
  %view = make_tensor_view %arg0, shape = [64, 128], strides = [128, 1] : tensor_view<64x128xf32, strides=[128,1]>
  %strided = make_strided_view %view : strided_view<tile=(8x16), traversal_strides=[3,5], padding_value = nan, tensor_view<64x128xf32, strides=[128,1]>>
  %tile, %loaded = load_view_tko weak %strided[%arg1, %arg1] inbounds = [true, false] : strided_view<tile=(8x16), traversal_strides=[3,5], padding_value = nan, tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> tile<8x16xf32>, token
  %gather = make_gather_scatter_view %view : gather_scatter_view<tile=(8x16), tensor_view<64x128xf32, strides=[128,1]>, sparse_dim=0>
  %rows, %read = load_view_tko weak %gather[%i, %arg1] : gather_scatter_view<tile=(8x16), tensor_view<64x128xf32, strides=[128,1]>, sparse_dim=0>, tile<8xi32>, tile<i32> -> tile<8x16xf32>, token
  %part = make_partition_view %view : partition_view<tile=(8x16), tensor_view<64x128xf32, strides=[128,1]>>
  %added = atomic_red_view_tko relaxed device %part[%arg1, %arg1], addf, %rows token = %read : tile<8x16xf32>, partition_view<tile=(8x16), tensor_view<64x128xf32, strides=[128,1]>>, tile<i32> -> token
  %zero = constant <i32: 0> : tile<i32>
  %small = constant <f32: 3.000000e+00> : tile<4xf32>
  %11 = insert %small, %x[%zero] : tile<4xf32>, tile<8xf32>
  %waited = gdc_wait_tko -> token
  %launched = gdc_launch_dependents_tko token = %waited -> token
  %fenced = memory_fence_alias_tko %launched
  %printed = print_tko "x = %f\0A", %11 token=%fenced : tile<8xf32> -> token
  for unsigned %n in (%zero to %arg1, step %arg1) : tile<i32> {
  }
  return
}
