# shellcheck shell=bash
# Steps that ./quickstart and ./check share. Sourced by bash from the top of the checkout, with set -euo pipefail.

# Compilers for as many files at a time as there are cores. Ninja's own two more cost a tenth of the time on two cores.
export CMAKE_BUILD_PARALLEL_LEVEL="${CMAKE_BUILD_PARALLEL_LEVEL:-$(nproc)}"

say() { printf '\n== %s\n' "$*"; }
die() {
  printf '\n%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

wait_for_others=(-o DPkg::Lock::Timeout=300) # apt-get's option: seconds to wait where another package manager is at work

# missing_packages FILE: those of a list that are not installed.
missing_packages() {
  local package
  while read -r package; do
    [ "$(dpkg-query -W -f='${Status}' "$package" 2>/dev/null)" = "install ok installed" ] || echo "$package"
  done < <(sed 's/#.*//; /^[[:space:]]*$/d' "$1")
}

# Tries to install the packages of tools/packages_optional.txt that are missing, and goes on without those that cannot be had.
install_optional_packages() {
  command -v dpkg-query >/dev/null || return 0
  local missing as_root=()
  mapfile -t missing < <(missing_packages tools/packages_optional.txt)
  if [ ${#missing[@]} -eq 0 ]; then
    echo "every package of tools/packages_optional.txt is installed"
    return
  fi
  [ "$(id -u)" -eq 0 ] || as_root=(sudo -n)
  echo "optional packages that are missing: ${missing[*]} (tools/packages_optional.txt says what for)"
  if { [ "$(id -u)" -eq 0 ] || sudo -n true; } 2>/dev/null && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get "${wait_for_others[@]}" install --yes --quiet --no-install-recommends "${missing[@]}" >/dev/null 2>&1; then
    echo "installed: ${missing[*]}"
  else
    echo "not installed: ${missing[*]}; everything is built and tested without them, and what needs them is skipped"
  fi
}

# Installs the packages of tools/packages.txt that are missing, or says the command that would.
install_packages() {
  if ! command -v dpkg-query >/dev/null; then
    echo "This is no Debian system: the libraries of tools/packages.txt are expected to be there already."
    return
  fi
  local missing=()
  mapfile -t missing < <(missing_packages tools/packages.txt)
  if [ ${#missing[@]} -eq 0 ]; then
    echo "every package of tools/packages.txt is installed"
    return
  fi
  echo "missing packages: ${missing[*]}"
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo -n)
    else
      die "${#missing[@]} packages are missing and this user may not install them. Have an administrator run
  apt-get update && apt-get install --yes --no-install-recommends ${missing[*]}
and start again."
    fi
  fi
  echo "+ ${as_root[*]:+${as_root[*]} }apt-get install --yes --no-install-recommends ${missing[*]}"
  local tries=1
  until "${as_root[@]}" apt-get update --quiet; do # a machine that has just started reads the lists itself, and holds their lock meanwhile
    [ $tries -lt 4 ] || die "apt-get update failed $tries times (above). Check the network and /etc/apt/sources.list."
    echo "apt-get update failed; once more in 10 s"
    sleep 10
    tries=$((tries + 1))
  done
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get "${wait_for_others[@]}" install --yes --no-install-recommends "${missing[@]}" ||
    die "apt-get install failed (above)."
}

# configure PRESET: cmake into build/PRESET, through ccache where there is one.
configure() {
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
    export CCACHE_SLOPPINESS="${CCACHE_SLOPPINESS:-pch_defines,time_macros}" # what it asks for where headers are compiled once
  fi
  cmake --preset "$1" "${launcher[@]}"
}
