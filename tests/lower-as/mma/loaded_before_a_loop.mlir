// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_100 | tile-sched --format=text | grep -oE 'product by tensor cores.*|(for|loop|pipeline_acquire|mma)\('
// The left operand is loaded before the loop, the right one is computed in it. The trip count is unknown before the loop, so
// the steps of an accumulator pipeline cannot be counted.
entry @loaded_before_a_loop(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %t = make_tensor_view %p, shape = [256, 256], strides = [256, 1] : tensor_view<256x256xf16, strides=[256,1]>
  %v = make_partition_view %t : partition_view<tile=(128x128), tensor_view<256x256xf16, strides=[256,1]>>
  %a, %l = load_view_tko weak %v[%zero, %zero] : partition_view<tile=(128x128), tensor_view<256x256xf16, strides=[256,1]>>, tile<i32> -> tile<128x128xf16>, token
  %last = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
    %done = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
    if %done {
      break %i : tile<i32>
    }
    %x, %m = load_view_tko weak %v[%i, %one] : partition_view<tile=(128x128), tensor_view<256x256xf16, strides=[256,1]>>, tile<i32> -> tile<128x128xf16>, token
    %b = negf %x : tile<128x128xf16>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %sum = mmaf %a, %b, %c : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
    %places = iota : tile<16384xi32>
    %square = reshape %places : tile<16384xi32> -> tile<128x128xi32>
    %base = reshape %q : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %all = broadcast %base : tile<1x1xptr<f32>> -> tile<128x128xptr<f32>>
    %at = offset %all, %square : tile<128x128xptr<f32>>, tile<128x128xi32> -> tile<128x128xptr<f32>>
    %0 = store_ptr_tko weak %at, %sum : tile<128x128xptr<f32>>, tile<128x128xf32> -> token
    %next = addi %i, %one : tile<i32>
    continue %next : tile<i32>
  }
  return
}
