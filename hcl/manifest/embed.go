package manifest

import "strings"

// embed reads the name of a module's table.
func (r *reader) embed(b *block) *Embed {
	e := r.l.reader(b, r.extra)
	e.required()
	s, ok := e.text("symbol")
	if !ok {
		return &Embed{Symbol: s, Pos: position(b.rng)}
	}
	rng := e.find("symbol").Expr.Range()
	switch {
	case !cIdentifier(s):
		r.l.errorAt(rng, "Letters, digits and underscores; it becomes a name in a C header.", "%q is no C identifier", s)
	case contains(cWords, s):
		r.l.errorAt(rng, "It becomes the name of a table in C and C++; add the name of the library, say.", "%q is a word of C or C++", s)
	case contains(systemHeaders, s):
		r.l.errorAt(rng, "The header "+s+".h would be found instead of the system's. Add the name of the library, say.", "%q is the name of a system header", s)
	}
	return &Embed{Symbol: s, Pos: position(b.rng)}
}

func contains(words, word string) bool { return strings.Contains(" "+words+" ", " "+word+" ") }

// cWords cannot name a table: the keywords of C and C++, and what gcc defines as a macro on some systems.
const cWords = "alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await " +
	"co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do double " +
	"dynamic_cast else enum explicit export extern false float for friend goto if inline int long main mutable namespace new noexcept " +
	"not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict return short signed " +
	"sizeof static static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof " +
	"typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq i386 linux unix"

// systemHeaders are the names that programs include in <>, of C, POSIX and the CUDA toolkit.
const systemHeaders = "aio assert complex cpio ctype cublas cuda cudnn cufft curand cusolver cusparse dirent dlfcn elf endian errno fcntl " +
	"features fenv float fmtmsg fnmatch ftw glob grp iconv inttypes iso646 langinfo libgen limits link locale malloc math memory monetary " +
	"mqueue netdb nl_types npp nvrtc nvml poll pthread pwd regex sched search semaphore setjmp signal spawn stdalign stdarg stdatomic " +
	"stdbool stddef stdint stdio stdlib stdnoreturn string strings stropts syslog tar termios tgmath threads time uchar ucontext ulimit " +
	"unistd utime utmpx wait wchar wctype wordexp"
