// Views of every kind: cut tiles with padding, dimensions in another order, tiles that overlap, rows that are gathered.
entry @views(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %d: tile<ptr<f32>>, %m: tile<i32>, %n: tile<i32>, %s: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %from = assume div_by<16>, %a : tile<ptr<f32>>
  %fours = assume div_by<4>, %n : tile<i32>
  %a_array = make_tensor_view %from, shape = [%m, %fours], strides = [%s, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %b_array = make_tensor_view %b, shape = [%n, %m], strides = [%m, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %c_array = make_tensor_view %c, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %d_array = make_tensor_view %d, shape = [%m, %n], strides = [%n, 1] : tile<i32> -> tensor_view<?x?xf32, strides=[?,1]>
  %in = make_partition_view %a_array : partition_view<tile=(16x32), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>>
  %turned = make_partition_view %b_array : partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>, dim_map=[1, 0]>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %v, %t0 = load_view_tko weak %in[%x, %y] : partition_view<tile=(16x32), padding_value = neg_inf, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<16x32xf32>, token
  %top = reduce %v dim=1 identities=[-INF : f32] : tile<16x32xf32> -> tile<16xf32>
  (%l: tile<f32>, %r: tile<f32>) {
    %g = maxf %l, %r : tile<f32>
    yield %g : tile<f32>
  }
  %top1 = reshape %top : tile<16xf32> -> tile<16x1xf32>
  %tops = broadcast %top1 : tile<16x1xf32> -> tile<16x32xf32>
  %below = subf %v, %tops : tile<16x32xf32>
  %t1 = store_view_tko weak %below, %turned[%x, %y] : tile<16x32xf32>, partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> token
  %overlap = make_strided_view %a_array : strided_view<tile=(16x32), traversal_strides=[8,16], padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>
  %out = make_partition_view %c_array : partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>
  %w, %t2 = load_view_tko weak %overlap[%x, %y] : strided_view<tile=(16x32), traversal_strides=[8,16], padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> tile<16x32xf32>, token
  %t3 = store_view_tko weak %w, %out[%x, %y] : tile<16x32xf32>, partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
  %rows = make_gather_scatter_view %a_array : gather_scatter_view<tile=(16x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>, sparse_dim=0>
  %last = constant <i32: 15> : tile<16xi32>
  %lanes = iota : tile<16xi32>
  %down = subi %last, %lanes : tile<16xi32>
  %sixteen = constant <i32: 16> : tile<i32>
  %thirtytwo = constant <i32: 32> : tile<i32>
  %first = muli %x, %sixteen : tile<i32>
  %first1 = reshape %first : tile<i32> -> tile<1xi32>
  %firsts = broadcast %first1 : tile<1xi32> -> tile<16xi32>
  %at = addi %firsts, %down : tile<16xi32>
  %column = muli %y, %thirtytwo : tile<i32>
  %u, %t4 = load_view_tko weak %rows[%at, %column] : gather_scatter_view<tile=(16x32), padding_value = zero, tensor_view<?x?xf32, strides=[?,1]>, sparse_dim=0>, tile<16xi32>, tile<i32> -> tile<16x32xf32>, token
  %gathered = make_partition_view %d_array : partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>
  %t5 = store_view_tko weak %u, %gathered[%x, %y] : tile<16x32xf32>, partition_view<tile=(16x32), tensor_view<?x?xf32, strides=[?,1]>>, tile<i32> -> token
  return
}
