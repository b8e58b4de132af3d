/**
 * Allows one set-up at a time per clone. The lock file names its process, so that the lock of a
 * dead process can be discarded.
 */
import { linkSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { inRoot, SetupError, say } from './say.mjs';

/** The lock is in `dist`, because `npm ci` empties node_modules. */
const lockFile = inRoot('dist', '.setup.lock');
const maxWaitMs = 15 * 60_000;
const pollMs = 200;

/** Adds the start time, because a process id is reused after a reboot or in a new container. */
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

/** Uses a hard link, which appears with its full content, so nobody reads a half-written lock. */
function tryAcquire() {
  const ownFile = `${lockFile}.${process.pid}`;
  writeFileSync(ownFile, identity(process.pid));
  try {
    linkSync(ownFile, lockFile);
    return true;
  } catch (error) {
    if (error.code === 'EEXIST') return false;
    throw error;
  } finally {
    rmSync(ownFile, { force: true });
  }
}

/**
 * Discards the lock of a dead owner. Two waiters may both find the owner dead. The later one must
 * not discard the lock that the earlier one just took, so it puts back any lock of another owner.
 */
function discard(deadOwner) {
  const movedFile = `${lockFile}.${process.pid}.stale`;
  try {
    renameSync(lockFile, movedFile);
  } catch (error) {
    if (error.code === 'ENOENT') return;
    throw error;
  }
  if (readFileSync(movedFile, 'utf8') !== deadOwner) linkSync(movedFile, lockFile);
  rmSync(movedFile);
}

const pause = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, pollMs);

function acquireLock() {
  mkdirSync(inRoot('dist'), { recursive: true });
  const giveUpAt = Date.now() + maxWaitMs;
  let isReported = false;
  while (!tryAcquire()) {
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
  acquireLock();
  try {
    run();
  } finally {
    rmSync(lockFile, { force: true });
  }
}
