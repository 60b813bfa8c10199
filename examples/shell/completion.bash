# Completion for bash: `source` this file (in zsh after `autoload -U bashcompinit; bashcompinit`). The options are what each tool's own --help lists.
_tileworks() {
    local word=$2 previous=$3
    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "$("$1" --help 2>/dev/null | grep -oE -- '--[A-Za-z][A-Za-z-]*' | sort -u)" -- "$word"))
    elif [[ $previous == --gpu-name || $previous == --arch ]]; then
        COMPREPLY=($(compgen -W "$(tileiras --help | grep -oE '=sm_[0-9]+' | tr -d =)" -- "$word"))
    fi
}
complete -o default -F _tileworks tileiras tileirdisasm tile-{read,lower-aa,lower-as,sched,ptx,link,dump,write,run,sim,score,fuzz}
