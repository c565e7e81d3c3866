# Sourced by the tests that run an example as a user would. Expects `program`, the executable; counts in `checks`.
checks=0

fail() {
    echo "FAILED: $1" >&2
    [ ! -s output ] || sed 's/^/    /' output >&2
    exit 1
}

# expect_run STATUS ARGUMENT...: runs the program; what it prints goes to the file `output`.
expect_run() {
    local expected=$1 status=0
    shift
    "$program" "$@" >output 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || fail "$(basename "$program") $*: expected status $expected, got $status"
    checks=$((checks + 1))
}

expect_output() {
    grep -qF -- "$1" output || fail "expected the output to contain '$1'"
    checks=$((checks + 1))
}

# expect_same WHAT ONE OTHER
expect_same() {
    [ "$2" = "$3" ] || fail "$1: '$2' and '$3' differ"
    checks=$((checks + 1))
}

# expect_clean_stop FILE LINES ARGUMENT...: runs the program until FILE has that many lines, then presses Ctrl-C.
expect_clean_stop() {
    local file=$1 lines=$2 status=0 i pid
    shift 2
    set -m # or the program would begin with SIGINT ignored
    "$program" "$@" >output 2>&1 &
    pid=$!
    set +m
    trap "kill -KILL $pid 2>/dev/null || true" EXIT
    for ((i = 0; i < 600; ++i)); do
        [ "$(wc -l 2>/dev/null <"$file" || echo 0)" -lt "$lines" ] || break
        sleep 0.1
    done
    kill -INT "$pid" || fail "the program had ended by itself"
    wait "$pid" || status=$?
    trap - EXIT
    expect_same "the status after Ctrl-C" "$status" 0
}
