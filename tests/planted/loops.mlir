// Loops that count from another number in steps, carry several values and move pointers; branches that compute the same; a message.
entry @loops(%a: tile<ptr<f32>>, %b: tile<ptr<f32>>, %s: tile<ptr<i32>>) {
  %a_array = make_tensor_view %a, shape = [1024], strides = [1] : tensor_view<1024xf32, strides=[1]>
  %b_array = make_tensor_view %b, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %s_array = make_tensor_view %s, shape = [8], strides = [1] : tensor_view<8xi32, strides=[1]>
  %zero = constant <i32: 0> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %three = constant <i32: 3> : tile<i32>
  %four = constant <i32: 4> : tile<i32>
  %seven = constant <i32: 7> : tile<i32>
  %end = constant <i32: 20> : tile<i32>
  %lanes = iota : tile<64xi32>
  %a1 = reshape %a : tile<ptr<f32>> -> tile<1xptr<f32>>
  %as = broadcast %a1 : tile<1xptr<f32>> -> tile<64xptr<f32>>
  %first = offset %as, %lanes : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
  %far = constant <i32: 64> : tile<64xi32>
  %none = constant <f32: 0.0> : tile<64xf32>
  %some = constant <f32: 0.5> : tile<64xf32>
  %r:4 = for %i in (%two to %end, step %two) : tile<i32> iter_values(%sum = %none, %product = %some, %at = %first, %count = %seven) -> (tile<64xf32>, tile<64xf32>, tile<64xptr<f32>>, tile<i32>) {
    %x, %t = load_ptr_tko weak %at : tile<64xptr<f32>> -> tile<64xf32>, token
    %number = itof %count signed : tile<i32> -> tile<f32>
    %number1 = reshape %number : tile<f32> -> tile<1xf32>
    %numbers = broadcast %number1 : tile<1xf32> -> tile<64xf32>
    %weighted = mulf %x, %numbers : tile<64xf32>
    %more = addf %sum, %weighted : tile<64xf32>
    %half = mulf %product, %x : tile<64xf32>
    %less = addf %half, %some : tile<64xf32>
    %next = offset %at, %far : tile<64xptr<f32>>, tile<64xi32> -> tile<64xptr<f32>>
    %counted = addi %count, %four : tile<i32>
    continue %more, %less, %next, %counted : tile<64xf32>, tile<64xf32>, tile<64xptr<f32>>, tile<i32>
  }
  %both = subf %r#0, %r#1 : tile<64xf32>
  %out = make_partition_view %b_array : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
  %t0 = store_view_tko weak %both, %out[%zero] : tile<64xf32>, partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> token
  %choice, %t1 = load_ptr_tko weak %s : tile<ptr<i32>> -> tile<i32>, token
  %place = offset %s, %three : tile<ptr<i32>>, tile<i32> -> tile<ptr<i32>>
  %positive = cmpi greater_than %choice, %three, signed : tile<i32> -> tile<i1>
  if %positive {
    %doubled = muli %choice, %seven : tile<i32>
    %t2 = store_ptr_tko weak %place, %doubled : tile<ptr<i32>>, tile<i32> -> token
  } else {
    %doubled = muli %choice, %seven : tile<i32>
    %negative = subi %zero, %doubled : tile<i32>
    %t3 = store_ptr_tko weak %place, %negative : tile<ptr<i32>>, tile<i32> -> token
  }
  %t4 = print_tko "first %d then %d\0A", %choice, %seven : tile<i32>, tile<i32> -> token
  return
}
