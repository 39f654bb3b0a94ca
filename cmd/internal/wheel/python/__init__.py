"""Where kbuild is, for build scripts: kbuild.program(), kbuild.cmake_dir(); and kbuild.loader, which loads modules that kbuild has built."""

import os
import shutil
import sysconfig

__all__ = ["cmake_dir", "include_dir", "program"]


def program(name="kbuild"):
    """The path of a program of this package: kbuild, kbuild-cc, kbuild-remote."""
    here = os.path.dirname(os.path.abspath(__file__))
    # Of the folder that pip --target has filled; of the environment that this package is in; of that which runs.
    for folder in (os.path.join(here, "..", "bin"), os.path.join(here, "..", "..", "..", "..", "bin"), sysconfig.get_path("scripts")):
        file = os.path.join(folder, name)
        if os.path.isfile(file):
            return os.path.normpath(file)
    file = shutil.which(name)
    if file is None:
        raise FileNotFoundError(f"there is no program {name} in this Python's environment or in PATH")
    return file


def cmake_dir():
    """The folder for -Dkbuild_DIR of CMake."""
    return os.path.join(os.path.dirname(os.path.abspath(__file__)), "cmake")


def include_dir():
    """The folder of kbuild_load.h, the loader of modules for C++."""
    return os.path.dirname(os.path.abspath(__file__))
