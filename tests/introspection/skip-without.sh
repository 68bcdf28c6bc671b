#!/bin/sh
# skip-without.sh INTERPRETER ARGUMENT… — runs it, or says as TAP what is missing: an interpreter, or Lua's binding lgi.
command -v "$1" >/dev/null || { echo "1..0 # SKIP no $1 (pipelines/packages.sh names its package)"; exit 0; }
case $1 in
  lua*) "$1" -e 'require "lgi"' 2>/dev/null || { echo "1..0 # SKIP $1 has no lgi (package lua-lgi)"; exit 0; } ;;
esac
exec "$@"
