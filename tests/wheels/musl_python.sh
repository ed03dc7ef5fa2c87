#!/bin/bash
# Build the CPython of this Debian for musl, with zlib and libffi: musl_python.sh ARCHITECTURE FOLDER
#
# Debian has no Python for musl. `zig` and the Python that runs the build must be in PATH. The result is in FOLDER/python,
# to be copied to / of a root that has Debian's package `musl`.
set -euo pipefail
target=$1-linux-musl
mkdir -p "$2"
folder=$(realpath "$2")
cd "$folder"
options=(--quiet --host="$target" --build="$(uname -m)-linux-gnu")
python=$(basename "$(readlink -f /usr/bin/python3)")

if [ ! -e sources/done ]; then
    rm -rf sources
    mkdir -p sources/lists
    apt-get indextargets --format 'deb-src $(SITE) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' | sort -u >sources/list
    apt="apt-get -qq -o Dir::Etc::SourceList=$folder/sources/list -o Dir::Etc::SourceParts=- -o Dir::State::Lists=$folder/sources/lists"
    $apt update
    release=$(. /etc/os-release && echo "$VERSION_CODENAME")
    (cd sources && $apt source --download-only "$python/$release" "zlib/$release" "libffi/$release")
    touch sources/done
fi

# zig brings the headers of musl. But CPython's setup.py asks the compiler for its folders with `-E -v -`, and zig answers
# with those of this machine. Without `-nostdlibinc`, extension modules would include this machine's headers of glibc.
export CC="python-zig cc -target $target -dynamic -nostdlibinc" AR="python-zig ar" RANLIB="python-zig ranlib" CFLAGS="-O1 -fPIC -Wno-date-time" READELF=/usr/bin/readelf
export CPPFLAGS="-I$folder/static/include" LDFLAGS="-L$folder/static/lib" PKG_CONFIG_LIBDIR=$folder/static/lib/pkgconfig
rm -rf build static python
for source in zlib libffi "$python"; do
    mkdir -p "build/$source"
    tar -xf sources/"$source"_*.orig.tar.* -C "build/$source" --strip-components 1
done
(cd build/zlib && ./configure --static --prefix="$folder/static" && make install)
(cd build/libffi && ./configure "${options[@]}" --prefix="$folder/static" --disable-shared --disable-docs \
    --disable-exec-static-tramp && make install)
cd "build/$python"
# configure derives the names of extension modules from the C library of the machine that builds, not of the target.
sed -i 's/case "$build_os" in/case "$host_os" in/' configure
./configure "${options[@]}" --with-build-python="$python" --prefix=/usr \
    --without-ensurepip --disable-test-modules --with-system-ffi ac_cv_file__dev_ptmx=yes ac_cv_file__dev_ptc=no ac_cv_buggy_getaddrinfo=no \
    ac_cv_func_preadv2=no ac_cv_func_pwritev2=no
make
# `make` succeeds without the extension modules that do not build.
for module in _ctypes math zlib; do
    compgen -G "build/lib.*/$module.*.so" >/dev/null || { echo "$module did not build" >&2; exit 1; }
done
make install DESTDIR="$folder/python"
