# Sourced by scripts/run and scripts/test: makes the project's own virtual environment, once.
#
# prepare WHAT: installs the project (WHAT is `run`) or the project and its checks (WHAT is `test`) into .venv.
# Quiet; a second call only compares a stamp. Needs Python >= 3.11 with venv, and a package index that pip can reach.

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=${CONDUCTOR_VENV:-$root/.venv}

find_python() {
  local candidate
  for candidate in ${PYTHON:-} python3 python3.13 python3.12 python3.11 python3.14 python; do
    if command -v "$candidate" >/dev/null 2>&1 &&
      "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  echo "error: no Python 3.11 or newer found on PATH" >&2
  echo "hint: install one, or name it: PYTHON=/path/to/python3 $0" >&2
  return 1
}

prepare() {
  local what=$1 target=$root python wanted stamp
  wanted="$root $(cksum <"$root/pyproject.toml")"
  stamp=$venv/.prepared-$what
  local ready
  for ready in "$stamp" "$venv/.prepared-test"; do # what the tests need is more than what a run needs
    if [ -f "$ready" ] && [ "$(cat "$ready")" = "$wanted" ]; then
      return
    fi
  done
  [ "$what" = test ] && target="$root[dev]"
  python=$(find_python) || return
  echo "conductor: setting up $venv (once) …" >&2
  if ! "$python" -m venv "$venv" >/dev/null 2>&1; then
    echo "error: $python cannot make a virtual environment in $venv" >&2
    echo "hint: install its venv module (Debian: apt-get install python3-venv) and see that the folder can be written" >&2
    return 1
  fi
  if ! PIP_DISABLE_PIP_VERSION_CHECK=1 "$venv/bin/python" -m pip install --quiet --editable "$target" >"$venv/setup.log" 2>&1; then
    cat "$venv/setup.log" >&2
    echo "error: the packages that conductor needs could not be installed" >&2
    echo "hint: see the lines above; pip's own settings (index, proxy) are honoured" >&2
    return 1
  fi
  printf '%s' "$wanted" >"$stamp"
}
