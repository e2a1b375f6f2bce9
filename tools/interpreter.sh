# Sourced by tools/setup and tools/test. Two options say what Ingot is built beside, in a virtual environment and build folders of their own
# beside the usual ones:
#   --python PATH     another interpreter than python3      (.venv-3.12, build/release-3.12)
#   --torch VERSION   another PyTorch than the usual one    (.venv-torch-2.15.0; with both .venv-3.13-torch-2.15.0)
# Takes them out of `arguments`; sets python, torch, venv, suffix, and `beside`: the two options again, for a program that is called.
arguments=("$@")
python=python3 torch="" suffix="" beside=()
for name in --python --torch; do
  for index in "${!arguments[@]}"; do
    [ "${arguments[$index]}" = "$name" ] || continue
    value=${arguments[$index + 1]:?"$name takes a value"}
    arguments=("${arguments[@]:0:$index}" "${arguments[@]:$index + 2}")
    beside+=("$name" "$value")
    case $name in
      --python) python=$value suffix=-$("$value" -c 'import sys; print("%d.%d" % sys.version_info[:2])') ;;
      --torch) torch=$value suffix+=-torch-$value ;;
    esac
    break
  done
done
venv=.venv$suffix
