/**
 * The files that are copied into a container before it starts: the agent's directories and its
 * configuration. The configuration holds the enrolment token, which must not show in `inspect`.
 */

import { join } from 'node:path/posix';
import { moment } from '../../base/clock.ts';
import { createTar, type Entry } from '../../base/files/tar.ts';
import { agentIdentity } from '../agent-config.ts';
import type { EnsureTarget } from '../driver.ts';
import { launchEnv } from '../workload-spec.ts';
import { dockerSpec } from './spec.ts';

const home = '/var/lib/slipway';
export const inContainer = {
  config: join(home, 'agent.json'),
  dir: join(home, 'node'),
  work: join(home, 'node/work'),
  temporary: join(home, 'node/tmp'),
  /** Written by the agent when it gives up: `{code, reason}`. */
  exit: join(home, 'node/agent.exit.json'),
  node: '/opt/slipway/node',
  bundle: '/opt/slipway/agent.mjs',
} as const;

function agentConfig(target: EnsureTarget) {
  const { command, env } = dockerSpec(target.spec);
  return {
    ...agentIdentity(target),
    dir: inContainer.dir,
    work_dir: inContainer.work,
    workload_dirs: [inContainer.temporary, inContainer.work],
    dir_keeps: ['tmp', 'work'],
    command: command ?? null,
    // The container ends with the agent, so SIGTERM must end the command in order.
    stop_ends_command: true,
    env: launchEnv(env),
    requires: target.bootstrap.requires,
  };
}

/**
 * A numeric user can own the files, so they are private. A user name is defined only inside the
 * image and its uid is unknown to the server, so the files must be readable by every user in the
 * container.
 */
function modesFor(user: string): { file: number; directory: number; owner?: Entry['owner'] } {
  const [, uid, gid] = /^(\d+)(?::(\d+))?$/.exec(user || '0') ?? [];
  if (uid === undefined) return { file: 0o644, directory: 0o777 };
  return { file: 0o600, directory: 0o700, owner: { uid: Number(uid), gid: Number(gid ?? 0) } };
}

const emptyBody = Buffer.alloc(0);

/** Returns a tar archive to unpack at the container's root. `user` is the user of the image. */
export function agentFiles(target: EnsureTarget, user: string): Buffer {
  const { file: mode, directory, owner } = modesFor(user);
  const directories = [inContainer.dir, inContainer.temporary, inContainer.work].map((path) => ({
    name: `${path.slice(1)}/`,
    body: emptyBody,
    directory: true,
    mode: directory,
    ...(owner && { owner }),
  }));
  const body = Buffer.from(JSON.stringify(agentConfig(target)));
  const parents = ['var/', 'var/lib/', 'var/lib/slipway/'].map((name) => ({
    name,
    body: emptyBody,
    directory: true,
    mode: 0o755,
  }));
  const config = { name: inContainer.config.slice(1), body, mode, ...(owner && { owner }) };
  return createTar([...parents, ...directories, config], moment(0));
}
