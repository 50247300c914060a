#compdef monopile
# Completion of monopile for zsh: the program itself says what can come next.

_monopile() {
    local index=$((CURRENT - 1)) found value
    local -a directories begun others
    found=$(_CLAP_COMPLETE_INDEX=$index _CLAP_IFS=$'\n' MONOPILE_COMPLETE=zsh \
        monopile -- "${words[@]}" 2>/dev/null) || return
    for found in "${(@f)found}"; do
        # What precedes the first `:` without a `\` before it; the rest describes it.
        value=${${found//\\:/$'\0'}%%:*}
        case $value in
        '') ;;
        */) directories+=("${found%/}") ;;
        *=) begun+=("$found") ;;
        *) others+=("$found") ;;
        esac
    done
    (($#directories)) && _describe -V values directories -S / -r /
    (($#begun)) && _describe -V values begun -S ''
    (($#others)) && _describe -V values others
}

if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _monopile "$@"
else
    compdef _monopile monopile
fi
