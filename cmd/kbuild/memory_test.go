package main

import (
	"testing"
)

const mib = 1 << 20

func TestMemSize(t *testing.T) {
	const there = 1000 * mib
	tests := []struct {
		text string
		want int64 // -1 is an error
	}{
		{"", -1}, {"0", -1}, {"x", -1}, {"8X", -1}, {"-1", -1}, {"0%", -1}, {"-5%", -1}, {"%", -1}, {"nan%", -1}, {"1e9%", -1},
		{"8GiB", 8 << 30}, {"8G", 8 << 30}, {"512MiB", 512 * mib}, {"4096", 4096}, {"50%", 500 * mib}, {"12.5%", 125 * mib}, {"200%", 2000 * mib},
	}
	for _, test := range tests {
		var m sizeFlag
		err := m.UnmarshalText([]byte(test.text))
		if got := m.budget(there); err == nil && got != test.want || (err != nil) != (test.want < 0) {
			t.Errorf("--mem %s of %d is %d, %v, want %d", test.text, there, got, err, test.want)
		}
	}
	if got := (sizeFlag{}).budget(there); got != there {
		t.Errorf("without --mem %d, want all there is", got)
	}
	if got := (sizeFlag{share: 0.5}).budget(0); got != 0 {
		t.Errorf("half of what is unknown is %d, want 0: unknown", got)
	}
	if got := (sizeFlag{share: 0.5}).budget(1); got != 1 {
		t.Errorf("half of one byte is %d, want 1: 0 would be no bound", got)
	}
}

func TestMemIsUsable(t *testing.T) {
	for text, want := range map[string]string{
		"8":    "8 is 8 bytes, too little for any compiler; write for example 8GiB",
		"4KiB": "4KiB is 4096 bytes, too little for any compiler; write for example 8GiB",
		"200%": "200% is more than there is; write at most 100%, or a size such as 8GiB",
		"100%": "", "1MiB": "", "8G": "", "1048576": "",
	} {
		got := ""
		if err := new(memFlag).UnmarshalText([]byte(text)); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("--mem %s: %q, want %q", text, got, want)
		}
	}
}
