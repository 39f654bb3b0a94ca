import pathlib
import shutil
import subprocess

import kbuild
import kbuild.loader
from setuptools import setup
from setuptools.command.build_py import build_py


class BuildModules(build_py):
    """Puts the modules of kernels.hcl, with their manifests, and the loader into the package. What it packs is what kbuild names, so nothing that an
    earlier build has left gets into the wheel."""

    def run(self):
        super().run()
        package = pathlib.Path(self.build_lib, "axpy_kernels")
        shutil.rmtree(package / "modules", ignore_errors=True)
        (package / "modules").mkdir()
        built = subprocess.run([kbuild.program(), "precompile"], stdout=subprocess.PIPE, text=True, check=True)
        for file in built.stdout.splitlines():
            shutil.copy(file, package / "modules")
        shutil.copy(kbuild.loader.__file__, package / "_loader.py")


setup(packages=["axpy_kernels"], cmdclass={"build_py": BuildModules})
