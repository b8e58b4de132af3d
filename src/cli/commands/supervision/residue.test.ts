/** `slipway residue` against a scripted server. */
import { beforeEach, expect, test } from 'vitest';
import { runCli } from '../../testing/run-cli.ts';
import { sampleIds, sampleOperation } from '../../testing/samples.ts';
import { ScriptedServer } from '../../testing/scripted-server.ts';
import { sampleResidue } from '../../testing/supervision-samples.ts';

const entry = sampleResidue;

let server: ScriptedServer;
beforeEach(async () => {
  server = await new ScriptedServer().start();
  server.on('residue-list', () => ({ body: { items: [entry], next_cursor: null } }));
  return () => server.stop();
});
const slipway = (...args: string[]) => runCli(args, { server: server.url });

test('lists open entries with what was last seen', async () => {
  const { code, stdout } = await slipway('residue');
  expect(code).toBe(0);
  for (const cell of ['res_1', 'force-release', 'directory', '1.5/h', 'still there on host rack-7'])
    expect(stdout).toContain(cell);
  expect(server.callsOf('residue-list').map(({ query }) => query.status)).toEqual(['open']);
});

test('--all includes settled entries, and an empty list says that there is no residue', async () => {
  server.on('residue-list', () => ({ body: { items: [], next_cursor: null } }));
  expect((await slipway('residue', '--all')).stdout).toContain('There is no residue.');
  expect(server.callsOf('residue-list').map(({ query }) => query.status)).toEqual([undefined]);
  expect((await slipway('residue')).stdout).toBe('There is no open residue.\n');
  for (const filter of [
    ['--pool', 'p'],
    ['--status', 'gone'],
  ])
    expect((await slipway('residue', 'list', ...filter)).stdout, filter[0]).toBe('No entry matches.\n');
});

test.for(['verify', 'adopt', 'delete'] as const)('%s sends the reason', async (action) => {
  const operation = action === 'adopt' ? null : sampleOperation();
  server.on(`residue-${action}`, () => ({
    body: { residue: entry, operation, dry_run: false, predicts: { says: 'it is looked at' } },
  }));
  const { code, stdout } = await slipway('residue', action, 'res_1', '--reason', 'because');
  expect(code).toBe(0);
  expect(stdout).toContain('directory /nodes/inst_1');
  expect(stdout.includes(`slipway watch ${sampleIds.workflow_id}`)).toBe(operation !== null);
  const [call] = server.callsOf(`residue-${action}`);
  expect(call).toMatchObject({ params: { id: 'res_1' }, body: { reason: 'because' } });
});

test('requires a reason: exit 2', async () => {
  expect((await slipway('residue', 'delete', 'res_1')).code).toBe(2);
  expect(server.callsOf('residue-delete')).toEqual([]);
});

test('prints the effect of a dry run', async () => {
  const predicts = { says: 'it is destroyed and proven gone' };
  server.on('residue-delete', () => ({ body: { residue: entry, operation: null, dry_run: true, predicts } }));
  const { stdout } = await slipway('residue', 'delete', 'res_1', '--dry-run');
  expect(stdout).toBe('○ Dry run: nothing was done. delete res_1 would mean: it is destroyed and proven gone\n');
  expect(server.callsOf('residue-delete')[0]?.body).toEqual({ reason: expect.any(String), dry_run: true });
});
