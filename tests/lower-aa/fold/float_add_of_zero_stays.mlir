// RUN: tile-read % | tile-lower-aa -O3 --format=text | grep -oE 'add_f.*'
entry @k(%q: tile<ptr<f32>>, %f: tile<f32>) {
%a = constant <f32: 0.0> : tile<f32>
%x = addf %f, %a rounding<nearest_even> : tile<f32>
%done = store_ptr_tko weak %q, %x : tile<ptr<f32>>, tile<f32> -> token
return
}
