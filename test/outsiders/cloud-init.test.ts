/** cloud-init boots a seed, and our parser reads the reports of that boot. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { readBootReport } from '../../src/contract/agent/boot-report/read.ts';
import { withOutsider } from './support/outsider.ts';

/** The script's exit status on hosts that do not allow namespaces. */
const noNamespacesStatus = 77;
const script = fileURLToPath(new URL('support/cloud-init.sh', import.meta.url));

withOutsider('cloud-init', ({ place }) => {
  const out = mkdtempSync(join(tmpdir(), 'slipway-cloud-init-'));
  const readOutput = (name: string) => readFileSync(join(out, `${name}.txt`), 'utf8');
  const expectedModules = [
    ...['init-network/config-seed_random', 'init-network/config-bootcmd', 'modules-config/config-locale'],
    ...['modules-config/config-timezone', 'modules-config/config-runcmd', 'modules-final/config-scripts_user'],
    'modules-final/config-final_message',
  ].sort();
  const modulesOf = (text: string) =>
    readBootReport(text)
      .stages.filter(({ name }) => name.includes('config-'))
      .map(({ name, parent }) => `${parent}/${name}`)
      .sort();

  /** The reason why the script could not run on this host, or null. */
  let obstacle: string | null = null;
  beforeAll(() => {
    const { status, stderr } = spawnSync('bash', [script, place, out], { encoding: 'utf8' });
    if (status === noNamespacesStatus) obstacle = stderr;
    else expect(status, stderr).toBe(0);
  }, 300_000);
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  it.each(['show', 'blame', 'dump'])(
    'reads every module from cloud-init analyze %s once, including failed modules',
    (report) => {
      if (obstacle !== null) {
        process.stderr.write(`not tested with cloud-init, which needs namespaces: ${obstacle}\n`);
        expect(process.env.CI, obstacle).not.toBe('true');
        return;
      }
      expect(modulesOf(readOutput(report)), `${readOutput(report)}\n${readOutput('output')}`).toEqual(expectedModules);
    },
  );
});
