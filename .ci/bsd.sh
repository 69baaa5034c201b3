#!/bin/sh
# The checks on a BSD, whose tools are installed already, from a clean clone to a verdict. For sh,
# since it is run by whatever the system has.
set -eu
cd "$(dirname "$0")/.."
# Not every tool can be had there; what is skipped for want of one is said.
export CI=false CFIBER_NO_INSTALL=1
# A packaged Go that is too old fetches a newer one.
export GOTOOLCHAIN=auto
export PATH="$PATH:/usr/local/bin:/usr/pkg/bin"
# The demo has 2,000 clients, with a descriptor at both ends. OpenBSD also bounds memory.
# shellcheck disable=SC3045 # not POSIX's, but all of the BSDs have it
ulimit -n 8192
# shellcheck disable=SC3045
ulimit -d "$(ulimit -H -d)"
# Some tests ask git for the files, which belong to whoever copied them here.
git config --global --add safe.directory "$PWD"
./build.sh test
./build.sh demo
