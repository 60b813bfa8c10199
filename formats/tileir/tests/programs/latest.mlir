// Additions of 13.5.
entry @latest(%arg0: tile<ptr<f32, <multicast>>> {some.name = true}, %arg1: tile<ptr<i32, <unicast>>>, %arg2: tile<i32> {a.b = [1 : i32, 2.500000e+00 : f32], c.d = "text"}) {
  %view = make_tensor_view %arg0, shape = [64, %arg2], strides = [64, 1] : tile<ptr<f32, <multicast>>>, tile<i32> -> tensor_view<64x?xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>
  %part = make_partition_view %view : partition_view<tile=(8x16), tensor_view<64x?xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>
  %all, %0 = multimem_load_reduce_view_tko acquire sys %part[%arg2, %arg2] inbounds = [true, false] : partition_view<tile=(8x16), tensor_view<64x?xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<8x16xf32>, token
  %1 = multimem_reduce_view_tko release device %part, %all[%arg2, %arg2] token = %0  : partition_view<tile=(8x16), tensor_view<64x?xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<8x16xf32>, tile<i32>, token -> token
  %2 = multimem_store_view_tko weak %part, %all[%arg2, %arg2] token = %1  : partition_view<tile=(8x16), tensor_view<64x?xf32, strides=[64,1], #cuda_tile.ptr_attr<multicast>>>, tile<8x16xf32>, tile<i32>, token -> token
  %address = ptr_to_int %arg0 : tile<ptr<f32, <multicast>>> -> tile<i64>
  %words = int_to_ptr %address : tile<i64> -> tile<ptr<i32, <multicast>>>
  %numbers = make_tensor_view %words, shape = [128], strides = [1] : tile<ptr<i32, <multicast>>> -> tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>
  %some = make_partition_view %numbers : partition_view<tile=(4), tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>>
  %ored, %3 = multimem_load_reduce_view_tko weak %some[%arg2]  attributes {reduction = #cuda_tile.multimem_reduction_kind<or>} : partition_view<tile=(4), tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<i32> -> tile<4xi32>, token
  %4 = multimem_reduce_view_tko relaxed tl_blk %some, %ored[%arg2] inbounds = [true] attributes {reduction = #cuda_tile.multimem_reduction_kind<umax>} : partition_view<tile=(4), tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<multicast>>>, tile<4xi32>, tile<i32> -> token
  %own = make_tensor_view %arg1, shape = [128], strides = [1] : tile<ptr<i32, <unicast>>> -> tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<unicast>>
  %mine = make_partition_view %own : partition_view<tile=(4), padding_value = zero, tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<unicast>>>
  %5 = atomic_red_view_tko relaxed device %mine[%arg2], add, %ored inbounds = [true] : tile<4xi32>, partition_view<tile=(4), padding_value = zero, tensor_view<128xi32, strides=[1], #cuda_tile.ptr_attr<unicast>>>, tile<i32> -> token
  return
}
