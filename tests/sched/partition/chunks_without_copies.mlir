// RUN: tile-read % | tile-lower-aa | tile-lower-as --gpu-name sm_107 | tile-sched --format=text | grep -oE '^ +(warp_role|pipeline_[a-z]*|mma)\(([a-z]+: [0-9]+)?'
entry @fuzz(%arg0: tile<ptr<i32>>, %arg1: tile<ptr<i32>>, %arg2: tile<ptr<i32>>, %arg3: tile<i32>, %arg4: tile<i32>, %arg5: tile<i32>, %arg6: tile<i32>, %arg7: tile<ptr<f8E4M3FN>>, %arg8: tile<ptr<f8E4M3FN>>, %arg9: tile<i32>, %arg10: tile<ptr<i32>>, %arg11: tile<i32>, %arg12: tile<ptr<f16>>, %arg13: tile<i32>, %arg14: tile<i32>, %arg15: tile<ptr<i32>>, %arg16: tile<i32>, %arg17: tile<ptr<i32>>, %arg18: tile<i32>, %arg19: tile<ptr<f32>>, %arg20: tile<ptr<f32>>, %arg21: tile<i32>, %arg22: tile<ptr<f32>>, %arg23: tile<ptr<f16>>, %arg24: tile<ptr<f16>>, %arg25: tile<ptr<f16>>, %arg26: tile<ptr<i32>>, %arg27: tile<ptr<f16>>, %arg28: tile<ptr<f16>>, %arg29: tile<i32>, %arg30: tile<i32>, %arg31: tile<i32>, %arg32: tile<ptr<i32>>, %arg33: tile<i32>, %arg34: tile<i32>, %arg35: tile<i32>) optimization_hints=<sm_100 = {num_worker_warps_per_cta = 1, occupancy = 1}, sm_103 = {num_worker_warps_per_cta = 1, occupancy = 4}, sm_107 = {num_worker_warps_per_cta = 4, occupancy = 4}, sm_110 = {occupancy = 2}, sm_120 = {occupancy = 1}, sm_121 = {occupancy = 2}, sm_80 = {occupancy = 2}, sm_86 = {num_worker_warps_per_cta = 4, occupancy = 2}, sm_87 = {num_worker_warps_per_cta = 4, occupancy = 4}, sm_88 = {occupancy = 1}, sm_89 = {num_worker_warps_per_cta = 1, occupancy = 4}, sm_90 = {occupancy = 1}> {
  %cst_1_i32 = constant <i32: 1> : tile<i32>
  %cst_0_i32 = constant <i32: 0> : tile<i32>
  %cst_0_i32_0 = constant <i32: 0> : tile<i32>
  %cst_1_i32_1 = constant <i32: 1> : tile<i32>
  %cst_1_i32_2 = constant <i32: 1> : tile<i32>
  %assume = assume div_by<16>, %arg7 : tile<ptr<f8E4M3FN>>
  %tview = make_tensor_view %assume, shape = [48, 48], strides = [1, 48] : tensor_view<48x48xf8E4M3FN, strides=[1,48]>
  %pview = make_partition_view %tview : partition_view<tile=(64x64), padding_value = zero, tensor_view<48x48xf8E4M3FN, strides=[1,48]>>
  %assume_3 = assume div_by<16>, %arg12 : tile<ptr<f16>>
  %tview_4 = make_tensor_view %assume_3, shape = [48, %arg13], strides = [%arg14, 1] : tile<i32> -> tensor_view<48x?xf16, strides=[?,1]>
  %pview_5 = make_partition_view %tview_4 : partition_view<tile=(64x16), tensor_view<48x?xf16, strides=[?,1]>>
  %cst_1_i32_6 = constant <i32: 1> : tile<i32>
  %cst_0_f16 = constant <f16: 0.000000e+00> : tile<64x16xf16>
  %for = for %loopIdx in (%cst_0_i32_0 to %cst_1_i32_2, step %cst_1_i32_1) : tile<i32> iter_values(%iterArg0 = %cst_0_f16) -> (tile<64x16xf16>) {
    %tile, %result_token = load_view_tko weak %pview[%loopIdx, %cst_1_i32_6] : partition_view<tile=(64x64), padding_value = zero, tensor_view<48x48xf8E4M3FN, strides=[1,48]>>, tile<i32> -> tile<64x64xf8E4M3FN>, token
    %3 = permute %tile [1, 0] : tile<64x64xf8E4M3FN> -> tile<64x64xf8E4M3FN>
    %cst_1_f8E4M3FN = constant <f8E4M3FN: 1.000000e+00> : tile<64x16xf8E4M3FN>
    %4 = mmaf %3, %cst_1_f8E4M3FN, %iterArg0 : tile<64x64xf8E4M3FN>, tile<64x16xf8E4M3FN>, tile<64x16xf16>
    continue %4 : tile<64x16xf16>
  }
  %0 = store_view_tko relaxed device %for, %pview_5[%cst_1_i32_6, %cst_0_i32] : tile<64x16xf16>, partition_view<tile=(64x16), tensor_view<48x?xf16, strides=[?,1]>>, tile<i32> -> token
  %cst_1_i32_7 = constant <i32: 1> : tile<1x1x2xi32>
  %cst_0_i32_8 = constant <i32: 0> : tile<i32>
  %cst_0_i32_9 = constant <i32: 0> : tile<i32>
  %cst_1_i32_10 = constant <i32: 1> : tile<i32>
  %cst_2_i32 = constant <i32: 2> : tile<i32>
  %assume_11 = assume div_by<16>, %arg24 : tile<ptr<f16>>
  %tview_12 = make_tensor_view %assume_11, shape = [1, 16], strides = [16, 1] : tensor_view<1x16xf16, strides=[16,1]>
  %pview_13 = make_partition_view %tview_12 : partition_view<tile=(16x16), padding_value = zero, tensor_view<1x16xf16, strides=[16,1]>>
  %tview_14 = make_tensor_view %arg25, shape = [16, 1], strides = [1, 16] : tensor_view<16x1xf16, strides=[1,16]>
  %pview_15 = make_partition_view %tview_14 : partition_view<tile=(16x16), padding_value = zero, tensor_view<16x1xf16, strides=[1,16]>, dim_map=[1, 0]>
  %cst_0_f16_16 = constant <f16: 0.000000e+00> : tile<64x16xf16>
  %cst_0_f16_17 = constant <f16: 0.000000e+00> : tile<64x16xf16>
  %for_18:3 = for %loopIdx in (%cst_0_i32_9 to %cst_2_i32, step %cst_1_i32_10) : tile<i32> iter_values(%iterArg0 = %cst_0_f16_16, %iterArg1 = %cst_0_f16_17, %iterArg2 = %cst_1_i32_7) -> (tile<64x16xf16>, tile<64x16xf16>, tile<1x1x2xi32>) {
    %cst_1_f16 = constant <f16: 1.000000e+00> : tile<64x16xf16>
    %tile, %result_token = load_view_tko weak %pview_13[%loopIdx, %cst_0_i32_8] optimization_hints = <sm_100 = {allow_tma = false, latency = 1}, sm_103 = {allow_tma = false, latency = 1}, sm_107 = {allow_tma = false, latency = 1}, sm_110 = {allow_tma = false, latency = 1}, sm_120 = {allow_tma = false, latency = 1}, sm_121 = {allow_tma = false, latency = 1}, sm_80 = {allow_tma = false, latency = 1}, sm_86 = {allow_tma = false, latency = 1}, sm_87 = {allow_tma = false, latency = 1}, sm_88 = {allow_tma = false, latency = 1}, sm_89 = {allow_tma = false, latency = 1}, sm_90 = {allow_tma = false, latency = 1}> : partition_view<tile=(16x16), padding_value = zero, tensor_view<1x16xf16, strides=[16,1]>>, tile<i32> -> tile<16x16xf16>, token
    %3 = mmaf %cst_1_f16, %tile, %iterArg0 : tile<64x16xf16>, tile<16x16xf16>, tile<64x16xf16>
    %cst_1_i32_27 = constant <i32: 1> : tile<i32>
    %tile_28, %result_token_29 = load_view_tko weak %pview_15[%cst_1_i32_27, %cst_0_i32_8] : partition_view<tile=(16x16), padding_value = zero, tensor_view<16x1xf16, strides=[1,16]>, dim_map=[1, 0]>, tile<i32> -> tile<16x16xf16>, token
    %4 = negf %tile_28 : tile<16x16xf16>
    %5 = mmaf %cst_1_f16, %4, %iterArg1 : tile<64x16xf16>, tile<16x16xf16>, tile<64x16xf16>
    %cst_1_i32_30 = constant <i32: 1> : tile<1x1x2xi32>
    continue %3, %5, %cst_1_i32_30 : tile<64x16xf16>, tile<64x16xf16>, tile<1x1x2xi32>
  }
  %assume_19 = assume div_by<16>, %arg27 : tile<ptr<f16>>
  %tview_20 = make_tensor_view %assume_19, shape = [1, 16], strides = [16, 1] : tensor_view<1x16xf16, strides=[16,1]>
  %pview_21 = make_partition_view %tview_20 : partition_view<tile=(64x16), tensor_view<1x16xf16, strides=[16,1]>>
  %cst_0_i32_22 = constant <i32: 0> : tile<i32>
  %1 = store_view_tko weak %for_18#0, %pview_21[%cst_1_i32, %cst_0_i32_22] : tile<64x16xf16>, partition_view<tile=(64x16), tensor_view<1x16xf16, strides=[16,1]>>, tile<i32> -> token
  %assume_23 = assume div_by<16>, %arg28 : tile<ptr<f16>>
  %tview_24 = make_tensor_view %assume_23, shape = [%arg29, %arg30], strides = [%arg31, 1] : tile<i32> -> tensor_view<?x?xf16, strides=[?,1]>
  %pview_25 = make_partition_view %tview_24 : partition_view<tile=(64x16), tensor_view<?x?xf16, strides=[?,1]>>
  %cst_0_i32_26 = constant <i32: 0> : tile<i32>
  %2 = store_view_tko weak %for_18#1, %pview_25[%cst_1_i32, %cst_0_i32_26] : tile<64x16xf16>, partition_view<tile=(64x16), tensor_view<?x?xf16, strides=[?,1]>>, tile<i32> -> token
  return
}
