package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// bin returns the folder of the toolkit's programs, found through the name of nvcc.
func bin() string {
	p, _ := exec.LookPath(os.Args[0])
	p, _ = filepath.Abs(p)
	return filepath.Dir(p)
}

// nvcc prints or runs its steps.
func nvcc(args []string) error {
	args = slices.Concat(strings.Fields(os.Getenv("NVCC_PREPEND_FLAGS")), args, strings.Fields(os.Getenv("NVCC_APPEND_FLAGS")))
	args, err := expanded(args)
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(args, "--version"):
		fmt.Println("Cuda compilation tools, release 11.8, V11.8.89")
		return nil
	case slices.Contains(args, "--help"): // lists no code with a suffix
		return nil
	case slices.Contains(args, "--list-gpu-code"):
		fmt.Println("sm_70\nsm_75\nsm_80\nsm_86\nsm_90")
		return nil
	}
	d, err := driverOf(args)
	if err != nil {
		return err
	}
	if slices.Contains(args, "--dryrun") {
		d.show()
		return nil
	}
	return d.run()
}

// driver is one nvcc command.
type driver struct {
	args           []string
	emit           string // "-c", "-dc", "-dlink", or for other outputs "-ptx", "-cubin", "-fatbin"
	linkable, link bool
	lto            bool
	keep           string // folder of the intermediate files
	out, depfile   string
	cxx            string
	codes          [][2]string // arch, code
	host           []string    // options for the host compiler, in order
	text           []string    // options for the preprocessor
	cicc, ptxas    []string
	nvlink         []string
	inputs         []string
	lines          []string // steps as shell commands

	beside map[string]bool // intermediate files next to the object; nil if in keep
}

func driverOf(args []string) (*driver, error) {
	d := &driver{args: args, cxx: "g++", keep: "kbuild_keep"}
	one := map[string]*string{"-o": &d.out, "-MF": &d.depfile, "--keep-dir": &d.keep, "-ccbin": &d.cxx}
	many := map[string]*[]string{"-Xcompiler": &d.host, "-Xcicc": &d.cicc, "-Xptxas": &d.ptxas, "-Xnvlink": &d.nvlink}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case one[a] != nil:
			*one[a] = after(args, &i)
		case many[a] != nil:
			*many[a] = append(*many[a], after(args, &i))
		case a == "-c":
		case a == "-dc":
			d.linkable = true
		case a == "-dlink":
			d.link = true
		case a == "-dlto":
			d.lto = true
		case a == "-ptx", a == "-cubin", a == "-fatbin":
			d.emit = a
		case a == "-gencode":
			arch, code, _ := strings.Cut(after(args, &i), ",")
			d.codes = append(d.codes, [2]string{strings.TrimPrefix(arch, "arch="), strings.TrimPrefix(code, "code=")})
		case a == "-x":
			i++
		case strings.HasPrefix(a, "-D"), strings.HasPrefix(a, "-I"):
			d.text = append(d.text, a)
		case strings.HasPrefix(a, "-std="), strings.HasPrefix(a, "-O"):
			d.host = append(d.host, a)
		case a == "-g":
			d.host, d.cicc = append(d.host, a), append(d.cicc, a)
		case a == "-lineinfo":
			d.cicc, d.ptxas = append(d.cicc, "-generate-line-info"), append(d.ptxas, "--generate-line-info")
		case a == "-use_fast_math":
			d.cicc = append(d.cicc, "-fast-math")
		case strings.HasPrefix(a, "-maxrregcount="):
			d.cicc, d.ptxas = append(d.cicc, "-maxreg", strings.TrimPrefix(a, "-maxrregcount=")), append(d.ptxas, a)
		case a == "--keep", a == "--dryrun", a == "-MD", a == "--objdir-as-tempdir":
		case strings.HasPrefix(a, "-"):
			return nil, fmt.Errorf("nvcc fatal   : Unknown option '%s'", a)
		default:
			d.inputs = append(d.inputs, a)
		}
	}
	if len(d.inputs) > 0 && strings.HasSuffix(d.inputs[0], ".o") {
		d.link = true // nvcc links objects even without -dlink
	}
	return d, nil
}

func (d *driver) show() {
	here := bin()
	fmt.Printf("#$ _HERE_=%[1]s\n#$ NVVMIR_LIBRARY_DIR=%[1]s\n#$ PATH=%[1]s:%[2]s\n#$ LIBRARIES=\n", here, os.Getenv("PATH"))
	if len(d.codes) == 0 || len(d.inputs) == 0 {
		return
	}
	if d.link {
		d.linkSteps(here)
	} else {
		d.compileSteps()
	}
	for _, l := range d.lines {
		fmt.Println("#$ " + l)
	}
}

func (d *driver) say(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
}

// file returns the name of an intermediate file.
func (d *driver) file(suffix string) string {
	base := filepath.Base(d.inputs[0])
	if d.link {
		base = filepath.Base(d.out)
	}
	if d.beside != nil {
		name := d.out + "." + suffix
		d.beside[name] = true
		return name
	}
	return d.keep + "/" + strings.TrimSuffix(base, filepath.Ext(base)) + "." + suffix
}

// list returns the value of __CUDA_ARCH_LIST__.
func (d *driver) list() string {
	var nums []int
	for _, c := range d.codes {
		nums = append(nums, 10*archNumber(c[0]))
	}
	sort.Ints(nums)
	var words []string
	for _, n := range slices.Compact(nums) {
		words = append(words, strconv.Itoa(n))
	}
	return strings.Join(words, ",")
}

func archNumber(arch string) int {
	_, digits, _ := strings.Cut(arch, "_")
	n, _ := strconv.Atoi(strings.TrimRight(digits, "a"))
	return n
}

func quoted(words []string) string {
	var b strings.Builder
	for _, w := range words {
		fmt.Fprintf(&b, "%q ", w)
	}
	return b.String()
}

// compileSteps adds the steps of 11.8, without options that have no effect here.
func (d *driver) compileSteps() {
	source, list := d.inputs[0], d.list()
	macros := "-D__CUDACC__ -D__NVCC__ "
	device := ""
	if d.linkable {
		macros, device = macros+"-D__CUDACC_RDC__ ", "--device-c"
	}
	object := d.emit == ""
	var images []string
	byArch := map[string][]string{}
	var archs []string
	for _, c := range d.codes {
		if byArch[c[0]] == nil {
			archs = append(archs, c[0])
		}
		byArch[c[0]] = append(byArch[c[0]], c[1])
	}
	for _, arch := range slices.Backward(archs) { // in 11.8's order
		text := d.file(arch + ".cpp1.ii")
		d.say("%s -D__CUDA_ARCH__=%d -D__CUDA_ARCH_LIST__=%s -E -x c++ %s%s%s-m64 %q -o %q", d.cxx, 10*archNumber(arch), list, macros, quoted(d.host), quoted(d.text), source, text)
		to, ir := d.file(arch+".ptx"), d.file(arch+".ltoir")
		made := fmt.Sprintf("-o %q", to)
		if d.emit == "-ptx" {
			made = fmt.Sprintf("-o %q", d.out)
		}
		hasIR := slices.ContainsFunc(byArch[arch], func(c string) bool { return strings.HasPrefix(c, "lto_") })
		switch {
		case hasIR && len(byArch[arch]) == 1:
			made = fmt.Sprintf("-lto -o %q", ir)
		case hasIR:
			made += fmt.Sprintf(" -olto %q", ir)
		}
		d.say("cicc --orig_src_file_name %q --orig_src_path_name %q %s -arch %s -m64 %s--include_file_name %q --module_id_file_name %q --stub_file_name %q %q %s",
			source, source, device, arch, quoted(d.cicc), filepath.Base(d.file("fatbin.c")), d.file("module_id"), d.file(arch+".cudafe1.stub.c"), text, made)
	}
	for _, c := range d.codes {
		switch n := archNumber(c[1]); {
		case d.emit == "-ptx":
		case strings.HasPrefix(c[1], "compute_"):
			images = append(images, fmt.Sprintf("--image3=kind=ptx,sm=%d,file=%s", n, d.file(c[0]+".ptx")))
		case strings.HasPrefix(c[1], "lto_"):
			images = append(images, fmt.Sprintf("--image3=kind=nvvm,sm=%d,file=%s", n, d.file(c[0]+".ltoir")))
		default:
			cubin := d.file(c[1] + ".cubin")
			if d.emit == "-cubin" {
				cubin = d.out
			}
			d.say("ptxas -arch=%s -m64 %s%q -o %q", c[1], quoted(d.ptxas), d.file(c[0]+".ptx"), cubin)
			images = append(images, fmt.Sprintf("--image3=kind=elf,sm=%d,file=%s", n, cubin))
		}
	}
	if d.emit == "-fatbin" {
		d.say("fatbinary --create=%q -64 %s %s", d.out, quoted(images), device)
	}
	if object {
		d.hostSteps(images, archs[len(archs)-1], macros, device)
	}
}

func (d *driver) hostSteps(images []string, primary, macros, device string) {
	source, list := d.inputs[0], d.list()
	d.say("fatbinary --create=%q -64 %s --embedded-fatbin=%q %s", d.file("fatbin"), quoted(images), d.file("fatbin.c"), device)
	d.say("%s -D__CUDA_ARCH_LIST__=%s -E -x c++ %s%s%s-m64 %q -o %q", d.cxx, list, macros, quoted(d.host), quoted(d.text), source, d.file("cpp4.ii"))
	d.say("cudafe++ --orig_src_file_name %q --orig_src_path_name %q %s --m64 --gen_c_file_name %q --stub_file_name %q --module_id_file_name %q %q",
		source, source, device, d.file(primary+".cudafe1.cpp"), filepath.Base(d.file(primary+".cudafe1.stub.c")), d.file("module_id"), d.file("cpp4.ii"))
	d.say("%s -D__CUDA_ARCH__=%d -D__CUDA_ARCH_LIST__=%s -c -x c++ %s-m64 %q -o %q", d.cxx, 10*archNumber(primary), list, quoted(d.host), d.file(primary+".cudafe1.cpp"), d.out)
}

// linkSteps adds the steps of a device link.
func (d *driver) linkSteps(here string) {
	lto, register := "", ""
	if d.lto {
		lto = "-report-arch -dlto "
	}
	if d.emit == "" {
		d.say("rm %s", d.file("reg.c"))
		register = fmt.Sprintf("--register-link-binaries=%q ", d.file("reg.c"))
	}
	var images []string
	for _, c := range d.codes {
		cubin := d.file(c[0] + ".cubin")
		if d.emit == "-cubin" {
			cubin = d.out
		}
		d.say("nvlink %s-m64 --arch=%s %s%s%s-o %q --host-ccbin %q", quoted(d.nvlink), c[1], register, lto, quoted(d.inputs), cubin, d.cxx)
		images = append(images, fmt.Sprintf("--image3=kind=elf,sm=%d,file=%s", archNumber(c[1]), cubin))
	}
	switch d.emit {
	case "-fatbin":
		d.say("fatbinary --create=%q -64 -link %s", d.out, quoted(images))
	case "":
		d.say("fatbinary --create=%q -64 -link %s--embedded-fatbin=%q", d.file("fatbin"), quoted(images), d.file("fatbin.c"))
		d.say(`%s -D__CUDA_ARCH_LIST__=%s -c -x c++ -DFATBINFILE="\"%s\"" -DREGISTERLINKBINARYFILE="\"%s\"" -I. %s-m64 %q -o %q`,
			d.cxx, d.list(), d.file("fatbin.c"), d.file("reg.c"), quoted(d.host), here+"/link.stub", d.out)
	}
}

// run runs the steps in a temporary folder.
func (d *driver) run() error {
	if len(d.inputs) == 0 {
		return errors.New("nvcc fatal   : No input files specified; use option --help for more information")
	}
	switch {
	case slices.Contains(d.args, "--keep-dir"):
	case slices.Contains(d.args, "--objdir-as-tempdir"):
		d.beside = map[string]bool{}
		defer func() {
			for name := range d.beside {
				os.Remove(name)
			}
		}()
	default:
		dir, err := os.MkdirTemp("", "nvcc-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		d.keep = dir
	}
	if d.link {
		d.linkSteps(bin())
	} else {
		d.compileSteps()
		if err := os.WriteFile(d.file("module_id"), []byte("_nvcc_"+filepath.Base(d.inputs[0])), 0o666); err != nil {
			return err
		}
	}
	deps := map[string]bool{}
	for _, l := range d.lines {
		if err := d.step(shellWords(l), deps); err != nil {
			return err
		}
	}
	if slices.Contains(d.args, "--keep") { // a step's LTO-IR file has no architecture in its name
		for _, c := range d.codes {
			for _, kind := range []string{".ltoir", ".ptx"} {
				os.Rename(d.file(c[0]+kind), strings.TrimSuffix(d.file("x"), ".x")+kind)
			}
		}
	}
	if d.depfile == "" {
		return nil
	}
	p := &cpp{deps: deps}
	return p.writeDeps(d.depfile, d.out+" ")
}

func (d *driver) step(words []string, deps map[string]bool) error {
	args := words[1:]
	switch tool := filepath.Base(words[0]); tool {
	case "rm":
		return nil
	case "cicc", "ptxas", "cudafe++", "fatbinary", "nvlink":
		return map[string]func([]string) error{"cicc": cicc, "ptxas": ptxas, "cudafe++": cudafe, "fatbinary": fatbinary, "nvlink": nvlink}[tool](args)
	}
	if slices.Contains(args, "-E") {
		p := newCPP(args)
		if err := p.file(d.inputs[0]); err != nil {
			return err
		}
		for name := range p.deps {
			deps[name] = true
		}
		return os.WriteFile(gccOptions(args).out, []byte(p.out.String()), 0o666)
	}
	return gcc(args)
}

// shellWords splits the text of a step. It supports double quotes and backslashes.
func shellWords(s string) (words []string) {
	var b strings.Builder
	in, open := false, false
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '\\' && i+1 < len(s):
			i++
			b.WriteByte(s[i])
		case c == '"':
			open, in = !open, true
		case c == ' ' && !open:
			if in {
				words = append(words, b.String())
				b.Reset()
			}
			in = false
		default:
			b.WriteByte(c)
			in = true
		}
	}
	if in {
		words = append(words, b.String())
	}
	return words
}
