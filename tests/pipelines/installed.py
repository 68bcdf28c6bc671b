#!/usr/bin/env python3
"""tests/pipelines/installed.py — what `meson install` puts down works by itself: headers, library, typelib, plugin, presets, command.

  installed.py SOURCE_ROOT BUILD_ROOT

Installs the build into an empty folder, then runs README's C and Python examples and a pipeline with a preset there, with
nothing of source or build tree in the search paths. Prints TAP; run by meson (suite slow).
"""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

SOURCE, BUILD = (os.path.abspath(p) for p in sys.argv[1:3])
MODEL = os.path.join(SOURCE, "pipelines/models/demo.tinyloop")
OURS = ("GST_PLUGIN_PATH", "GST_PLUGIN_PATH_1_0", "GST_PRESET_PATH", "GI_TYPELIB_PATH", "LD_LIBRARY_PATH", "PYTHONPATH", "PKG_CONFIG_PATH")
sys.path.insert(0, os.path.join(SOURCE, "tests"))
import tap  # noqa: E402


def example(kind):
    with open(os.path.join(SOURCE, "README.md")) as f:
        return re.search(rf"^```{kind}\n(.*?)^```", f.read(), re.M | re.S)[1]


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.root = os.path.join(cls.temporary.name, "root")
        subprocess.run(["meson", "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir", cls.root], check=True,
                       stdout=subprocess.DEVNULL)
        cls.env = {name: value for name, value in os.environ.items() if name not in OURS}
        cls.env.update(
            LD_LIBRARY_PATH=cls.folder_of("libtinyloop-1.0.so.0"), GI_TYPELIB_PATH=cls.folder_of("TinyLoop-1.0.typelib"),
            PKG_CONFIG_PATH=cls.folder_of("tinyloop-1.0.pc"), GST_PLUGIN_PATH=cls.folder_of("libgsttinyloop.so"),
            GST_PRESET_PATH=cls.folder_of("GstTlDecode.prs"), PYTHONPATH=cls.folder_of("tinyloop_py"),
            PATH=cls.folder_of("tinyloop") + os.pathsep + os.environ["PATH"],
            GST_REGISTRY=os.path.join(cls.temporary.name, "registry.bin"), PYTHONDONTWRITEBYTECODE="1")
        os.makedirs(os.path.join(cls.temporary.name, "pipelines/models"))
        os.symlink(MODEL, os.path.join(cls.temporary.name, "pipelines/models/demo.tinyloop"))

        cls.move_prefix(os.path.join(cls.folder_of("tinyloop-1.0.pc"), "tinyloop-1.0.pc"))

    @classmethod
    def move_prefix(cls, path):
        """the .pc file names the prefix of the build; here everything lies below another folder"""
        with open(path) as f:
            text = f.read()
        with open(path, "w") as f:
            f.write(re.sub(r"^prefix=", f"prefix={cls.root}", text, flags=re.M))

    @classmethod
    def folder_of(cls, name):
        found = glob.glob(os.path.join(cls.root, "**", name), recursive=True)
        assert found, f"{name} was not installed"
        return os.path.dirname(found[0])

    def answer(self, command, **options):
        done = subprocess.run(command, cwd=self.temporary.name, env=self.env, capture_output=True, text=True, timeout=120, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn('{"intent":"timer.set"', done.stdout)

    def test_a_c_program_builds_and_runs(self):
        with open(os.path.join(self.temporary.name, "example.c"), "w") as f:
            f.write(example("c"))
        self.answer(["bash", "-e", "-c", "cc -Wall -Werror example.c -o example $(pkg-config --cflags --libs tinyloop-1.0); ./example"])

    def test_python_finds_module_and_typelib(self):
        self.answer(["/usr/bin/python3", "-c", example("python")])

    def test_elements_and_presets_are_found(self):
        self.answer(["bash", "-c", "gst-launch-1.0 -q fdsrc ! tlgenerate @preset=precise "
                     "model-path=pipelines/models/demo.tinyloop ! fdsink | cat"], input="set a timer for ten minutes\n")

    def test_the_command_answers(self):
        self.answer(["tinyloop", "generate", "pipelines/models/demo.tinyloop", "--prompt", "set a timer for ten minutes"])


if __name__ == "__main__":
    del sys.argv[1:]
    tap.main()
