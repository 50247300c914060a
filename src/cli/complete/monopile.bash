# Completion of monopile for bash: the program itself says what can come next.

_monopile() {
    # bash splits words at `=` and `:`; to the program they are part of a word.
    local rest=${COMP_LINE:0:COMP_POINT} trimmed word words=() i
    for ((i = 0; i <= COMP_CWORD; i++)); do
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        word=${COMP_WORDS[i]}
        ((i < COMP_CWORD)) || word=$trimmed
        if ((i == 0)) || [[ $trimmed != "$rest" ]]; then
            words+=("$word")
        else
            words[${#words[@]} - 1]+=$word
        fi
        rest=${trimmed#"$word"}
    done

    local index=$((${#words[@]} - 1)) found
    found=$(_CLAP_COMPLETE_INDEX=$index _CLAP_IFS=$'\n' MONOPILE_COMPLETE=bash \
        monopile -- "${words[@]}" 2>/dev/null) || return

    # It replaces only what follows the last place at which it splits.
    local current=${words[index]} breaks= letter before=
    for letter in = : @; do
        [[ $COMP_WORDBREAKS == *"$letter"* ]] && breaks+=$letter
    done
    [[ $breaks ]] && before=${current%"${current##*[$breaks]}"}

    COMPREPLY=()
    while IFS= read -r word; do
        [[ $word ]] || continue
        word=${word#"$before"}
        [[ $word == *[[:space:]]* ]] && printf -v word %q "$word"
        COMPREPLY+=("$word")
    done <<<"$found"
    if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=/] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}

complete -o nosort -F _monopile monopile 2>/dev/null || complete -F _monopile monopile
