// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_100 --print-after=copies -o x 2>&1 | grep -oE '^plan of.*:|^  mma.*|^  load.*'
// Gathered rows are no TMA tiles: as the left operand they go through registers to tensor memory.
cuda_tile.module @m {
  entry @left(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %rows: tile<ptr<i32>>) {
    %a16 = assume div_by<16>, %a : tile<ptr<f16>>
    %b16 = assume div_by<16>, %b : tile<ptr<f16>>
    %view = make_tensor_view %b16, shape = [640, 640], strides = [640, 1] : tensor_view<640x640xf16, strides=[640,1]>
    %parts = make_partition_view %view : partition_view<tile=(64x64), tensor_view<640x640xf16, strides=[640,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %ten = constant <i32: 10> : tile<i32>
    %pitch = constant <i32: 640> : tile<64x1xi32>
    %zero_init = constant <f32: 0.0> : tile<64x64xf32>
    %each = iota : tile<64xi32>
    %rows1 = reshape %rows : tile<ptr<i32>> -> tile<1xptr<i32>>
    %rows64 = broadcast %rows1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %at = offset %rows64, %each : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %row, %rt = load_ptr_tko weak %at : tile<64xptr<i32>> -> tile<64xi32>, token
    %row1 = reshape %row : tile<64xi32> -> tile<64x1xi32>
    %from = muli %row1, %pitch : tile<64x1xi32>
    %froms = broadcast %from : tile<64x1xi32> -> tile<64x64xi32>
    %a1 = reshape %a16 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %a64 = broadcast %a1 : tile<1x1xptr<f16>> -> tile<64x64xptr<f16>>
    %column = reshape %each : tile<64xi32> -> tile<1x64xi32>
    %columns = broadcast %column : tile<1x64xi32> -> tile<64x64xi32>
    %sum = for %i in (%zero to %ten, step %one) : tile<i32> iter_values(%acc = %zero_init) -> (tile<64x64xf32>) {
      %i1 = reshape %i : tile<i32> -> tile<1x1xi32>
      %i64 = broadcast %i1 : tile<1x1xi32> -> tile<64x64xi32>
      %wide = constant <i32: 64> : tile<64x64xi32>
      %k = muli %i64, %wide : tile<64x64xi32>
      %there = addi %froms, %columns : tile<64x64xi32>
      %far = addi %there, %k : tile<64x64xi32>
      %p = offset %a64, %far : tile<64x64xptr<f16>>, tile<64x64xi32> -> tile<64x64xptr<f16>>
      %l, %t1 = load_ptr_tko weak %p : tile<64x64xptr<f16>> -> tile<64x64xf16>, token
      %r, %t2 = load_view_tko weak %parts[%zero, %i] : partition_view<tile=(64x64), tensor_view<640x640xf16, strides=[640,1]>>, tile<i32> -> tile<64x64xf16>, token
      %next = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %c1 = reshape %c : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %c64 = broadcast %c1 : tile<1x1xptr<f32>> -> tile<64x64xptr<f32>>
    %place = addi %froms, %columns : tile<64x64xi32>
    %to = offset %c64, %place : tile<64x64xptr<f32>>, tile<64x64xi32> -> tile<64x64xptr<f32>>
    %stored = store_ptr_tko weak %to, %sum : tile<64x64xptr<f32>>, tile<64x64xf32> -> token
    return
  }
  entry @right(%a: tile<ptr<f16>>, %b: tile<ptr<f16>>, %c: tile<ptr<f32>>, %rows: tile<ptr<i32>>) {
    %a16 = assume div_by<16>, %a : tile<ptr<f16>>
    %b16 = assume div_by<16>, %b : tile<ptr<f16>>
    %view = make_tensor_view %a16, shape = [640, 640], strides = [640, 1] : tensor_view<640x640xf16, strides=[640,1]>
    %parts = make_partition_view %view : partition_view<tile=(64x64), tensor_view<640x640xf16, strides=[640,1]>>
    %zero = constant <i32: 0> : tile<i32>
    %one = constant <i32: 1> : tile<i32>
    %ten = constant <i32: 10> : tile<i32>
    %pitch = constant <i32: 640> : tile<64x1xi32>
    %zero_init = constant <f32: 0.0> : tile<64x64xf32>
    %each = iota : tile<64xi32>
    %rows1 = reshape %rows : tile<ptr<i32>> -> tile<1xptr<i32>>
    %rows64 = broadcast %rows1 : tile<1xptr<i32>> -> tile<64xptr<i32>>
    %at = offset %rows64, %each : tile<64xptr<i32>>, tile<64xi32> -> tile<64xptr<i32>>
    %row, %rt = load_ptr_tko weak %at : tile<64xptr<i32>> -> tile<64xi32>, token
    %row1 = reshape %row : tile<64xi32> -> tile<64x1xi32>
    %from = muli %row1, %pitch : tile<64x1xi32>
    %froms = broadcast %from : tile<64x1xi32> -> tile<64x64xi32>
    %b1 = reshape %b16 : tile<ptr<f16>> -> tile<1x1xptr<f16>>
    %b64 = broadcast %b1 : tile<1x1xptr<f16>> -> tile<64x64xptr<f16>>
    %column = reshape %each : tile<64xi32> -> tile<1x64xi32>
    %columns = broadcast %column : tile<1x64xi32> -> tile<64x64xi32>
    %sum = for %i in (%zero to %ten, step %one) : tile<i32> iter_values(%acc = %zero_init) -> (tile<64x64xf32>) {
      %i1 = reshape %i : tile<i32> -> tile<1x1xi32>
      %i64 = broadcast %i1 : tile<1x1xi32> -> tile<64x64xi32>
      %wide = constant <i32: 64> : tile<64x64xi32>
      %k = muli %i64, %wide : tile<64x64xi32>
      %there = addi %froms, %columns : tile<64x64xi32>
      %far = addi %there, %k : tile<64x64xi32>
      %p = offset %b64, %far : tile<64x64xptr<f16>>, tile<64x64xi32> -> tile<64x64xptr<f16>>
      %r, %t1 = load_ptr_tko weak %p : tile<64x64xptr<f16>> -> tile<64x64xf16>, token
      %l, %t2 = load_view_tko weak %parts[%zero, %i] : partition_view<tile=(64x64), tensor_view<640x640xf16, strides=[640,1]>>, tile<i32> -> tile<64x64xf16>, token
      %next = mmaf %l, %r, %acc : tile<64x64xf16>, tile<64x64xf16>, tile<64x64xf32>
      continue %next : tile<64x64xf32>
    }
    %c1 = reshape %c : tile<ptr<f32>> -> tile<1x1xptr<f32>>
    %c64 = broadcast %c1 : tile<1x1xptr<f32>> -> tile<64x64xptr<f32>>
    %place = addi %froms, %columns : tile<64x64xi32>
    %to = offset %c64, %place : tile<64x64xptr<f32>>, tile<64x64xi32> -> tile<64x64xptr<f32>>
    %stored = store_ptr_tko weak %to, %sum : tile<64x64xptr<f32>>, tile<64x64xf32> -> token
    return
  }
}
