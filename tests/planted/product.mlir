// A product over tiles of which the last is cut, at any place, along the dimension that is summed.
entry @product(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %k: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %none = constant <f32: 0.0> : tile<64x64xf32>
  %from_a = assume div_by<16>, %a : tile<ptr<f16>>
  %from_b = assume div_by<16>, %b : tile<ptr<f16>>
  %a_array = make_tensor_view %from_a, shape = [64, %k], strides = [64, 1] : tile<i32> -> tensor_view<64x?xf16, strides=[64,1]>
  %b_array = make_tensor_view %from_b, shape = [%k, 64], strides = [64, 1] : tile<i32> -> tensor_view<?x64xf16, strides=[64,1]>
  %c_array = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
  %as = make_partition_view %a_array : partition_view<tile=(64x16), padding_value = zero, tensor_view<64x?xf16, strides=[64,1]>>
  %bs = make_partition_view %b_array : partition_view<tile=(16x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>
  %cs = make_partition_view %c_array : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
  %sixteen = constant <i32: 16> : tile<i32>
  %count = divi %k, %sixteen signed rounding<positive_inf> : tile<i32>
  %sum = for %i in (%zero to %count, step %one) : tile<i32> iter_values(%so_far = %none) -> (tile<64x64xf32>) {
    %x, %t0 = load_view_tko weak %as[%zero, %i] : partition_view<tile=(64x16), padding_value = zero, tensor_view<64x?xf16, strides=[64,1]>>, tile<i32> -> tile<64x16xf16>, token
    %y, %t1 = load_view_tko weak %bs[%i, %zero] : partition_view<tile=(16x64), padding_value = zero, tensor_view<?x64xf16, strides=[64,1]>>, tile<i32> -> tile<16x64xf16>, token
    %more = mmaf %x, %y, %so_far : tile<64x16xf16>, tile<16x64xf16>, tile<64x64xf32>
    continue %more : tile<64x64xf32>
  }
  %t2 = store_view_tko weak %sum, %cs[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
  return
}
