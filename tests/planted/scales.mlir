// A product of 8-bit floats with a scale for each run of 32.
entry @scales(%a: tile<ptr<f8E4M3FN>>, %b: tile<ptr<f8E4M3FN>>, %p: tile<ptr<f8E8M0FNU>>, %q: tile<ptr<f8E8M0FNU>>, %c: tile<ptr<f32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %none = constant <f32: 0.0> : tile<32x32xf32>
  %a_array = make_tensor_view %a, shape = [32, 64], strides = [64, 1] : tensor_view<32x64xf8E4M3FN, strides=[64,1]>
  %b_array = make_tensor_view %b, shape = [64, 32], strides = [32, 1] : tensor_view<64x32xf8E4M3FN, strides=[32,1]>
  %p_array = make_tensor_view %p, shape = [32, 2], strides = [2, 1] : tensor_view<32x2xf8E8M0FNU, strides=[2,1]>
  %q_array = make_tensor_view %q, shape = [2, 32], strides = [32, 1] : tensor_view<2x32xf8E8M0FNU, strides=[32,1]>
  %c_array = make_tensor_view %c, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
  %as = make_partition_view %a_array : partition_view<tile=(32x64), tensor_view<32x64xf8E4M3FN, strides=[64,1]>>
  %bs = make_partition_view %b_array : partition_view<tile=(64x32), tensor_view<64x32xf8E4M3FN, strides=[32,1]>>
  %ps = make_partition_view %p_array : partition_view<tile=(32x2), tensor_view<32x2xf8E8M0FNU, strides=[2,1]>>
  %qs = make_partition_view %q_array : partition_view<tile=(2x32), tensor_view<2x32xf8E8M0FNU, strides=[32,1]>>
  %cs = make_partition_view %c_array : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
  %x, %t0 = load_view_tko weak %as[%zero, %zero] : partition_view<tile=(32x64), tensor_view<32x64xf8E4M3FN, strides=[64,1]>>, tile<i32> -> tile<32x64xf8E4M3FN>, token
  %y, %t1 = load_view_tko weak %bs[%zero, %zero] : partition_view<tile=(64x32), tensor_view<64x32xf8E4M3FN, strides=[32,1]>>, tile<i32> -> tile<64x32xf8E4M3FN>, token
  %s, %t2 = load_view_tko weak %ps[%zero, %zero] : partition_view<tile=(32x2), tensor_view<32x2xf8E8M0FNU, strides=[2,1]>>, tile<i32> -> tile<32x2xf8E8M0FNU>, token
  %r, %t3 = load_view_tko weak %qs[%zero, %zero] : partition_view<tile=(2x32), tensor_view<2x32xf8E8M0FNU, strides=[32,1]>>, tile<i32> -> tile<2x32xf8E8M0FNU>, token
  %d = mmaf_scaled %x, %y, %none, %s, %r : tile<32x64xf8E4M3FN>, tile<64x32xf8E4M3FN>, tile<32x32xf32>, tile<32x2xf8E8M0FNU>, tile<2x32xf8E8M0FNU>
  %t4 = store_view_tko weak %d, %cs[%zero, %zero] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> token
  return
}
