# Sourced by tools/setup and tools/test: --python PATH picks another interpreter than python3, with a
# virtual environment and build folders of its own beside the usual ones (.venv-3.12, build/release-3.12).
# Takes that option out of `arguments`; sets python, venv and suffix.
arguments=("$@")
python=python3 suffix=""
for index in "${!arguments[@]}"; do
  [ "${arguments[$index]}" = --python ] || continue
  python=${arguments[$index + 1]:?"--python takes the path of an interpreter"}
  suffix=-$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
  arguments=("${arguments[@]:0:$index}" "${arguments[@]:$index + 2}")
  break
done
venv=.venv$suffix
