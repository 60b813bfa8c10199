// Atomic operations: each element once, compared with what is expected, with signs.
entry @atomics(%a: tile<ptr<i32>>, %b: tile<ptr<i32>>, %c: tile<ptr<i32>>, %d: tile<ptr<i32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %a_array = make_tensor_view %a, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
  %b_array = make_tensor_view %b, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
  %c_array = make_tensor_view %c, shape = [16], strides = [1] : tensor_view<16xi32, strides=[1]>
  %in = make_partition_view %a_array : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
  %out = make_partition_view %b_array : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
  %old = make_partition_view %c_array : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>
  %v, %t0 = load_view_tko weak %in[%zero] : partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32> -> tile<16xi32>, token
  %t1 = atomic_red_view_tko relaxed device %out[%zero], add, %v : tile<16xi32>, partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32> -> token
  %lanes = iota : tile<16xi32>
  %b1 = reshape %b : tile<ptr<i32>> -> tile<1xptr<i32>>
  %bs = broadcast %b1 : tile<1xptr<i32>> -> tile<16xptr<i32>>
  %at = offset %bs, %lanes : tile<16xptr<i32>>, tile<16xi32> -> tile<16xptr<i32>>
  %eight = constant <i32: 8> : tile<16xi32>
  %odd = subi %lanes, %eight : tile<16xi32>
  %before, %t2 = atomic_rmw_tko relaxed device %at, max, %odd token=%t1 : tile<16xptr<i32>>, tile<16xi32> -> tile<16xi32>, token
  %one = constant <i32: 1> : tile<16xi32>
  %found, %t3 = atomic_cas_tko relaxed device %at, %odd, %one token=%t2 : tile<16xptr<i32>>, tile<16xi32> -> tile<16xi32>, token
  %both = addi %before, %found : tile<16xi32>
  %t4 = store_view_tko weak %both, %old[%zero] : tile<16xi32>, partition_view<tile=(16), tensor_view<16xi32, strides=[1]>>, tile<i32> -> token
  // More elements, for more warps.
  %d_array = make_tensor_view %d, shape = [4096], strides = [1] : tensor_view<4096xi32, strides=[1]>
  %many = make_partition_view %d_array : partition_view<tile=(4096), tensor_view<4096xi32, strides=[1]>>
  %w, %t5 = load_view_tko weak %many[%zero] : partition_view<tile=(4096), tensor_view<4096xi32, strides=[1]>>, tile<i32> -> tile<4096xi32>, token
  %minus = negi %w : tile<4096xi32>
  %t6 = store_view_tko weak %minus, %many[%zero] token = %t5 : tile<4096xi32>, partition_view<tile=(4096), tensor_view<4096xi32, strides=[1]>>, tile<i32> -> token
  return
}
