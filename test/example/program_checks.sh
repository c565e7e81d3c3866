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
