// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_100 | tile-sched --format=text | grep -oE 'MMA by tensor cores.*|mma\([^)]*\), [^)]*\), [^)]*\)'
// Threads store both right operands, 128 KiB each, in a loop. tcgen05 may read them until the kernel ends, so they cannot share memory, and
// shared memory fits only one.
entry @two_stored_operands(%p: tile<ptr<f16>>, %q: tile<ptr<f32>>, %n: tile<i32>) {
  %zero = constant <i32: 0> : tile<i32>
  %one = constant <i32: 1> : tile<i32>
  %t = make_tensor_view %p, shape = [1024, 1024], strides = [1024, 1] : tensor_view<1024x1024xf16, strides=[1024,1]>
  %v = make_partition_view %t : partition_view<tile=(128x256), tensor_view<1024x1024xf16, strides=[1024,1]>>
  %w = make_partition_view %t : partition_view<tile=(256x256), tensor_view<1024x1024xf16, strides=[1024,1]>>
  %c = constant <f32: 0.0> : tile<128x256xf32>
  %s, %r = for %i in (%zero to %n, step %one) : tile<i32> iter_values(%acc = %c, %acc2 = %c) -> (tile<128x256xf32>, tile<128x256xf32>) {
    %x, %l = load_view_tko weak %v[%i, %one] : partition_view<tile=(128x256), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<128x256xf16>, token
    %y, %m = load_view_tko weak %w[%i, %zero] : partition_view<tile=(256x256), tensor_view<1024x1024xf16, strides=[1024,1]>>, tile<i32> -> tile<256x256xf16>, token
    %a = negf %x : tile<128x256xf16>
    %b = negf %y : tile<256x256xf16>
    %d = absf %y : tile<256x256xf16>
    %sum = mmaf %a, %b, %acc : tile<128x256xf16>, tile<256x256xf16>, tile<128x256xf32>
    %sum2 = mmaf %a, %d, %acc2 : tile<128x256xf16>, tile<256x256xf16>, tile<128x256xf32>
    continue %sum, %sum2 : tile<128x256xf32>, tile<128x256xf32>
  }
  %places = iota : tile<32768xi32>
  %square = reshape %places : tile<32768xi32> -> tile<128x256xi32>
  %base = reshape %q : tile<ptr<f32>> -> tile<1x1xptr<f32>>
  %all = broadcast %base : tile<1x1xptr<f32>> -> tile<128x256xptr<f32>>
  %at = offset %all, %square : tile<128x256xptr<f32>>, tile<128x256xi32> -> tile<128x256xptr<f32>>
  %both = addf %s, %r : tile<128x256xf32>
  %0 = store_ptr_tko weak %at, %both : tile<128x256xptr<f32>>, tile<128x256xf32> -> token
  return
}
