# Sourced by bin/slipway and bin/run, which set `root` to the clone. Runs the setup if nothing is
# installed yet, and sets `node` and `no_debugger`, the arguments that start a program.

# npm writes this file last, so if it exists, the installation is complete.
if [ ! -e "$root/node_modules/.package-lock.json" ]; then
  if ! command -v node >/dev/null 2>&1; then
    echo 'slipway: Node 20 or newer and npm are needed (https://nodejs.org)' >&2
    exit 1
  fi
  node "$root/scripts/setup.mjs"
fi

# Use the pinned Node. Some platforms have none; then use the Node on the PATH.
node=$root/node_modules/.bin/node
# SIGUSR1 would open a debugger that every process of this host can use. A Node from the PATH may be
# too old for this option; then only the programs themselves ignore the signal, once they are loaded.
no_debugger=--disable-sigusr1
[ -x "$node" ] || { node=node; no_debugger=; }

# Keep compiled code between starts. Without this cache, compiling takes more than half of the
# start-up time.
export NODE_COMPILE_CACHE="${NODE_COMPILE_CACHE-$root/node_modules/.cache/compiled}"
