/**
 * schemathesis generates requests from our OpenAPI document, valid and broken, and checks every
 * answer against it.
 */
import { spawn } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { requestKinds } from '../../src/lifecycle/limits/limits.ts';
import { callRoute } from '../api/support/calls.ts';
import { type SpawnedServer, spawnServer } from '../support/server.ts';
import { isWhole, share, withOutsider } from './support/outsider.ts';

const here = (name: string) => fileURLToPath(new URL(`./schemathesis/${name}`, import.meta.url));
/** `npm test` uses a fixed seed. The whole run uses a new one each time, and prints it. */
const seed = process.env.SLIPWAY_SEED ?? share('1', undefined);
const wholeCases = 10_000;
const maxMs = share(600_000, 3_600_000);
const phases = share(['fuzzing'], ['coverage', 'fuzzing']);
/**
 * Some rules cannot be expressed in a schema and refuse valid input; the whole run lists them by
 * operation (hooks.py).
 */
const checks = share(['--exclude-checks', 'positive_data_acceptance'], []);

const includeTags = (...tags: string[]) => tags.flatMap((tag) => ['--include-tag', tag]);

const highLimit = 1_000_000_000;
/**
 * Cases come faster than any real caller may call; only the run without a token uses the shipped
 * limits.
 */
const wideLimits = JSON.stringify({
  limits: {
    requests: Object.fromEntries(requestKinds.map((kind) => [kind, { burst: highLimit, per_second: highLimit }])),
    instance: { rows: highLimit, bytes: highLimit },
    join_token: { rows: highLimit, bytes: highLimit },
  },
});

interface Report {
  exit_code: number;
  test_cases: { generated: number };
  failures: { title: string; count: number; operations: string[] }[];
  errors: unknown[];
}

interface Run {
  phases: string[];
  examples: number;
  /** By security scheme of the document. */
  credentials: Record<string, string>;
  /** Excludes operations that another run covers. */
  args?: string[];
}

/** Divides the tags of the document into groups with about the same number of operations. */
async function groupsOfTags(server: SpawnedServer, count: number): Promise<string[][]> {
  const { paths } = (await (await fetch(`${server.url}/openapi.json`)).json()) as {
    paths: Record<string, Record<string, { tags: string[] }>>;
  };
  const operations = new Map<string, number>();
  for (const { tags } of Object.values(paths).flatMap((path) => Object.values(path)))
    for (const tag of tags) operations.set(tag, (operations.get(tag) ?? 0) + 1);
  const groups = Array.from({ length: count }, () => ({ tags: [] as string[], operations: 0 }));
  for (const [tag, size] of [...operations].sort(([, a], [, b]) => b - a)) {
    const smallest = groups.reduce((least, group) => (group.operations < least.operations ? group : least));
    smallest.tags.push(tag);
    smallest.operations += size;
  }
  return groups.map(({ tags }) => tags);
}

withOutsider('schemathesis', ({ python, env }) => {
  let directory: string;
  let cases = 0;
  beforeAll(async () => {
    directory = await mkdtemp(join(tmpdir(), 'slipway-schemathesis-'));
  });
  afterAll(() => rm(directory, { recursive: true, force: true }));

  async function run(server: SpawnedServer, { phases, examples, credentials, args = [] }: Run): Promise<void> {
    const ownDirectory = await mkdtemp(join(directory, 'run-'));
    const config = join(ownDirectory, 'schemathesis.toml');
    const report = join(ownDirectory, 'report.json');
    const auth = Object.entries(credentials).map(([scheme, bearer]) => `${scheme} = { bearer = "${bearer}" }`);
    const common = await readFile(here('schemathesis.toml'), 'utf8');
    await writeFile(config, [common, ...(auth.length > 0 ? ['[auth.openapi]', ...auth] : [])].join('\n'));
    const { token_id } = await server.client.call('session-get', {});
    const child = spawn(
      python,
      [
        ...['-m', 'schemathesis.cli', '--config-file', config, 'run', `${server.url}/openapi.json`, '--no-color'],
        ...['--phases', phases.join(), '--max-examples', String(examples), ...(seed ? ['--seed', seed] : [])],
        ...['--report', 'json', '--report-json-path', report, ...checks, ...args],
      ],
      {
        cwd: ownDirectory,
        env: { ...process.env, ...env, SCHEMATHESIS_HOOKS: here('hooks.py'), SLIPWAY_OWN_TOKEN_ID: token_id },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk) => {
        output += chunk;
      });
    await new Promise((resolve) => child.once('close', resolve));
    const text = await readFile(report, 'utf8');
    const { failures, errors, exit_code, test_cases } = JSON.parse(text) as Report;
    cases += test_cases.generated;
    // Read as text, because it has more digits than a number can hold.
    console.log(`schemathesis: ${test_cases.generated} cases, seed ${/"seed": *(\d+)/.exec(text)?.[1]}`);
    expect({ failures, errors, exit_code }, output).toEqual({ failures: [], errors: [], exit_code: 0 });
    // The server's own view: no 5xx answer, and no problem that its operation does not document.
    const lines = server.output().split('\n');
    expect(lines.filter((line) => line.includes('"status":5') || line.includes('"undocumented_code"'))).toEqual([]);
  }

  describe('with limits that let its cases through', () => {
    let server: SpawnedServer;
    let join_token: string;
    let instance_credential: string;

    beforeAll(async () => {
      const config = join(directory, 'slipway.yaml');
      await writeFile(config, wideLimits);
      server = await spawnServer({ args: ['--config', config, '--token-failures', String(highLimit)] });
      const { client } = server;
      // Machines of the pool `local` would be processes on this host.
      await client.call('pool-delete', { params: { pool: 'local' } });
      await client.call('pool-put', { params: { pool: 'fuzzed' }, body: { driver: 'external' } });
      const joinToken = await client.call('join-token-create', { params: { pool: 'fuzzed' }, body: {} });
      join_token = String(joinToken.token);
      const body = { join_token, name: 'machine', version: '1' };
      const registration = await callRoute(server.url, 'agent-register', { body });
      instance_credential = String(registration.body.credential);
    });
    afterAll(() => server?.stop());

    it('an admin finds no 5xx, no violation and nothing undocumented', { timeout: maxMs }, () =>
      run(server, {
        phases,
        examples: share(4, 20),
        credentials: { token: server.token },
        args: share(includeTags('pools', 'tokens', 'secrets'), ['--exclude-tag', 'agent']),
      }),
    );

    it('an instance finds no 5xx, no violation and nothing undocumented', { timeout: maxMs }, () =>
      run(server, {
        phases,
        examples: share(4, 20),
        credentials: { instance_credential, join_token },
        args: share(includeTags('agent'), includeTags('agent', 'compat-agentfield', 'compat-molecule')),
      }),
    );

    it('sequences of calls find no 5xx, no violation and nothing undocumented', { timeout: maxMs }, () =>
      run(server, {
        phases: ['stateful'],
        examples: share(3, 60),
        credentials: { token: server.token, instance_credential, join_token },
        args: share(includeTags('pools', 'allocations', 'nodes'), []),
      }),
    );
  });

  it('a caller without a token finds no 5xx and no violation, and reaches the shipped limits', {
    timeout: maxMs,
  }, async () => {
    const server = await spawnServer();
    try {
      // Beyond an address's allowance each refusal is delayed by a second, so several processes
      // share the operations. Threads (--workers) do not work: Python 3.11's parser fails in them.
      const groups = share([['session', 'operations']], await groupsOfTags(server, 4));
      await Promise.all(
        groups.map((tags) =>
          run(server, { phases, examples: share(3, 5), credentials: {}, args: includeTags(...tags) }),
        ),
      );
    } finally {
      await server.stop();
    }
  });

  if (isWhole)
    it(`runs at least ${wholeCases} cases`, () => {
      expect(cases).toBeGreaterThanOrEqual(wholeCases);
    });
});
