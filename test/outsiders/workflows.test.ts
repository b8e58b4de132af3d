/** actionlint accepts the workflows of GitHub, and they run the commands of this repository. */
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { root } from '../../packaging/build/paths.ts';
import { withOutsider } from './support/outsider.ts';

interface Step {
  uses?: string;
  run?: string;
  env?: Record<string, string>;
}

interface Workflow {
  permissions: object;
  jobs: Record<string, { uses?: string; needs?: string; steps?: Step[] }>;
}

const folder = join(root, '.github/workflows');
const names = readdirSync(folder);
const read = (name: string) => parse(readFileSync(join(folder, name), 'utf8')) as Workflow;
const stepsOf = ({ jobs }: Workflow) => Object.values(jobs).flatMap(({ steps = [] }) => steps);

withOutsider('actionlint', ({ place }) => {
  const lint = (input: string, file: string) =>
    spawnSync(join(place, 'actionlint'), ['-no-color', '-shellcheck=', '-pyflakes=', file], {
      cwd: root,
      input,
      encoding: 'utf8',
    });

  it.each(names)('accepts %s', (name) => {
    const { status, stdout, stderr } = lint('', join(folder, name));
    expect(stdout + stderr).toBe('');
    expect(status).toBe(0);
  });

  it('rejects a dependency on a missing job, and an expression with an undefined property', () => {
    const invalidWorkflow = readFileSync(join(folder, 'release.yml'), 'utf8')
      .replace('needs: test', 'needs: tests')
      .replace('github.token', 'github.tokn');
    const { status, stdout } = lint(invalidWorkflow, '-');
    expect(stdout).toMatch(/needs job "tests"[\s\S]*property "tokn" is not defined/);
    expect(status).not.toBe(0);
  });
});

it.each(names)('%s pins each action by its commit, and starts with read access', (name) => {
  const workflow = read(name);
  const usedActions = stepsOf(workflow).flatMap(({ uses }) => uses ?? []);
  expect(usedActions.filter((action) => !/@[0-9a-f]{40}$/.test(action))).toEqual([]);
  expect(workflow.permissions).toEqual({ contents: 'read' });
});

it('CI and release run the commands of this repository', () => {
  const commandsOf = (name: string) => stepsOf(read(name)).flatMap(({ run }) => run ?? []);
  expect(commandsOf('ci.yml').join('\n')).toMatch(/ \.ci\/run$/m);
  const release = commandsOf('release.yml').join('\n');
  expect(release).toMatch(/^npm run release$/m);
  expect(read('release.yml').jobs).toMatchObject({
    test: { uses: './.github/workflows/ci.yml' },
    build: { needs: 'test' },
    release: { needs: 'build', environment: 'release' },
  });
  // The workflow verifies with the commands that the page gives to operators.
  const page = readFileSync(join(root, 'docs/how-to/verify-a-release.md'), 'utf8');
  const [command = ''] = /^openssl pkeyutl .*$/m.exec(page) ?? [];
  expect(release).toContain(command);
});

it('the job with the release key runs only programs of the runner, and signs as the page verifies', () => {
  const { jobs } = read('release.yml');
  const holders = Object.entries(jobs).filter(([, job]) => /secrets\.|"environment"/.test(JSON.stringify(job)));
  expect(holders.map(([name]) => name)).toEqual(['release']);
  const steps = jobs.release?.steps ?? [];
  expect(steps.filter(({ uses, run }) => /checkout|setup-|\bnp[mx]\b|\bnode\b/.test(`${uses} ${run}`))).toEqual([]);

  const folder = mkdtempSync(join(tmpdir(), 'slipway-signing-'));
  try {
    writeFileSync(join(folder, 'content'), 'content');
    const key = generateKeyPairSync('ed25519').privateKey.export({ type: 'pkcs8', format: 'pem' });
    const env = { ...process.env, RELEASE_KEY: `${key}`, KEY_FILE: join(folder, 'key.pem') };
    const [sign, verify] = steps.flatMap(({ run }) => run ?? []);
    const script = `sha256sum content > SHA256SUMS\n${sign}\n${verify}\nls`;
    const { status, stdout, stderr } = spawnSync('sh', ['-euc', script], { cwd: folder, env, encoding: 'utf8' });
    expect(status, stderr).toBe(0);
    expect(stdout).toContain('Signature Verified Successfully');
    expect(stdout).not.toContain('key.pem');
  } finally {
    rmSync(folder, { recursive: true });
  }
});
