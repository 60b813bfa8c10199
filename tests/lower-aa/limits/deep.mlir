// RUN: awk '/^if/{for(i=0;i<300;i++)print;next} /^}/&&!n++{for(i=0;i<300;i++)print "}";next} 1' % | tile-read | tile-lower-aa
entry @deep(%c: tile<i1>) {
if %c {
}
return
}
