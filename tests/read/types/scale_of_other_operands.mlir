// RUN: tile-write % --bytecode-version=13.4 -o k.tileirbc
entry @k(%b: tile<ptr<f32>>) {
  %zero = constant <i32: 0> : tile<i32>
  %a0 = constant <i8: 17> : tile<1024xi8>
  %s0 = constant <i8: 120> : tile<32xi8>
  %av = bitcast %a0 : tile<1024xi8> -> tile<1024xf8E4M3FN>
  %a = reshape %av : tile<1024xf8E4M3FN> -> tile<16x64xf8E4M3FN>
  %bb = reshape %av : tile<1024xf8E4M3FN> -> tile<64x16xf8E4M3FN>
  %sv = bitcast %s0 : tile<32xi8> -> tile<32xfnv8E5M3FNU>
  %sa = reshape %sv : tile<32xfnv8E5M3FNU> -> tile<16x2xfnv8E5M3FNU>
  %sb = reshape %sv : tile<32xfnv8E5M3FNU> -> tile<2x16xfnv8E5M3FNU>
  %acc = constant <f32: 0.0> : tile<16x16xf32>
  %y = mmaf_scaled %a, %bb, %acc, %sa, %sb : tile<16x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<16x16xf32>, tile<16x2xfnv8E5M3FNU>, tile<2x16xfnv8E5M3FNU>
  %out = make_tensor_view %b, shape = [16, 16], strides = [16, 1] : tensor_view<16x16xf32, strides=[16,1]>
  %outs = make_partition_view %out : partition_view<tile=(16x16), tensor_view<16x16xf32, strides=[16,1]>>
  %s1 = store_view_tko weak %y, %outs[%zero, %zero] : tile<16x16xf32>, partition_view<tile=(16x16), tensor_view<16x16xf32, strides=[16,1]>>, tile<i32> -> token
  return
}
