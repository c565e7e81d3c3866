# shellcheck shell=bash
# What the scripts of this folder share. Source it; it changes into the repository's root.

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT"

# A package of Debian 12, and how to see that what it brings is there without it: a command, a module of pkg-config, a
# file, or nothing (-).
BUILD_PACKAGES=(
    "build-essential command:c++"
    "cmake command:cmake"
    "ninja-build command:ninja"
    "pkg-config command:pkg-config"
    "libhwy-dev module:libhwy"
    "libeigen3-dev module:eigen3"
    "libmd-dev module:libmd"
    "nlohmann-json3-dev module:nlohmann_json"
    "libpcre2-dev module:libpcre2-8"
    "libgoogle-glog-dev module:libglog"
    "libgflags-dev module:gflags"
    "libgtest-dev module:gtest_main"
    "libbenchmark-dev module:benchmark"
    "libfmt-dev module:fmt"
    "zlib1g-dev module:zlib"
    "libcairo2-dev module:cairo"
    "fonts-dejavu-core file:/usr/share/fonts/truetype/dejavu/DejaVuSans.ttf"
    "dataset-fashion-mnist file:/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"
)
# Faster rebuilds, and the library that the benchmarks compare with; installed along with others, never asked for.
OPTIONAL_PACKAGES=(ccache graphviz libdnnl-dev)
FORMAT_PACKAGES=("clang-format command:clang-format")
TIDY_PACKAGES=("clang-tidy command:clang-tidy")

say() { printf '== %s\n' "$*"; }

die() {
    printf '%s: %s\n' "$(basename "$0")" "$*" >&2
    exit 1
}

# Prints the comment block at the top of the script, without its marks.
show_help() { sed -n '2,/^[^#]/{/^#/s/^# \{0,1\}//p}' "$0"; }

is_there() {
    local package="$1" probe="$2"
    case "$probe" in
        command:*) command -v "${probe#command:}" >/dev/null && return 0 ;;
        module:*) pkg-config --exists "${probe#module:}" 2>/dev/null && return 0 ;;
        file:*) [[ -e "${probe#file:}" ]] && return 0 ;;
    esac
    [[ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" == installed ]]
}

# ensure_packages "package probe"...: installs what is missing, or says how to and stops with status 1.
ensure_packages() {
    local entry package missing=()
    for entry in "$@"; do
        package="${entry%% *}"
        is_there "$package" "${entry#* }" || missing+=("$package")
    done
    if [[ ${#missing[@]} -eq 0 ]]; then
        return 0
    fi
    if [[ "$*" == "${BUILD_PACKAGES[*]}" ]]; then
        missing+=("${OPTIONAL_PACKAGES[@]}")
    fi
    if ! command -v apt-get >/dev/null; then
        die "missing: ${missing[*]} (Debian's names); there is no apt-get here to install them with"
    fi

    local as_root=()
    if [[ "$(id -u)" -ne 0 ]]; then
        as_root=(sudo)
        if ! sudo -n true 2>/dev/null; then
            printf 'Some packages are missing. Please run this, then try again:\n\n' >&2
            printf '    sudo apt-get update && sudo apt-get install -y --no-install-recommends %s\n\n' "${missing[*]}" >&2
            exit 1
        fi
    fi
    say "installing ${missing[*]}"
    "${as_root[@]}" apt-get update -q </dev/null
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null
}

# The repository's files that match the patterns, ended by zeros; whoever owns the checkout.
tracked_files() { git -c safe.directory="$ROOT" ls-files -z -- "$@"; }

number_of_jobs() { nproc 2>/dev/null || echo 2; }

# configure <preset> [<cache entry>...]: into build/<preset>, with Ninja unless the folder, or the caller's
# CMAKE_GENERATOR, says otherwise.
configure() {
    local preset="$1"
    if [[ ! -f "build/$preset/CMakeCache.txt" && -z "${CMAKE_GENERATOR:-}" ]] && command -v ninja >/dev/null; then
        export CMAKE_GENERATOR=Ninja
    fi
    say "configuring build/$preset"
    cmake --preset "$@"
}

# build <preset> <jobs> [<target>...]
build() {
    local preset="$1" jobs="$2"
    shift 2
    say "building build/$preset with $jobs jobs"
    cmake --build --preset "$preset" --parallel "$jobs" ${1:+--target "$@"}
}
