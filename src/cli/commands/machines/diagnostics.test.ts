/** `slipway diagnostics`, and the hints that lead to it. */
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleEvidence, sampleIds, sampleNode, sampleOperation, sampleProgress } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleActed } from '../../testing/supervision-samples.ts';

const { node_id, workflow_id } = sampleIds;
let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.nodes.set(node_id, sampleNode());
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

const fromAgent = sampleEvidence({
  ...{ layer: 'node', kind: 'evidence.frozen', summary: 'diagnostics of the agent were stored', workflow_id },
  data: {
    host: { name: 'rack-7', uptime_seconds: 90, load_average: [0.5, 0.25, 0.1] },
    processes: [{ pid: 4711, state: 'D', rss_bytes: 5 * 1024 ** 2, command: 'train --epochs 9' }],
    boot_stages: [{ name: 'network', seconds: 2 }],
    lines: [
      { at: '2026-01-01T12:00:00Z', stream: 'stdout', line: 'first' },
      { at: '2026-01-01T12:00:01Z', stream: 'stderr', line: 'disk \x1b[31mfull' },
    ],
  },
});
const fromProvider = sampleEvidence({
  ...{ layer: 'provider', kind: 'evidence.frozen', summary: 'its process runs', workflow_id },
  data: { certain: true, attachments: [{ name: 'console', text: 'one\nkernel panic\n' }] },
});
const older = sampleEvidence({
  ...fromAgent,
  at: '2025-01-01T00:00:00.000Z',
  workflow_id: 'op_older',
  summary: 'long past',
});

test('shows host, processes, boot stages, last lines, console and last probe', async () => {
  server.on('timeline-get', ({ query }) => ({
    body: { items: query.kind === 'evidence.frozen' ? [fromProvider, fromAgent, older] : [], next_cursor: null },
  }));
  const message = 'It is alive: its agent took a task and answered it';
  const probe = sampleOperation({ kind: 'node-probe', status: 'succeeded', progress: sampleProgress({ message }) });
  server.on('operation-list', () => ({ body: { items: [probe], next_cursor: null } }));
  const { code, stdout } = await slipway('diagnostics', node_id, '--lines', '1');
  expect(code).toBe(0);
  for (const line of [
    /last probe +It is alive: its agent took a task/,
    /host +rack-7/,
    /load +0.50 0.25 0.10/,
    /4711 +D +5 MiB +train --epochs 9/,
    /network +2s/,
    /Last lines\n.*… 1 earlier.*\n {2}stderr {2}disk full\n/,
    /console\n.*… 1 earlier.*\n {2}kernel panic\n/,
    /Collect again: .*act \S+ collect-diagnostics/,
  ])
    expect(stdout).toMatch(line);
  expect(stdout, 'leaves out earlier collections').not.toContain('long past');
});

test('reports what could not be collected, or that nothing was collected yet', async () => {
  server.on('operation-list', () => ({ body: { items: [], next_cursor: null } }));
  const missing = sampleEvidence({
    ...{ layer: 'workflow', kind: 'evidence.missing', workflow_id, data: {} },
    summary: 'the agent returned no diagnostics: its agent is silent',
  });
  server.on('timeline-get', ({ query }) => ({
    body: { items: query.kind === 'evidence.missing' ? [missing] : [], next_cursor: null },
  }));
  expect((await slipway('diagnostics', node_id)).stdout).toContain('returned no diagnostics: its agent is silent');
  server.on('timeline-get', () => ({ body: { items: [], next_cursor: null } }));
  expect((await slipway('diagnostics', node_id)).stdout).toContain('Nothing was collected yet.');
});

test.each(['collect-diagnostics', 'probe'])('%s prints the command that shows the result', async (action) => {
  server.on('node-act', () => ({ body: sampleActed({ operation: sampleOperation() }) }));
  const { stdout } = await slipway('act', node_id, action, '--reason', 'odd');
  expect(stdout).toMatch(new RegExp(`See the result: +\\S*slipway diagnostics ${node_id}`));
});
