#!/bin/sh
# Installs monopile from the files of a release: the program, man pages, completions, documents and examples.
#
#   install.sh [--prefix DIR] [--from URL] [--key KEY]
#   install.sh --remove [--prefix DIR]
#
# --prefix DIR  where to install: DIR/bin, DIR/share. The default is $PREFIX, or ~/.local, which needs no root
# --from URL    the address of the release's files. The default is the release that this script comes from
# --key KEY     the release key: "ssh-ed25519 AAAA..." or a file with it. The default is the key in this script
# --remove      removes what an earlier run installed
#
# It needs: tar, gzip; curl or wget; ssh-keygen (OpenSSH 8.1) or openssl (3.0). It verifies the signature of the list of
# checksums, and then the checksum of the archive, before it unpacks or runs anything. Without a verifier it installs nothing.
# An installed version is replaced only at the end, by renames during which signals are ignored. After a failure before them,
# everything is as before. If a rename fails, files of both versions are there: run this again, or with --remove.
set -eu

# packaging/installer fills these in.
version=
from=
key=

# Prints what failed and what to do, and ends the script.
fail() {
    printf 'install.sh: %s\n' "$1" >&2
    shift
    for line; do
        printf '  %s\n' "$line" >&2
    done
    exit 1
}

has() {
    command -v "$1" >/dev/null 2>&1
}

# Prints the last line that a tool wrote to standard error.
cause() {
    tail -n 1 "$work/error" | sed 's/^[a-z/]*: *//'
}

# Ends the script after a failure to write, with the free space.
cannot_write() {
    reason=$(cause)
    free=$(df -Pk "$prefix" | awk 'NR == 2 { print int($4 / 1024) }')
    # On a full disk, the message of the tool may be lost too.
    [ "$free" -gt 0 ] || reason="No space left on device"
    fail "cannot write to '$1': $reason" "There are $free MiB free, and monopile needs about 50 MiB." \
        "Make space, or choose another directory with \`--prefix DIR\`."
}

# Downloads $1 to the file $2.
download() {
    code=0
    if has curl; then
        http=$(curl -sSL --retry 2 -w '%{http_code}' -o "$2" "$1" 2>"$work/error") || code=$?
        [ "$code" -ne 23 ] || cannot_write "$2"
        # Other addresses than http have no status.
        case $code:$http in 0:2?? | 0:000) return ;; esac
        [ "$code" -ne 0 ] || printf 'the server answered %s\n' "$http" >"$work/error"
    elif has wget; then
        wget -O "$2" "$1" 2>"$work/error" || code=$?
        [ "$code" -ne 0 ] || return 0
        [ "$code" -ne 3 ] || cannot_write "$2"
        http=$(sed -n 's/.*[^0-9]\([45][0-9][0-9]\)[^0-9].*/\1/p' "$work/error" | tail -n 1)
        grep -v '^ *$' "$work/error" >"$work/lines" || true
        mv "$work/lines" "$work/error"
    else
        fail "neither curl nor wget is installed" "Install one of them, for example with \`apt-get install curl\`."
    fi
    if [ "$http" = 404 ]; then
        fail "'$1' does not exist (404)" "Check the address: it is the directory of one release's files, given by \`--from URL\`."
    fi
    fail "cannot download '$1': $(cause)" "Check the network and the proxy, and run this script again."
}

# Verifies the signature $1.sig of the file $1 with the release key.
verify_signature() {
    if has ssh-keygen && ! ssh-keygen -Y verify 2>&1 | grep -q -i -e 'unknown option' -e 'illegal option'; then
        printf 'monopile namespaces="monopile-release" %s\n' "$key" >"$work/signers"
        ssh-keygen -Y verify -f "$work/signers" -I monopile -n monopile-release -s "$1.sig" <"$1" >"$work/error" 2>&1 ||
            bad_signature
    elif has openssl && openssl pkeyutl -help 2>&1 | grep -q -e -rawin; then
        verify_with_openssl "$1" >"$work/error" 2>&1 || bad_signature
    else
        fail "cannot verify the release: neither ssh-keygen (OpenSSH 8.1 or newer) nor openssl (3.0 or newer) is installed" \
            "Install one of them, for example with \`apt-get install openssl\` or \`apt-get install openssh-client\`."
    fi
}

bad_signature() {
    fail "the checksums at '$from' are not signed by the release key. Nothing was installed" \
        "The release was changed, or signed by another key than: $key" \
        "Do not use it. Download again, or ask the maintainers."
}

# Verifies an SSH signature with openssl. The format is PROTOCOL.sshsig of OpenSSH: what is signed is a header with the digest
# of the file. Signature and key are the last bytes of their encodings.
verify_with_openssl() {
    {
        printf 'SSHSIG\000\000\000\020monopile-release\000\000\000\000\000\000\000\006sha512\000\000\000\100'
        openssl dgst -sha512 -binary "$1"
    } >"$work/signed"
    sed '/^-----/d' "$1.sig" | openssl base64 -d | tail -c 64 >"$work/signature"
    {
        printf '\060\052\060\005\006\003\053\145\160\003\041\000'
        printf '%s\n' "$key" | cut -d ' ' -f 2 | openssl base64 -d -A | tail -c 32
    } >"$work/key"
    openssl pkeyutl -verify -pubin -keyform DER -inkey "$work/key" -rawin -in "$work/signed" -sigfile "$work/signature"
}

# Sets $actual to the SHA-256 digest of a file.
compute_digest() {
    if has sha256sum; then
        actual=$(sha256sum "$1")
    elif has shasum; then
        actual=$(shasum -a 256 "$1")
    elif has openssl; then
        actual=$(openssl dgst -sha256 -r "$1")
    else
        fail "cannot compute SHA-256: none of sha256sum, shasum and openssl is installed" \
            "Install one of them, for example with \`apt-get install coreutils\`."
    fi
    actual=${actual%% *}
}

# Prints the targets whose programs run on this machine, the preferred one first.
targets() {
    case $(uname -s):$(uname -m) in
    Linux:x86_64 | Linux:amd64) echo x86_64-unknown-linux-musl x86_64-unknown-linux-gnu ;;
    Linux:aarch64 | Linux:arm64) echo aarch64-unknown-linux-musl aarch64-unknown-linux-gnu ;;
    Darwin:x86_64) echo x86_64-apple-darwin ;;
    Darwin:arm64) echo aarch64-apple-darwin ;;
    esac
}

# Reads the key from the file $key, if it is one. Fails if it is not of the right type.
read_key() {
    [ -n "$key" ] || fail "this copy of install.sh has no release key" \
        "Use the install.sh of a release, or give the release key with \`--key KEY\`."
    [ ! -f "$key" ] || key=$(sed -n '/^ssh-ed25519 /p' "$key")
    case $key in
    "ssh-ed25519 "?*) key=$(printf '%s\n' "$key" | cut -d ' ' -f 1,2) ;;
    *) fail "the release key is neither a file with an Ed25519 key of OpenSSH nor such a key" \
        "It is one line: ssh-ed25519 AAAA..." ;;
    esac
}

# Removes the files in the list $1 that are not in the list $2, and directories that are empty then.
remove_files() {
    while IFS= read -r path; do
        grep -q -x -F -e "$path" "$2" || rm -f "$prefix/$path"
    done <"$1"
    # Each directory comes after those in it.
    while IFS= read -r path; do
        while [ "$path" != "${path%/*}" ]; do
            path=${path%/*}
            printf '%s\n' "$path"
        done
    done <"$1" | sort -r -u | while IFS= read -r path; do
        rmdir "$prefix/$path" 2>/dev/null || true
    done
}

remove() {
    [ -f "$prefix/$list" ] || fail "'$prefix' has no monopile from this script: '$prefix/$list' does not exist" \
        "Name the directory with \`--prefix DIR\`."
    cp "$prefix/$list" "$work/old"
    : >"$work/none"
    remove_files "$work/old" "$work/none"
    echo "Removed monopile from '$prefix'. States, caches and VMs of the CPI local stay where they are."
}

# Downloads and verifies the archive, and unpacks it to $work/tree.
unpack_release() {
    for tool in tar gzip; do
        has $tool || fail "'$tool' is not installed" "Install it, for example with \`apt-get install $tool\`."
    done
    from=${from%/}
    download "$from/SHA256SUMS" "$work/SHA256SUMS"
    download "$from/SHA256SUMS.sig" "$work/SHA256SUMS.sig"
    verify_signature "$work/SHA256SUMS"
    archive=
    for target in $(targets); do
        archive=$(sed -n "s/^[0-9a-f]* [ *]\(monopile-${version:-[0-9].*}-$target\.tar\.gz\)\$/\1/p" "$work/SHA256SUMS" | head -n 1)
        [ -z "$archive" ] || break
    done
    [ -n "$archive" ] || fail "the release at '$from' has no monopile ${version:+$version }for $(uname -s) on $(uname -m)" \
        "It has: $(sed -n 's/.* [ *]\(monopile-.*\.tar\.gz\)$/\1/p' "$work/SHA256SUMS" | tr '\n' ' ')"
    download "$from/$archive" "$work/archive"
    expected=$(sed -n "s/^\([0-9a-f]*\) [ *]$archive\$/\1/p" "$work/SHA256SUMS")
    compute_digest "$work/archive"
    [ "$actual" = "$expected" ] || fail "'$from/$archive' has the wrong checksum. Nothing was installed" \
        "It is $actual, and the signed list says $expected." \
        "Download again. If it stays wrong, do not use it, and tell the maintainers."
    mkdir "$work/tree"
    tar -xzf "$work/archive" -C "$work/tree" 2>"$work/error" || cannot_write "$work"
    mv "$work/tree/${archive%.tar.gz}"/* "$work/tree"
    rmdir "$work/tree/${archive%.tar.gz}"
}

# Prints where a file of the archive belongs below the prefix.
place_of() {
    case $1 in
    monopile) echo bin/monopile ;;
    man/*) echo "share/man/man1/${1#man/}" ;;
    completions/monopile.bash) echo share/bash-completion/completions/monopile ;;
    completions/_monopile) echo share/zsh/site-functions/_monopile ;;
    completions/monopile.fish) echo share/fish/vendor_completions.d/monopile.fish ;;
    *) echo "share/doc/monopile/$1" ;;
    esac
}

install() {
    unpack_release
    installed=$("$work/tree/monopile" --version 2>"$work/error") ||
        fail "$archive does not run on this machine: $(cause)" "Build monopile from source: see docs/install.md."
    # The program comes last: until then, the old one is in use.
    (cd "$work/tree" && find . -type f ! -path ./monopile && echo ./monopile) >"$work/files"
    while IFS= read -r file; do
        place_of "${file#./}"
    done <"$work/files" >"$work/new"
    echo "$list" >>"$work/new"
    : >"$work/old"
    [ ! -f "$prefix/$list" ] || cp "$prefix/$list" "$work/old"
    # From here on, an interruption would leave files of both versions. Nothing below downloads or copies much.
    trap '' INT TERM HUP
    # The list of all files of both versions, in case that a rename fails.
    { mkdir -p "$prefix/${list%/*}" && sort -u "$work/old" "$work/new" >"$work/both" && mv -f "$work/both" "$prefix/$list"; } \
        2>"$work/error" || cannot_write "$prefix/$list"
    # Nothing is copied any more, so a full disk cannot end this.
    while IFS= read -r file; do
        place=$prefix/$(place_of "${file#./}")
        { mkdir -p "${place%/*}" && mv -f "$work/tree/$file" "$place"; } 2>"$work/error" || cannot_write "$place"
    done <"$work/files"
    cp "$work/new" "$work/list" && mv -f "$work/list" "$prefix/$list"
    remove_files "$work/old" "$work/new"
    echo "Installed $installed in '$prefix'."
    case :$PATH: in
    *:"$prefix/bin":*) ;;
    *) echo "Add it to your path: export PATH=\"$prefix/bin:\$PATH\"" ;;
    esac
}

main() {
    action=install prefix=${PREFIX:-${HOME:+$HOME/.local}} list=share/monopile/installed-files
    while [ $# -gt 0 ]; do
        case $1 in
        --prefix | --from | --key)
            [ $# -gt 1 ] || fail "$1 needs a value"
            case $1 in
            --prefix) prefix=$2 ;;
            --from) from=$2 ;;
            --key) key=$2 ;;
            esac
            shift
            ;;
        --remove) action=remove ;;
        *) fail "unknown argument '$1'" "Arguments: [--prefix DIR] [--from URL] [--key KEY], or --remove [--prefix DIR]" ;;
        esac
        shift
    done
    [ -n "$prefix" ] || fail "HOME is not set" "Choose a directory with \`--prefix DIR\`."
    if [ $action = install ]; then
        [ -n "$from" ] || fail "this copy of install.sh does not know a release" "Give its address with \`--from URL\`."
        read_key
    fi
    # On the file system of the prefix, so that files can be moved.
    if ! work=$({ mkdir -p "$prefix" && mktemp -d "$(cd "$prefix" && pwd)/.monopile.XXXXXX"; } 2>&1); then
        fail "cannot write to '$prefix': ${work##*: }" "Choose another directory with \`--prefix DIR\`. The default is ~/.local."
    fi
    prefix=${work%/.monopile.*}
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM HUP
    $action
}

# At the end, so that a part of this script does nothing.
main "$@"
