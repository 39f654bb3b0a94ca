package run

import "testing"

func TestFreeHuge(t *testing.T) {
	const info = `Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 
Node 0, zone    DMA32      1      1      4      2      5      4      3      3      4      2    752 
Node 0, zone   Normal  16352  27421  11370   6486   4014   2548   1261    887    451    277    569 
`
	const want = (1+2+277)*2<<20 + (3+752+569)*4<<20
	if got := freeHuge(info); got != want {
		t.Errorf("%d bytes are free in huge blocks, want %d", got, want)
	}
	for _, odd := range []string{"", "zone", "Node 0, zone Normal", "Node 0, zone Normal x y z", "unknown 1 2 3"} {
		if got := freeHuge(odd); got != 0 {
			t.Errorf("%q: %d bytes", odd, got)
		}
	}
}
