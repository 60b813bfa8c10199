// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_100 | tile-sched --format=text | grep -oE 'MMA by tensor cores.*|(for|loop|pipeline_acquire|mma)\('
entry @in_a_loop(%p: tile<ptr<f32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %last = loop iter_values(%i = %zero) : tile<i32> -> tile<i32> {
    %done = cmpi greater_than_or_equal %i, %n, signed : tile<i32> -> tile<i1>
    if %done {
      break %i : tile<i32>
    }
    %a = constant <f16: 1.0> : tile<128x128xf16>
    %b = constant <f16: 2.0> : tile<128x128xf16>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %sum = mmaf %a, %b, %c : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
    %places = iota : tile<16384xi32>
    %square = reshape %places : tile<16384xi32> -> tile<128x128xi32>
    %base = reshape %p : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %all = broadcast %base : tile<1x1xptr<f32>> -> tile<128x128xptr<f32>>
    %at = offset %all, %square : tile<128x128xptr<f32>>, tile<128x128xi32> -> tile<128x128xptr<f32>>
    %0 = store_ptr_tko weak %at, %sum : tile<128x128xptr<f32>>, tile<128x128xf32> -> token
    %next = addi %i, %one : tile<i32>
    continue %next : tile<i32>
  }
  return
}
entry @in_a_counted_loop(%p: tile<ptr<f32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  for %i in (%zero to %n, step %one) : tile<i32> {
    %a = constant <f16: 1.0> : tile<128x128xf16>
    %b = constant <f16: 2.0> : tile<128x128xf16>
    %c = constant <f32: 0.0> : tile<128x128xf32>
    %sum = mmaf %a, %b, %c : tile<128x128xf16>, tile<128x128xf16>, tile<128x128xf32>
    %places = iota : tile<16384xi32>
    %square = reshape %places : tile<16384xi32> -> tile<128x128xi32>
    %base = reshape %p : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %all = broadcast %base : tile<1x1xptr<f32>> -> tile<128x128xptr<f32>>
    %at = offset %all, %square : tile<128x128xptr<f32>>, tile<128x128xi32> -> tile<128x128xptr<f32>>
    %0 = store_ptr_tko weak %at, %sum : tile<128x128xptr<f32>>, tile<128x128xf32> -> token
    continue
  }
  return
}
