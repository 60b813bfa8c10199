// RUN: tile-read % | tile-lower-aa -O0 --stop-after=convert --format=text | grep -v '^//!' | tail -n +2
entry @k(%p: tile<ptr<i32>>, %n: tile<i32>) {
%v = make_tensor_view %p, shape = [%n], strides = [1] : tile<i32> -> tensor_view<?xi32, strides=[1]>
%w = make_partition_view %v : partition_view<tile=(64), tensor_view<?xi32, strides=[1]>>
%t, %l = load_view_tko weak %w[%n] : partition_view<tile=(64), tensor_view<?xi32, strides=[1]>>, tile<i32> -> tile<64xi32>, token
return
}
