/**
 * Stands in for the agent in the driver's tests: set-up, command, clean stop and giving up, without
 * a server.
 */
import { spawn, spawnSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const path = process.argv.at(-1) ?? '';
const { dir, work_dir, setup, command, env } = JSON.parse(readFileSync(path, 'utf8'));
const environment = { ...process.env, ...env };

if (setup) {
  const { status } = spawnSync('/bin/sh', ['-c', setup], { cwd: work_dir, env: environment, stdio: 'inherit' });
  if (status !== 0) {
    writeFileSync(
      join(dir, 'agent.exit.json'),
      JSON.stringify({
        code: 'setup_failed',
        reason: `setup exited with code ${status}`,
        last_output: ['no such licence'],
      }),
    );
    process.exit(3);
  }
}

const [program, ...args] = command ?? ['/bin/sleep', '100000'];
const child = spawn(program, args, { cwd: work_dir, env: environment, stdio: 'inherit' });
child.once('exit', () => process.exit(0));
process.once('SIGINT', () => child.kill('SIGTERM'));
writeFileSync(join(dir, 'stand-in.ready'), '');
