
# `cargo kopt …` is completed as `cargo-kopt …` is. Whatever else stands after `cargo` is left to what completes cargo:
# the function that is registered for it or, where completions are loaded when they are first asked for, the one that the
# default of all commands (`complete -D`) then registers.

# The function in a line of `complete -p`.
_cargo_kopt__function() {
    local pattern=' -F ([^ ]+)'
    [[ $1 =~ $pattern ]] && echo "${BASH_REMATCH[1]}"
}

# Steps before the function that completes cargo and keeps that one's options. Fails where there is none.
_cargo_kopt__join() {
    local line name
    line=$(complete -p cargo 2>/dev/null) && name=$(_cargo_kopt__function "$line") || return 1
    if [[ $name != _cargo_kopt__or_cargo ]]; then
        _cargo_kopt__cargo=$name
        eval "${line/ -F $name / -F _cargo_kopt__or_cargo }"
    fi
}

_cargo_kopt__or_cargo() {
    local at=1 name
    # A toolchain, or cargo's own options.
    while [[ $at -lt $COMP_CWORD && ${COMP_WORDS[at]} == [+-]* ]]; do
        at=$((at + 1))
    done
    if [[ $at -lt $COMP_CWORD && ${COMP_WORDS[at]} == kopt ]]; then
        local words=(cargo-kopt "${COMP_WORDS[@]:at+1}")
        local COMP_WORDS=("${words[@]}") COMP_CWORD=$((COMP_CWORD - at))
        # The options that clap's script asks for, as far as this bash has them.
        compopt +o nospace -o bashdefault -o default 2>/dev/null
        compopt -o nosort 2>/dev/null
        _cargo_kopt cargo-kopt "$2" "$3"
    elif [[ -n ${_cargo_kopt__cargo-} ]]; then
        "$_cargo_kopt__cargo" "$@"
    elif name=$(_cargo_kopt__function "$(complete -p -D 2>/dev/null)"); then
        "$name" "$@"
        local status=$?
        _cargo_kopt__join
        # 124: bash asks again.
        return "$status"
    fi
}

# Another kind of completion than a function is left alone.
if ! _cargo_kopt__join && ! complete -p cargo >/dev/null 2>&1; then
    complete -o bashdefault -o default -F _cargo_kopt__or_cargo cargo
fi
