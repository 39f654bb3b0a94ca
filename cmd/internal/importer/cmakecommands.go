package importer

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// command interprets a CMake command that affects flags, folders or sources.
func (s *cmakeScope) command(c cmakeCommand) {
	args := s.values(c)
	if len(args) == 0 {
		return
	}
	switch c.name {
	case "set":
		s.set(c, args)
	case "option":
		if _, ok := s.vars[args[0]]; !ok {
			s.vars[args[0]] = "OFF"
			if len(args) > 2 {
				s.vars[args[0]] = args[2]
			}
			if othersGPU().MatchString(args[0]) {
				s.vars[args[0]] = "OFF"
			} else if gpuRE().MatchString(args[0]) {
				s.vars[args[0]] = "ON"
			}
		}
	case "project":
		s.project(args)
	case "list":
		if len(args) > 1 && (args[0] == "APPEND" || args[0] == "PREPEND") {
			s.vars[args[1]] = strings.TrimPrefix(s.vars[args[1]]+";"+strings.Join(args[2:], ";"), ";")
			s.variable(args[1], c.at)
		}
	case "string":
		if len(args) > 2 && args[0] == "APPEND" {
			s.vars[args[1]] += strings.Join(args[2:], "")
			s.variable(args[1], c.at)
		}
	case "file":
		if len(args) > 2 && (args[0] == "GLOB" || args[0] == "GLOB_RECURSE") {
			for _, g := range args[2:] {
				if under, ok := strings.CutPrefix(g, "/SRC/"); ok {
					s.h.globs = append(s.h.globs, under)
				} else if isSource(g) || strings.HasSuffix(g, "*") {
					s.h.globs = append(s.h.globs, path.Join(s.dir, g))
				}
			}
			s.vars[args[1]] = ""
		}
	case "include":
		s.includeFile(args[0])
	case "add_subdirectory":
		dir := path.Join(s.dir, strings.TrimPrefix(args[0], "/SRC/"))
		if strings.HasPrefix(args[0], "/SRC/") {
			dir = strings.TrimPrefix(args[0], "/SRC/")
		}
		if s.tree.has(path.Join(dir, "CMakeLists.txt")) && !foreignDir(dir) {
			s.folder(dir, s.vars)
		}
	case "configure_file":
		s.configure(c, args)
	default:
		s.target(c, args)
	}
}

func foreignDir(dir string) bool {
	return slices.ContainsFunc(strings.Split(dir, "/"), othersRE().MatchString)
}

// target interprets commands about targets, folders and sources.
func (s *cmakeScope) target(c cmakeCommand, args []string) {
	switch c.name {
	case "add_library", "add_executable", "target_sources", "cuda_add_library", "cuda_add_executable":
		s.name(args[1:])
	case "include_directories", "target_include_directories", "cuda_include_directories":
		for _, a := range args {
			s.h.include(s.tree, s.dir, genexValue(a, "BUILD_INTERFACE"))
		}
	case "add_definitions", "add_compile_options", "target_compile_options":
		s.options(args, c.at)
	case "add_compile_definitions", "target_compile_definitions":
		if c.name == "target_compile_definitions" {
			args = args[1:]
		}
		for _, a := range args {
			if !slices.Contains(scopes, a) && !strings.Contains(a, "$") {
				s.h.define(strings.TrimPrefix(a, "-D"), c.at)
			}
		}
	case "target_compile_features":
		for _, a := range args {
			if v, ok := strings.CutPrefix(a, "cxx_std_"); ok {
				s.h.standard("c++"+v, c.at)
			} else if v, ok := strings.CutPrefix(a, "cuda_std_"); ok {
				s.h.standard("c++"+v, c.at)
			}
		}
	case "set_target_properties", "set_property", "set_source_files_properties":
		s.properties(c, args)
	case "target_link_libraries", "link_libraries":
		s.links(args, c.at)
	default:
		s.name(args)
	}
}

var scopes = []string{"PRIVATE", "PUBLIC", "INTERFACE"}

// name records the names of sources.
func (s *cmakeScope) name(args []string) {
	for _, a := range args {
		if isSource(a) {
			s.h.named[path.Base(a)] = true
		}
	}
}

func (s *cmakeScope) set(c cmakeCommand, args []string) {
	value := args[1:]
	if i := slices.Index(value, "CACHE"); i >= 0 {
		if _, ok := s.vars[args[0]]; ok {
			return
		}
		value = value[:i]
	}
	if n := len(value); n > 0 && value[n-1] == "PARENT_SCOPE" {
		value = value[:n-1]
	}
	s.vars[args[0]] = strings.Join(value, ";")
	s.variable(args[0], c.at)
}

// variable interprets a variable that CMake itself reads, or that lists sources.
func (s *cmakeScope) variable(name, at string) {
	v := s.vars[name]
	s.name(splitList(v))
	switch name {
	case "CMAKE_CXX_STANDARD", "CMAKE_CUDA_STANDARD":
		s.h.standard("c++"+v, at)
	case "CMAKE_C_STANDARD":
		s.h.standard("c"+v, at)
	case "CMAKE_CUDA_ARCHITECTURES":
		s.architectures(v, at)
	case "CMAKE_CUDA_SEPARABLE_COMPILATION", "CUDA_SEPARABLE_COMPILATION":
		if constant(v) == yes {
			s.h.relocatable("rdc", at)
		}
	case "CMAKE_CUDA_FLAGS", "CMAKE_CXX_FLAGS", "CMAKE_C_FLAGS", "CUDA_NVCC_FLAGS", "CMAKE_CUDA_FLAGS_RELEASE", "CMAKE_CXX_FLAGS_RELEASE", "CUDA_NVCC_FLAGS_RELEASE":
		s.options(splitList(v), at)
	}
}

// architectures parses CMAKE_CUDA_ARCHITECTURES: 80 (SASS and PTX), 80-real, 90-virtual, all.
func (s *cmakeScope) architectures(v, at string) {
	s.h.archs = nil // the last value wins
	for _, a := range strings.FieldsFunc(v, func(r rune) bool { return r == ';' || r == ' ' }) {
		number, kind, _ := strings.Cut(a, "-")
		if archRE().MatchString(a) { // all, all-major, native
			s.h.arch(a, at)
			continue
		}
		if kind != "virtual" {
			s.h.arch("sm_"+number, at)
		}
		if kind != "real" {
			s.h.arch("compute_"+number, at)
		}
	}
}

var debugWords = []string{"CONFIG:Debug", "CONFIG:DEBUG", "CONFIG:debug", "COMPILER_ID:MSVC", "COMPILER_ID:Clang", "COMPILER_ID:CLANG", "COMPILE_LANGUAGE:HIP", "PLATFORM_ID:Windows"}

// options parses compiler flags, which may be inside generator expressions.
func (s *cmakeScope) options(args []string, at string) {
	var words []string
	for _, a := range args {
		if slices.ContainsFunc(debugWords, func(w string) bool { return strings.Contains(a, w) }) {
			continue
		}
		a = strings.ReplaceAll(a, "SHELL:", "")
		if i := strings.LastIndex(a, ">:"); i >= 0 {
			a = strings.TrimRight(a[i+2:], ">")
		}
		words = append(words, strings.FieldsFunc(a, func(r rune) bool { return r == ' ' || r == ';' || r == '\n' })...)
	}
	s.h.flags(s.tree, s.dir, words, at)
}

func genexValue(a, name string) string {
	if v, ok := strings.CutPrefix(a, "$<"+name+":"); ok {
		return strings.TrimSuffix(v, ">")
	}
	return a
}

func (s *cmakeScope) project(args []string) {
	s.vars["PROJECT_NAME"] = args[0]
	s.vars["PROJECT_SOURCE_DIR"], s.vars["PROJECT_BINARY_DIR"] = s.vars["CMAKE_CURRENT_SOURCE_DIR"], s.vars["CMAKE_CURRENT_BINARY_DIR"]
	s.vars[args[0]+"_SOURCE_DIR"], s.vars[args[0]+"_BINARY_DIR"] = s.vars["CMAKE_CURRENT_SOURCE_DIR"], s.vars["CMAKE_CURRENT_BINARY_DIR"]
	if s.vars["CMAKE_PROJECT_NAME"] == "" {
		s.vars["CMAKE_PROJECT_NAME"] = args[0]
	}
	i := slices.Index(args, "VERSION")
	if i < 0 || i+1 >= len(args) {
		return
	}
	parts := append(strings.Split(args[i+1], "."), "", "", "", "")
	for _, prefix := range []string{"PROJECT", args[0]} {
		s.vars[prefix+"_VERSION"] = args[i+1]
		for n, part := range []string{"MAJOR", "MINOR", "PATCH", "TWEAK"} {
			s.vars[prefix+"_VERSION_"+part] = parts[n]
		}
	}
}

func (s *cmakeScope) includeFile(name string) {
	var file string
	switch under, ok := strings.CutPrefix(name, "/SRC/"); {
	case ok:
		file = under
	case path.Ext(name) == ".cmake":
		file = path.Join(s.dir, name)
	default:
		for _, f := range s.tree.byBase[path.Base(name)+".cmake"] {
			file = f
		}
	}
	if s.tree.has(file) && !s.seen[s.dir+"<"+file] {
		s.seen[s.dir+"<"+file] = true
		s.file(file)
	}
}

func (s *cmakeScope) configure(c cmakeCommand, args []string) {
	if len(args) < 2 {
		return
	}
	input := strings.TrimPrefix(args[0], "/SRC/")
	if !strings.HasPrefix(args[0], "/SRC/") {
		input = path.Join(s.dir, args[0])
	}
	output := args[1]
	for _, root := range []string{"/SRC/", "/BIN/"} {
		output = strings.TrimPrefix(output, root)
	}
	if s.tree.has(input) && !strings.HasPrefix(output, "/") && !slices.Contains(args, "COPYONLY") {
		s.tree.made = append(s.tree.made, configured{input, output, maps.Clone(s.vars), c.at})
	}
}

func (s *cmakeScope) properties(c cmakeCommand, args []string) {
	for i, a := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch a {
		case "CXX_STANDARD", "CUDA_STANDARD":
			s.h.standard("c++"+next, c.at)
		case "C_STANDARD":
			s.h.standard("c"+next, c.at)
		case "CUDA_SEPARABLE_COMPILATION":
			if constant(next) == yes {
				s.h.relocatable("rdc", c.at)
			}
		case "CUDA_ARCHITECTURES":
			end := i + 1
			for end < len(args) && (args[end] != "" && args[end][0] >= '0' && args[end][0] <= '9' || archRE().MatchString(args[end])) {
				end++
			}
			s.architectures(strings.Join(args[i+1:end], ";"), c.at)
		case "LANGUAGE":
			if next == "CUDA" {
				for _, f := range args[:i] {
					f = strings.TrimPrefix(f, "/SRC/")
					if isSource(f) {
						s.h.cuda[path.Base(f)] = c.at
					}
				}
			}
		}
	}
}

func (s *cmakeScope) links(args []string, at string) {
	for _, a := range args {
		switch name, ok := strings.CutPrefix(a, "CUDA::"); {
		case strings.HasPrefix(a, "OpenMP::"):
			s.h.openMP = true
		case ok:
			name = strings.TrimSuffix(name, "_static")
			s.h.libs = appendNew(s.h.libs, cmp.Or(map[string]string{"cuda_driver": "cuda", "nvml": "nvidia-ml", "cudart": "cudart"}[name], name))
			s.h.recordSource("libs", at)
		case strings.HasPrefix(a, "-l"):
			s.h.flag(s.tree, s.dir, a, "", at)
		}
	}
}

// constant returns the truth value of a CMake constant.
func constant(v string) tri {
	switch u := strings.ToUpper(v); {
	case u == "ON" || u == "YES" || u == "TRUE" || u == "Y":
		return yes
	case u == "OFF" || u == "NO" || u == "FALSE" || u == "N" || u == "" || u == "IGNORE" || u == "NOTFOUND" || strings.HasSuffix(u, "-NOTFOUND"):
		return no
	}
	if n, err := strconv.ParseFloat(v, 64); err == nil {
		return truth(n != 0)
	}
	return maybe
}

// condition evaluates the arguments of if().
func (s *cmakeScope) condition(c cmakeCommand) tri {
	k := &cmakeCondition{scope: s, args: c.args}
	return k.or()
}

type cmakeCondition struct {
	scope *cmakeScope
	args  []string
	at    int
}

func (k *cmakeCondition) peek() string {
	if k.at < len(k.args) {
		return k.args[k.at]
	}
	return ""
}

func (k *cmakeCondition) or() tri {
	t := k.and()
	for k.peek() == "OR" {
		k.at++
		t = max(t, k.and())
	}
	return t
}

func (k *cmakeCondition) and() tri {
	t := k.not()
	for k.peek() == "AND" {
		k.at++
		t = min(t, k.not())
	}
	return t
}

func (k *cmakeCondition) not() tri {
	switch w := k.peek(); w {
	case "NOT":
		k.at++
		return k.not().not()
	case "(":
		k.at++
		t := k.or()
		k.at++
		return t
	case "DEFINED", "EXISTS", "TARGET", "COMMAND", "POLICY", "IS_DIRECTORY":
		k.at += 2
		if w == "DEFINED" && k.at <= len(k.args) {
			_, ok := k.scope.vars[k.args[k.at-1]]
			return truth(ok)
		}
		return no
	}
	left := k.peek()
	k.at++
	switch op := k.peek(); op {
	case "STREQUAL", "MATCHES", "EQUAL", "LESS", "GREATER", "LESS_EQUAL", "GREATER_EQUAL", "VERSION_LESS", "VERSION_GREATER", "VERSION_EQUAL", "VERSION_GREATER_EQUAL", "VERSION_LESS_EQUAL", "IN_LIST", "STRLESS", "STRGREATER":
		k.at++
		right := k.peek()
		k.at++
		return k.scope.compare(left, op, right)
	}
	return k.scope.isTrue(left)
}

// isTrue evaluates a variable or a constant as a condition.
func (s *cmakeScope) isTrue(word string) tri {
	name := strings.TrimSuffix(strings.TrimPrefix(word, "${"), "}")
	switch {
	case strings.Contains(name, "$"):
	case othersGPU().MatchString(name):
		return no
	case gpuRE().MatchString(name) || name == "CUDAToolkit_FOUND" || name == "OpenMP_FOUND" || name == "OpenMP_CXX_FOUND":
		return yes
	}
	word = s.expand(word)
	if t := constant(word); t != maybe {
		return t
	}
	v, ok := s.vars[word]
	if !ok {
		return no
	}
	if t := constant(v); t != maybe {
		return t
	}
	return yes
}

func (s *cmakeScope) compare(left, op, right string) tri {
	value := func(w string) string {
		if v, ok := s.vars[w]; ok {
			return v
		}
		return s.expand(w)
	}
	a, b := value(left), value(right)
	if (strings.Contains(left, "CUDA") && strings.Contains(left, "VERSION") || strings.Contains(left, "COMPILER_VERSION")) && a == left || a == "" && strings.Contains(left, "VERSION") {
		return maybe
	}
	switch op {
	case "STREQUAL":
		return truth(a == b)
	case "IN_LIST":
		return truth(slices.Contains(splitList(s.vars[right]), a))
	case "MATCHES":
		re, err := regexp.Compile(b)
		if err != nil {
			return maybe
		}
		return truth(re.MatchString(a))
	}
	var x, y [4]int
	fmt.Sscanf(a+".0.0.0", "%d.%d.%d.%d", &x[0], &x[1], &x[2], &x[3])
	fmt.Sscanf(b+".0.0.0", "%d.%d.%d.%d", &y[0], &y[1], &y[2], &y[3])
	order := slices.Compare(x[:], y[:])
	switch {
	case strings.HasSuffix(op, "LESS_EQUAL"):
		return truth(order <= 0)
	case strings.HasSuffix(op, "GREATER_EQUAL"):
		return truth(order >= 0)
	case strings.HasSuffix(op, "LESS"):
		return truth(order < 0)
	case strings.HasSuffix(op, "GREATER"):
		return truth(order > 0)
	}
	return truth(order == 0)
}
