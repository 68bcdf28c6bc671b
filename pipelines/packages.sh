# pipelines/packages.sh — the Debian packages TinyLoop needs, and how the missing ones get installed.
#
# The one list of packages. Sourced by pipelines/quickstart, pipelines/get-model and tests/check:
#   tl_install_missing $TL_PACKAGES_RUN
# Asks dpkg once; apt is called only when something is missing, and what is missing is printed first.

# building and running: library, typelib, plugin, command, Python module
TL_PACKAGES_RUN="gcc libc6-dev meson ninja-build pkg-config
  libglib2.0-dev libjson-glib-dev libpcre2-dev libgirepository1.0-dev gobject-introspection
  libgstreamer1.0-dev libgstreamer-plugins-base1.0-dev gstreamer1.0-tools gstreamer1.0-plugins-base
  python3 python3-gi python3-numpy"

# more for the tests and for README's pipelines: webvttenc, textoverlay, Gst in Python; the bindings from JavaScript and Lua
TL_PACKAGES_TEST="gstreamer1.0-plugins-bad gstreamer1.0-plugins-good gstreamer1.0-x python3-gst-1.0 gjs lua-lgi lua5.3"
TL_PACKAGES_VALGRIND="valgrind libc6-dbg"
TL_PACKAGES_GET="python3-pip"

# tl_missing NAME… — prints the packages that are not installed
tl_missing ()
{
  dpkg-query -W -f '${db:Status-Status} ${Package}\n' 2>/dev/null |
    awk -v want="$*" '$1 == "installed" { have[$2] = 1 }
      END { n = split (want, w); for (i = 1; i <= n; i++) if (!(w[i] in have)) printf "%s ", w[i] }'
}

# tl_install_missing NAME… — 0 when everything is there in the end; sets TL_INSTALLED to what was added
tl_install_missing ()
{
  TL_INSTALLED=
  if ! command -v dpkg-query >/dev/null; then
    echo "note: no dpkg here; needed are the equivalents of: $(echo "$@")" >&2
    return 0
  fi
  local missing root=
  missing=$(tl_missing "$@")
  [ -n "$missing" ] || return 0

  echo "Installing Debian packages: $missing"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "error: not root and no sudo; install them and start again" >&2; return 1; }
    root=sudo
  fi
  local log
  log=$(mktemp)
  if ! { $root apt-get -o DPkg::Lock::Timeout=300 update -qq &&
         $root env DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y -qq --no-install-recommends $missing; } >"$log" 2>&1; then
    tail -n 20 "$log" >&2
    rm -f "$log"
    echo "error: apt-get could not install: $missing" >&2
    return 1
  fi
  rm -f "$log"
  TL_INSTALLED=$missing
}
