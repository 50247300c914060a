# shellcheck shell=bash disable=SC2034 # the scripts use the values
# Values and functions of the scripts in packaging/, which source this file. It changes to the root of the checkout.
#
# Every script writes into `package` of the target directory, or into $PACKAGE_DIR, and takes SOURCE_DATE_EPOCH as the time of
# everything that it makes. The default is the time of the commit.
set -Eeuo pipefail
me=packaging/${0##*/}
trap 'echo "$me: line $LINENO failed" >&2' ERR
# Modes in archives do not depend on the user.
umask 022
export LC_ALL=C.UTF-8

cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/.."

target_dir=${CARGO_TARGET_DIR:-target}
out=${PACKAGE_DIR:-$target_dir/package}

. packaging/tools.sh

# Prints the usage of this script, the comment at its top, and ends it.
usage() {
    sed -n '2,/^[^#]/{s/^# \{0,1\}//p;}' "packaging/${0##*/}" >&2
    exit 2
}

fail() {
    echo "$me: $*" >&2
    exit 1
}

# Prints a field of [workspace.package] in Cargo.toml, the only place for facts about the project.
field() {
    sed -n '/^\[workspace\.package\]/,/^\[[^w]/s/^'"$1"' = \[\{0,1\}"\([^"]*\)"\]\{0,1\}$/\1/p' Cargo.toml
}

version=$(field version)

# Prints the time of the commit in seconds. Git would refuse a checkout of another user.
commit_time() {
    git -c safe.directory="$PWD" log -1 --format=%ct 2>/dev/null || stat -c %Y CHANGELOG.md
}
if [[ -z ${SOURCE_DATE_EPOCH-} ]]; then
    SOURCE_DATE_EPOCH=$(commit_time)
fi
export SOURCE_DATE_EPOCH

# Prints the target for which `build` builds if it is not told: static if this machine can, otherwise its own.
default_target() {
    local musl host
    host=$(rustc -vV | sed -n 's/^host: //p')
    musl=$(uname -m)-unknown-linux-musl
    if command -v musl-gcc >/dev/null && [[ -d $(rustc --print sysroot)/lib/rustlib/$musl ]]; then
        echo "$musl"
    else
        echo "$host"
    fi
}

# Sets the times of all files of a tree.
set_times() {
    find "$1" -exec touch --no-dereference --date "@$SOURCE_DATE_EPOCH" {} +
}

# Moves the staged files $1 to their places below the prefix $2, as install.sh does. Packages have compressed man pages.
place() {
    local share=$2/share
    mkdir -p "$2/bin" "$share"/{man,doc,bash-completion/completions,zsh/site-functions,fish/vendor_completions.d}
    mv "$1/monopile" "$2/bin"
    mv "$1/man" "$share/man/man1"
    gzip -9n "$share"/man/man1/*
    mv "$1/completions/monopile.bash" "$share/bash-completion/completions/monopile"
    mv "$1/completions/_monopile" "$share/zsh/site-functions"
    mv "$1/completions/monopile.fish" "$share/fish/vendor_completions.d"
    rmdir "$1/completions"
    mv "$1" "$share/doc/monopile"
}

# Creates the directory $scratch, which is removed when the script ends.
make_scratch() {
    scratch=$(mktemp -d)
    trap 'rm -rf "$scratch"' EXIT
    chmod 755 "$scratch"
}
