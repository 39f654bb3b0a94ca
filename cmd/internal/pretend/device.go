package main

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/kbuild-dev/kbuild/cmd/internal/pretend/devcode"
)

// named parses the command line of cicc or cudafe++.
func named(args []string) (values map[string]string, input string, rest []string) {
	values = map[string]string{}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; a {
		case "--orig_src_file_name", "--orig_src_path_name", "--include_file_name", "--module_id_file_name", "--stub_file_name", "--gen_c_file_name", "-arch", "-o", "-olto":
			values[a] = after(args, &i)
		case "-m64", "--m64":
		case "-maxreg":
			rest = append(rest, a, after(args, &i))
		default:
			if strings.HasPrefix(a, "-") {
				rest = append(rest, a)
			} else {
				input = a
			}
		}
	}
	return values, input, rest
}

func isDevice(line string) bool {
	return strings.Contains(line, "__global__") || strings.Contains(line, "__device__")
}

// cicc writes PTX or LTO-IR, and the stub for host code. PTX contains line numbers if requested,
// LTO-IR always does.
func cicc(args []string) error {
	o, input, flags := named(args)
	text, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	id, _ := os.ReadFile(o["--module_id_file_name"])
	withLines := slices.Contains(flags, "-g") || slices.Contains(flags, "-generate-line-info")
	head := fmt.Sprintf("cicc %s %s %s %s", version, o["-arch"], strings.Join(slices.DeleteFunc(flags, func(f string) bool { return f == "-lto" }), " "), id)
	code, lined := head+"\n", head+"\n"
	stub := fmt.Sprintf("# 1 %q\n#include %q\nstub %s\n", o["--stub_file_name"], o["--include_file_name"], id)
	for _, l := range linesOf(string(text)) {
		if !isDevice(l.text) {
			continue
		}
		if strings.Contains(l.text, "never_used") {
			warn("%s(%d): warning #177-D: variable \"never_used\" was declared but never referenced\n", l.file, l.line)
		}
		line := strings.Join(strings.Fields(l.text), " ")
		code += line + "\n"
		lined += fmt.Sprintf("%s:%d: %s\n", l.file, l.line, line)
		if name := kernelOf(line); name != "" {
			stub += fmt.Sprintf("# %d %q\nlaunch %s\n", l.line, l.file, name)
		}
	}
	if withLines {
		code = lined
	}
	arch := archNumber(o["-arch"])
	write := func(name string, content []byte) {
		if name != "" {
			err = errors.Join(err, os.WriteFile(name, content, 0o666))
		}
	}
	if slices.Contains(flags, "-lto") {
		write(o["-o"], devcode.LTOIR(lined, arch))
	} else {
		write(o["-o"], ptx(code, arch))
	}
	write(o["-olto"], devcode.LTOIR(lined, arch))
	write(o["--stub_file_name"], []byte(stub))
	return err
}

// kernelOf returns the name of the kernel that a line defines.
func kernelOf(line string) string {
	_, rest, ok := strings.Cut(line, "__global__ void ")
	if !ok {
		return ""
	}
	name, _, _ := strings.Cut(rest, "(")
	return strings.TrimSpace(name)
}

func ptxas(args []string) error {
	var out, arch, input string
	var flags []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o":
			out = after(args, &i)
		case strings.HasPrefix(a, "-arch="):
			arch = strings.TrimPrefix(a, "-arch=")
		case a == "-m64", a == "-v":
		case strings.HasPrefix(a, "-"):
			flags = append(flags, a)
		default:
			input = a
		}
	}
	text, err := os.ReadFile(input)
	if err != nil {
		return fmt.Errorf("ptxas fatal   : Input file '%s' could not be opened", input)
	}
	for line := range strings.Lines(string(text)) {
		switch {
		case strings.Contains(line, "ptxas_rejects"):
			return errors.New("ptxas error   : Entry function 'k' uses too much shared data (0x13880 bytes, 0xc000 max)")
		case strings.Contains(line, "spills"):
			warn("ptxas warning : Registers are spilled to local memory in function '%s'", kernelOf(line))
		}
	}
	return os.WriteFile(out, cubin(fmt.Sprintf("ptxas %s %s\n%s", version, strings.Join(flags, " "), text), archNumber(arch)), 0o666)
}

// cudafe writes the host code.
func cudafe(args []string) error {
	o, input, flags := named(args)
	text, err := os.ReadFile(input)
	if err != nil {
		return err
	}
	id, _ := os.ReadFile(o["--module_id_file_name"])
	var b strings.Builder
	fmt.Fprintf(&b, "cudafe %s %s %s\n", version, strings.Join(flags, " "), id)
	for _, l := range linesOf(string(text)) {
		if isDevice(l.text) {
			continue
		}
		if strings.Contains(l.text, "never_called") {
			warn("%s(%d): warning #177-D: function \"never_called\" was declared but never referenced\n", l.file, l.line)
		}
		fmt.Fprintf(&b, "# %d %q\n%s\n", l.line, l.file, l.text)
	}
	fmt.Fprintf(&b, "#include %q\n", o["--stub_file_name"])
	return os.WriteFile(o["--gen_c_file_name"], []byte(b.String()), 0o666)
}

// fatbinary packs images, and writes the C text that embeds them in an object.
func fatbinary(args []string) error {
	var create, text string
	var entries []byte
	section := finalSection
	for _, a := range args {
		if f, ok := strings.CutPrefix(a, "--create="); ok {
			create = f
		} else if f, ok := strings.CutPrefix(a, "--embedded-fatbin="); ok {
			text = f
		} else if a == "--device-c" {
			section = linkableSection
		}
		spec, ok := strings.CutPrefix(a, "--image3=kind=")
		if !ok {
			continue
		}
		kind, rest, _ := strings.Cut(spec, ",sm=")
		sm, file, _ := strings.Cut(rest, ",file=")
		content, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("fatbinary fatal   : Could not open input file '%s'", file)
		}
		entries = append(entries, devcode.Entry(map[string]uint16{"ptx": 1, "elf": 2, "nvvm": 8}[kind], archNumber("sm_"+sm), content)...)
	}
	c := devcode.Container(entries)
	if create != "" {
		if err := os.WriteFile(create, c, 0o666); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	return os.WriteFile(text, fmt.Appendf(nil, "%s%s %x\n", fatbinWord, section, c), 0o666)
}

// nvlink links its inputs into a cubin. The list of modules for the host code depends only on their
// number.
func nvlink(args []string) error {
	args, err := expanded(args)
	if err != nil {
		return err
	}
	var out, arch, register string
	var flags, inputs []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case a == "-o":
			out = after(args, &i)
		case a == "--host-ccbin":
			i++
		case strings.HasPrefix(a, "--arch="):
			arch = strings.TrimPrefix(a, "--arch=")
		case strings.HasPrefix(a, "--register-link-binaries="):
			register = strings.TrimPrefix(a, "--register-link-binaries=")
		case a == "-Xptxas":
			if v := after(args, &i); v != "-v" {
				flags = append(flags, v)
			}
		case a == "-m64", a == "-report-arch":
		case strings.HasPrefix(a, "-"):
			flags = append(flags, a)
		default:
			inputs = append(inputs, a)
		}
	}
	code := fmt.Sprintf("nvlink %s %s\n", version, strings.Join(flags, " "))
	for _, in := range inputs {
		text, err := os.ReadFile(in)
		if err != nil {
			return fmt.Errorf("nvlink fatal   : Could not open input file '%s' (target: %s)", in, arch)
		}
		code += fmt.Sprintf("%x\n", sha256.Sum256(text))
	}
	if register != "" {
		if err := os.WriteFile(register, fmt.Appendf(nil, "register %d\n", len(inputs)), 0o666); err != nil {
			return err
		}
	}
	return os.WriteFile(out, cubin(code, archNumber(arch)), 0o666)
}
