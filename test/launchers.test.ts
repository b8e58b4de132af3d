/** The two launchers of the programs: that of a clone, and that of the packages. */
import { execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, it } from 'vitest';

const root = fileURLToPath(new URL('..', import.meta.url));
const launchers = {
  'bin/slipway': {
    serve: 'src/main.ts',
    agent: 'src/agent/main.ts',
    relay: 'src/relay/main.ts',
    upgrade: 'src/server/upgrade.ts',
    admin: 'src/server/admin.ts',
    backup: 'src/backup/main.ts',
    restore: 'src/backup/main.ts',
    'move-database': 'src/backup/main.ts',
  },
  'packaging/installed/slipway': {
    serve: 'dist/server/main.mjs',
    agent: 'dist/agent.mjs',
    relay: 'dist/relay/main.mjs',
    upgrade: 'dist/server/upgrade.mjs',
    admin: 'dist/server/admin.mjs',
    backup: 'dist/server/backup.mjs',
    restore: 'dist/server/backup.mjs',
    'move-database': 'dist/server/backup.mjs',
  },
} as const;

/** The launcher of the clone sources this file. */
const pinnedNode = 'scripts/setup/pinned-node.sh';

let copy: string;
beforeEach(() => {
  copy = mkdtempSync(join(tmpdir(), 'slipway-launcher-'));
});
afterEach(() => rmSync(copy, { recursive: true, force: true }));

const write = (path: string, content: string) => {
  mkdirSync(dirname(join(copy, path)), { recursive: true });
  writeFileSync(join(copy, path), content);
};

it.for(
  Object.entries(launchers).flatMap(([launcher, programs]) =>
    Object.entries(programs).map(([command, program]) => ({ launcher, command, program })),
  ),
)('$launcher starts $command with a Node that opens no debugger', ({ launcher, command, program }) => {
  cpSync(join(root, launcher), join(copy, 'bin/slipway'), { recursive: true });
  cpSync(join(root, pinnedNode), join(copy, pinnedNode));
  write('node_modules/.package-lock.json', '{}');
  write('package.json', '{ "type": "module" }');
  mkdirSync(join(copy, 'node_modules/.bin'));
  symlinkSync(process.execPath, join(copy, 'node_modules/.bin/node'));
  write(program, 'process.stdout.write(JSON.stringify(process.execArgv));');
  const env = { ...process.env, PATH: `${dirname(process.execPath)}:${process.env.PATH}` };
  const output = execFileSync(join(copy, 'bin/slipway'), [command], { env, encoding: 'utf8' });
  expect(JSON.parse(output)).toContain('--disable-sigusr1');
});
