package nvcc

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/kbuild-dev/kbuild/graph/gencode"
	"github.com/kbuild-dev/kbuild/graph/toolchain"
	"github.com/kbuild-dev/kbuild/graph/toolchain/optfile"
)

// Settings holds the parsed options of a compile, in the terms that Driver.Compile takes.
type Settings struct {
	toolchain.Options
	Mode string // "whole", "rdc", "lto"

	// The shipped codes: machine code in place of LTO-IR that a device link reads.
	Codes   []gencode.Code
	System  []string // folders of -isystem
	CCBin   string   // the host compiler of -ccbin
	Emit    string   // "ptx", "cubin", "fatbin" if the output is not an object
	Lost    []string // options without a counterpart, each a sentence
	forward bool     // options that nvcc does not know go to the host compiler
	arch    string   // of -arch
	code    string   // of -code
}

// ReadSettings parses the options of a compile, without the names of sources and outputs. LTO-IR is
// for a device link if the code is relocatable, else for a link at run time.
func ReadSettings(words []string) (Settings, error) {
	s := Settings{Mode: "whole"}
	options, err := SplitOptions(words)
	if err != nil {
		return s, err
	}
	for _, o := range options {
		if !s.architecture(o.Name, o.Value) && !s.output(o) && !s.number(o.Name, o.Value) && !s.list(o) {
			s.Flags = append(s.Flags, o.Words...)
		}
	}
	s.archAlone()
	if s.forward && len(s.Flags) > 0 {
		s.Flags = append([]string{"-forward-unknown-to-host-compiler"}, s.Flags...)
	}
	relocatable := s.Mode != "whole"
	if lto := func(c gencode.Code) bool { return c.Kind == gencode.LTO }; relocatable && slices.ContainsFunc(s.Codes, lto) {
		s.Mode = "lto"
	}
	if s.Mode == "lto" {
		for i, c := range s.Codes {
			if c.Kind == gencode.LTO {
				s.Codes[i] = c.As(gencode.SASS)
			}
		}
		s.Codes = distinct(s.Codes)
	}
	return s, nil
}

func distinct(codes []gencode.Code) (out []gencode.Code) {
	for _, c := range codes {
		if !slices.Contains(out, c) {
			out = append(out, c)
		}
	}
	return out
}

// architecture parses an option that selects architectures or the mode. It reports whether it is
// one.
func (s *Settings) architecture(name, value string) bool {
	switch name {
	case "-gencode":
		var arch, code string
		for _, m := range generateRE().FindAllStringSubmatch(value, -1) {
			if m[1] == "arch" {
				arch = m[2]
			} else {
				code = m[2]
			}
		}
		s.generate(arch, code)
	case "-arch":
		s.arch = value
	case "-code":
		s.code = value
	case "-rdc":
		if value == "true" && s.Mode == "whole" {
			s.Mode = "rdc"
		}
	case "-dc":
		if s.Mode == "whole" {
			s.Mode = "rdc"
		}
	case "-dlto", "-lto":
		s.Mode = "lto"
	default:
		return false
	}
	return true
}

// generateRE matches the two halves of -gencode, which may be in any order.
var generateRE = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(arch|code)=(\[[^]]*\]|"[^"]*"?|[^, ]*)`) })

// Architectures returns the codes that a compile ships, from the architecture options among its
// words.
func Architectures(words []string) []gencode.Code {
	var s Settings
	for i, w := range words {
		name, value, joined := strings.Cut(w, "=")
		if !joined && i+1 < len(words) {
			value = words[i+1]
		}
		switch {
		case strings.HasPrefix(w, "-"):
			s.architecture(optionNames()[strings.TrimLeft(name, "-")].Name, value)
		// A value of -gencode, wherever the option is.
		case strings.HasPrefix(w, "arch=") && strings.Contains(w, ",code="):
			s.architecture("-gencode", w)
		}
	}
	s.archAlone()
	return s.Codes
}

// generate adds the codes of one -gencode: compute_80 and [sm_80,compute_80].
func (s *Settings) generate(arch, codes string) {
	for _, name := range strings.Split(strings.Trim(codes, `[]"`), ",") {
		code, err := gencode.Parse(name)
		switch {
		case err != nil || code.Kind == gencode.Set:
			s.lose("code=%s is not understood", name)
		case code.Virtual() != arch:
			s.lose("%s is compiled as %s, and kbuild compiles it as %s", name, arch, code.Virtual())
			fallthrough
		default:
			s.Codes = distinct(append(s.Codes, code))
		}
	}
}

// archAlone adds the codes of -arch and -code, which may be in any order. Without -code, machine
// code ships with PTX. Code for one chip or one family (sm_90a, compute_100f) also ships with PTX
// for all newer ones. nvcc 13.0 and 13.5 do that for -arch alone, never for -gencode.
func (s *Settings) archAlone() {
	code, err := gencode.Parse(s.arch)
	switch {
	case s.arch == "":
	case err != nil:
		s.lose("-arch=%s is not understood", s.arch)
	case code.Kind == gencode.Set:
		s.Codes = distinct(append(s.Codes, code))
	case s.code != "":
		s.generate(code.Virtual(), s.code)
	case code.Kind == gencode.LTO:
		s.Codes = distinct(append(s.Codes, code))
	default:
		ptx := code.As(gencode.PTX)
		s.Codes = append(s.Codes, code, ptx)
		ptx.Suffix = ""
		s.Codes = distinct(append(s.Codes, ptx))
	}
}

// output parses an option about the output or the dependency file. It reports whether it is one.
func (s *Settings) output(o Option) bool {
	switch o.Name {
	case "-c", "-MD", "-MP", "-MF", "-MT", "-x", "-o", "-t", "-objdir-as-tempdir":
	case "-ptx", "-cubin", "-fatbin":
		s.Emit = o.Name[1:]
	case "-ccbin":
		s.CCBin = o.Value
	case "-forward-unknown-to-host-compiler":
		s.forward = true
	case "-optix-ir", "-keep", "-keep-dir", "-save-temps", "-time", "-MMD":
		s.lose("%s has no counterpart", strings.Join(o.Words, " "))
	default:
		return false
	}
	return true
}

func (s *Settings) lose(format string, args ...any) {
	s.Lost = append(s.Lost, fmt.Sprintf(format, args...))
}

// number parses an option with one value, or none. It reports whether it is one.
func (s *Settings) number(name, value string) bool {
	truth := func(to **bool) {
		on := value == "true" || value == "1"
		*to = &on
	}
	switch name {
	case "-std":
		s.Std = value
	case "-O":
		s.Opt = value
	case "-O0", "-O1", "-O2", "-O3":
		s.Opt = name[2:]
	case "-g":
		s.Debug = true
	case "-G":
		s.DeviceDebug = true
	case "-lineinfo":
		s.LineInfo = true
	case "-use_fast_math":
		s.FastMath = true
	case "-ftz":
		truth(&s.FTZ)
	case "-prec-div":
		truth(&s.PrecDiv)
	case "-prec-sqrt":
		truth(&s.PrecSqrt)
	case "-fmad":
		truth(&s.FMAD)
	case "-maxrregcount":
		n, err := strconv.Atoi(value)
		s.MaxRegisters = n
		return err == nil
	default:
		return false
	}
	return true
}

// list parses an option that may be repeated. It reports whether it is one.
func (s *Settings) list(o Option) bool {
	name, word := o.Name, o.Words[0]
	separate := len(o.Words) == 2
	switch {
	case name == "-D":
		s.Defines = append(s.Defines, ReadList(o.Value, false)...)
	case strings.HasPrefix(word, "-D") && !separate:
		s.Defines = append(s.Defines, ReadList(word[2:], false)...)
	case name == "-isystem":
		s.System = append(s.System, ReadList(o.Value, true)...)
	case strings.HasPrefix(word, "-isystem") && !separate:
		s.System = append(s.System, ReadList(strings.TrimPrefix(word, "-isystem"), true)...)
	case name == "-I":
		s.Includes = append(s.Includes, ReadList(o.Value, true)...)
	case strings.HasPrefix(word, "-I") && !separate:
		s.Includes = append(s.Includes, ReadList(word[2:], true)...)
	case name == "-Xcompiler":
		s.Host = append(s.Host, optfile.SplitCommas(o.Value)...)
	case name == "-Xptxas":
		s.PTXAS = append(s.PTXAS, optfile.SplitCommas(o.Value)...)
	case name == "-Xcicc":
		s.CICC = append(s.CICC, optfile.SplitCommas(o.Value)...)
	default:
		return false
	}
	return true
}
