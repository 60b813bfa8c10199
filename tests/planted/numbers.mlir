// Arithmetic of both signs, of counts and quotients at their edges, of infinities and what is no number.
entry @numbers(%a: tile<ptr<i32>>, %b: tile<ptr<i32>>, %c: tile<ptr<i32>>, %x: tile<ptr<f32>>, %y: tile<ptr<f32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %a_array = make_tensor_view %a, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1]>
  %b_array = make_tensor_view %b, shape = [64], strides = [1] : tensor_view<64xi32, strides=[1]>
  %c_array = make_tensor_view %c, shape = [512], strides = [1] : tensor_view<512xi32, strides=[1]>
  %x_array = make_tensor_view %x, shape = [64], strides = [1] : tensor_view<64xf32, strides=[1]>
  %y_array = make_tensor_view %y, shape = [256], strides = [1] : tensor_view<256xf32, strides=[1]>
  %as = make_partition_view %a_array : partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>
  %bs = make_partition_view %b_array : partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>
  %cs = make_partition_view %c_array : partition_view<tile=(64), tensor_view<512xi32, strides=[1]>>
  %xs = make_partition_view %x_array : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>
  %ys = make_partition_view %y_array : partition_view<tile=(64), tensor_view<256xf32, strides=[1]>>
  %u, %t0 = load_view_tko weak %as[%zero] : partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>, tile<i32> -> tile<64xi32>, token
  %v, %t1 = load_view_tko weak %bs[%zero] : partition_view<tile=(64), tensor_view<64xi32, strides=[1]>>, tile<i32> -> tile<64xi32>, token
  %f, %t2 = load_view_tko weak %xs[%zero] : partition_view<tile=(64), tensor_view<64xf32, strides=[1]>>, tile<i32> -> tile<64xf32>, token
  %up = divi %u, %v signed rounding<positive_inf> : tile<64xi32>
  %down = divi %u, %v signed rounding<negative_inf> : tile<64xi32>
  %lanes = iota : tile<64xi32>
  %shifted = shri %u, %lanes signed : tile<64xi32>
  %wide = exti %u signed : tile<64xi32> -> tile<64xi64>
  %back = itof %wide signed : tile<64xi64> -> tile<64xf32>
  %fewer = cmpi less_than %u, %v, signed : tile<64xi32> -> tile<64xi1>
  %chosen = select %fewer, %up, %down : tile<64xi1>, tile<64xi32>
  %least = constant <i32: 40> : tile<64xi32>
  %known = mini %lanes, %least signed : tile<64xi32>
  %beyond = constant <i32: 63> : tile<64xi32>
  %all = maxi %lanes, %beyond signed : tile<64xi32>
  %edge = cmpi greater_than_or_equal %lanes, %beyond, signed : tile<64xi32> -> tile<64xi1>
  %number = select %edge, %known, %all : tile<64xi1>, tile<64xi32>
  %one = constant <i32: 1> : tile<i32>
  %two = constant <i32: 2> : tile<i32>
  %three = constant <i32: 3> : tile<i32>
  %four = constant <i32: 4> : tile<i32>
  %s0 = store_view_tko weak %up, %cs[%zero] : tile<64xi32>, partition_view<tile=(64), tensor_view<512xi32, strides=[1]>>, tile<i32> -> token
  %s1 = store_view_tko weak %down, %cs[%one] : tile<64xi32>, partition_view<tile=(64), tensor_view<512xi32, strides=[1]>>, tile<i32> -> token
  %s2 = store_view_tko weak %shifted, %cs[%two] : tile<64xi32>, partition_view<tile=(64), tensor_view<512xi32, strides=[1]>>, tile<i32> -> token
  %s3 = store_view_tko weak %chosen, %cs[%three] : tile<64xi32>, partition_view<tile=(64), tensor_view<512xi32, strides=[1]>>, tile<i32> -> token
  %s4 = store_view_tko weak %number, %cs[%four] : tile<64xi32>, partition_view<tile=(64), tensor_view<512xi32, strides=[1]>>, tile<i32> -> token
  %n1 = constant <f32: 1.0> : tile<64xf32>
  %greater = maxf %f, %n1 propagate_nan : tile<64xf32>
  %power = exp %f rounding<approx> : tile<64xf32>
  %minus = negf %back : tile<64xf32>
  %q0 = store_view_tko weak %greater, %ys[%zero] : tile<64xf32>, partition_view<tile=(64), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
  %q1 = store_view_tko weak %power, %ys[%one] : tile<64xf32>, partition_view<tile=(64), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
  %q2 = store_view_tko weak %minus, %ys[%two] : tile<64xf32>, partition_view<tile=(64), tensor_view<256xf32, strides=[1]>>, tile<i32> -> token
  return
}
