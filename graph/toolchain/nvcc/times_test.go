package nvcc

import (
	"strings"
	"testing"
)

func TestSplitTimes(t *testing.T) {
	for _, c := range []struct {
		options              string
		several              bool
		others, times, files string
	}{
		{options: "-lineinfo -time t.csv -w", others: "-lineinfo -w", times: "-time=t.csv", files: "t.csv"},
		{options: "--time=./d/../t.csv", times: "-time=t.csv", files: "t.csv"},
		{options: "-time=-", times: "-time=-"},
		{options: "-fdevice-time-trace x.json", times: "-fdevice-time-trace=x", files: "x.json"},
		{options: "--fdevice-time-trace=x", times: "-fdevice-time-trace=x", files: "x.json"},
		{options: "-fdevice-time-trace -", times: "-fdevice-time-trace=o/a.o", files: "o/a.o.json"},
		{options: "-fdevice-time-trace -", several: true, times: "-fdevice-time-trace=o/a.o", files: "o/a.o.json"},
		{options: "-time d/t", several: true, times: "-time=o/a.o.t", files: "o/a.o.t"},
		{options: "-time", others: "-time"},
		{options: "-w --time=", others: "-w --time="},
		{options: "-fdevice-time-trace-granularity=100", others: "-fdevice-time-trace-granularity=100"},
	} {
		others, times, files := SplitTimes(strings.Fields(c.options), "o/a.o", c.several)
		got := strings.Join(others, " ") + "|" + strings.Join(times, " ") + "|" + strings.Join(files, " ")
		if want := c.others + "|" + c.times + "|" + c.files; got != want {
			t.Errorf("%s: %s, want %s", c.options, got, want)
		}
	}
}
