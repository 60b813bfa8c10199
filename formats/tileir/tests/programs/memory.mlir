// Pointers, views and tokens.
entry @memory(%arg0: tile<ptr<f32>>, %arg1: tile<i32>, %arg2: tile<i32>) {
  %x, %y, %z = get_tile_block_id : tile<i32>
  %gx, %gy, %gz = get_num_tile_blocks : tile<i32>
  %token = make_token : token
  %view = make_tensor_view %arg0, shape = [%arg1, 128], strides = [%arg2, 1] : tile<i32> -> tensor_view<?x128xf32, strides=[?,1]>
  %part = make_partition_view %view : partition_view<tile=(8x16), padding_value = zero, tensor_view<?x128xf32, strides=[?,1]>, dim_map=[1, 0]>
  %shape:2 = get_index_space_shape %part : partition_view<tile=(8x16), padding_value = zero, tensor_view<?x128xf32, strides=[?,1]>, dim_map=[1, 0]> -> tile<i32>
  %tile, %loaded = load_view_tko weak %part[%x, %shape#1] token = %token optimization_hints = <sm_100 = {allow_tma = false, latency = 3}> : partition_view<tile=(8x16), padding_value = zero, tensor_view<?x128xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> tile<8x16xf32>, token
  %stored = store_view_tko relaxed device %tile, %part[%y, %x] token = %loaded : tile<8x16xf32>, partition_view<tile=(8x16), padding_value = zero, tensor_view<?x128xf32, strides=[?,1]>, dim_map=[1, 0]>, tile<i32> -> token
  %one = reshape %arg0 : tile<ptr<f32>> -> tile<1xptr<f32>>
  %many = broadcast %one : tile<1xptr<f32>> -> tile<8xptr<f32>>
  %iota = iota : tile<8xi32>
  %pointers = offset %many, %iota : tile<8xptr<f32>>, tile<8xi32> -> tile<8xptr<f32>>
  %mask = constant <i1: [true, false, true, true, false, false, true, false]> : tile<8xi1>
  %padding = constant <f32: 0.000000e+00> : tile<8xf32>
  %value, %after = load_ptr_tko acquire device %pointers, %mask, %padding token=%stored : tile<8xptr<f32>>, tile<8xi1>, tile<8xf32> -> tile<8xf32>, token
  %old, %more = atomic_rmw_tko relaxed device %pointers, addf, %value, %mask token=%after : tile<8xptr<f32>>, tile<8xf32>, tile<8xi1> -> tile<8xf32>, token
  %was, %last = atomic_cas_tko acq_rel sys %pointers, %value, %old : tile<8xptr<f32>>, tile<8xf32> -> tile<8xf32>, token
  %all = join_tokens %more, %last : token
  %end = store_ptr_tko weak %pointers, %was token=%all : tile<8xptr<f32>>, tile<8xf32> -> token
  %bits = ptr_to_int %pointers : tile<8xptr<f32>> -> tile<8xi64>
  %back = int_to_ptr %bits : tile<8xi64> -> tile<8xptr<i32>>
  return
}
