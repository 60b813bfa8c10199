// What tokens order: a tile is written, and its rows are read again by other threads.
entry @order(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %a_array = make_tensor_view %a, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
  %b_array = make_tensor_view %b, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
  %c_array = make_tensor_view %c, shape = [64, 64], strides = [64, 1] : tensor_view<64x64xf32, strides=[64,1]>
  %in = make_partition_view %a_array : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
  %out = make_partition_view %b_array : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
  %rows = make_gather_scatter_view %b_array : gather_scatter_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>, sparse_dim=0>
  %last = make_partition_view %c_array : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>
  %v, %t0 = load_view_tko weak %in[%zero, %zero] : partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> tile<64x64xf32>, token
  %t1 = store_view_tko weak %v, %out[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
  %lanes = iota : tile<64xi32>
  %most = constant <i32: 63> : tile<64xi32>
  %back = subi %most, %lanes : tile<64xi32>
  %w, %t2 = load_view_tko weak %rows[%back, %zero] token = %t1 : gather_scatter_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>, sparse_dim=0>, tile<64xi32>, tile<i32> -> tile<64x64xf32>, token
  %t3 = store_view_tko weak %w, %last[%zero, %zero] : tile<64x64xf32>, partition_view<tile=(64x64), tensor_view<64x64xf32, strides=[64,1]>>, tile<i32> -> token
  return
}
