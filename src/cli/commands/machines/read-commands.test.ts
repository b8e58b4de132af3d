/** Checks the commands that read: lists, one thing in full, timelines, the audit and logs. */
import { beforeEach, describe, expect, test } from 'vitest';
import type { LogLine } from '../../../contract/node.ts';
import { runCli } from '../../testing/run-cli.ts';
import {
  sampleAllocation,
  sampleEvidence,
  sampleIds,
  sampleLogLine,
  sampleNode,
  sampleOperation,
  sampleProgress,
} from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleExplanation } from '../../testing/supervision-samples.ts';

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  return () => server.stop();
});
const slipway = (args: string[]) => runCli(args, { server: server.url });

describe('lists', () => {
  test('print nodes into a pipe as a full table without colours', async () => {
    server.nodes.set('1', sampleNode({ name: 'local-1', zone: 'eu-1' }));
    server.nodes.set('2', sampleNode({ node_id: 'node_2', name: 'gone', status: 'retired' }));
    const { code, stdout, stderr } = await slipway(['nodes']);
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
    const [head, row, ...rest] = stdout.trimEnd().split('\n');
    expect(head).toMatch(/^NODE +NAME +POOL +STATUS +FOR +SEEN +USE +ALLOCATION +ZONE$/);
    expect(row).toMatch(
      new RegExp(
        `^${sampleIds.node_id}  local-1  local  ready +\\d+d +\\d+d  occupied  ${sampleIds.allocation_id}  eu-1$`,
      ),
    );
    expect(rest).toEqual([]);
  });

  test('send the filters to the server, in one call for one status', async () => {
    const { code, stdout } = await slipway(['nodes', '--pool', 'gpu', '--status', 'failed', '-q', 'web']);
    expect({ code, stdout }).toEqual({ code: 0, stdout: 'No node matches.\n' });
    expect(server.callsOf('node-list').map(({ query }) => query)).toEqual([
      { limit: '500', pool: 'gpu', q: 'web', status: 'failed' },
    ]);
  });

  test('print one document with --json, before or after the command name', async () => {
    server.allocations.set('1', sampleAllocation({ status: 'active' }));
    for (const args of [
      ['--json', 'allocations'],
      ['allocations', '--json'],
    ]) {
      const { stdout } = await slipway(args);
      expect(JSON.parse(stdout)).toEqual({ items: [sampleAllocation({ status: 'active' })], truncated: false });
    }
  });

  test('join pages up to the limit, and warn if there are more items', async () => {
    server.on('operation-list', ({ query }) => ({
      body: {
        items: [sampleOperation({ workflow_id: `op_${query.cursor ?? 'first'}` })],
        next_cursor: query.cursor ? `${query.cursor}x` : 'x',
      },
    }));
    const { stdout, stderr } = await slipway(['operations', '--limit', '3', '--json']);
    expect(JSON.parse(stdout).items.map((item: { workflow_id: string }) => item.workflow_id)).toEqual([
      'op_first',
      'op_x',
      'op_xx',
    ]);
    expect(stderr).toBe('');
    expect((await slipway(['operations', '--limit', '1'])).stderr).toContain('Raise --limit');
  });

  test('do not advise to raise --limit if the command has no such flag', async () => {
    const row = { token_id: 'tok_1', name: 'ci', role: 'viewer', created_at: '2026-01-01T12:00:00.000Z' };
    const token = { ...row, tenant: null, pool: null, expires_at: null, last_used_at: null };
    server.on('token-list', () => ({ body: { items: [token], next_cursor: 'x' } }));
    const { stderr } = await slipway(['tokens', 'list']);
    expect(stderr).toBe('There are more items. Only the first 1 are shown.\n');
  });

  test('suggest a command for an empty fleet', async () => {
    expect((await slipway(['nodes'])).stdout).toMatch(
      /^There are no nodes. Bring one up: .*allocate --pool local --wait\n$/,
    );
  });
});

describe('commands about one thing', () => {
  test('shows a node with its verdict', async () => {
    const verdict = { rule: 'provision-deadline', reason: 'launched but never registered', at: '2026-01-01T12:00:00Z' };
    const explained = { rule: verdict.rule, verdict: verdict.reason };
    server.nodes.set(
      sampleIds.node_id,
      sampleNode({ status: 'failed', fenced: true, fence_reason: 'failed', verdict }),
    );
    server.on('node-explain', () => ({
      body: sampleExplanation({ status: 'failed', because: { ...sampleExplanation().because, ...explained } }),
    }));
    const { code, stdout } = await slipway(['node', sampleIds.node_id]);
    expect(code).toBe(0);
    expect(stdout).toContain(`${sampleIds.node_id}  local-1  failed for`);
    expect(stdout).toMatch(/because +launched but never registered {2}\[provision-deadline, \d+d ago\]/);
    expect(stdout).toMatch(/last seen +2026-01-01 12:00:00Z/);
    expect(stdout).toMatch(/What you can do\n.*\n.*slipway act \S+ extend-deadline/);
  });

  test('shows a node at an earlier moment', async () => {
    const verdict = { rule: 'liveness', reason: 'no heartbeat for 12 s', at: '2026-01-01T11:59:00Z' };
    const {
      occupancy: _,
      agent_version: __,
      last_seen_at: ___,
      reported: ____,
      ...written
    } = sampleNode({ status: 'offline', verdict });
    const at = '2026-01-01T12:00:00.000Z';
    const since = { status_since: verdict.at, reported_status: 'ready' };
    server.on('node-state', () => ({ body: { ...written, ...since, at, cursor: '1-1' } }));
    const { code, stdout } = await slipway(['node', sampleIds.node_id, '--at', '2026-01-01T12:00:00Z']);
    expect(code).toBe(0);
    expect(stdout).toContain(`${sampleIds.node_id}  local-1  offline for 1m`);
    expect(stdout).toContain('At 2026-01-01 12:00:00Z, from evidence.');
    expect(stdout).toMatch(/because +no heartbeat for 12 s {2}\[liveness, 1m.* ago\]/);
    expect(server.callsOf('node-state')[0]?.query).toEqual({ at });
    expect(JSON.parse((await slipway(['node', sampleIds.node_id, '--at', '2h', '--json'])).stdout)).toMatchObject({
      at,
    });
    expect((await slipway(['node', sampleIds.node_id, '--at', 'noon'])).code).toBe(2);
    server.refuse('node-state', { code: 'node_not_found' });
    server.nodes.set(sampleIds.node_id, sampleNode({ created_at: '2026-01-01T11:00:00Z' }));
    const before = await slipway(['node', sampleIds.node_id, '--at', '2026-01-01T10:00:00Z']);
    expect(before).toMatchObject({ code: 4, stdout: '' });
    expect(before.stderr).toContain(`${sampleIds.node_id} did not exist then`);
    expect(before.stderr).toContain('It was created at 2026-01-01 11:00:00Z');
    const after = await slipway(['node', sampleIds.node_id, '--at', '2026-01-01T12:00:00Z']);
    expect(after.stderr).toContain('Node not found');
  });

  test('shows why and by whom a node was quarantined, its holder and its residue', async () => {
    server.nodes.set(sampleIds.node_id, sampleNode({ status: 'quarantined', deadline_at: null }));
    const evidence = [
      sampleEvidence({ kind: 'node.quarantined', actor: { kind: 'token', id: 'tok_1', name: 'night shift' } }),
    ];
    const because = { ...sampleExplanation().because, rule: 'quarantine', verdict: 'it smells', evidence };
    const { allocation_id, name, status, status_since, reason, owner_layer, release_tries, retry_at } =
      sampleAllocation({ status: 'active' });
    const holder = { allocation_id, name, status, status_since, reason, owner_layer, release_tries, retry_at };
    const explanation = sampleExplanation({ status: 'quarantined', because, holder, residue: ['residue_1'] });
    server.on('node-explain', () => ({ body: explanation }));
    const { stdout } = await slipway(['node', sampleIds.node_id]);
    expect(stdout).toMatch(/because +it smells {2}\[quarantine, .*\]\n +by +night shift\n/);
    expect(stdout).toMatch(new RegExp(`Release its allocation: +\\S*slipway release ${allocation_id}\\n`));
    for (const verb of ['verify', 'delete', 'adopt'])
      expect(stdout).toMatch(new RegExp(`slipway residue ${verb} residue_1 --reason "…"`));
  });

  test('nodes shows a failed release and its next try', async () => {
    const { allocation_id } = sampleIds;
    server.nodes.set(sampleIds.node_id, sampleNode({ status: 'cleaning', allocation_id }));
    server.allocations.set(
      allocation_id,
      sampleAllocation({
        status: 'release_failed',
        progress: sampleProgress({
          status: 'failed',
          error: { code: 'clean_failed', owner_layer: 'node', step: 'clean', message: 'clean exited with code 1' },
        }),
        release_tries: 1,
        retry_at: '2026-01-01T12:00:00.000Z',
      }),
    );
    expect((await slipway(['nodes'])).stdout).toContain(
      'release failed at clean: clean exited with code 1; next try now',
    );
  });

  test('shows an operation with its steps', async () => {
    server.operations.set(sampleIds.workflow_id, sampleOperation());
    const { stdout } = await slipway(['operation', sampleIds.workflow_id]);
    expect(stdout).toMatch(/◐ +1 Launching +running .*1 s/);
    expect(stdout).toMatch(/○ +2 Registering +pending +2 s/);
  });

  test('shows a timeline by any id, oldest first, with the actors', async () => {
    server.on('timeline-get', () => ({
      body: {
        items: [
          sampleEvidence({ cursor: '2-1', at: '2026-01-02T00:00:01.500Z', layer: 'rule', summary: 'second' }),
          sampleEvidence({ actor: { kind: 'token', id: 'tok_1', name: 'ops' }, summary: 'first' }),
        ],
        next_cursor: null,
      },
    }));
    const { stdout } = await slipway(['timeline', sampleIds.correlation_id, '--layer', 'rule']);
    expect(stdout).toBe(
      [
        '── 2026-01-01 (UTC) ──',
        '12:00:00.000  workflow  operation.started  first — by ops',
        '── 2026-01-02 (UTC) ──',
        '00:00:01.500  rule      operation.started  second',
        '',
      ].join('\n'),
    );
    await slipway(['timeline', sampleIds.node_id, '--since', '15m']);
    const [first, second] = server.callsOf('timeline-get');
    expect(first?.query).toMatchObject({ correlation_id: sampleIds.correlation_id, layer: 'rule', order: 'newest' });
    expect(second?.query).toMatchObject({ node_id: sampleIds.node_id });
    expect(Date.parse(second?.query.since ?? '')).toBeGreaterThan(Date.parse('2026-01-01'));
  });

  test('sends the filters of the audit and prints each fact with its target', async () => {
    const actor = { kind: 'token', id: 'tok_1', name: 'ops' };
    server.on('audit-list', () => ({
      body: {
        items: [
          sampleEvidence({ kind: 'action.refused', actor, summary: 'no', data: { target_id: 'node_1' } }),
          sampleEvidence({ kind: 'request.served', actor, summary: 'yes', data: { params: { pool: 'gpu' } } }),
          sampleEvidence({ kind: 'token.created', actor, summary: 'tok_9 was made', data: { target_id: 'tok_9' } }),
        ],
        next_cursor: null,
      },
    }));
    const filters = ['--target', 'node_1', '--actor', 'ops', '--action', 'retire', '--code', 'action_illegal'];
    const { stdout } = await slipway(['audit', ...filters]);
    expect(stdout).toContain('action.refused  node_1  no — by ops\n');
    expect(stdout).toContain('request.served  gpu  yes — by ops\n');
    expect(stdout).toContain('token.created   tok_9 was made — by ops\n');
    expect(server.callsOf('audit-list')[0]?.query).toMatchObject({
      target_id: 'node_1',
      actor: 'ops',
      action: 'retire',
      code: 'action_illegal',
    });
  });

  test('sorts evidence by time, although it arrives in commit order', async () => {
    const fact = (second: number) =>
      sampleEvidence({ at: `2026-01-01T12:00:0${second}.000Z`, summary: `fact ${second}` });
    server.on('timeline-get', () => ({ body: { items: [fact(3), fact(1), fact(2)], next_cursor: null } }));
    const { stdout } = await slipway(['timeline', sampleIds.node_id]);
    expect([...stdout.matchAll(/fact \d/g)].join()).toBe('fact 1,fact 2,fact 3');
  });

  test('fails for an unknown id, but not if the filters match nothing', async () => {
    server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
    for (const more of [[], ['--json'], ['--layer', 'rule']]) {
      const { code, stdout, stderr } = await slipway(['timeline', 'nope', ...more]);
      expect({ code, stdout }).toEqual({ code: 1, stdout: '' });
      expect(stderr).toContain('Nothing is known about nope');
    }
    server.on('timeline-get', ({ query }) => ({
      body: { items: query.layer ? [] : [sampleEvidence()], next_cursor: null },
    }));
    expect(await slipway(['timeline', sampleIds.node_id, '--layer', 'rule'])).toMatchObject({
      code: 0,
      stdout: `No evidence about ${sampleIds.node_id} matches the filters.\n`,
    });
  });

  test('prints the logs of an allocation, without control sequences', async () => {
    server.allocations.set(sampleIds.allocation_id, sampleAllocation());
    const registered = JSON.stringify({ level: 'warn', msg: 'registered', node_id: sampleIds.node_id, tries: 2 });
    const lines = [
      sampleLogLine({ line: 'red \x1b[31malert\x1b[2J' }),
      sampleLogLine({ seq: 2, stream: 'agent', line: registered }),
    ];
    server.on('node-logs', () => ({ body: { items: lines, next_cursor: null } }));
    const { stdout } = await slipway(['logs', sampleIds.allocation_id, '--tail', '5']);
    expect(stdout).toBe(
      `── 2026-01-01 (UTC) · ${sampleIds.node_instance_id} ──\n12:00:00.000 stdout  red alert\n12:00:00.000 agent   warn: registered  tries=2\n`,
    );
    expect(server.callsOf('node-logs')[0]).toMatchObject({
      params: { id: sampleIds.node_id },
      // The machine may have lines of other allocations too.
      query: { tail: 'true', limit: '5', allocation_id: sampleIds.allocation_id },
    });
    server.on('node-logs', () => ({ body: { items: [], next_cursor: null } }));
    server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
    const { stderr } = await slipway(['logs', sampleIds.allocation_id, '--grep', 'panic']);
    expect(stderr).toBe(`No line of ${sampleIds.node_id} for ${sampleIds.allocation_id} contains panic.\n`);
  });

  test('continues a log search over several calls and prints a notice', async () => {
    const pages: Record<string, { items: LogLine[]; next_cursor: string; continue_at: string | null }> = {
      '': { items: [sampleLogLine({ seq: 9, line: 'panic: late' })], next_cursor: 'i-9', continue_at: 'i-5' },
      'i-5': { items: [], next_cursor: 'i-5', continue_at: 'i-2' },
      'i-2': { items: [sampleLogLine({ seq: 1, line: 'panic: early' })], next_cursor: 'i-2', continue_at: null },
    };
    server.on('node-logs', ({ query }) => ({ body: pages[query.before ?? ''] }));
    const { stdout, stderr } = await slipway(['logs', sampleIds.node_id, '--grep', 'panic']);
    expect(stderr).toBe('Searching older lines. Press Ctrl-C to stop.\n');
    expect(stdout.match(/panic: \w+/g)).toEqual(['panic: early', 'panic: late']);
  });

  test('prints the lines that the provider found on a machine that never sent any', async () => {
    server.on('node-logs', () => ({ body: { items: [], next_cursor: null } }));
    const logLine = (line: string) => JSON.stringify({ seq: 1, at: '2026-01-01T12:00:00.000Z', stream: 'setup', line });
    const attachments = [{ name: 'node.log', text: `${logLine('fetching')}\n${logLine('the mirror is away')}\n` }];
    const frozen = sampleEvidence({ kind: 'evidence.frozen', layer: 'provider', data: { attachments } });
    server.on('timeline-get', () => ({ body: { items: [frozen], next_cursor: null } }));
    const { stdout, stderr } = await slipway(['logs', sampleIds.node_id, '--grep', 'mirror']);
    expect(stderr).toContain(`${sampleIds.node_id} sent no such lines. This was found on the machine`);
    expect(stdout).toContain('12:00:00.000 setup   the mirror is away\n');
    expect(stdout).not.toContain('fetching');
    const unfiltered = await slipway(['logs', sampleIds.node_id]);
    expect(unfiltered.stderr).toContain(`${sampleIds.node_id} sent nothing. This was found on the machine`);
  });

  test('names the instance whose lines are missing', async () => {
    server.on('node-logs', () => ({ body: { items: [], next_cursor: null } }));
    server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
    server.nodes.set(sampleIds.node_id, sampleNode({ node_instance_id: 'inst_old' }));
    const { stderr } = await slipway(['logs', 'inst_old']);
    expect(stderr).toContain(`${sampleIds.node_id} sent no lines as instance inst_old.\n`);
    expect((await slipway(['logs', 'inst_old', '--grep', 'x'])).stderr).toBe(
      `No line of ${sampleIds.node_id} as instance inst_old contains x.\n`,
    );
    // The provider may have found lines on another instance; those do not count.
    expect(server.callsOf('timeline-get')[0]?.query).toMatchObject({ node_instance_id: 'inst_old' });
  });
});
