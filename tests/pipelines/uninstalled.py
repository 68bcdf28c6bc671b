"""tests/pipelines/uninstalled.py — the environment in which programs find what a build folder holds, nothing installed."""
import os


def environment(source, build, registry):
    """`registry` names GStreamer's registry file below the build's tests folder, so that runs do not share one"""
    env = dict(os.environ)

    def add(name, *paths):
        env[name] = os.pathsep.join([*paths, *filter(None, [os.environ.get(name)])])
    add("GST_PLUGIN_PATH_1_0", os.path.join(build, "gst"))
    add("GST_PRESET_PATH", os.path.join(source, "gst/presets"))
    add("GI_TYPELIB_PATH", os.path.join(build, "engine"))
    add("LD_LIBRARY_PATH", os.path.join(build, "engine"))
    add("PYTHONPATH", os.path.join(build, "engine/python"), os.path.join(source, "engine/python"))
    add("PATH", os.path.join(build, "engine/tools"))
    add("PKG_CONFIG_PATH", os.path.join(build, "meson-uninstalled"))
    env["GST_REGISTRY"] = os.path.join(build, "tests", registry)
    return env
