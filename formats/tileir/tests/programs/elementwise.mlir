// Element-wise ops and conversions.
entry @elementwise(%arg0: tile<ptr<f32>>, %arg1: tile<i32>) optimization_hints=<default = {occupancy = 2}, sm_100 = {num_cta_in_cga = 1}> {
  %x = constant <f32: [1.000000e+00, -2.500000e+00, 9.99999974E-6, 0xFF800000]> : tile<4xf32>
  %y = constant <f32: 2.000000e+00> : tile<4xf32>
  %i = constant <i32: [1, -2, 3, 2147483647]> : tile<4xi32>
  %b = constant <i1: [true, false, true, true]> : tile<4xi1>
  %0 = addf %x, %y  : tile<4xf32>
  %1 = subf %0, %y rounding<zero> flush_to_zero : tile<4xf32>
  %2 = mulf %1, %x rounding<negative_inf> : tile<4xf32>
  %3 = divf %2, %y rounding<approx> : tile<4xf32>
  %4 = fma %3, %x, %y  flush_to_zero : tile<4xf32>
  %5 = maxf %4, %x propagate_nan : tile<4xf32>
  %6 = minf %5, %x flush_to_zero : tile<4xf32>
  %7 = sqrt %6  : tile<4xf32>
  %8 = rsqrt %7 : tile<4xf32>
  %9 = exp %8  : tile<4xf32>
  %10 = exp2 %9 flush_to_zero : tile<4xf32>
  %11 = tanh %10  : tile<4xf32>
  %12 = sin %11 : tile<4xf32>
  %13 = fpowf %12, %y : tile<4xf32>
  %14 = remf %13, %y : tile<4xf32>
  %15 = cmpf less_than ordered %14, %y : tile<4xf32> -> tile<4xi1>
  %16 = select %15, %14, %y : tile<4xi1>, tile<4xf32>
  %17 = addi %i, %i overflow<no_signed_wrap> : tile<4xi32>
  %18 = divi %17, %i signed rounding<positive_inf> : tile<4xi32>
  %19 = remi %18, %i unsigned : tile<4xi32>
  %20 = shri %19, %i signed : tile<4xi32>
  %21 = cmpi greater_than_or_equal %20, %i, signed : tile<4xi32> -> tile<4xi1>
  %22 = andi %21, %b : tile<4xi1>
  %23 = exti %20 signed : tile<4xi32> -> tile<4xi64>
  %24 = trunci %23 overflow<no_wrap> : tile<4xi64> -> tile<4xi8>
  %25 = itof %24 unsigned  : tile<4xi8> -> tile<4xf16>
  %26 = ftof %25  : tile<4xf16> -> tile<4xf32>
  %27 = ftoi %26 signed  : tile<4xf32> -> tile<4xi32>
  %28 = bitcast %26 : tile<4xf32> -> tile<4xi32>
  %29 = negi %28 : tile<4xi32>
  %30 = mulhii %29, %27 : tile<4xi32>
  assert %22, "all of \22them\22" : tile<4xi1>
  return
}
