# shellcheck shell=bash
# Installs tools that scripts need, and prints how apt reaches its registry. Scripts source this file from the root of the
# checkout.

# Prints the path of a tool of crates.io (NAME or NAME@VERSION). Installs it in the target directory if it is not in $PATH.
# Fails if that fails.
cargo_tool() {
    local name=${1%@*} tools
    tools=$(realpath -m "${CARGO_TARGET_DIR:-target}/tools")
    if [[ $1 != *@* ]] && command -v "$name"; then
        return
    fi
    if [[ ! -x $tools/bin/$name || ( $1 == *@* && ! -e $tools/$1 ) ]]; then
        # Without optimisation: each tool compiles in half the time, and runs for seconds.
        timeout 1800 cargo install --quiet --locked --force --debug --root "$tools" "$1" >&2 || return
        touch "$tools/$1"
    fi
    echo "$tools/bin/$name"
}

# Installs a Debian package if the program is missing. Fails if that fails.
apt_tool() {
    local program=$1 package=$2
    if command -v "$program" >/dev/null; then
        return
    fi
    echo "$0: installing $package" >&2
    local apt=(env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get)
    ((EUID == 0)) || apt=(sudo -n "${apt[@]}")
    local install=("${apt[@]}" install -qq -y --no-install-recommends "$package")
    # The index of the registry may be missing or old.
    if ! { "${install[@]}" || { "${apt[@]}" update -qq && "${install[@]}"; }; } </dev/null >/dev/null 2>&1; then
        echo "$0: '$program' is missing, and installing the Debian package '$package' failed" >&2
        return 1
    fi
}

# Prints the sources of apt for a distribution with this name, if it is the one of this machine.
apt_sources() {
    # shellcheck disable=SC2016 # apt expands
    apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' Created-By:\ Packages "Origin: $1"
}

# Prints the settings with which apt reaches its registry, without the downloaded indexes.
apt_settings() {
    apt-config dump --format '%F "%v";%n' Acquire | grep -v -e '""' -e ^Acquire::IndexTargets
}
