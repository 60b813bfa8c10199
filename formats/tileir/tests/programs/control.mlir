// Loops, branches, early exits, and debug locations.
entry @control(%arg0: tile<i32>, %arg1: tile<i1>) {
  %zero = constant <i32: 0> : tile<i32> loc(#loc2)
  %one = constant <i32: 1> : tile<i32> loc(#loc2)
  %sum, %count = for %i in (%zero to %arg0, step %one) : tile<i32> iter_values(%s = %zero, %c = %one) -> (tile<i32>, tile<i32>) {
    %n = addi %s, %i : tile<i32> loc(#loc3)
    continue %n, %c : tile<i32>, tile<i32> loc(#loc3)
  } loc(#loc2)
  for %j in (%zero to %arg0, step %one) : tile<i32> {
    if %arg1 {
      continue loc(#loc2)
    } else {
    } loc(#loc2)
  } loc(#loc2)
  %found = loop iter_values(%k = %zero) : tile<i32> -> tile<i32> {
    %done = cmpi equal %k, %sum, signed : tile<i32> -> tile<i1> loc(#loc4)
    if %done {
      break %k : tile<i32> loc(#loc4)
    } loc(#loc4)
    %next = addi %k, %one : tile<i32> loc(#loc4)
    continue %next : tile<i32> loc(#loc4)
  } loc(#loc2)
  %picked = if %arg1 -> (tile<i32>) {
    yield %found : tile<i32> loc(#loc2)
  } else {
    yield %count : tile<i32> loc(#loc2)
  } loc(#loc2)
  loop {
    return loc(#loc1)
  } loc(#loc1)
  return loc(#loc1)
} loc(#loc2)
#di_file = #cuda_tile.di_file<"control.py" in "/src">
#loc = loc("/src/control.py":3:1)
#loc1 = loc(unknown)
#di_compile_unit = #cuda_tile.di_compile_unit<file = #di_file>
#di_subprogram = #cuda_tile.di_subprogram<file = #di_file, line = 2, name = "control", linkageName = "control", compileUnit = #di_compile_unit, scopeLine = 2>
#loc2 = #cuda_tile.di_loc<#loc in #di_subprogram>
#loc3 = loc(callsite(#loc2 at #loc2))
#di_lexical_block = #cuda_tile.di_lexical_block<scope = #di_subprogram, file = #di_file, line = 5>
#loc4 = #cuda_tile.di_loc<#loc in #di_lexical_block>
