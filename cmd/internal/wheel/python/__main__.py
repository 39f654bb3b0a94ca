"""python3 -m kbuild is kbuild; --cmake-dir and --include-dir print folders of this package."""

import os
import sys

import kbuild

if sys.argv[1:] == ["--cmake-dir"]:
    print(kbuild.cmake_dir())
elif sys.argv[1:] == ["--include-dir"]:
    print(kbuild.include_dir())
else:
    os.execv(kbuild.program(), ["kbuild", *sys.argv[1:]])
