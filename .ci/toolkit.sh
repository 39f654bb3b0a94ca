#!/bin/sh
# Installs what is missing. With "test" that is the system's CUDA compiler, HIP's, clang, a CUDA toolkit of kbuild's own, and the tools
# the tests look at pictures with; with "test-all" another toolkit and servers as well; else a CUDA compiler of kbuild's own. Asks for root only when something of the system must be installed.
set -eu

bin=${TOOLKIT_BIN:-/usr/bin} # its test has another

say() { printf '%s\n' "toolkit: $*" >&2; }

as_root() {
	if [ "$(id -u)" = 0 ]; then "$@"
	elif command -v sudo >/dev/null 2>&1; then sudo "$@"
	else
		say "root is needed for: $*"
		say "run that as root, or install a CUDA toolkit (11.2 or newer) yourself and put its bin folder into PATH"
		exit 1
	fi
}

find_nvcc() {
	command -v nvcc 2>/dev/null && return
	for d in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
		[ -n "$d" ] && [ -x "$d/bin/nvcc" ] && echo "$d/bin/nvcc" && return
	done
	return 1
}

# A pip, or what makes one.
find_pip() {
	command -v python3 >/dev/null 2>&1 && { python3 -m pip --version >/dev/null 2>&1 || [ -n "${KBUILD_PIP:-}" ] || python3 -c 'import ensurepip' 2>/dev/null; }
}

# A clang++ of any version, with the lld and llvm-ar that belong to it.
find_clang() {
	for c in "$bin"/clang++-[1-9]* $(command -v clang++); do
		[ -x "$c" ] && [ -x "$("$c" -print-prog-name=ld.lld)" ] && [ -x "$(dirname "$(readlink -f "$c")")/llvm-ar" ] && return
	done
	return 1
}

find_clangd() {
	for c in $(command -v clangd) "$bin"/clangd-[1-9]*; do
		[ -x "$c" ] && return
	done
	return 1
}

# The version of the clang that this system's hipcc is made for, 15 on Debian 12 and 17 on Debian 13, or else of the newest clang.
# The packages without a version are of another, 14 on Debian 12, and every clang takes their lld for its own.
llvm_version() {
	v=$(apt-cache depends hipcc 2>/dev/null | sed -n 's/.*Depends: <*clang-\([0-9]*\)>*$/\1/p' | head -n 1)
	[ -n "$v" ] || v=$(apt-cache pkgnames clang- | sed -n 's/^clang-\([0-9]*\)$/\1/p' | sort -n | tail -n 1)
	[ -n "$v" ] || { say "this system's packages have no clang; install clang, lld, llvm and clangd of one version, then run make again"; exit 1; }
	echo "$v"
}

# hipcc with a clang, the device libraries and HIP's runtime library.
find_hip() {
	command -v hipcc >/dev/null 2>&1 && HIP_PLATFORM=amd hipcc -### --offload-arch=gfx906 -fgpu-rdc -x hip /dev/null -c -o /dev/null 2>&1 |
		grep -q 'mlink-builtin-bitcode.*ockl.bc' || return 1
	[ -e "$(c++ -print-file-name=libamdhip64.so)" ] || [ -e "${ROCM_PATH:-/opt/rocm}/lib/libamdhip64.so" ]
}

# The server programs of PostgreSQL, which Debian has in no folder of PATH.
find_postgresql() {
	command -v initdb >/dev/null 2>&1 && return
	for i in "$bin"/../lib/postgresql/*/bin/initdb; do
		[ -x "$i" ] && return
	done
	return 1
}

# Debian keeps the CUDA toolkit in its component "non-free".
enable_non_free() {
	[ -f /etc/debian_version ] || return 0
	for f in /etc/apt/sources.list /etc/apt/sources.list.d/*.list; do
		[ -f "$f" ] || continue
		as_root sed -i -E '/^deb.*debian/{/ non-free( |$)/!s/ main/ main contrib non-free/}' "$f"
	done
	for f in /etc/apt/sources.list.d/*.sources; do
		[ -f "$f" ] && grep -q debian.org "$f" || continue
		as_root sed -i -E '/^Components:/{/ non-free( |$)/!s/ main/ main contrib non-free/}' "$f"
	done
}

need_apt() {
	command -v apt-get >/dev/null 2>&1 && return
	say "cannot install $* here: there is no apt-get. Install them with this system's own tools, then run make again."
	exit 1
}

install() {
	need_apt "$@"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "$@"
}

case ${1:-} in
"") testing= all= ;;
test) testing=1 all= ;;
test-all) testing=1 all=1 ;;
*) say "unknown argument $1"; exit 1 ;;
esac

if [ -z "$testing" ] && ! find_nvcc >/dev/null; then
	missing=
	command -v g++ >/dev/null 2>&1 || missing="$missing g++"
	find_pip || missing="$missing python3-pip"
	if [ -n "$missing" ]; then
		need_apt "$missing"
		as_root apt-get update -q
		# shellcheck disable=SC2086
		install $missing
	fi
	bin/kbuild -C .ci/cuda toolkit install >/dev/null
	exit
fi

if ! find_nvcc >/dev/null; then
	say "no nvcc found; installing nvidia-cuda-toolkit (1.6 GB)"
	need_apt nvidia-cuda-toolkit
	enable_non_free
	as_root apt-get update -q
	install nvidia-cuda-toolkit
fi

# Debian's package puts libnvvm where nvlink -dlto does not look.
here=/usr/lib/nvidia-cuda-toolkit
if [ -d $here ] && [ ! -e $here/lib64/libnvvm.so ]; then
	lib=$(ls /usr/lib/*-linux-gnu/libnvvm.so 2>/dev/null | head -n 1 || true)
	if [ -n "$lib" ]; then
		say "linking $lib to where nvlink looks for it"
		as_root mkdir -p $here/lib64
		as_root ln -sf "$lib" $here/lib64/libnvvm.so
	fi
fi

if [ -n "$testing" ]; then
	missing=
	command -v dot >/dev/null 2>&1 || missing="$missing graphviz"
	command -v cmake >/dev/null 2>&1 || missing="$missing cmake"
	command -v ninja >/dev/null 2>&1 || missing="$missing ninja-build"
	command -v strace >/dev/null 2>&1 || missing="$missing strace"
	command -v pkg-config >/dev/null 2>&1 || missing="$missing pkg-config"
	python3 -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip" # the tests of wheels call it: ensurepip does not do
	# What builds wheels, for the Python of the system: another one has packages of its own, and its tests are skipped without them.
	if [ "$(command -v python3 || echo /usr/bin/python3)" = /usr/bin/python3 ]; then
		python3 -c 'import setuptools, wheel' 2>/dev/null || missing="$missing python3-setuptools python3-wheel"
	fi
	if [ -n "$all" ]; then
		command -v nginx >/dev/null 2>&1 || [ -x /usr/sbin/nginx ] || missing="$missing nginx-light"
		find_postgresql || missing="$missing postgresql"
	fi
	find_clangd || missing="$missing clangd"
	find_clang || missing="$missing clang"
	find_hip || missing="$missing hipcc"
	if [ -n "$missing" ]; then
		need_apt "$missing"
		as_root apt-get update -q
		v=$(llvm_version)
		packages=
		for m in $missing; do
			case $m in
			clangd) packages="$packages clangd-$v" ;;
			clang) packages="$packages clang-$v lld-$v llvm-$v" ;;
			hipcc) packages="$packages hipcc libamdhip64-dev clang-$v lld-$v llvm-$v" ;; # hipcc brings the device libraries
			*) packages="$packages $m" ;;
			esac
		done
		# shellcheck disable=SC2086
		install $packages
	fi
	# Besides the toolkit of the system, one that kbuild installs.
	bin/kbuild -C .ci/cuda toolkit install >/dev/null
fi

if [ -n "$all" ]; then
	# A server of the Remote Execution API, at a version of which the tests know how it behaves: in a venv, or else as a mere folder, since
	# Debian has what makes a venv as a package of its own. psycopg2 is what its queue speaks to PostgreSQL with: with psycopg 3 it does not work.
	if [ ! -x bin/buildgrid/bin/bgd ] || [ -z "$(ls -d bin/buildgrid/psycopg2 bin/buildgrid/lib/python3*/site-packages/psycopg2 2>/dev/null)" ]; then
		say "installing BuildGrid with pip (200 MB on disk)"
		rm -rf bin/buildgrid
		if python3 -m venv bin/buildgrid >/dev/null 2>&1; then
			bin/buildgrid/bin/python -m pip install -q --no-input buildgrid==0.4.4 psycopg2-binary
		else
			rm -rf bin/buildgrid
			python3 -m pip install -q --no-input --target bin/buildgrid buildgrid==0.4.4 psycopg2-binary
		fi
	fi
	bin/kbuild -C .ci/cuda-13.0 toolkit install >/dev/null
fi
