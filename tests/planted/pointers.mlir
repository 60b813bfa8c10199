// Accesses through pointers, with masks, what stands for elements outside, and indices of both signs.
entry @pointers(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %c: tile<ptr<f32>>, %n: tile<i32>) {
  %a_tiles_array = make_tensor_view %a, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %a_tiles = make_partition_view %a_tiles_array : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %b_tiles_array = make_tensor_view %b, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %b_tiles = make_partition_view %b_tiles_array : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %c_tiles_array = make_tensor_view %c, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xf32, strides=[1]>
  %c_tiles = make_partition_view %c_tiles_array : partition_view<tile=(128), tensor_view<?xf32, strides=[1]>>
  %x, %y, %z = get_tile_block_id : tile<i32>
  %width = constant <i32: 128> : tile<i32>
  %first = muli %x, %width : tile<i32>
  %first1 = reshape %first : tile<i32> -> tile<1xi32>
  %firsts = broadcast %first1 : tile<1xi32> -> tile<128xi32>
  %n1 = reshape %n : tile<i32> -> tile<1xi32>
  %ns = broadcast %n1 : tile<1xi32> -> tile<128xi32>
  %lanes = iota : tile<128xi32>
  %at = addi %firsts, %lanes : tile<128xi32>
  %inside = cmpi less_than %at, %ns, signed : tile<128xi32> -> tile<128xi1>
  %near_a = assume div_by<16>, %a : tile<ptr<f32>>
  %a1 = reshape %near_a : tile<ptr<f32>> -> tile<1xptr<f32>>
  %as = broadcast %a1 : tile<1xptr<f32>> -> tile<128xptr<f32>>
  %from = offset %as, %at : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
  %seven = constant <f32: 7.0> : tile<128xf32>
  %v, %t0 = load_ptr_tko weak %from, %inside, %seven : tile<128xptr<f32>>, tile<128xi1>, tile<128xf32> -> tile<128xf32>, token
  %sum = reduce %v dim=0 identities=[0.000000e+00 : f32] : tile<128xf32> -> tile<f32>
  (%l: tile<f32>, %r: tile<f32>) {
    %s = addf %l, %r : tile<f32>
    yield %s : tile<f32>
  }
  %sum1 = reshape %sum : tile<f32> -> tile<1xf32>
  %sums = broadcast %sum1 : tile<1xf32> -> tile<128xf32>
  %near_b = assume div_by<16>, %b : tile<ptr<f32>>
  %b1 = reshape %near_b : tile<ptr<f32>> -> tile<1xptr<f32>>
  %bs = broadcast %b1 : tile<1xptr<f32>> -> tile<128xptr<f32>>
  %to = offset %bs, %at : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
  %rest = subf %sums, %v : tile<128xf32>
  %t1 = store_ptr_tko weak %to, %rest, %inside : tile<128xptr<f32>>, tile<128xf32>, tile<128xi1> -> token
  // The same elements in the other order: offsets of both signs, in 64 bits.
  %last = constant <i32: 127> : tile<128xi32>
  %doubled = addi %lanes, %lanes : tile<128xi32>
  %back = subi %last, %doubled : tile<128xi32>
  %back64 = exti %back signed : tile<128xi32> -> tile<128xi64>
  %turned = offset %from, %back64 : tile<128xptr<f32>>, tile<128xi64> -> tile<128xptr<f32>>
  %firsts_end = addi %firsts, %last : tile<128xi32>
  %zero = constant <f32: 0.0> : tile<128xf32>
  %c1 = reshape %c : tile<ptr<f32>> -> tile<1xptr<f32>>
  %cs = broadcast %c1 : tile<1xptr<f32>> -> tile<128xptr<f32>>
  %put = offset %cs, %at : tile<128xptr<f32>>, tile<128xi32> -> tile<128xptr<f32>>
  %many = cmpi greater_than %ns, %firsts_end, signed : tile<128xi32> -> tile<128xi1>
  %w, %t2 = load_ptr_tko weak %turned, %many, %zero : tile<128xptr<f32>>, tile<128xi1>, tile<128xf32> -> tile<128xf32>, token
  %t3 = store_ptr_tko weak %put, %w, %inside : tile<128xptr<f32>>, tile<128xf32>, tile<128xi1> -> token
  return
}
