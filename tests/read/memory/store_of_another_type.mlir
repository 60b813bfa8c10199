// RUN: tile-read %
entry @k(%p: tile<ptr<i32>>, %f: tile<f32>) {
%done = store_ptr_tko weak %p, %f : tile<ptr<i32>>, tile<f32> -> token
return
}
