# Sourced by the other scripts. `accept [--words] OPTION... -- "$@"` prints the comment at the head of the script for --help. It
# refuses every unlisted option and, without --words, every other argument.

accept() {
    local words=no known=" " argument name
    name=$(basename "$0")
    while [ "$1" != -- ]; do
        if [ "$1" = --words ]; then words=yes; else known+="$1 "; fi
        shift
    done
    shift
    for argument in "$@"; do
        case $argument in
            -h | --help) awk 'NR > 1 { if (!/^#/) exit; sub(/^# ?/, ""); print }' "$0"; exit 0 ;;
        esac
    done
    for argument in "$@"; do
        if [[ $argument == -* ]]; then
            [[ $known == *" $argument "* ]] && continue
        elif [ $words = yes ]; then
            continue
        fi
        echo "$name: error: unknown argument '$argument'; see $name --help" >&2
        exit 2
    done
}
