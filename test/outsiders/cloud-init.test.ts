/** cloud-init boots one of our seeds, and our parser reads its report of that boot. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readBootReport } from '../../src/contract/agent/boot-report/read.ts';
import { withOutsider } from './support/outsider.ts';

/** The script's exit status on hosts that allow no namespaces. */
const notAllowed = 77;
const script = fileURLToPath(new URL('support/cloud-init.sh', import.meta.url));

withOutsider('cloud-init', ({ place }) => {
  const out = mkdtempSync(join(tmpdir(), 'slipway-cloud-init-'));
  const printed = (what: string) => readFileSync(join(out, `${what}.txt`), 'utf8');
  const modules = [
    ...['init-network/config-seed_random', 'init-network/config-bootcmd', 'modules-config/config-locale'],
    ...['modules-config/config-timezone', 'modules-config/config-runcmd', 'modules-final/config-scripts_user'],
    'modules-final/config-final_message',
  ].sort();
  const modulesOf = (text: string) =>
    readBootReport(text)
      .stages.filter(({ name }) => name.includes('config-'))
      .map(({ name, parent }) => `${parent}/${name}`)
      .sort();

  /** Why it cannot run here; null if it ran. */
  let obstacle: string | null = null;
  beforeAll(() => {
    const { status, stderr } = spawnSync('bash', [script, place, out], { encoding: 'utf8' });
    if (status === notAllowed) obstacle = stderr;
    else expect(status, stderr).toBe(0);
  }, 300_000);
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  it.each(['show', 'blame', 'dump'])('names each module once in analyze %s, failed ones included', (what) => {
    if (obstacle !== null) {
      process.stderr.write(`not tested with cloud-init, which needs namespaces: ${obstacle}\n`);
      expect(process.env.CI, obstacle).not.toBe('true');
      return;
    }
    expect(modulesOf(printed(what)), `${printed(what)}\n${printed('output')}`).toEqual(modules);
  });
});
