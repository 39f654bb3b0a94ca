package object

import (
	"testing"

	"github.com/kbuild-dev/kbuild/graph/gencode"
)

// tiny is an object with one section of device code, made by write.
func tiny() []byte {
	head := make([]byte, headerSize)
	copy(head, "\x7fELF\x02\x01\x01")
	order.PutUint16(head[16:], 1)
	order.PutUint16(head[58:], sectionSize)
	image := func(num uint32) []byte {
		b := make([]byte, entryMin+8)
		order.PutUint32(b[4:], entryMin)
		order.PutUint64(b[8:], 8)
		order.PutUint32(b[0x1c:], num)
		return b
	}
	body := append(image(70), image(80)...)
	fat := order.AppendUint64(order.AppendUint32(nil, fatbinMagic), 0)[:8]
	order.PutUint16(fat[6:], fatbinHead)
	fat = append(order.AppendUint64(fat, uint64(len(body))), body...)
	t := &thin{o: &object{file: head}, symbols: []symbol{{}, {name: "fatbinData", section: 1}}, sections: []made{{},
		{name: relocatable, kind: typeProgbits, align: 8, data: fat}, {name: ".text", kind: typeProgbits, align: 1, data: []byte("host")}}}
	return t.write()
}

func TestTiny(t *testing.T) {
	whole := tiny()
	s, err := ForLink(whole, gencode.Code{Kind: gencode.SASS, Num: 80})
	if err != nil {
		t.Fatal(err)
	}
	if len(s) >= len(whole) {
		t.Errorf("the slice has %d bytes, the object %d", len(s), len(whole))
	}
	again, err := ForLink(s, gencode.Code{Kind: gencode.SASS, Num: 80})
	if err != nil || string(again) != string(s) {
		t.Errorf("the slice of a slice is another: %v", err)
	}
	joined, err := WithFatbin(whole, []byte("some other device code"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := parse(joined)
	if err != nil || string(o.sections[1].data) != "some other device code" {
		t.Errorf("%v", err)
	}
	odd := tiny()
	o, _ = parse(odd)
	order.PutUint64(o.sections[o.symtab].data[symbolSize+8:], 8)
	if _, err := WithFatbin(odd, nil); err == nil {
		t.Error("a symbol in the middle of the device code is no error")
	}
}

func FuzzObject(f *testing.F) {
	f.Add(tiny())
	f.Add([]byte("!<arch>\na.o/            0           0     0     644     4         `\nabcd"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := gencode.Code{Kind: gencode.SASS, Num: 80}
		ForLink(b, c)
		ArchiveForLink(b, c)
		WithFatbin(b, []byte("x"))
	})
}
