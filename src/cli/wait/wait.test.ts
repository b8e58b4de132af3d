/** Checks waits of the real command: progress, outcomes, restarts, timeouts and Ctrl-C. */
import { beforeEach, describe, expect, test } from 'vitest';
import { systemClock } from '../../base/clock.ts';
import { newCorrelationId } from '../../base/ids.ts';
import type { Progress } from '../../contract/progress.ts';
import { openSession } from '../connection/session.ts';
import { plain } from '../render/text/palette.ts';
import { type CliOptions, runCli, startCli } from '../testing/run-cli.ts';
import { sampleAllocation, sampleEvidence, sampleIds, sampleOperation, sampleProgress } from '../testing/samples.ts';
import { screenOutput } from '../testing/screen.ts';
import { ScriptedServer, testToken } from '../testing/scripted-server.ts';
import { sampleResidue } from '../testing/supervision-samples.ts';
import { emptySubject } from './subject.ts';
import { waitUntilSettled } from './wait.ts';

const id = sampleIds.allocation_id;
const at = (s: number) => `2026-01-01T12:00:${String(s).padStart(2, '0')}.000Z`;

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.allocations.set(id, sampleAllocation());
  server.operations.set(sampleIds.workflow_id, sampleOperation());
  server.on('allocation-create', () => ({
    status: 202,
    body: { allocation: server.allocations.get(id), operation: server.operations.get(sampleIds.workflow_id) },
  }));
  return () => server.stop();
});

let clockSeconds = 0;
beforeEach(() => {
  clockSeconds = 0;
});

function publishProgress(fields: Partial<Progress>): void {
  clockSeconds += 1;
  const base = sampleOperation();
  const updated = sampleProgress({ ...fields, updated_at: at(clockSeconds), elapsed_seconds: clockSeconds });
  server.publish({ kind: 'operation', operation: { ...base, status: updated.status, progress: updated } });
}
const publishAllocation = (fields: Parameters<typeof sampleAllocation>[0]) =>
  server.publish({ kind: 'allocation', allocation: sampleAllocation({ status_since: at(40), ...fields }) });
const expected = { p50_seconds: 2, p90_seconds: 5, samples: 40 };
const registering = { step: 2, total_steps: 3, label: 'Registering', phase: 'register', percent: 50, expected };

const options = (): CliOptions => ({ server: server.url });
const allocate = (...more: string[]) => startCli(['allocate', '--pool', 'local', '--wait', ...more], options());

describe('allocate --wait', () => {
  test('prints one line per change, then the duration and the next commands', async () => {
    const cli = allocate();
    await cli.waitForText('Step 1/3 · Launching');
    publishProgress(registering);
    await cli.waitForText('Step 2/3 · Registering (usually 2–5 s)');
    publishProgress({ ...registering, message: 'waiting for the first call' });
    await cli.waitForText('waiting for the first call');
    publishAllocation({ status: 'active', active_at: at(3), endpoint: 'http://10.0.0.7:80' });
    const { code, stdout, stderr } = await cli.finished;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const command = '\\S*slipway';
    expect(stdout).toMatch(
      new RegExp(
        [
          `^${id} in pool local`,
          '     0s  Step 1/3 · Launching',
          '     1s  Step 2/3 · Registering \\(usually 2–5 s\\)',
          '     2s  Step 2/3 · Registering \\(usually 2–5 s\\) · waiting for the first call',
          `✔ ${id} is active after 3\\.0s`,
          '  Endpoint:      http://10\\.0\\.0\\.7:80',
          `  Look at it:    ${command} node ${sampleIds.node_id}`,
          `  Give it back:  ${command} release ${id}\n$`,
        ].join('\n'),
      ),
    );
  });

  test('prints the reason, rule, owner and next commands of a failure: exit 1', async () => {
    const cli = allocate();
    await cli.waitForText('Step 1/3');
    const reason = 'provisioning timed out: launched but never registered (waited 720 s, budget from pool)';
    publishAllocation({
      status: 'failed',
      reason,
      owner_layer: 'node',
      verdict: { rule: 'provision-deadline', reason, at: at(40) },
    });
    publishProgress({ status: 'failed' });
    const { code, stdout } = await cli.finished;
    expect(code).toBe(1);
    expect(stdout).toContain(`✖ ${id} failed after 40s\n  ${reason}\n`);
    expect(stdout).toContain(`rule provision-deadline · owner: node · correlation_id ${sampleIds.correlation_id}`);
    expect(stdout).toMatch(new RegExp(`Release it: +\\S*slipway release ${id}`));
  });

  test('survives a server restart and resumes after the last event', async () => {
    const cli = allocate();
    await cli.waitForText('Step 1/3');
    publishProgress(registering);
    await cli.waitForText('Step 2/3');
    await server.stop();
    await cli.waitForText('no answer');
    // This change happens while the stream is down, so only a resume or a poll finds it.
    publishAllocation({ status: 'active', active_at: at(9) });
    await server.start();
    const { code, stdout } = await cli.finished;
    expect(code).toBe(0);
    expect(stdout).toContain(`✔ ${id} is active after 9.0s`);
    expect(server.callsOf('stream-open').at(-1)?.headers['last-event-id']).toBe('1-1');
  });

  test('polls until the allocation is active if there is no stream', async () => {
    server.refuse('stream-open', { code: 'not_found', status: 404 });
    const cli = allocate();
    await cli.waitForText('Step 1/3');
    server.allocations.set(id, sampleAllocation({ status: 'active', status_since: at(9), active_at: at(9) }));
    expect((await cli.finished).code).toBe(0);
  });

  test('--timeout-wait stops the wait, but not the operation: exit 5', async () => {
    const { code, stdout } = await allocate('--timeout-wait', '0.6').finished;
    expect(code).toBe(5);
    expect(stdout).toContain(`! Not settled within 0.6s: ${id} is provisioning and continues`);
    expect(stdout).toMatch(new RegExp(`Follow it again: +\\S*slipway watch ${id}`));
  });

  test('Ctrl-C stops the wait without an error: exit 130', async () => {
    const cli = allocate();
    await cli.waitForText('Step 1/3');
    cli.interrupt();
    const { code, stdout, stderr } = await cli.finished;
    expect({ code, stderr }).toEqual({ code: 130, stderr: '' });
    expect(stdout).toContain('Stopped waiting');
  });

  test('--json prints only the final document', async () => {
    const cli = allocate('--json');
    publishAllocation({ status: 'active', active_at: at(3) });
    const { code, stdout, stderr } = await cli.finished;
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const document = JSON.parse(stdout);
    expect(document.allocation.status).toBe('active');
    expect(document.operation.workflow_id).toBe(sampleIds.workflow_id);
  });

  test('sends the flags to the server, once', async () => {
    const more = ['--name', 'mine', '--label', 'a=1', '--label', 'b=x,y', '--timeout', '10m'];
    await runCli(['allocate', '--pool', 'local', ...more], options());
    const [call, again] = server.callsOf('allocation-create');
    expect(call?.body).toEqual({
      pool: 'local',
      name: 'mine',
      labels: { a: '1', b: 'x,y' },
      provision_timeout_seconds: 600,
    });
    expect(call?.headers['idempotency-key']).toMatch(/^[0-9a-f-]{36}$/);
    expect(again).toBeUndefined();
  });
});

describe('release --wait', () => {
  beforeEach(() => {
    server.on('allocation-release', () => ({
      status: 202,
      body: { allocation: server.allocations.get(id), operation: server.operations.get(sampleIds.workflow_id) },
    }));
    // The reply may still show the allocation before the release began.
    server.allocations.set(id, sampleAllocation({ status: 'active' }));
  });
  const release = (...more: string[]) => startCli(['release', id, '--wait', ...more], options());

  test('ends with the proof of the release', async () => {
    const cli = release('--reason', 'done with it');
    await cli.waitForText('Step 1/3');
    publishProgress({ status: 'succeeded', message: 'the process and its directory are gone' });
    publishAllocation({ status: 'released', released_at: at(2) });
    const { code, stdout } = await cli.finished;
    expect(code).toBe(0);
    expect(stdout).toContain(`✔ ${id} is released after 2.0s\n  the process and its directory are gone\n`);
    expect(server.callsOf('allocation-release')[0]?.body).toEqual({ reason: 'done with it' });
  });

  test('warns about a forced release without proof', async () => {
    const reason = 'released by force (the tenant cannot wait) without proof: nobody answers';
    const item = { ...sampleResidue, allocation_id: id };
    server.on('residue-list', () => ({
      body: { items: [item, { ...item, allocation_id: 'alloc_other' }], next_cursor: null },
    }));
    const cli = release();
    await cli.waitForText('Step 1/3');
    publishProgress({ status: 'succeeded' });
    const forced = sampleEvidence({ kind: 'allocation.released', data: { by: 'force-release' } });
    server.on('timeline-get', () => ({ body: { items: [forced], next_cursor: null } }));
    const forcedProgress = sampleProgress({ kind: 'allocation-force-release', status: 'succeeded' });
    publishAllocation({ status: 'released', released_at: at(2), reason, progress: forcedProgress });
    const { code, stdout } = await cli.finished;
    expect(code).toBe(0);
    expect(server.callsOf('timeline-get')[0]?.query).toMatchObject({ allocation_id: id, kind: 'allocation.released' });
    expect(stdout).toContain(`! ${id} is released without proof after 2.0s\n  ${reason}\n`);
    expect(stdout).toMatch(/1 entry on the residue ledger: +\S*slipway residue\n/);
    expect(stdout).not.toContain('✔');
  });

  test('fails without an outcome if the server cannot say whether the release was forced: exit 1', async () => {
    const cli = release();
    await cli.waitForText('Step 1/3');
    publishProgress({ status: 'succeeded' });
    server.refuse('timeline-get', { code: 'internal_error', status: 500 });
    const progress = sampleProgress({ kind: 'allocation-force-release', status: 'succeeded' });
    publishAllocation({ status: 'released', released_at: at(2), progress });
    const { code, stdout } = await cli.finished;
    expect(code).toBe(1);
    expect(stdout).not.toContain('✔');
  });

  test('prints when a failed release is retried, and the available actions: exit 1', async () => {
    const cli = release();
    await cli.waitForText('Step 1/3');
    publishProgress({ status: 'failed' });
    const offer = { does: 'ends it without proof', open: true, why_not: null, leads_to: null };
    server.on('allocation-actions', () => ({
      body: {
        items: [
          { ...offer, action: 'force-release' },
          { ...offer, action: 'extend-deadline', open: false, why_not: 'No deadline runs.' },
        ],
      },
    }));
    const retry_at = new Date(systemClock.nowMs() + 290_000).toISOString();
    publishAllocation({
      status: 'release_failed',
      reason: 'clean failed: exit 1',
      owner_layer: 'node',
      release_tries: 1,
      retry_at,
    });
    const { code, stdout } = await cli.finished;
    expect(code).toBe(1);
    expect(stdout).toMatch(
      /clean failed: exit 1\n {2}Slipway retries the release in 4m \d\ds \(try 2\)\. Slipway keeps retrying/,
    );
    for (const words of [`explain ${id}`, `logs ${id}`, `release ${id} --wait`, `act ${id} force-release --reason "…"`])
      expect(stdout).toMatch(new RegExp(`slipway ${words}\n`));
    expect(stdout).not.toContain('extend-deadline');
  });
});

describe('watch', () => {
  test('prints an allocation that is already settled and exits', async () => {
    server.allocations.set(id, sampleAllocation({ status: 'active', active_at: at(3) }));
    const { code, stdout } = await runCli(['watch', id], options());
    expect(code).toBe(0);
    expect(stdout).toContain(`✔ ${id} is active after 3.0s`);
  });

  test('follows an operation to its failure: exit 1', async () => {
    const cli = startCli(['watch', sampleIds.workflow_id], options());
    await cli.waitForText('Step 1/3');
    const error = {
      code: 'prerequisite_missing',
      owner_layer: 'node',
      step: 'register',
      message: 'gpu-driver is missing',
    };
    const failed = sampleOperation({ status: 'failed', error, finished_at: at(7) });
    server.publish({
      kind: 'operation',
      operation: { ...failed, progress: sampleProgress({ status: 'failed', updated_at: at(7) }) },
    });
    const { code, stdout } = await cli.finished;
    expect(code).toBe(1);
    expect(stdout).toContain('gpu-driver is missing\n  prerequisite_missing · step register · owner: node');
  });

  test('refuses an unknown id instead of waiting', async () => {
    expect(await runCli(['watch', 'node_unknown'], options())).toMatchObject({ code: 4, stdout: '' });
  });

  test('prints one line per change of the fleet into a pipe, and skips repeated lines', async () => {
    const cli = startCli(['watch'], options());
    await expect.poll(() => server.callsOf('stream-open').length, { timeout: 20_000 }).toBe(1);
    for (const status of ['provisioning', 'provisioning', 'active'] as const) {
      publishAllocation({ status });
      publishProgress(registering);
    }
    await cli.waitForText('active');
    cli.interrupt();
    const { stdout, stderr } = await cli.finished;
    expect(stderr).toContain('one line per change');
    const lines = stdout
      .trim()
      .split('\n')
      .map((line) => line.replace(/^\S+ \S+ +/, ''));
    expect(lines.filter((line) => line.startsWith('alloc_'))).toHaveLength(2);
    expect(lines.filter((line) => line.startsWith('op_'))).toHaveLength(1);
  });

  test('prints the fleet as one JSON object per line until Ctrl-C', async () => {
    const cli = startCli(['watch', '--json', '--pool', 'local'], options());
    await expect.poll(() => server.callsOf('stream-open').length, { timeout: 20_000 }).toBe(1);
    publishAllocation({ status: 'active' });
    await cli.waitForText('\n');
    cli.interrupt();
    const { code, stdout } = await cli.finished;
    expect(code).toBe(0);
    expect(JSON.parse(stdout)).toMatchObject({ event: 'allocation', cursor: '1-1', data: { status: 'active' } });
    expect(server.callsOf('stream-open')[0]?.query).toEqual({ topics: 'nodes,allocations,operations', pool: 'local' });
  });
});

test('logs -f continues after the cursor until Ctrl-C', async () => {
  const line = (seq: number) => ({
    node_instance_id: sampleIds.node_instance_id,
    seq,
    at: at(seq),
    stream: 'stdout',
    line: `line ${seq}`,
  });
  server.on('node-logs', async ({ query }) => {
    if (query.follow === undefined) return { body: { items: [line(1)], next_cursor: 'c1' } };
    if (query.cursor === 'c1') return { body: { items: [line(1), line(2)], next_cursor: 'c2' } };
    return new Promise(() => {});
  });
  const cli = startCli(['logs', sampleIds.node_id, '-f'], options());
  await cli.waitForText('line 2');
  cli.interrupt();
  const { code, stdout } = await cli.finished;
  expect(code).toBe(0);
  expect(stdout.match(/line \d/g)).toEqual(['line 1', 'line 2']);
});

describe('on a screen', () => {
  test('redraws the block in place and leaves the steps and the outcome', async () => {
    const screen = screenOutput({ columns: 72, rows: 24 });
    const session = openSession({
      connection: { server: server.url, token: testToken, ca: null },
      correlation_id: newCorrelationId(),
      clock: systemClock,
      signal: new AbortController().signal,
      terminal: { out: screen, err: screen },
      json: false,
      commandLine: (...words) => ['slipway', ...words].join(' '),
    });
    const operation = sampleOperation();
    const known = { ...emptySubject, allocation: sampleAllocation(), operation };
    const target = { kind: 'allocation', id } as const;
    const waited = waitUntilSettled(session, { target, goal: 'use', known, timeout_seconds: null });
    expect(screen.lines()[0]).toBe('Step 1/3 · Launching · 0s');
    expect(screen.isCursorHidden()).toBe(true);

    await expect.poll(() => server.callsOf('operation-get').length, { timeout: 30_000 }).toBeGreaterThan(0);
    publishProgress({
      ...registering,
      message: 'waiting for the first call',
      parts: [{ name: 'agent', kind: 'agent', state: 'starting', tone: 'busy' }],
    });
    await expect.poll(() => screen.lines()[0], { timeout: 30_000 }).toMatch(/^Step 2\/3/);
    const [, bar, message, chips, ...nothing] = screen.lines();
    expect(bar).toMatch(/^━{15}─{15} {2}50 % {2}\ds so far$/);
    expect([message, chips, nothing]).toEqual(['waiting for the first call', '◐ agent starting', []]);

    publishProgress({ ...registering, percent: 30 });
    await expect.poll(() => screen.lines().length, { timeout: 30_000 }).toBe(2);
    expect(screen.lines()[1]).toContain('50 %');

    const [launch, ...later] = operation.steps;
    if (!launch) throw new Error('the sample has steps');
    const steps = [{ ...launch, status: 'done' as const, started_at: at(0), finished_at: at(2) }, ...later];
    const updated = sampleProgress({ ...registering, updated_at: at(30) });
    server.publish({ kind: 'operation', operation: { ...operation, steps, progress: updated } });
    publishAllocation({ status: 'active', active_at: at(3) });
    expect((await waited).exit).toBe('ok');
    expect(screen.lines()).toEqual([
      '✔ Launching    2.0s',
      `✔ ${id} is active after 3.0s`,
      `  Look at it:    slipway node ${sampleIds.node_id}`,
      `  Give it back:  slipway release ${id}`,
    ]);
    expect(screen.isCursorHidden()).toBe(false);
    expect(screen.paint).toBe(plain);
  });
});
