# shellcheck shell=bash disable=SC2016,SC2154 # the shell inside expands; the caller sets $work
# Creates fresh machines: minimal roots of this machine's distribution (Debian or a derivative) in separate namespaces. From
# this machine they have the settings for access to the registries. tests/fresh and packaging/check source this file.
#
# The caller is in the root of the checkout, sets $work, a directory for the root and the logs, and calls `stop_machine` when it
# ends.
. packaging/tools.sh

# Settings of the clients of the registries: environment variables and files. If a variable names a file or directory that
# the root lacks, it is mounted there.
variables='(https?|all|no)_proxy|(pip|npm_config)_.*|cargo_(http|net|registr|source)_.*|rustup_.*'
variables+='|ssl_cert_(file|dir)|(curl|requests)_ca_bundle|node_extra_ca_certs'
files=(/etc/pip.conf ~/.config/pip/pip.conf ~/.pip/pip.conf /etc/npmrc ~/.npmrc /etc/hosts /etc/resolv.conf)

root=$work/root
logs=$work/logs
machine= # the process that holds the namespaces

unable() {
    echo "$0: $*" >&2
    exit 2
}

# Ends the script with exit code 2 if this machine cannot create others.
check_abilities() {
    local program
    ((EUID == 0)) || unable "not root: run it as root, because it creates namespaces, mounts and a Debian root"
    for program in apt-get unshare nsenter setpriv pivot_root; do
        command -v "$program" >/dev/null || unable "'$program' is not installed"
    done
}

# Downloads a root, with these packages in addition to those of priority "required".
make_base() {
    # shellcheck disable=SC1091
    . /etc/os-release
    apt_tool mmdebstrap mmdebstrap
    local sources
    sources=$(apt_sources "${ID^}")
    if [[ -z $sources ]]; then
        apt-get update -qq
        sources=$(apt_sources "${ID^}")
    fi
    apt_settings >"$work/apt.conf"
    TMPDIR=$work mmdebstrap --variant=minbase --include="$*" --dpkgopt=force-unsafe-io --aptopt="$work/apt.conf" \
        "$VERSION_CODENAME" "$work/base.tar" - <<<"$sources"
}

# Unpacks the root, and adds the settings of the registries.
make_root() {
    local file
    rm -rf "$root"
    mkdir -p "$root"
    tar --extract --numeric-owner --file "$work/base.tar" --directory "$root"
    for file in "${files[@]}"; do
        [[ ! -e $file ]] || install -D -m 644 "$file" "$root${file/#$HOME//root}"
    done
    for file in config config.toml; do
        file=${CARGO_HOME:-$HOME/.cargo}/$file
        [[ ! -e $file ]] || install -D -m 644 "$file" "$root/root/.cargo/${file##*/}"
    done
    if compgen -G "/usr/local/share/ca-certificates/*.crt" >/dev/null; then
        cp /usr/local/share/ca-certificates/*.crt "$root/usr/local/share/ca-certificates/"
        chroot "$root" update-ca-certificates
    fi
    echo "127.0.0.1 fresh" >>"$root/etc/hosts"
}

# The first process of the machine. Mounts the usual file systems, changes to the new root, and reaps orphaned processes.
# Arguments: the root, then directories and files to mount read-only at the same paths.
init='
root=$1
shift
hostname fresh
mount --bind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount -t tmpfs -o mode=755,nosuid tmpfs "$root/dev"
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root/run"
mkdir -p "$root"/dev/{pts,shm,net} "$root/run/lock"
mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs "$root/dev/shm"
for node in null zero full random urandom tty fuse kvm net/tun; do
    if [[ -e /dev/$node ]]; then
        touch "$root/dev/$node"
        mount --bind "/dev/$node" "$root/dev/$node"
    fi
done
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
for number in 0 1 2; do
    ln -s "/proc/self/fd/$number" "$root/dev/$(cut -d" " -f$((number + 1)) <<<"stdin stdout stderr")"
done
for path; do
    if [[ -d $path ]]; then
        mkdir -p "$root$path"
    else
        mkdir -p "$root${path%/*}"
        touch "$root$path"
    fi
    mount --bind "$path" "$root$path"
    mount -o remount,bind,ro "$root$path"
done
mkdir "$root/.outside"
cd "$root"
pivot_root . .outside
cd /
umount --lazy /.outside
rmdir /.outside
touch /run/tests-fresh
while :; do
    sleep 3600
done'

# Starts the machine. When this script ends, the machine ends with all its processes and mounts. Arguments: directories and
# files that it has from this machine, read-only.
start_machine() {
    local path shown=() name
    environment=(HOME=/root USER=root LOGNAME=root SHELL=/bin/bash
        PATH="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    while IFS= read -r -d '' name; do
        shopt -s nocasematch
        if [[ ${name%%=*} =~ ^($variables)$ ]]; then
            environment+=("$name")
            path=${name#*=}
            [[ $path != /* || ! -e $path || -e $root$path ]] || shown+=("$path")
        fi
        shopt -u nocasematch
    done < <(env --null)
    setpriv --pdeathsig KILL unshare --mount --uts --ipc --pid --fork --kill-child \
        bash -ec "$init" init "$root" "$@" "${shown[@]}" </dev/null >"$logs/machine.log" 2>&1 &
    machine=$!
    local tries=0
    until first=$(cat "/proc/$machine/task/$machine/children") && [[ -e /proc/${first% }/root/run/tests-fresh &&
        $(readlink "/proc/${first% }/ns/mnt") != "$(readlink /proc/self/ns/mnt)" ]]; do
        if ((tries++ == 200)) || ! kill -0 "$machine"; then
            unable "cannot make namespaces here: $(tail -n 1 "$logs/machine.log")"
        fi
        sleep 0.05
    done
    first=${first% }
}

# Sets $toolchain to the directory of this machine's Rust toolchain.
find_toolchain() {
    toolchain=$(rustc --print sysroot) || unable "no Rust toolchain: 'rustc' does not run"
    [[ $toolchain != /usr && -x $toolchain/bin/cargo ]] ||
        unable "the Rust toolchain '$toolchain' is not in a directory of its own"
}

# Starts the machine with the toolchain, and with other directories of this machine.
start_toolchain() {
    start_machine "$toolchain" "$@"
    environment+=("PATH=$toolchain/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
}

stop_machine() {
    [[ -n $machine ]] || return 0
    kill -KILL "$first" 2>/dev/null || kill -KILL "$machine" 2>/dev/null || true
    wait "$machine" 2>/dev/null || true
    machine=
}

# Runs a command line on the machine, in the directory $directory.
inside() {
    nsenter --target "$first" --mount --uts --ipc --pid env -i "${environment[@]}" \
        bash -c 'cd "$1" && eval "$2"' bash "${directory-/root}" "$1"
}
