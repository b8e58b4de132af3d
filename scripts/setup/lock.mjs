/**
 * Allows one set-up at a time per clone: a lock file that names its process, so that the lock of a
 * dead process is discarded.
 */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { inRoot, SetupError, say } from './say.mjs';

/** In `dist`, because `npm ci` empties node_modules. */
const lockFile = inRoot('dist', '.setup.lock');
const longestWaitMs = 15 * 60_000;
const pollMs = 200;

/** A process id alone is soon reused, after a reboot or in a restarted container. */
function identity(pid) {
  let startedAt = '';
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    startedAt = stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? '';
  } catch (error) {
    if (error.code !== 'ENOENT' && error.code !== 'ESRCH') throw error;
  }
  return `${pid} ${startedAt}`;
}

function isAlive(owner) {
  const pid = Number(owner.split(' ')[0]);
  if (!Number.isInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if (error.code === 'ESRCH') return false;
    if (error.code !== 'EPERM') throw error;
  }
  return identity(pid) === owner;
}

function readOwner() {
  try {
    return readFileSync(lockFile, 'utf8');
  } catch (error) {
    if (error.code === 'ENOENT') return undefined;
    throw error;
  }
}

/** A hard link appears with its content or not at all, so a half-written lock is never read. */
function tryTake() {
  const mine = `${lockFile}.${process.pid}`;
  writeFileSync(mine, identity(process.pid));
  try {
    linkSync(mine, lockFile);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(mine, { force: true });
  }
}

/**
 * Two waiters may both find the owner dead: the later one must not discard the lock the earlier one
 * just took.
 */
function discard(deadOwner) {
  const aside = `${lockFile}.${process.pid}.stale`;
  try {
    renameSync(lockFile, aside);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  if (readFileSync(aside, 'utf8') !== deadOwner) linkSync(aside, lockFile);
  rmSync(aside);
}

const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pollMs);

function take() {
  mkdirSync(inRoot('dist'), { recursive: true });
  const giveUpAt = Date.now() + longestWaitMs;
  let isReported = false;
  while (!tryTake()) {
    const owner = readOwner();
    if (owner === undefined) continue;
    if (!isAlive(owner)) {
      discard(owner);
      continue;
    }
    const pid = owner.split(' ')[0];
    if (Date.now() > giveUpAt)
      throw new SetupError(`process ${pid} has held ${lockFile} for too long; end it and retry.`);
    if (!isReported) say(`another set-up of this clone is running (process ${pid}); waiting for it`);
    isReported = true;
    pause();
  }
}

export function withSetupLock(run) {
  take();
  try {
    run();
  } finally {
    rmSync(lockFile, { force: true });
  }
}
