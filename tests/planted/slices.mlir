// Parts of tiles, at places that are known and at others, put together again; and a table of constants.
entry @slices(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %places: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %a_array = make_tensor_view %a, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
  %b_array = make_tensor_view %b, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
  %c_array = make_tensor_view %c, shape = [32, 32], strides = [32, 1] : tensor_view<32x32xf32, strides=[32,1]>
  %p_array = make_tensor_view %places, shape = [1], strides = [1] : tensor_view<1xi32, strides=[1]>
  %in = make_partition_view %a_array : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
  %out = make_partition_view %b_array : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
  %put = make_partition_view %c_array : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>
  %v, %t0 = load_view_tko weak %in[%zero, %zero] : partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> tile<32x32xf32>, token
  %p, %t1 = load_ptr_tko weak %places : tile<ptr<i32>> -> tile<i32>, token
  %number = andi %p, %one : tile<i32>
  %left = extract %v[%zero, %zero] : tile<32x32xf32> -> tile<32x16xf32>
  %right = extract %v[%zero, %one] : tile<32x32xf32> -> tile<32x16xf32>
  %some = extract %v[%zero, %number] : tile<32x32xf32> -> tile<32x16xf32>
  %difference = subf %some, %right : tile<32x16xf32>
  %whole = cat %difference, %left dim = 1 : tile<32x16xf32>, tile<32x16xf32> -> tile<32x32xf32>
  %t2 = store_view_tko weak %whole, %out[%zero, %zero] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> token
  %table = constant <f32: [0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5, 9.5, 10.5, 11.5, 12.5, 13.5, 14.5, 15.5]> : tile<16xf32>
  %row = reshape %table : tile<16xf32> -> tile<1x16xf32>
  %rows = broadcast %row : tile<1x16xf32> -> tile<32x16xf32>
  %scaled = mulf %left, %rows : tile<32x16xf32>
  %new = insert %scaled, %v[%zero, %number] : tile<32x16xf32>, tile<32x32xf32>
  %t3 = store_view_tko weak %new, %put[%zero, %zero] : tile<32x32xf32>, partition_view<tile=(32x32), tensor_view<32x32xf32, strides=[32,1]>>, tile<i32> -> token
  return
}
