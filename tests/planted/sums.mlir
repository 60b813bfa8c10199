// A product whose sums do not fit shared memory as a whole where there is little.
entry @sums(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %none = constant <f32: 0.0> : tile<128x128xf32>
  %a_array = make_tensor_view %a, shape = [128, 16], strides = [16, 1] : tensor_view<128x16xf16, strides=[16,1]>
  %b_array = make_tensor_view %b, shape = [16, 128], strides = [128, 1] : tensor_view<16x128xf16, strides=[128,1]>
  %c_array = make_tensor_view %c, shape = [128, 128], strides = [128, 1] : tensor_view<128x128xf32, strides=[128,1]>
  %as = make_partition_view %a_array : partition_view<tile=(128x16), tensor_view<128x16xf16, strides=[16,1]>>
  %bs = make_partition_view %b_array : partition_view<tile=(16x128), tensor_view<16x128xf16, strides=[128,1]>>
  %cs = make_partition_view %c_array : partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>
  %x, %t0 = load_view_tko weak %as[%zero, %zero] : partition_view<tile=(128x16), tensor_view<128x16xf16, strides=[16,1]>>, tile<i32> -> tile<128x16xf16>, token
  %y, %t1 = load_view_tko weak %bs[%zero, %zero] : partition_view<tile=(16x128), tensor_view<16x128xf16, strides=[128,1]>>, tile<i32> -> tile<16x128xf16>, token
  %d = mmaf %x, %y, %none : tile<128x16xf16>, tile<16x128xf16>, tile<128x128xf32>
  %t2 = store_view_tko weak %d, %cs[%zero, %zero] : tile<128x128xf32>, partition_view<tile=(128x128), tensor_view<128x128xf32, strides=[128,1]>>, tile<i32> -> token
  return
}
